"""Calldata of the curator's calls (reserve and publish, single or batched), and readable errors for refusals."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.core.errors import BudgetExhausted, LedgerRefused, NoisebankError, PriceMoved, ViewExhausted
from noisebank.core.records import CellRun
from noisebank.core.units import NOTHING
from noisebank.ledger.abi import Word, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import THE_OWNER, Claim, Seal

MOST_PARTS = 16
"""Most claims of one group, and most runs of one group: the contract's limits."""
MOST_IN_BATCH = 128
Row = tuple[Word, ...]


def reserve_call(group: Sequence[Claim]) -> bytes:
    """Returns the call that reserves one atomic group."""
    return budget_ledger().call("reserve", _account(group), *_rows([group]))


def reserve_many_call(groups: Sequence[Sequence[Claim]]) -> bytes:
    """Returns the call that reserves many groups of one account, decided in order, each on its own."""
    return budget_ledger().call(
        "reserve_many", _account([claim for group in groups for claim in group]), *_rows(groups)
    )


def publish_call(account: bytes, group: Sequence[Seal]) -> bytes:
    """Returns the call that publishes one atomic group."""
    return budget_ledger().call("publish", account, _seals([group]))


def publish_many_call(account: bytes, groups: Sequence[Sequence[Seal]]) -> bytes:
    """Returns the call that publishes many groups of one account, each on its own."""
    return budget_ledger().call("publish_many", account, _seals(groups))


def merged(runs: Sequence[CellRun], most: int = MOST_PARTS) -> tuple[CellRun, ...]:
    """Returns at most `max_runs` runs that cover `runs` with at least their weights.

    Requires: sorted and disjoint runs. Guarantees: every cell is charged at least as much as before
    (over-charging is sound, under-charging never happens). The gaps that cost least are closed first.
    """
    result = list(runs)
    while len(result) > most:
        index = min(range(len(result) - 1), key=lambda i: _waste(result[i], result[i + 1]))
        low, high = result[index], result[index + 1]
        result[index : index + 2] = [CellRun(low.start, high.stop, max(low.weight, high.weight))]
    return tuple(result)


def explained(refusal: LedgerRefused, group: Sequence[Claim], books: Books) -> NoisebankError:
    """Returns the error for a contract's refusal, with the amounts that it is about."""
    state = books.account(group[0].account)
    if refusal.reason == "ledger: budget exhausted" and state is not None:
        return BudgetExhausted(sum(books.costs(group), NOTHING), state.left)
    if refusal.reason == "ledger: price above limit":
        too_dear = (claim for claim, cost in zip(group, books.costs(group), strict=True) if cost > claim.limit)
        return PriceMoved(next(too_dear, group[0]).limit)
    if refusal.reason == "ledger: view exhausted":
        limited = next((claim for claim in group if claim.analyst != THE_OWNER), group[0])
        view = books.view(limited.account, limited.analyst)
        return ViewExhausted(view.limit, view.used)
    return refusal


def _waste(low: CellRun, high: CellRun) -> int:
    """Returns the weight, summed over cells, that merging two runs charges beyond their own."""
    weight = max(low.weight, high.weight)
    wasted = (high.start - low.stop) * weight
    return wasted + (low.stop - low.start) * (weight - low.weight) + (high.stop - high.start) * (weight - high.weight)


def _account(claims: Sequence[Claim]) -> bytes:
    (account,) = {claim.account for claim in claims}
    return account


def _rows(groups: Sequence[Sequence[Claim]]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    claims: list[Row] = []
    runs: list[Row] = []
    for group in groups:
        for left, claim in zip(range(len(group) - 1, -1, -1), group, strict=True):
            subject = (claim.id, claim.query, claim.analyst, claim.about, claim.cube)
            claims.append((*subject, claim.wanted.units, claim.limit.units, len(claim.runs), left == 0))
            runs.extend((run.start, run.stop, run.weight) for run in claim.runs)
    return tuple(claims), tuple(runs)


def _seals(groups: Sequence[Sequence[Seal]]) -> tuple[Row, ...]:
    return tuple(
        (seal.id, seal.answer, number == len(group)) for group in groups for number, seal in enumerate(group, 1)
    )
