"""Calldata of the curator's calls (reserve and publish, single or batched), and readable errors for refusals."""

from __future__ import annotations

from collections.abc import Sequence

from noisebank.core.errors import BudgetExhausted, LedgerRefused, NoisebankError, PriceMoved, ViewExhausted
from noisebank.core.units import ZERO_PRECISION
from noisebank.ledger.abi import Word, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.protocol import OWNER_ANALYST, Claim, Seal

MAX_GROUP_PARTS = 16
"""Most claims of one group, and most runs of one group: the contract's limits."""
MAX_BATCH_PARTS = 128
Row = tuple[Word, ...]


def encode_reserve(group: Sequence[Claim]) -> bytes:
    """Returns the call that reserves one atomic group."""
    return budget_ledger().encode_call("reserve", _common_account(group), *_claim_rows([group]))


def encode_reserve_many(groups: Sequence[Sequence[Claim]]) -> bytes:
    """Returns the call that reserves many groups of one account, decided in order, each on its own."""
    return budget_ledger().encode_call(
        "reserve_many", _common_account([claim for group in groups for claim in group]), *_claim_rows(groups)
    )


def encode_publish(account: bytes, group: Sequence[Seal]) -> bytes:
    """Returns the call that publishes one atomic group."""
    return budget_ledger().encode_call("publish", account, _seal_rows([group]))


def encode_publish_many(account: bytes, groups: Sequence[Sequence[Seal]]) -> bytes:
    """Returns the call that publishes many groups of one account, each on its own."""
    return budget_ledger().encode_call("publish_many", account, _seal_rows(groups))


def explain_refusal(refusal: NoisebankError, group: Sequence[Claim], books: Books) -> NoisebankError:
    """Returns the error for a contract's refusal, with the amounts that it is about; any other error as it is."""
    if not isinstance(refusal, LedgerRefused):
        return refusal
    state = books.find_account(group[0].account)
    if refusal.reason == "ledger: budget exhausted" and state is not None:
        cost = sum(books.price_claims(group), ZERO_PRECISION)
        return BudgetExhausted(cost, state.remaining_budget, state.budget, state.unit.name.lower())
    if refusal.reason == "ledger: price above limit" and state is not None:
        priced = list(zip(group, books.price_claims(group), strict=True))
        claim, cost = next(((claim, cost) for claim, cost in priced if cost > claim.max_cost), priced[0])
        return PriceMoved(claim.max_cost, cost, state.budget)
    if refusal.reason == "ledger: analyst without a limit":
        return LedgerRefused(
            f"{refusal.reason}: the owner first says how much this analyst may learn. Nothing was spent"
        )
    if refusal.reason == "ledger: view exhausted" and state is not None:
        limited = next((claim for claim in group if claim.analyst != OWNER_ANALYST), group[0])
        view = books.get_view(limited.account, limited.analyst)
        return ViewExhausted(view.limit, view.used, state.budget)
    return refusal


def _common_account(claims: Sequence[Claim]) -> bytes:
    (account,) = {claim.account for claim in claims}
    return account


def _claim_rows(groups: Sequence[Sequence[Claim]]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    claims: list[Row] = []
    runs: list[Row] = []
    for group in groups:
        for left, claim in zip(range(len(group) - 1, -1, -1), group, strict=True):
            subject = (claim.id, claim.query, claim.analyst, claim.category, claim.cube)
            claims.append((*subject, claim.target.units, claim.max_cost.units, len(claim.runs), left == 0))
            runs.extend((run.start, run.stop, run.weight) for run in claim.runs)
    return tuple(claims), tuple(runs)


def _seal_rows(groups: Sequence[Sequence[Seal]]) -> tuple[Row, ...]:
    return tuple(
        (seal.id, seal.answer_digest, number == len(group)) for group in groups for number, seal in enumerate(group, 1)
    )
