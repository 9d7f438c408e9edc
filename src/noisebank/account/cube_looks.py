"""Looks at cubes: requests of their own, on the same path, before the questions that have earned them."""

from __future__ import annotations

from fractions import Fraction

from noisebank.account.charging import make_claims, price_plans
from noisebank.account.completion import require_completed
from noisebank.account.context import AccountContext
from noisebank.account.cube_planner import look_variance
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.planning.pricing import PrecisionTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import make_look
from noisebank.privacy.noise import noise_scale
from noisebank.queries.query import Question


def buy_look_if_affordable(
    context: AccountContext, question: Question, plan: Plan, max_cost: Precision | None, analyst: str
) -> bool:
    """Buys the look that a plan proposes, if account and view have enough for it: saved, reserved and settled like any
    request. Returns whether it was bought. Requires the cube's lock."""
    cube_query = context.cubes.find_cube_query(question.query)
    assert plan.look is not None and cube_query is not None
    if max_cost is not None:
        return False
    planner, precision = context.cubes.planner, plan.look.look.precision
    query = make_look(cube_query.cube, cube_query.statistic_key, plan.look.look)
    look = Question(query, Fraction(1), query.description)
    charges = planner.charge_look(cube_query, plan.look)
    planned = Plan(Case.FIRST, precision, precision, None, plan.cube_number, charges)
    (cost,) = price_plans(context, [(look, planned)])
    view = context.view_of(analyst)
    largest = context.ledger.books.largest_cell_charge(context.id, plan.cube_number) + cost
    if cost > context.state.remaining_budget or view.used + largest > view.limit:
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
