"""Verifies a journal: from the journal alone, or against what the caller holds besides.

The verdict says what it proves, what it had to compare with, and what it cannot see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noisebank.audit.openings import check_openings
from noisebank.audit.recount import Recount, Tally
from noisebank.digests import answer_digest
from noisebank.errors import BadBank, Tampered
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.journal import read_lines
from noisebank.ledger.replay import Replay

PROVES = (
    "every block is signed by the journal's sealer and follows from the one before it",
    "every transaction is signed by the key of its role, with the right nonce",
    "executing the contract's bytecode again gives the recorded cases, costs and balances",
    "an independent recount of the signed calls gives the same, and no account spent more than its budget",
)
CANNOT_SEE = (
    "whether the noise was honest, or whether answers were given off the books",
    "whether the same table has a second account, here or in another bank",
)
UNSEEN_TAIL = (
    "whether the newest blocks were cut off, an old copy was put back, or the sealer rewrote and signed the "
    "whole history anew: compare with a pinned head (--head) or a receipt (--receipt)"
)


@dataclass(frozen=True, slots=True)
class AccountReport:
    """One account as recounted, in units of 1e-18 precision."""

    account: str
    budget: int
    spent: int
    naive: int
    cases: dict[str, int]
    reserved: int
    published: int


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict."""

    passed: bool
    problem: str
    block: int | None
    """The first block that is wrong."""
    level: str
    """"sums only", or how many records were opened."""
    blocks: int
    transactions: int
    head: str
    accounts: tuple[AccountReport, ...]
    compared_with: tuple[str, ...]
    proves: tuple[str, ...]
    cannot_see: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For --json."""
        named = {name: getattr(self, name) for name in self.__slots__}
        named["accounts"] = [{name: getattr(a, name) for name in a.__slots__} for a in self.accounts]
        return named


@dataclass(slots=True)
class _Seen:
    """What the verification has gathered so far."""

    replay: Replay | None = None
    recount: Recount = field(default_factory=Recount)
    compared: list[str] = field(default_factory=list)
    level: str = "sums only"
    pinned: int = -1
    """The newest block that something from outside confirms."""


def verify(
    journal: Path | str | Iterable[str],
    *,
    head: str | None = None,
    receipts: Sequence[dict[str, Any]] = (),
    openings: Sequence[dict[str, Any]] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Report:
    """Checks an exported journal (a path or its lines) and everything that the caller holds.

    `head` is the digest of a block that was the newest at some time. `progress` is called with
    the number of blocks done.
    """
    lines = read_lines(Path(journal)) if isinstance(journal, (str, Path)) else journal
    seen = _Seen()
    try:
        _replay(lines, seen, progress)
        _compare_head(head, seen)
        for receipt in receipts:
            _compare_receipt(receipt, seen)
        _compare_openings(openings, seen)
    except Tampered as error:
        return _report(seen, str(error), error.block)
    return _report(seen, "", None)


def _replay(lines: Iterable[str], seen: _Seen, progress: Callable[[int], None]) -> None:
    walking = iter(lines)
    first = next(walking, None)
    if first is None or not first.strip():
        raise BadBank("the journal is empty")
    genesis = Genesis.read(first)
    seen.replay = Replay(genesis)
    for number, line in enumerate(walking):
        block = Block.read(line, genesis.chain_id, number)
        seen.replay.apply(block)
        seen.recount.add(block)
        progress(number + 1)


def _compare_head(head: str | None, seen: _Seen) -> None:
    if head is None or seen.replay is None:
        return
    digest = head.strip().lower().removeprefix("0x")
    known = [found.hex() for found in seen.replay.digests]
    if digest not in known:
        raise Tampered(
            f"the pinned head {digest[:12]} is not in this history: it was cut, replaced by an old copy, or rewritten"
        )
    seen.pinned = max(seen.pinned, known.index(digest))
    behind = len(known) - 1 - known.index(digest)
    seen.compared.append(f"a pinned head, block {known.index(digest)} ({behind} blocks before the end)")


def _compare_receipt(receipt: dict[str, Any], seen: _Seen) -> None:
    replay = seen.replay
    assert replay is not None
    try:
        id, salt = bytes.fromhex(receipt["id"]), bytes.fromhex(receipt["salt"])
        block, digest, body = int(receipt["block"]), bytes.fromhex(receipt["block_digest"]), receipt["answer"]
        chain, contract, account = receipt["chain_id"], receipt["contract"], receipt["account"]
        published = answer_digest(salt, body)
        named = (body["id"], body["account"])
    except (KeyError, TypeError, ValueError):
        raise Tampered("a receipt is malformed") from None
    name = f"the receipt {id.hex()[:12]}"
    if (chain, contract) != (replay.genesis.chain_id, replay.contract):
        raise Tampered(f"{name} is of another ledger")
    if not 0 <= block < len(replay.digests) or replay.digests[block] != digest:
        raise Tampered(f"{name} names block {block}, which is not in this history: it was cut, replaced or rewritten")
    reservation = replay.books.reservation(id)
    if reservation is None or reservation.account.hex() != account or named != (id.hex(), account):
        raise Tampered(f"{name} is for a reservation that is not on this ledger")
    if reservation.answer != published or reservation.published_in != block:
        raise Tampered(f"{name} shows another answer than the one published in block {block}")
    seen.pinned = max(seen.pinned, block)
    seen.compared.append(f"the receipt {id.hex()[:12]}, published in block {block}")


def _compare_openings(openings: Sequence[dict[str, Any]], seen: _Seen) -> None:
    if not openings:
        return
    assert seen.replay is not None
    levels = []
    for fields in openings:
        opened = check_openings(fields, seen.replay.books)
        levels.append(f"{opened.opened} of {opened.records} records opened in {opened.account.hex()[:12]}")
        seen.compared.append(f"opened records: {levels[-1]}, recomputed from the policy")
    seen.level = "; ".join(levels)


def _report(seen: _Seen, problem: str, block: int | None) -> Report:
    replay = seen.replay
    unseen = (*_unseen_tail(seen), *CANNOT_SEE)
    if seen.level == "sums only":
        unseen = (*unseen, "which questions were charged: without opened records only the sums are checked")
    return Report(
        passed=not problem,
        problem=problem,
        block=block,
        level=seen.level,
        blocks=len(replay.digests) if replay else 0,
        transactions=replay.transactions if replay else 0,
        head=replay.head.digest.hex() if replay else "",
        accounts=tuple(_account(account, tally) for account, tally in seen.recount.accounts.items()),
        compared_with=tuple(seen.compared) or ("nothing besides the journal itself",),
        proves=PROVES if not problem else (),
        cannot_see=unseen,
    )


def _unseen_tail(seen: _Seen) -> tuple[str, ...]:
    """A head or receipt confirms the history up to its block, and says nothing of what came after."""
    if seen.pinned < 0:
        return (UNSEEN_TAIL,)
    return (f"whether blocks after block {seen.pinned}, the newest that was compared, were cut off or replaced",)


def _account(account: object, tally: Tally) -> AccountReport:
    assert isinstance(account, bytes)
    return AccountReport(
        account=account.hex(),
        budget=tally.budget,
        spent=tally.spent,
        naive=tally.naive,
        cases={case.name: count for case, count in tally.cases.items()},
        reserved=sum(tally.cases.values()),
        published=tally.published,
    )
