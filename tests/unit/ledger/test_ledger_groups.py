"""Groups, batches, cubes, views, versions, pauses and hand-overs on the embedded chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger_history import (
    ANALYST,
    HALF,
    HEIR,
    KEYS,
    NEXT,
    Fixed,
    block_with,
    claim,
    history,
    opening,
    replayed,
    seal,
    send,
    together,
    word,
)
from noisebank.core.errors import BadBank, BudgetExhausted, LedgerRefused, NoisebankError, PriceMoved, ViewExhausted
from noisebank.core.records import Case, CellRun
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.encoding import encode_publish_many, encode_reserve_many
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import OWNER_ANALYST, Claim, Reservation, Role, View
from noisebank.verifier.verification import verify
from support.banks import CURATOR, OWNER

CELLS = 8
LOW, HIGH = (CellRun(0, 4),), (CellRun(4, 8),)


@pytest.fixture
def journal() -> Journal:
    journal = Journal(":memory:")
    create_chain(journal, CURATOR, Fixed(3), lambda: 1_000.0)
    return journal


@pytest.fixture
def chain(journal: Journal) -> EmbeddedLedger:
    return EmbeddedLedger(journal, KEYS, lambda: 1_000.0)


@pytest.fixture
def account(chain: EmbeddedLedger) -> bytes:
    """A budget of 100, a cube of eight cells, an analyst with 60."""
    found = chain.open_account(opening())
    chain.add_cube(found, CELLS)
    chain.set_limit(found, ANALYST, 60)
    return found


def everything(chain: EmbeddedLedger) -> Any:
    """All that a chain can be asked for."""
    books = chain.books
    return (
        chain.head(),
        chain.contract,
        [
            (state, books.list_reservations(state.account), books.list_changes(state.account))
            for state in books.list_accounts()
        ],
        {place: kept for place, kept in books._records.items() if kept},
        dict(books._views),
        {place: units for place, units in books._spent_on.items() if units},
        [chain._replay.next_nonce(key.address) for key in (CURATOR, OWNER, NEXT, HEIR)],
        list(chain.export_journal()),
    )


def last_block(chain: EmbeddedLedger) -> Block:
    return Block.from_canonical_json(list(chain.export_journal())[-1], chain.chain_id, chain.head().number)


# -- groups ---------------------------------------------------------------------------------------


def test_a_group_is_one_transaction_decided_in_order(chain: EmbeddedLedger, account: bytes):
    made = chain.reserve(claim(account, 1, 10), claim(account, 2, 30), claim(account, 3, 10), claim(account, 4, 20))
    assert [one.case for one in made] == [Case.FIRST, Case.REFINE, Case.REPEAT, Case.BLUR]
    assert [one.cost.units for one in made] == [10, 20, 0, 0]
    assert [one.spent_after.units for one in made] == [10, 30, 30, 30]
    assert [one.reused_id for one in made] == [None, word(1), word(1), word(2)]
    assert len(last_block(chain).transactions) == 1
    published = chain.publish(account, seal(1), seal(2, 78), seal(4, 79))
    assert [one.answer_digest for one in published] == [word(77), word(78), word(79)]
    assert {one.published_block for one in published} == {chain.head().number}
    assert all(one.is_finished for one in chain.list_reservations(account))


REFUSED: dict[str, tuple[Callable[[bytes], tuple[Claim, ...]], type[NoisebankError], str]] = {
    "budget": (lambda a: (claim(a, 5, 60, query=5), claim(a, 6, 60, query=6)), BudgetExhausted, "costs"),
    "limit": (lambda a: (claim(a, 5, 60, query=5), claim(a, 6, 20, query=6, limit=19)), PriceMoved, "1.9e-17"),
    "view": (
        lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 61, query=6, analyst=ANALYST)),
        ViewExhausted,
        "may learn",
    ),
    "no limit": (
        lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 1, query=6, analyst=word(7))),
        LedgerRefused,
        "ledger: analyst without a limit",
    ),
    "used id": (lambda a: (claim(a, 5, 10, query=5), claim(a, 1, 1, query=6)), LedgerRefused, "id already used"),
    "same id": (lambda a: (claim(a, 5, 10, query=5), claim(a, 5, 1, query=6)), LedgerRefused, "id already used"),
    "cube": (lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 1, cube=2, runs=LOW)), LedgerRefused, "undeclared cube"),
    "runs": (lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 1, cube=1)), LedgerRefused, "no runs"),
    "overlap": (
        lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 1, cube=1, runs=(CellRun(0, 4), CellRun(3, 5)))),
        LedgerRefused,
        "runs overlap",
    ),
    "range": (
        lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 1, cube=1, runs=(CellRun(7, 9),))),
        LedgerRefused,
        "run out of range",
    ),
    "nothing": (lambda a: (claim(a, 5, 10, query=5), claim(a, 6, 0)), LedgerRefused, "nothing wanted"),
    "too many": (
        lambda a: tuple(claim(a, id, 1, query=id) for id in range(10, 27)),
        LedgerRefused,
        "the call failed",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_group_refused_in_its_last_part_leaves_no_trace(chain: EmbeddedLedger, account: bytes, why: str):
    chain.reserve(claim(account, 1, 10))
    group, kind, words = REFUSED[why]
    before = everything(chain)
    with pytest.raises(kind, match=words):
        chain.reserve(*group(account))
    assert everything(chain) == before
    chain.reserve(claim(account, 5, 10, query=5))  # its ids are free
    assert verify(list(chain.export_journal())).passed


def test_a_group_of_seals_refused_in_its_last_part_leaves_no_trace(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 10), claim(account, 2, 20), claim(account, 3, 10))
    chain.publish(account, seal(2))
    before = everything(chain)
    for wrong, words in ((seal(2), "already published"), (seal(9), "no such"), (seal(3), "no such"), (seal(1), "alr")):
        with pytest.raises(LedgerRefused, match=words):
            chain.publish(account, seal(1), wrong)
    with pytest.raises(LedgerRefused, match="no answer"):
        chain.publish(account, seal(1, 0))
    with pytest.raises(LedgerRefused, match="nothing published"):
        chain.publish(account)
    assert everything(chain) == before


def test_groups_refused_inside_a_block_leave_no_trace_in_it(chain: EmbeddedLedger, account: bytes):
    """Ten groups wait for one block; those that fit are in it, and it is as if the others had never been."""
    results: dict[int, object] = {}

    def run(number: int) -> None:
        group = [claim(account, 10 * number + part, 15, query=10 * number + part) for part in (1, 2)]
        if number % 3 == 2:
            group.append(claim(account, 10 * number + 3, 1, query=10 * number + 3, analyst=word(9)))  # no limit
        try:
            results[number] = chain.reserve(*group)
        except NoisebankError as refusal:
            results[number] = refusal

    before = chain.head().number
    together(chain, *(lambda number=number: run(number) for number in range(1, 11)))
    won = sorted(number for number, result in results.items() if isinstance(result, tuple))
    assert won == [1, 3, 4], "in order of arrival: 2 has no limit, then 10 is left"
    assert {number for number, found in results.items() if isinstance(found, BudgetExhausted)} == set(range(5, 11))
    assert "without a limit" in str(results[2])
    assert chain.head().number == before + 1
    block = last_block(chain)
    assert [transaction.nonce for transaction in block.transactions] == [1, 2, 3], "no nonce is lost"
    text = block.to_canonical_json()
    for number in range(1, 11):
        assert (word(10 * number + 1).hex() in text) == (number in won)
        assert (chain.find_reservation(account, word(10 * number + 1)) is not None) == (number in won)
    assert {made.id for made in chain.list_reservations(account)} == {
        word(10 * n + part) for n in won for part in (1, 2)
    }
    assert chain.get_account(account).spent == Precision(90)
    twin = replayed(chain.export_journal())
    assert twin.books.list_accounts() == chain.books.list_accounts()
    assert verify(list(chain.export_journal())).passed


def test_a_block_of_refusals_is_no_block(chain: EmbeddedLedger, account: bytes):
    before = everything(chain)
    refused: list[str] = []

    def run(number: int) -> None:
        try:
            chain.reserve(claim(account, number, 5, query=number), claim(account, 10 + number, 99, query=10 + number))
        except BudgetExhausted as error:
            refused.append(str(error))

    together(chain, *(lambda number=number: run(number) for number in range(1, 6)))
    assert len(refused) == 5
    assert everything(chain) == before


def test_groups_and_owners_calls_share_a_block(chain: EmbeddedLedger, account: bytes):
    """Decided in order: what comes after the pause is refused."""
    refused: list[str] = []

    def late() -> None:
        try:
            chain.reserve(claim(account, 2, 10, query=2))
        except LedgerRefused as error:
            refused.append(error.reason)

    together(chain, lambda: chain.reserve(claim(account, 1, 10)), lambda: chain.pause_account(account), late)
    assert refused == ["ledger: paused"]
    block = last_block(chain)
    assert [bool(transaction.signature) for transaction in block.transactions] == [False, True]
    assert verify(list(chain.export_journal())).passed


def test_one_id_is_reserved_once_whoever_races_for_it(chain: EmbeddedLedger, account: bytes):
    """Also when the first of them is a REPEAT, whose id the contract does not keep."""
    chain.reserve(claim(account, 1, 10))
    results: list[object] = []

    def run(one: Claim) -> None:
        try:
            results.append(chain.reserve(one)[0])
        except LedgerRefused as refusal:
            results.append(refusal)

    together(chain, lambda: run(claim(account, 5, 10)), lambda: run(claim(account, 5, 25, query=6)))
    made = [found for found in results if isinstance(found, Reservation)]
    told = sum(one.cost.units for one in made)
    assert chain.get_account(account).spent.units == 10 + told, "everybody is told what they were charged"
    assert len(made) == 1


def test_one_id_is_reserved_once_in_a_group(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 10))
    with pytest.raises(LedgerRefused, match="id already used"):
        chain.reserve(claim(account, 5, 10), claim(account, 5, 25, query=6))


def test_a_repeats_id_is_not_used_again(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 10))
    (repeat,) = chain.reserve(claim(account, 2, 10))
    assert (repeat.case, repeat.is_finished, repeat.answer_digest, repeat.reused_id) == (
        Case.REPEAT,
        True,
        None,
        word(1),
    )
    before = everything(chain)
    for other in (claim(account, 2, 10), claim(account, 2, 20), claim(account, 2, 20, query=9)):
        with pytest.raises(LedgerRefused, match="id already used"):
            chain.reserve(other)
    with pytest.raises(LedgerRefused, match="no such reservation"):
        chain.publish(account, seal(2))
    assert everything(chain) == before


# -- batches --------------------------------------------------------------------------------------


def test_a_batch_decides_each_group_on_its_own(chain: EmbeddedLedger, account: bytes):
    groups = [
        [claim(account, 1, 10), claim(account, 2, 20, query=4)],
        [claim(account, 3, 5, query=5), claim(account, 4, 90, query=6)],  # too dear
        [claim(account, 5, 10), claim(account, 6, 10, cube=1, runs=LOW)],
        [claim(account, 7, 5, query=7, analyst=word(9))],  # no limit
    ]
    told = send(chain, encode_reserve_many(groups))
    assert [event.name for event in told] == ["Reserved"] * 2 + ["GroupRefused"] + ["Reserved"] * 2 + ["GroupRefused"]
    assert [told[2].arguments[name] for name in ("id", "reason")] == [word(3), "ledger: budget exhausted"]
    assert [told[5].arguments[name] for name in ("id", "reason")] == [word(7), "ledger: analyst without a limit"]
    assert [made.id for made in chain.list_reservations(account)] == [word(n) for n in (1, 2, 5, 6)]
    assert chain.get_account(account).spent == Precision(40)
    told = send(chain, encode_publish_many(account, [[seal(1)], [seal(2), seal(3)], [seal(6), seal(2)]]))
    assert [event.name for event in told] == ["Published", "GroupRefused", "Published", "Published"]
    report = verify(list(chain.export_journal()))
    assert report.passed, report.problem
    assert report.accounts[0].spent == 40 and report.accounts[0].published == 3


def test_a_batch_that_is_paused_is_refused_group_by_group(chain: EmbeddedLedger, account: bytes):
    chain.pause_account(account)
    told = send(chain, encode_reserve_many([[claim(account, n, 1, query=n)] for n in (1, 2)]))
    assert [event.arguments["reason"] for event in told] == ["ledger: paused"] * 2
    assert verify(list(chain.export_journal())).passed


def test_the_largest_batch_is_executed_replayed_and_verified(chain: EmbeddedLedger, account: bytes):
    """128 claims with a run each in the largest cube: gas and sizes are enough."""
    rich = chain.open_account(opening(budget=10**9))
    chain.add_cube(rich, 2**20)
    groups = [
        [claim(rich, 16 * g + n + 1, 3, query=16 * g + n, cube=1, runs=(CellRun(8191 * (16 * g + n) + 3, 2**20 - 1),))
         for n in range(16)]
        for g in range(8)
    ]  # fmt: skip
    told = send(chain, encode_reserve_many(groups))
    assert [event.name for event in told] == ["Reserved"] * 128
    assert chain.get_account(rich).spent == Precision(3 * 128)
    ids = [group[n].id for group in groups for n in range(16)]
    told = send(chain, encode_publish_many(rich, [[seal(int.from_bytes(id, "big"))] for id in ids]))
    assert [event.name for event in told] == ["Published"] * 128
    assert verify(list(chain.export_journal())).passed


@pytest.mark.parametrize("function", ["reserve_many", "publish_many"])
def test_an_empty_batch_that_the_contract_takes_is_verified(chain: EmbeddedLedger, account: bytes, function: str):
    """It does nothing, but it is there."""
    lists = ((), ()) if function == "reserve_many" else ((),)
    try:
        assert send(chain, budget_ledger().encode_call(function, account, *lists)) == ()
    except LedgerRefused:
        return
    assert verify(list(chain.export_journal())).passed


# -- cubes ----------------------------------------------------------------------------------------


def test_a_cube_is_charged_by_its_largest_cell(chain: EmbeddedLedger, account: bytes):
    made = [
        *chain.reserve(claim(account, 1, 20, cube=1, runs=LOW), claim(account, 2, 20, query=4, cube=1, runs=HIGH)),
        *chain.reserve(claim(account, 3, 10, query=5, cube=1, runs=(CellRun(3, 5, HALF),))),
        *chain.reserve(claim(account, 4, 30, cube=1, runs=LOW)),
        *chain.reserve(claim(account, 5, 5, query=6, cube=1, runs=(CellRun(7, 8, 2 * HALF + 1),))),
        *chain.reserve(claim(account, 6, 20, cube=1, runs=LOW), claim(account, 7, 15, cube=1, runs=LOW)),
        *chain.reserve(claim(account, 8, 0, query=8, cube=1)),
    ]
    assert [one.case.name for one in made] == [
        "FIRST", "FIRST", "FIRST", "REFINE", "FIRST", "REPEAT", "BLUR", "INFER"
    ]  # fmt: skip
    assert [one.fresh_precision.units for one in made] == [20, 20, 10, 10, 5, 0, 0, 0]
    assert [one.cost.units for one in made] == [20, 0, 5, 10, 0, 0, 0, 0]
    assert [one.reused_id for one in made] == [None, None, None, word(1), None, word(1), word(1), None]
    cells = [chain._replay.evm.call_view(chain.contract, "cell", account, 1, place)[0] for place in range(CELLS)]
    assert cells == [30, 30, 30, 35, 25, 20, 20, 26], "6: five, weighed a little more than whole, rounds up"
    assert chain.get_account(account).spent == Precision(35)
    assert chain.get_account(account).cubes == (CELLS,)
    assert [kept.precision.units for kept in chain.list_records(account, word(3), 1, LOW)] == [20, 30]
    assert chain.list_records(account, word(3)) == chain.list_records(account, word(3), 1, HIGH) == ()
    chain.publish(account, seal(8))
    assert verify(list(chain.export_journal())).passed


def test_cubes_and_plain_records_add_up(chain: EmbeddedLedger, account: bytes):
    assert chain.add_cube(account, 2) == 2
    chain.reserve(claim(account, 1, 10), claim(account, 2, 20, cube=1, runs=LOW))
    chain.reserve(claim(account, 3, 30, cube=2, runs=(CellRun(0, 1),)))
    assert chain.get_account(account).spent == Precision(60)
    assert chain.get_account(account).cubes == (CELLS, 2)
    with pytest.raises(BudgetExhausted):
        chain.reserve(claim(account, 4, 41, query=9, cube=2, runs=(CellRun(0, 1),)))
    chain.reserve(claim(account, 4, 30, query=9, cube=2, runs=(CellRun(1, 2),)))  # costs nothing
    assert chain.get_account(account).spent == Precision(60)


def test_what_a_refusal_says_is_what_the_group_would_cost(chain: EmbeddedLedger, account: bytes):
    """A price that says less than what is left cannot be the reason."""
    groups = {
        "one query twice": (
            (claim(account, 1, 60), claim(account, 2, 110)),
            110,
        ),
        "a heavy weight": (
            (claim(account, 1, 30, cube=1, runs=(CellRun(0, 1, 8 * HALF),)),),
            120,
        ),
        "cells apart": (
            (claim(account, 1, 90, query=8, cube=1, runs=LOW), claim(account, 2, 110, query=9, cube=1, runs=HIGH)),
            110,
        ),
    }
    said = {}
    for name, (group, _) in groups.items():
        with pytest.raises(BudgetExhausted) as refused:
            chain.reserve(*group)
        assert refused.value.left == Precision(100)
        said[name] = refused.value.asked.units
    assert said == {name: asked for name, (_, asked) in groups.items()}


# -- views ----------------------------------------------------------------------------------------


def test_a_view_grows_by_what_its_analyst_learns(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 40))
    used = []
    for id, wanted, query in ((2, 10, 3), (3, 40, 3), (4, 20, 3), (5, 5, 4), (6, 40, 3)):
        (made,) = chain.reserve(claim(account, id, wanted, query=query, analyst=ANALYST))
        used.append(made.used_after.units)
    assert used == [10, 40, 40, 45, 45]
    assert chain.get_view(account, ANALYST) == View(Precision(60), Precision(45))
    assert chain.get_view(account, OWNER_ANALYST) == View()
    before = everything(chain)
    with pytest.raises(ViewExhausted) as refused:
        chain.reserve(claim(account, 7, 16, query=5, analyst=ANALYST))
    assert (refused.value.limit, refused.value.used) == (Precision(60), Precision(45))
    assert everything(chain) == before
    with pytest.raises(LedgerRefused, match="below what is used"):
        chain.set_limit(account, ANALYST, 44)
    chain.set_limit(account, ANALYST, 61)
    chain.reserve(claim(account, 7, 16, query=5, analyst=ANALYST))
    assert verify(list(chain.export_journal())).passed


def test_a_refusal_is_about_the_analyst_who_asked_too_much(chain: EmbeddedLedger, account: bytes):
    """Wherever in the group that is."""
    chain.reserve(claim(account, 1, 50, analyst=ANALYST))
    for group in (
        (claim(account, 2, 11, query=5, analyst=ANALYST),),
        (claim(account, 2, 5, query=4), claim(account, 3, 11, query=5, analyst=ANALYST)),
    ):
        with pytest.raises(ViewExhausted) as refused:
            chain.reserve(*group)
        assert (refused.value.limit, refused.value.used) == (Precision(60), Precision(50))


def test_a_refusal_is_about_the_part_that_is_too_dear(chain: EmbeddedLedger, account: bytes):
    with pytest.raises(PriceMoved) as refused:
        chain.reserve(claim(account, 1, 5, limit=5), claim(account, 2, 6, query=4, limit=4))
    assert refused.value.limit == Precision(4)


def test_in_a_cube_an_analyst_learns_up_to_the_largest_cell(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 40, cube=1, runs=LOW))
    (infer,) = chain.reserve(claim(account, 2, 0, cube=1, analyst=ANALYST))
    assert (infer.case, infer.used_after, infer.cost) == (Case.INFER, Precision(40), ZERO_PRECISION)
    (free,) = chain.reserve(claim(account, 3, 40, cube=1, runs=HIGH, analyst=ANALYST))
    assert (free.used_after, free.cost) == (Precision(40), ZERO_PRECISION)
    chain.reserve(claim(account, 4, 30, query=5, cube=1, runs=LOW))
    with pytest.raises(ViewExhausted):
        chain.reserve(claim(account, 5, 0, cube=1, analyst=ANALYST))
    assert verify(list(chain.export_journal())).passed


def test_the_owner_needs_no_limit_and_others_do(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 100))
    with pytest.raises(LedgerRefused, match="ledger: analyst without a limit"):
        chain.reserve(claim(account, 2, 100, analyst=word(5)))
    with pytest.raises(LedgerRefused, match="ledger: no analyst"):
        chain.set_limit(account, OWNER_ANALYST, 5)
    chain.set_limit(account, word(5), 7)
    chain.set_limit(account, word(5), 0)
    with pytest.raises(LedgerRefused, match="ledger: analyst without a limit"):
        chain.reserve(claim(account, 2, 1, analyst=word(5)))


# -- versions and pauses --------------------------------------------------------------------------


def test_a_new_version_keeps_the_spend_reuses_nothing_and_burns_what_is_open(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 10, analyst=ANALYST), claim(account, 2, 20, cube=1, runs=LOW))
    chain.publish(account, seal(1))
    chain.open_version(account, word(41), word(42))
    state = chain.get_account(account)
    assert (state.version, state.base, state.spent) == (2, Precision(30), Precision(30))
    assert (state.policy_digest, state.data_commitment) == (word(41), word(42))
    assert chain.list_records(account, word(3)) == chain.list_records(account, word(3), 1, LOW) == ()
    with pytest.raises(LedgerRefused, match="reservation burnt"):
        chain.publish(account, seal(2))
    with pytest.raises(LedgerRefused, match="id already used"):
        chain.reserve(claim(account, 2, 20, cube=1, runs=LOW))
    made = chain.reserve(claim(account, 3, 10, analyst=ANALYST), claim(account, 4, 5, cube=1, runs=LOW))
    assert [one.case for one in made] == [Case.FIRST, Case.FIRST]
    assert [one.cost.units for one in made] == [10, 5]
    assert made[0].used_after == Precision(20), "another table: learned anew"
    report = verify(list(chain.export_journal()))
    assert report.passed and report.accounts[0].spent == 45


def test_a_pause_stops_reserving_and_nothing_else(chain: EmbeddedLedger, account: bytes):
    chain.reserve(claim(account, 1, 10))
    chain.pause_account(account)
    assert chain.get_account(account).paused
    for one in (claim(account, 2, 10), claim(account, 2, 20), claim(account, 2, 0, cube=1)):
        with pytest.raises(LedgerRefused, match="ledger: paused"):
            chain.reserve(one)
    chain.publish(account, seal(1))
    chain.lower_budget(account, 90)
    with pytest.raises(LedgerRefused, match="ledger: paused"):
        chain.pause_account(account)
    chain.resume_account(account)
    assert not chain.get_account(account).paused
    with pytest.raises(LedgerRefused, match="not paused"):
        chain.resume_account(account)
    chain.reserve(claim(account, 2, 20))
    assert verify(list(chain.export_journal())).passed


# -- hand-overs -----------------------------------------------------------------------------------


def test_another_curator_takes_over_and_the_first_ones_key_still_seals(
    journal: Journal, chain: EmbeddedLedger, account: bytes
):
    chain.reserve(claim(account, 1, 10))
    with pytest.raises(LedgerRefused, match="not proposed"):
        EmbeddedLedger(journal, {Role.SEALER: CURATOR, Role.CURATOR: NEXT}).accept_role(Role.CURATOR, account)
    chain.call_as_owner("propose_curator", account, NEXT.address)
    chain.reserve(claim(account, 2, 20))  # until the other accepts
    keys = {Role.SEALER: CURATOR, Role.CURATOR: NEXT, Role.OWNER: OWNER}
    after = EmbeddedLedger(journal, keys, lambda: 1_000.0)
    event = after.accept_role(Role.CURATOR, account)
    assert event.arguments["curator"] == NEXT.address == after.get_account(account).curator
    after.reserve(claim(account, 3, 30))
    after.publish(account, seal(3))
    block = last_block(after)
    assert block.recover_sealer() == CURATOR.address, "Role.SEALER keeps sealing"
    assert [transaction.recover_sender() for transaction in block.transactions] == [NEXT.address], (
        "and the curator signs"
    )

    former = EmbeddedLedger(journal, KEYS, lambda: 1_000.0)
    for act in (lambda: former.reserve(claim(account, 4, 40)), lambda: former.publish(account, seal(1))):
        with pytest.raises(LedgerRefused, match="not the curator"):
            act()
    with pytest.raises(BadBank, match="no sealer's key"):
        EmbeddedLedger(journal, {Role.CURATOR: NEXT, Role.OWNER: OWNER})
    with pytest.raises(BadBank, match="no sealer's key"):
        EmbeddedLedger(journal, {Role.SEALER: NEXT, Role.CURATOR: CURATOR})
    report = verify(list(after.export_journal()))
    assert report.passed and report.accounts[0].spent == 30


def test_another_owner_takes_over_and_the_old_ones_announcements_are_dropped(
    journal: Journal, chain: EmbeddedLedger, account: bytes
):
    chain.propose_raise(account, 500)
    chain.call_as_owner("propose_curator", account, NEXT.address)
    chain.call_as_owner("propose_owner", account, HEIR.address)
    heirs = EmbeddedLedger(journal, {Role.CURATOR: CURATOR, Role.OWNER: HEIR}, lambda: 2_000.0)
    heirs.accept_role(Role.OWNER, account)
    assert heirs.get_account(account).owner == HEIR.address
    with pytest.raises(LedgerRefused, match="no raise pending"):
        heirs.finish_raise(account)
    heirs.lower_budget(account, 50)
    with pytest.raises(LedgerRefused, match="not the owner"):
        EmbeddedLedger(journal, KEYS, lambda: 2_000.0).lower_budget(account, 40)
    with pytest.raises(LedgerRefused, match="not proposed"):
        EmbeddedLedger(journal, {Role.SEALER: CURATOR, Role.CURATOR: NEXT}).accept_role(Role.CURATOR, account)
    assert verify(list(heirs.export_journal())).passed


# -- start-up -------------------------------------------------------------------------------------


def test_books_after_a_restart_are_the_books_before():
    """At every block of the long history: replay gives exactly what the running chain had."""
    first, *rest = history()
    keys = {Role.SEALER: CURATOR, Role.CURATOR: NEXT, Role.OWNER: HEIR}
    whole = replayed([first, *rest])
    journal = Journal(":memory:")
    for number, line in enumerate([first, *rest], -1):
        journal._database.execute("INSERT INTO lines VALUES (?, ?)", (number, line))
    again = EmbeddedLedger(journal, keys, lambda: 0.0)
    assert again.head() == whole.head
    assert again.books.list_accounts() == whole.books.list_accounts()
    for state in whole.books.list_accounts():
        assert again.list_reservations(state.account) == whole.books.list_reservations(state.account)
        assert again.books.list_changes(state.account) == whole.books.list_changes(state.account)
    assert again.books._views == whole.books._views
    assert block_with(history(), "CuratorChanged") > 0


def test_a_running_chain_and_its_restart_hold_the_same(journal: Journal, chain: EmbeddedLedger, account: bytes):
    """After each step of everything that a chain does."""
    steps: list[Callable[[], object]] = [
        lambda: chain.reserve(claim(account, 1, 10), claim(account, 2, 5, query=4, analyst=ANALYST)),
        lambda: chain.reserve(claim(account, 3, 10)),
        lambda: chain.publish(account, seal(1), seal(2)),
        lambda: chain.reserve(claim(account, 4, 10, cube=1, runs=LOW)),
        lambda: chain.reserve(claim(account, 5, 0, cube=1, analyst=ANALYST)),
        lambda: send(chain, encode_reserve_many([[claim(account, 6, 500)], [claim(account, 7, 12)]])),
        lambda: chain.pause_account(account),
        lambda: chain.resume_account(account),
        lambda: chain.lower_budget(account, 90),
        lambda: chain.propose_raise(account, 95),
        lambda: chain.open_version(account, word(41), word(42)),
        lambda: chain.reserve(claim(account, 8, 10, analyst=ANALYST)),
        lambda: chain.set_limit(account, ANALYST, 70),
        lambda: chain.call_as_owner("propose_curator", account, NEXT.address),
        lambda: chain.open_account(opening(salt=9)),
    ]
    for step in steps:
        step()
        again = EmbeddedLedger(journal, KEYS, lambda: 1_000.0)
        assert everything(again) == everything(chain)
