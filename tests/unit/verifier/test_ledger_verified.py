"""The verifier on the long history, and against contracts with a bug: replay agrees with them, the recount does not."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest

from assurance.overspend import BUDGET_CHECK, INVARIANT, variant
from ledger_history import (
    ANALYST,
    HALF,
    KEYS,
    NEXT,
    Fixed,
    block_with,
    claim,
    history,
    opening,
    replayed,
    seal,
    told,
    word,
)
from noisebank.core.errors import Refused
from noisebank.core.records import CellRun
from noisebank.ledger.abi import Contract
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Role
from noisebank.verifier.verification import verify
from support.banks import CURATOR

LINES = list(history())


def test_the_long_history_is_verified_and_told():
    """Cubes, views, groups, batches, versions, hand-overs, pauses."""
    report = verify(LINES)
    assert report.passed, report.problem
    assert (report.blocks, report.transactions) == (len(LINES) - 1, 35)
    first, second = report.accounts
    state = replayed(LINES).books.list_accounts()[0]
    assert (first.account, first.budget, first.spent) == (state.account.hex(), 2_000, state.spent.units)
    assert first.cases == {"FIRST": 9, "REFINE": 5, "REPEAT": 1, "BLUR": 1, "INFER": 1}
    assert (first.reserved, first.published) == (17, 8)
    assert (second.budget, second.spent, second.cases) == (50, 7, {"FIRST": 1})


@pytest.mark.parametrize("kept", range(2, len(LINES) + 1))
def test_every_beginning_of_a_history_is_verified(kept: int):
    report = verify(LINES[:kept])
    assert report.passed and report.blocks == kept - 1


def test_progress_is_told_block_by_block():
    seen: list[int] = []
    verify(LINES, progress=seen.append)
    assert seen == list(range(1, len(LINES)))


def test_the_history_has_everything_that_can_happen():
    names = {event.name for logged in told(LINES) for event in logged}
    assert len(names) == 16
    assert block_with(LINES, "CuratorChanged") < block_with(LINES[:-1], "CuratorChanged") + 1 < len(LINES)


# -- contracts with a bug --------------------------------------------------------------------------

Story = Callable[[EmbeddedLedger, bytes], object]
OWNER_CHECK = '    assert msg.sender == self.accounts[account].owner, "ledger: not the owner"\n'


def overspends(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 101))


def learns_too_much(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 61, analyst=ANALYST))


def learns_without_a_limit(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10, analyst=word(9)))


def forgets_what_was_seen(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10, cube=1, runs=(CellRun(0, 4),)))
    chain.reserve(claim(account, 2, 0, cube=1, analyst=ANALYST))
    chain.reserve(claim(account, 3, 0, cube=1, analyst=ANALYST))


def reserves_in_a_pause(chain: EmbeddedLedger, account: bytes) -> None:
    chain.pause_account(account)
    chain.reserve(claim(account, 1, 10))


def publishes_twice(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10))
    chain.publish(account, seal(1))
    chain.publish(account, seal(1, 78))


def publishes_what_is_burnt(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10))
    chain.open_version(account, word(1), word(2))
    chain.publish(account, seal(1))


def raises_early(chain: EmbeddedLedger, account: bytes) -> None:
    chain.propose_raise(account, 500)
    chain.finish_raise(account)


def lowers_below_the_spend(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10))
    chain.lower_budget(account, 9)


def strangers_pause(chain: EmbeddedLedger, account: bytes) -> None:
    chain.use_key(Role.OWNER, NEXT)
    chain.pause_account(account)


def strangers_take_over(chain: EmbeddedLedger, account: bytes) -> None:
    chain.use_key(Role.CURATOR, NEXT)
    chain.accept_role(Role.CURATOR, account)


def charges_more_than_agreed(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10, limit=9))


def charges_cells_twice(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10, cube=1, runs=(CellRun(0, 4), CellRun(2, 6, HALF))))


def forgets_records(chain: EmbeddedLedger, account: bytes) -> None:
    chain.reserve(claim(account, 1, 10))
    chain.reserve(claim(account, 2, 10))


BUGS: dict[str, tuple[Story, tuple[str, ...], str]] = {
    "no budget": (overspends, (BUDGET_CHECK, INVARIANT), "more is spent than the budget"),
    "no view": (
        learns_too_much,
        ('        assert shown.used <= shown.limit, "ledger: view exhausted"\n',),
        "a view beyond its limit",
    ),
    "no limit": (
        learns_without_a_limit,
        (
            '    assert shown.limit > 0, "ledger: analyst without a limit"\n',
            '        assert shown.used <= shown.limit, "ledger: view exhausted"\n',
        ),
        "an analyst without a limit",
    ),
    "nothing seen": (
        forgets_what_was_seen,
        ("        self._seen[entry] = level\n",),
        "used is recorded as 20, recounted 10",
    ),
    "no pause": (reserves_in_a_pause, ('    assert not desk.paused, "ledger: paused"\n',), "paused"),
    "published twice": (
        publishes_twice,
        ('        assert state % 2 == 0, "ledger: already published"\n', ),
        "published twice",
    ),
    "burnt": (
        publishes_what_is_burnt,
        ('        assert state // 2 == desk.version, "ledger: reservation burnt"\n',),
        "burnt",
    ),
    "early": (
        raises_early,
        ('    assert block.timestamp >= pending.ready, "ledger: raise not ready"\n',),
        "too early",
    ),
    "below": (
        lowers_below_the_spend,
        (
            '    assert budget >= money.spent, "ledger: below what is spent"\n',
            '    assert money.spent <= money.budget, "ledger: invariant"\n',
        ),
        "below what is spent",
    ),
    "anybody is the owner": (strangers_pause, (OWNER_CHECK,), "may not call it"),
    "anybody takes over": (
        strangers_take_over,
        ('    assert msg.sender == self.pending_curator[account], "ledger: not proposed"\n',),
        "may not call it",
    ),
    "no agreed price": (
        charges_more_than_agreed,
        ('    assert cost <= claim.limit, "ledger: price above limit"\n',),
        "more was charged than agreed",
    ),
    "overlapping runs": (
        charges_cells_twice,
        ('        assert run.start >= free, "ledger: runs overlap"\n',),
        "runs that overlap",
    ),
    "no records": (
        forgets_records,
        ("        self._records[query] = ((count + 1) << 96) | claim.wanted\n",),
        "case is recorded as 1, recounted 2",
    ),
}  # fmt: skip


def buggy() -> Contract:
    """The contract with all of these bugs; a story finds one of them. Compiling takes longer than everything else."""
    return variant(*sorted({line for _, dropped, _ in BUGS.values() for line in dropped}))


def chain_and_account() -> tuple[EmbeddedLedger, bytes]:
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, Fixed(3), lambda: 1_000.0)
    chain = EmbeddedLedger(journal, {**KEYS, Role.SEALER: CURATOR}, lambda: 1_000.0)
    account = chain.open_account(opening())
    chain.add_cube(account, 8)
    chain.set_limit(account, ANALYST, 60)
    return chain, account


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_contract_is_seen_by_the_recount(bug: str):
    """Whoever executes the same bytecode gets the same wrong result; the second opinion does not."""
    story, _, words = BUGS[bug]
    with patch("noisebank.ledger.replay.budget_ledger", buggy):
        chain, account = chain_and_account()
        before = list(chain.export_journal())
        story(chain, account)
        lines = list(chain.export_journal())
        replayed(lines)
        assert verify(before).passed
        report = verify(lines)
    assert not report.passed and report.block == len(lines) - 2
    assert words in report.problem, report.problem


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug not in ("nothing seen", "no records")])
def test_the_real_contract_refuses_what_the_bugs_allow(bug: str):
    chain, account = chain_and_account()
    with pytest.raises(Refused):
        BUGS[bug][0](chain, account)
    assert verify(list(chain.export_journal())).passed
