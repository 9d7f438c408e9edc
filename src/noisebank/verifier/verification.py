"""`verify` checks an exported journal, `verify_chain` a contract on a chain, both against what the caller holds.

Both return a `Report`. The parts: `ledger.replay` executes the contract, `recount` counts independently of it, `signed`
compares calls with logs, `comparing` compares with evidence from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank, Tampered
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.anchors import find_anchors
from noisebank.ledger.block import Block, Genesis
from noisebank.ledger.books import Books
from noisebank.ledger.evm import Log, events
from noisebank.ledger.journal import read_lines
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import Unit
from noisebank.ledger.replay import Replay
from noisebank.planning.draws import is_single
from noisebank.verifier.comparison import Compared, History
from noisebank.verifier.on_chain import OnChain
from noisebank.verifier.recount import Recount
from noisebank.verifier.report import (
    CANNOT_SEE,
    CHAIN_PROVES,
    JOURNAL_PROVES,
    NODE_TRUSTED,
    SUMS_ONLY,
    UNCOUNTED,
    UNSEEN_TAIL,
    Report,
    account_report,
)
from noisebank.verifier.signatures import check_call

Progress = Callable[[int], None]
__all__ = ["CANNOT_SEE", "UNSEEN_TAIL", "Report", "recount_block", "verify", "verify_chain"]


class JournalHistory:
    """The history in a journal, executed and recounted block by block."""

    def __init__(self, first: str) -> None:
        self.genesis = Genesis.read(first)
        self.replay = Replay(self.genesis)
        self.recount = Recount()

    def add(self, line: str) -> None:
        """Executes and recounts the next block; `Tampered` if anything about it is wrong."""
        block = Block.read(line, self.genesis.chain_id, self.newest + 1)
        results = self.replay.apply(block)
        try:
            recount_block(block, results, self.recount, self.genesis.sealer)
        except Tampered as error:
            raise Tampered(error.what, block.number) from None

    @property
    def books(self) -> Books:
        return self.replay.books

    @property
    def contract(self) -> str:
        return self.replay.contract

    @property
    def chain_id(self) -> int:
        return self.genesis.chain_id

    @property
    def newest(self) -> int:
        return self.replay.head.number

    def digest(self, number: int) -> bytes | None:
        return self.replay.digests[number] if 0 <= number <= self.newest else None

    def find(self, digest: bytes) -> int | None:
        return self.replay.digests.index(digest) if digest in self.replay.digests else None


def verify(
    journal: Path | str | Iterable[str],
    *,
    head: str | None = None,
    receipts: Sequence[dict[str, Any]] = (),
    openings: Sequence[dict[str, Any]] = (),
    anchors: str | None = None,
    anchor_contract: str | None = None,
    progress: Progress = lambda done: None,
) -> Report:
    """Checks an exported journal (a path or its lines) and everything that the caller holds.

    `head` is the digest of a block that was the newest at some time; `anchors` is the address of a node
    whose chain holds anchors of this journal. `progress` is called with the number of blocks done.
    """
    lines = iter(read_lines(Path(journal)) if isinstance(journal, (str, Path)) else journal)
    first = next(lines, None)
    if first is None or not first.strip():
        raise BadBank("the journal is empty")
    history, compared = None, Compared()
    try:
        history = JournalHistory(first)
        for done, line in enumerate(lines, 1):
            history.add(line)
            progress(done)
        if anchors is not None:
            node = Node(anchors)
            heads = find_anchors(node, history.genesis.digest, history.genesis.sealer, anchor_contract)
            compared.anchors(heads, f"chain {node.chain_id()}", history)
        _compare(history, compared, head, receipts, openings)
    except Tampered as error:
        return _journal_report(history, compared, error)
    return _journal_report(history, compared, None)


def verify_chain(
    url: str,
    contract: str,
    *,
    first: int = 0,
    head: str | None = None,
    receipts: Sequence[dict[str, Any]] = (),
    openings: Sequence[dict[str, Any]] = (),
    progress: Progress = lambda done: None,
) -> Report:
    """Checks a ledger on a chain, given only a node and the contract's address. Reads logs from block `first` on."""
    chain, compared = OnChain(url, contract), Compared()
    try:
        chain.read(first, progress)
        _compare(chain, compared, head, receipts, openings)
    except Tampered as error:
        return _chain_report(chain, compared, error)
    return _chain_report(chain, compared, None)


def recount_block(block: Block, results: Sequence[Sequence[Log]], recount: Recount, sealer: str) -> None:
    """Recounts a block that the contract has executed: calls against logs, logs against the rules, balances."""
    for transaction, logs in zip(block.transactions, results, strict=True):
        if not transaction.to:
            continue
        logged = events(budget_ledger(), logs)
        check_call(transaction.sender() if transaction.signature else sealer, transaction.data, logged, recount)
        for event in logged:
            recount.add(event, lambda: block.time)
    for account, budget, spent in block.balances:
        tally = recount.accounts[account]
        if (tally.budget, tally.spent) != (budget, spent):
            raise Tampered(f"the balance of {account.hex()[:12]} does not add up")


def _compare(
    history: History,
    compared: Compared,
    head: str | None,
    receipts: Sequence[dict[str, Any]],
    openings: Sequence[dict[str, Any]],
) -> None:
    if head is not None:
        compared.head(head, history)
    for state in history.books.accounts():
        measured = history.books.measured(state.account)
        if state.unit is Unit.PRECISION and not all(is_single(about, whole) for _, about, whole in measured):
            compared.uncounted.add(state.account)
    for receipt in receipts:
        compared.receipt(receipt, history)
    compared.openings(openings, history)


def _journal_report(history: JournalHistory | None, compared: Compared, problem: Tampered | None) -> Report:
    if compared.pinned < 0:
        unseen = UNSEEN_TAIL
    else:
        newest = f"block {compared.pinned}, the newest that was compared"
        unseen = f"whether blocks after {newest}, were cut off or replaced"
    return _report(
        problem,
        compared,
        source="journal",
        blocks=len(history.replay.digests) if history else 0,
        transactions=history.replay.transactions if history else 0,
        head=history.replay.head.digest.hex() if history else "",
        recount=history.recount if history else Recount(),
        proves=JOURNAL_PROVES,
        unseen=unseen,
    )


def _chain_report(chain: OnChain, compared: Compared, problem: Tampered | None) -> Report:
    return _report(
        problem,
        compared,
        source=f"contract {chain.contract} on chain {chain.chain_id}",
        blocks=chain.head.number + 1,
        transactions=chain.logs,
        head=chain.head.digest.hex(),
        recount=chain.recount,
        proves=CHAIN_PROVES,
        unseen=NODE_TRUSTED,
    )


def _report(
    problem: Tampered | None,
    compared: Compared,
    source: str,
    blocks: int,
    transactions: int,
    head: str,
    recount: Recount,
    proves: tuple[str, ...],
    unseen: str,
) -> Report:
    cannot_see: tuple[str, ...] = (unseen, *CANNOT_SEE)
    if compared.level == SUMS_ONLY:
        cannot_see = (*cannot_see, "which questions were charged: without opened records only the sums are checked")
    if compared.uncounted:
        names = ", ".join(sorted(account.hex()[:12] for account in compared.uncounted))
        cannot_see = (*cannot_see, f"{UNCOUNTED} {names}: opened records tell")
    return Report(
        passed=problem is None,
        problem=str(problem) if problem else "",
        block=problem.block if problem else None,
        source=source,
        level=compared.level,
        blocks=blocks,
        transactions=transactions,
        head=head,
        accounts=tuple(account_report(account, tally) for account, tally in recount.accounts.items()),
        compared_with=tuple(compared.with_what) or ("nothing besides the ledger itself",),
        proves=proves if problem is None else (),
        cannot_see=cannot_see,
    )
