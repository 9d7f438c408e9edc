"""Claims: what the contract is asked to charge for a planned group of questions, and what that would cost now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noisebank.account.context import AccountContext
from noisebank.core.asks import OWNER
from noisebank.core.errors import PriceMoved
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.protocol import OWNER_ANALYST, Claim
from noisebank.planning.reuse import Plan
from noisebank.queries.query import Question

PlannedQuestion = tuple[Question, Plan]


def make_claims(
    context: AccountContext,
    ids: Sequence[bytes],
    analyst: str,
    planned: Sequence[PlannedQuestion],
    max_cost: Precision | None,
) -> list[Claim]:
    """Returns the claims of one group. Each part may cost what was planned; a single one up to `max_cost`."""
    digest = context.secrets.analyst_digest(analyst)
    claims = [_make_claim(context, id, digest, *part) for id, part in zip(ids, planned, strict=True)]
    costs = context.ledger.books.price_claims(claims)
    total = sum(costs, ZERO_PRECISION)
    if max_cost is not None and len(planned) > 1 and total > max_cost:
        raise PriceMoved(max_cost, total, context.state.budget)
    limited = []
    for claim, (_, plan), cost in zip(claims, planned, costs, strict=True):
        highest = cost if plan.cube_number else plan.target
        claimed = cost if max_cost is None or len(planned) > 1 else min(max_cost, highest)
        limited.append(replace(claim, max_cost=claimed) if claimed else claim)
    return limited


def price_plans(context: AccountContext, planned: Sequence[PlannedQuestion]) -> tuple[Precision, ...]:
    """Returns what each part of a group would cost now, decided one after the other."""
    return context.ledger.books.price_claims(
        [_make_claim(context, bytes(32), OWNER_ANALYST, question, plan) for question, plan in planned]
    )


def price_for_view(context: AccountContext, analyst: str, question: Question, plan: Plan, cost: Precision) -> Precision:
    """Returns what an answer that costs the account `cost` adds to an analyst's view. Nothing for one whose limit is
    not below the account's budget: the view never rises above what the account has spent."""
    books, digest = context.ledger.books, context.secrets.analyst_digest(analyst)
    if analyst == OWNER or context.view_of(analyst).limit >= context.state.budget:
        return ZERO_PRECISION
    if plan.cube_number:
        level = books.largest_cell_charge(context.id, plan.cube_number) + cost
        seen = books.delivered_from_cube(context.id, digest, plan.cube_number)
    else:
        level, salted = plan.target, context.secrets.salted_query(question.query)
        seen = books.delivered_precision(context.id, digest, salted)
    return level - seen if level > seen else ZERO_PRECISION


def _make_claim(context: AccountContext, id: bytes, analyst: bytes, question: Question, plan: Plan) -> Claim:
    query = question.query
    target = plan.target if plan.claimed_precision is None else plan.claimed_precision
    salted = context.secrets.salted_query(query)
    return Claim(
        context.id, id, salted, analyst, query.category, target, ZERO_PRECISION, plan.cube_number, plan.charges
    )
