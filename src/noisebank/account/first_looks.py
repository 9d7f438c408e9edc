"""First looks at cubes: requests of their own, on the same path, before the questions that they make cheaper."""

from __future__ import annotations

from fractions import Fraction

from noisebank.account.charging import make_claims, price_plans
from noisebank.account.completion import require_completed
from noisebank.account.context import AccountContext
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.planning.prefix import TreeMeasurement
from noisebank.planning.pricing import PrecisionTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import CubeQuery, make_first_look
from noisebank.queries.query import Question


def buy_look_if_affordable(
    context: AccountContext, question: Question, plan: Plan, max_cost: Precision | None, analyst: str
) -> bool:
    """Buys the first look that a plan proposes, if account and view have enough for it and for the question.

    Returns whether it was bought. Requires the cube's lock.
    """
    assert plan.first_look is not None
    cost = plan.first_look.cost + price_plans(context, [(question, plan)])[0]
    view = context.view_of(analyst)
    if max_cost is not None or cost > context.state.remaining_budget or view.used + cost > view.limit:
        return False
    cube_query = context.cubes.find_cube_query(question.query)
    assert cube_query is not None
    look = make_first_look(cube_query.cube, cube_query.statistic_key)
    if not context.draws.has_room(look, context.policy):
        return False
    buy_first_look(context, cube_query, plan.first_look, analyst)
    return True


def buy_first_look(context: AccountContext, cube_query: CubeQuery, first_look: TreeMeasurement, analyst: str) -> None:
    """Buys a first look: saved, reserved and settled like any request. Requires the cube's lock."""
    look = make_first_look(cube_query.cube, cube_query.statistic_key)
    question = Question(look, Fraction(1), look.description)
    number, salted = context.cubes.planner.cube_number(cube_query), context.secrets.salted_query(look)
    records = context.ledger.list_records(context.id, salted, number, first_look.charges)
    if records:  # paid for already, at the budget of that time; a lost one is not bought again
        reservation = context.ledger.find_reservation(context.id, records[0].id)
        request = context.vault.find_request(records[0].id)
        is_open = reservation is not None and reservation.answer_digest is None
        if salted not in context.lost_queries and reservation is not None and is_open and request is not None:
            require_completed(context, [(reservation, context.question_of(request))])
        return
    context.draws.check_next([look], context.policy)
    precision = first_look.precision
    plan = Plan(Case.FIRST, precision, precision, None, number, first_look.charges)
    function, column = cube_query.statistic_key
    description = {"over": list(cube_query.cube.columns), "function": function.value, "column": column}
    key = f"first look {look.digest.hex()[:16]} / {context.secrets.version} / {precision.units}"
    request = context.request_builder.build_request(
        question, PrecisionTarget(precision), precision, key, analyst, look=description
    )
    context.vault.save_request(request)
    claims = make_claims(context, [request.id], analyst, [(question, plan)], None)
    (reservation,) = context.ledger.reserve(*claims)
    require_completed(context, [(reservation, question)])
