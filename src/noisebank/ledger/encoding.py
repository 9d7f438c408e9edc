"""The curator's calls as bytes, one by one or many in a batch, and refusals in full sentences."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.core.errors import BudgetExhausted, LedgerRefused, NoisebankError, PriceMoved, ViewExhausted
from noisebank.core.units import NOTHING
from noisebank.ledger.abi import Word, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import THE_OWNER, Claim, Run, Seal

MOST_PARTS = 16
"""Claims of one group, and runs of one group."""
MOST_IN_BATCH = 128
Row = tuple[Word, ...]


def reserve_call(group: Sequence[Claim]) -> bytes:
    """One atomic group."""
    return budget_ledger().call("reserve", _account(group), *_rows([group]))


def reserve_many_call(groups: Sequence[Sequence[Claim]]) -> bytes:
    """Many groups of one account, decided in order, each on its own."""
    return budget_ledger().call(
        "reserve_many", _account([claim for group in groups for claim in group]), *_rows(groups)
    )


def publish_call(account: bytes, group: Sequence[Seal]) -> bytes:
    """One atomic group."""
    return budget_ledger().call("publish", account, _seals([group]))


def publish_many_call(account: bytes, groups: Sequence[Sequence[Seal]]) -> bytes:
    """Many groups of one account, each on its own."""
    return budget_ledger().call("publish_many", account, _seals(groups))


def merged(runs: Sequence[Run], most: int = MOST_PARTS) -> tuple[Run, ...]:
    """At most `most` runs that cover the given ones with at least their weights.

    Requires: sorted and disjoint runs. Guarantees: every cell is charged at least as much as before
    (over-charging is sound, under-charging never happens). The gaps that cost least are closed first.
    """
    found = list(runs)
    while len(found) > most:
        place = min(range(len(found) - 1), key=lambda i: _waste(found[i], found[i + 1]))
        low, high = found[place], found[place + 1]
        found[place : place + 2] = [Run(low.start, high.stop, max(low.weight, high.weight))]
    return tuple(found)


def explained(refusal: LedgerRefused, group: Sequence[Claim], books: Books) -> NoisebankError:
    """The contract's words with the amounts that they are about."""
    state = books.account(group[0].account)
    if refusal.reason == "ledger: budget exhausted" and state is not None:
        return BudgetExhausted(sum(books.costs(group), NOTHING), state.left)
    if refusal.reason == "ledger: price above limit":
        dear = (claim for claim, cost in zip(group, books.costs(group), strict=True) if cost > claim.limit)
        return PriceMoved(next(dear, group[0]).limit)
    if refusal.reason == "ledger: view exhausted":
        asked = next((claim for claim in group if claim.analyst != THE_OWNER), group[0])
        view = books.view(asked.account, asked.analyst)
        return ViewExhausted(view.limit, view.used)
    return refusal


def _waste(low: Run, high: Run) -> int:
    """Units of weight that closing the gap between two runs charges for nothing."""
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
            named = (claim.id, claim.query, claim.analyst, claim.about, claim.cube)
            claims.append((*named, claim.wanted.units, claim.limit.units, len(claim.runs), left == 0))
            runs.extend((run.start, run.stop, run.weight) for run in claim.runs)
    return tuple(claims), tuple(runs)


def _seals(groups: Sequence[Sequence[Seal]]) -> tuple[Row, ...]:
    return tuple((seal.id, seal.answer, place == len(group)) for group in groups for place, seal in enumerate(group, 1))
