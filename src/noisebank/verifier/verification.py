"""`verify` checks an exported journal, `verify_chain` a contract on a chain, both against what the caller holds.

Both return a `Report`. The parts: `ledger.replay` executes the contract, `recount` counts independently of it,
`signatures` compares calls with logs, `comparison` with evidence from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank, Tampered
from noisebank.core.receipts import Receipt
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.anchors import find_anchors
from noisebank.ledger.block import Block, Genesis, read_exported_lines
from noisebank.ledger.books import Books
from noisebank.ledger.evm import Log, decode_events
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import Unit
from noisebank.ledger.replay import Replay
from noisebank.queries.query import is_single_draw
from noisebank.verifier.comparison import ComparableHistory, Comparison
from noisebank.verifier.on_chain import ChainHistory
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
    report_account,
)
from noisebank.verifier.signatures import check_call

Progress = Callable[[int], None]
__all__ = ["CANNOT_SEE", "UNSEEN_TAIL", "Report", "recount_block", "verify", "verify_chain"]


class JournalHistory:
    """The history in a journal, executed and recounted block by block."""

    def __init__(self, first: str) -> None:
        self.genesis = Genesis.from_canonical_json(first)
        self.replay = Replay(self.genesis)
        self.recount = Recount()

    def add_line(self, line: str) -> None:
        """Executes and recounts the next block; `Tampered` if anything about it is wrong."""
        block = Block.from_canonical_json(line, self.genesis.chain_id, self.newest_block + 1)
        results = self.replay.apply_block(block)
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
    def newest_block(self) -> int:
        return self.replay.head.number

    def block_digest(self, number: int) -> bytes | None:
        return self.replay.block_digests[number] if 0 <= number <= self.newest_block else None

    def find_block(self, digest: bytes) -> int | None:
        return self.replay.block_digests.index(digest) if digest in self.replay.block_digests else None


def verify(
    journal: Path | str | Iterable[str],
    *,
    head: str | None = None,
    receipts: Sequence[Receipt | dict[str, Any]] = (),
    openings: Sequence[dict[str, Any]] = (),
    anchors: str | None = None,
    anchor_contract: str | None = None,
    progress: Progress = lambda done: None,
) -> Report:
    """Checks an exported journal (a path or its lines) and everything that the caller holds.

    `head` is the digest of a block that was the newest at some time; `anchors` is the address of a node
    whose chain holds anchors of this journal. `progress` is called with the number of blocks done.
    """
    lines = iter(read_exported_lines(Path(journal)) if isinstance(journal, (str, Path)) else journal)
    first = next(lines, None)
    if first is None or not first.strip():
        raise BadBank("the journal is empty")
    history, compared = None, Comparison()
    try:
        history = JournalHistory(first)
        for done, line in enumerate(lines, 1):
            history.add_line(line)
            progress(done)
        if anchors is not None:
            node = Node(anchors)
            heads = find_anchors(node, history.genesis.digest, history.genesis.sealer, anchor_contract)
            compared.compare_anchors(heads, f"chain {node.chain_id()}", history)
        _compare_all(history, compared, head, receipts, openings)
    except Tampered as error:
        return _journal_report(history, compared, error)
    return _journal_report(history, compared, None)


def verify_chain(
    url: str,
    contract: str,
    *,
    first: int = 0,
    head: str | None = None,
    receipts: Sequence[Receipt | dict[str, Any]] = (),
    openings: Sequence[dict[str, Any]] = (),
    progress: Progress = lambda done: None,
) -> Report:
    """Checks a ledger on a chain, given only a node and the contract's address. Reads logs from block `first` on."""
    chain, compared = ChainHistory(url, contract), Comparison()
    try:
        chain.read_logs(first, progress)
        _compare_all(chain, compared, head, receipts, openings)
    except Tampered as error:
        return _chain_report(chain, compared, error)
    return _chain_report(chain, compared, None)


def recount_block(block: Block, results: Sequence[Sequence[Log]], recount: Recount, sealer: str) -> None:
    """Recounts a block that the contract has executed: calls against logs, logs against the rules, balances."""
    for transaction, logs in zip(block.transactions, results, strict=True):
        if not transaction.to:
            continue
        logged = decode_events(budget_ledger(), logs)
        check_call(transaction.recover_sender() if transaction.signature else sealer, transaction.data, logged, recount)
        for event in logged:
            recount.add_event(event, lambda: block.time)
    for account, budget, spent in block.balances:
        tally = recount.accounts[account]
        if (tally.budget, tally.spent) != (budget, spent):
            raise Tampered(f"the balance of {account.hex()[:12]} does not add up")


def _compare_all(
    history: ComparableHistory,
    compared: Comparison,
    head: str | None,
    receipts: Sequence[Receipt | dict[str, Any]],
    openings: Sequence[dict[str, Any]],
) -> None:
    if head is not None:
        compared.compare_head(head, history)
    for state in history.books.list_accounts():
        measured = history.books.count_measurements(state.account)
        if state.unit is Unit.PRECISION and not all(is_single_draw(about, whole) for _, about, whole in measured):
            compared.uncounted_accounts.add(state.account)
    for receipt in receipts:
        compared.compare_receipt(receipt.to_json() if isinstance(receipt, Receipt) else receipt, history)
    compared.compare_openings(openings, history)


def _journal_report(history: JournalHistory | None, compared: Comparison, problem: Tampered | None) -> Report:
    if compared.pinned_block < 0:
        unseen = UNSEEN_TAIL
    else:
        newest = f"block {compared.pinned_block}, the newest that was compared"
        unseen = f"whether blocks after {newest}, were cut off or replaced"
    return _make_report(
        problem,
        compared,
        source="journal",
        blocks=len(history.replay.block_digests) if history else 0,
        transactions=history.replay.transaction_count if history else 0,
        head=history.replay.head.digest.hex() if history else "",
        recount=history.recount if history else Recount(),
        proves=JOURNAL_PROVES,
        unseen=unseen,
    )


def _chain_report(chain: ChainHistory, compared: Comparison, problem: Tampered | None) -> Report:
    return _make_report(
        problem,
        compared,
        source=f"contract {chain.contract} on chain {chain.chain_id}",
        blocks=chain.head.number + 1,
        transactions=chain.log_count,
        head=chain.head.digest.hex(),
        recount=chain.recount,
        proves=CHAIN_PROVES,
        unseen=NODE_TRUSTED,
    )


def _make_report(
    problem: Tampered | None,
    compared: Comparison,
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
    if compared.uncounted_accounts:
        names = ", ".join(sorted(account.hex()[:12] for account in compared.uncounted_accounts))
        cannot_see = (*cannot_see, f"{UNCOUNTED} {names}: only opened records tell")
    return Report(
        passed=problem is None,
        problem=str(problem) if problem else "",
        block=problem.block if problem else None,
        source=source,
        level=compared.level,
        blocks=blocks,
        transactions=transactions,
        head=head,
        accounts=tuple(report_account(account, tally) for account, tally in recount.accounts.items()),
        compared_with=tuple(compared.compared_with) or ("nothing besides the ledger itself",),
        proves=proves if problem is None else (),
        cannot_see=cannot_see,
    )
