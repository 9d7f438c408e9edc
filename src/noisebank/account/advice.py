"""Advice on cubes: which one answers a question, or why none does; which way is cheaper; which cubes would have
answered past questions."""

from __future__ import annotations

from collections import Counter
from math import prod

from noisebank.account.charging import price_for_view, price_plans
from noisebank.account.context import AccountContext
from noisebank.core.asks import OWNER
from noisebank.core.errors import NoisebankError
from noisebank.core.units import Precision
from noisebank.core.wording import describe_share
from noisebank.planning.reuse import Plan
from noisebank.policy.model import MAX_CELLS, Policy
from noisebank.queries.cells import Cube, NotCellAligned
from noisebank.queries.computed import is_computed
from noisebank.queries.query import Function, Query, Question


def explain_cube(context: AccountContext, query: Query) -> str:
    """Returns a sentence that says which cube answers a query, or why none does."""
    cube_query = context.cubes.find_cube_query(query)
    if cube_query is not None:
        over, cells = ", ".join(cube_query.cube.columns), cube_query.cube.cell_count
        return f"the cube over {over} ({cells} cells): charged by cells, inferred from all answers there"
    if len(query.parts) > 1 or query.parts[0].function is Function.SQUARES:
        return "plain reuse: cubes hold counts, and sums of one column"
    names = needed_columns(query)
    if not names:
        return (
            "plain reuse: it is about everybody, and the policy has no cube"
            if not context.policy.cubes
            else ("plain reuse: this account's cubes are not declared on the ledger")
        )
    if any(is_computed(name) for name in query.column_names()):
        return "plain reuse: no cube has what it computes from single rows"
    without = [name for name in names if not context.policy.columns[name].piece_count]
    if without:
        return f"plain reuse: {', '.join(without)} has no keys or bins, so no cube can have it"
    if prod(context.policy.columns[name].piece_count for name in names) > MAX_CELLS:
        return f"plain reuse: a cube over {', '.join(names)} would have more than {MAX_CELLS} cells"
    if not _has_whole_cells(context.policy, query, names):
        return f"plain reuse: its condition cuts through a bin of {', '.join(names)}"
    return f"plain reuse: no cube has {', '.join(names)}; cubes = [{list(names)}] in the policy would serve it"


def servable_columns(policy: Policy, query: Query) -> tuple[str, ...]:
    """Returns the columns of the smallest cube that could answer a query; none if no cube could."""
    names = needed_columns(query)
    is_simple = len(query.parts) == 1 and query.parts[0].function is not Function.SQUARES
    if any(is_computed(name) for name in query.column_names()):
        return ()
    cells = prod(policy.columns[name].piece_count for name in names)
    fits = bool(names) and is_simple and 0 < cells <= MAX_CELLS
    return names if fits and _has_whole_cells(policy, query, names) else ()


def explain_way(
    context: AccountContext, question: Question, planned: Plan, cost: Precision, analyst: str = OWNER
) -> str:
    """Returns a sentence that says which way a plan takes, through a cube or plainly, and what the other would cost."""
    cube_query = context.cubes.find_cube_query(question.query)
    if cube_query is None:
        return explain_cube(context, question.query)
    cube = f"the cube over {', '.join(cube_query.cube.columns)}"
    other = context.plain if planned.cube_number else context.cubes
    other_plan = other.plan(question, planned.target)
    (other_cost,) = price_plans(context, [(question, other_plan)])
    price, other_price = (describe_share(amount, context.state.budget) for amount in (cost, other_cost))
    if not planned.cube_number:
        free = "it is free" if not cost else f"it costs {price}"
        view, other_view = (
            price_for_view(context, analyst, question, plan, price)
            for plan, price in ((planned, cost), (other_plan, other_cost))
        )
        if other_view > view:  # the limit decides: all that a cube has told counts as learned
            learned = describe_share(other_view, context.state.budget)
            return f"plain reuse: {free}; through {cube} it would add {learned} to what this analyst has learned"
        return f"plain reuse: {free}, and {other_price} through {cube}" if other_cost else f"plain reuse: {free}"
    if not cost:
        return f"{cube}: free there, {other_price} plainly" if other_cost else f"{cube}: free there"
    if cost == other_cost:
        return f"{cube}: as much as plainly, and it leaves something for other questions there"
    return f"{cube}: {price}, against {other_price} plainly"


def needed_columns(query: Query) -> tuple[str, ...]:
    """Returns the columns that a cube must have to answer a query."""
    return tuple(sorted(set(query.by).union(*(p.column_names() for part in query.parts for _, p in part.weights))))


def suggest_cubes(context: AccountContext, max_count: int = 3) -> list[tuple[tuple[str, ...], int, int]]:
    """Returns cubes that would have answered questions of plain reuse: columns, cells, number of questions; best first.

    Reads the questions only, never an answer or the table.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for reservation in context.ledger.list_reservations(context.id):
        request = context.vault.find_request(reservation.id)
        if request is None or reservation.cube or reservation.version != context.secrets.version:
            continue
        try:
            query = context.question_of(request).query
        except NoisebankError:
            continue
        names = servable_columns(context.policy, query)
        if names and context.cubes.find_cube_query(query) is None:
            counts[names] += 1
    best = counts.most_common(max_count)
    return [(names, prod(context.policy.columns[name].piece_count for name in names), count) for names, count in best]


def _has_whole_cells(policy: Policy, query: Query, names: tuple[str, ...]) -> bool:
    cube = Cube.for_columns(names, policy.columns)
    try:
        for part in query.parts:
            for _, predicate in part.weights:
                cube.cell_mask(predicate)
    except NotCellAligned:
        return False
    return True
