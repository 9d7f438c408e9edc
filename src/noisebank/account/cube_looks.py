"""Looks at cubes: requests of their own, on the same path, before the questions that have earned them."""

from __future__ import annotations

from fractions import Fraction

from noisebank.account.charging import make_claims, price_for_view, price_plans
from noisebank.account.completion import require_completed
from noisebank.account.context import AccountContext
from noisebank.account.cube_planner import look_variance
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.pricing import PrecisionTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import LookQuery, make_look
from noisebank.privacy.noise import noise_scale
from noisebank.queries.query import Question


def plan_look(context: AccountContext, question: Question, plan: Plan) -> tuple[Question, Plan]:
    """Returns the look that a question's plan proposes, as a question of its own, and its plan."""
    cube_query = context.cubes.find_cube_query(question.query)
    assert plan.look is not None and cube_query is not None
    query, precision = make_look(cube_query.cube, cube_query.statistic_key, plan.look.look), plan.look.look.precision
    charges = context.cubes.planner.charge_look(cube_query, plan.look)
    planned = Plan(Case.FIRST, precision, precision, None, plan.cube_number, charges)
    return Question(query, Fraction(1), query.description), planned


def price_look(context: AccountContext, question: Question, plan: Plan) -> Precision:
    """Returns what the look would cost that is bought with this question; nothing if there is none."""
    return ZERO_PRECISION if plan.look is None else price_plans(context, [plan_look(context, question, plan)])[0]


def buy_look_if_affordable(
    context: AccountContext, question: Question, plan: Plan, max_cost: Precision | None, analyst: str, others: Precision
) -> bool:
    """Buys the look that a plan proposes, if account and view have enough for it: saved, reserved and settled like any
    request. Returns whether it was bought. Requires the cube's lock.

    `others`: what the other questions of the group may cost at most. If they were refused after the look was bought, a
    refusal would have spent something.
    """
    cube_query = context.cubes.find_cube_query(question.query)
    assert plan.look is not None and cube_query is not None
    if max_cost is not None:
        return False
    look, planned = plan_look(context, question, plan)
    query, precision, (cost,) = look.query, planned.target, price_plans(context, [(look, planned)])
    assert isinstance(query, LookQuery)
    view = context.view_of(analyst)
    shown = price_for_view(context, analyst, question, plan, cost)
    if cost + others > context.state.remaining_budget or view.used + shown + others > view.limit:
        return False
    if not context.draws.has_room(query, context.policy):
        return False
    noise_scale(look_variance(cube_query, plan.look.look))  # refuses noise that 64 bits cannot hold
    context.check_identity()
    key = f"look {query.digest.hex()[:16]} / {context.secrets.version}"
    request = context.request_builder.build_request(
        look, PrecisionTarget(precision), precision, key, analyst, look=query.to_json()
    )
    context.vault.save_request(request)
    claims = make_claims(context, [request.id], analyst, [(look, planned)], None)
    (reservation,) = context.ledger.reserve(*claims)
    require_completed(context, [(reservation, look)])
    return True
