"""Quotes: what the answer to a question or a SELECT would cost now. Nothing here spends or opens data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from noisebank.account.advice import explain_way
from noisebank.account.charging import price_plans
from noisebank.account.context import AccountContext
from noisebank.account.cube_looks import price_look
from noisebank.account.pipeline import choose_strategy
from noisebank.account.reachable_goals import check_goal
from noisebank.account.selects import ParsedSelect
from noisebank.core.asks import OWNER
from noisebank.core.charges import rank_cases
from noisebank.core.errors import NoisebankError
from noisebank.core.estimates import CONFIDENCE, standard_deviation
from noisebank.core.quote import Quote
from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.core.wording import budget_share, describe_share
from noisebank.planning.coarse_looks import DEFAULT_SPEND
from noisebank.planning.pricing import AccuracyTarget
from noisebank.planning.relative import RelativeTarget
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ALONE, ChargeLimits
from noisebank.planning.transaction import fit_transaction
from noisebank.queries.cells import policy_cubes
from noisebank.queries.query import Question


def quote_select(context: AccountContext, sql: str, parsed: ParsedSelect, analyst: str = OWNER) -> Quote:
    """Returns the quote for all questions of a SELECT together."""
    if parsed.goal is not None:
        check_goal(context, parsed, context.state.budget)  # a quote knows no max_cost
        context.looks.check_room(context.salt_targets(parsed.questions), context.secrets.version)
    # Parts that share a query are decided one after the other, so that later ones find what earlier ones pay for.
    targets = [context.target_precision(question, accuracy) for question, accuracy in parsed.questions]
    relative = parsed.goal is not None or any(isinstance(target, RelativeTarget) for _, target in parsed.questions)
    plans = fit_transaction(partial(_preview_plan, context, analyst), parsed.questions, targets, relative)
    quotes = [
        quote_question(context, question, accuracy, not planned.cube_number, parsed.confidence, analyst)
        for (question, accuracy), planned in zip(parsed.questions, plans, strict=True)
    ]
    if parsed.select.is_plain_question:
        return quotes[0] if parsed.goal is None else _quote_look(context, quotes[0])
    pairs = [(question, planned) for (question, _), planned in zip(parsed.questions, plans, strict=True)]
    cost = sum(price_plans(context, pairs), ZERO_PRECISION)
    quote = combine_quotes(sql, quotes, cost, budget_share(context.state.spent + cost, context.state.budget))
    return quote if parsed.goal is None else _quote_look(context, quote)


def combine_quotes(sql: str, parts: Sequence[Quote], cost: Precision, share_after: float) -> Quote:
    """Returns one quote for an answer that is computed from several."""
    first = parts[0]
    return Quote(
        sql=sql,
        case=rank_cases(part.case for part in parts),
        target=sum((part.target for part in parts), ZERO_PRECISION),
        cost=cost,
        left=first.left,
        budget=first.budget,
        delta=first.delta,
        stddev=None,
        reused_stddev=None,
        share_now=first.share_now,
        share_after=share_after,
        parts=tuple(parts),
        confidence=first.confidence,
        why=join_reasons([part.why for part in parts]),
    )


def join_reasons(reasons: Sequence[str]) -> str:
    """Returns the ways of several parts with their reasons ("WAY: REASON"), each way named once.

    >>> join_reasons(["plain reuse: no cube", "cube (sex): free", "plain reuse: no bins", "plain reuse: no cube"])
    'plain reuse: no cube, no bins; cube (sex): free'
    """
    ways: dict[str, dict[str, None]] = {}
    for reason in reasons:
        way, _, why = reason.partition(": ")
        ways.setdefault(way, {})[why] = None
    return "; ".join(f"{way}: {', '.join(whys)}" if any(whys) else way for way, whys in ways.items())


def _quote_look(context: AccountContext, look: Quote) -> Quote:
    """Returns the quote of a request that begins with this look: the most that it may cost."""
    state = context.state
    limit = Precision.floor(state.budget.exact * DEFAULT_SPEND)
    cost = max(look.cost, min(limit, state.remaining_budget))
    share_after = budget_share(state.spent + cost, state.budget)
    return replace(look, cost=cost, coarse_look=look.target, stddev=None, share_after=share_after)


def quote_question(
    context: AccountContext, question: Question, accuracy: AccuracyTarget, plainly: bool = False,
    confidence: float = CONFIDENCE, analyst: str = OWNER,
) -> Quote:  # fmt: skip
    """Returns the quote for a parsed question; `plainly` leaves cubes aside."""
    target = context.target_precision(question, accuracy)
    planned = _preview_plan(context, analyst, question, target, plainly)
    state, sensitivity, reused = context.state, context.sensitivity_of(question.query), planned.reused_record
    (cost,) = price_plans(context, [(question, planned)])
    return Quote(
        sql=question.sql,
        case=planned.shown_case,
        target=target,
        cost=cost,
        left=state.remaining_budget,
        budget=state.budget,
        delta=float(context.policy.delta),
        stddev=standard_deviation(sensitivity, question.unit, target),
        reused_stddev=standard_deviation(sensitivity, question.unit, reused.precision) if reused else None,
        share_now=budget_share(state.spent, state.budget),
        share_after=budget_share(state.spent + cost, state.budget),
        cube=_cube_columns(context, planned),
        cell_factor=-(-max((charge.weight for charge in planned.charges), default=WHOLE_WEIGHT) // WHOLE_WEIGHT),
        first_look=price_look(context, question, planned),
        floor=float(accuracy.floor) if isinstance(accuracy, RelativeTarget) and accuracy.floor else None,
        confidence=confidence,
        why=(
            "plain reuse: a relative answer builds on nothing that is known"
            if isinstance(accuracy, RelativeTarget)
            else explain_way(context, question, planned, cost, analyst)
        ),
    )


def _preview_plan(
    context: AccountContext, analyst: str, question: Question, target: Precision, plainly: bool,
    limits: ChargeLimits = ALONE,
) -> Plan:  # fmt: skip
    """Plans one question as the path would now. Changes nothing."""
    return choose_strategy(context, analyst, question, target, plainly, limits)[1]


def _cube_columns(context: AccountContext, planned: Plan) -> tuple[str, ...]:
    """Returns the columns of the cube that a plan uses; none for plain reuse."""
    if not planned.cube_number:
        return ()
    return policy_cubes(context.policy)[context.cubes.planner.cube_numbers.index(planned.cube_number)].columns


def describe_price(make_quote: Callable[[], Quote]) -> str:
    """Returns in words what a question would cost now; nothing if it cannot be said for the accuracy that is wanted."""
    try:
        quote = make_quote()
    except NoisebankError:
        return ""
    return f"it costs {describe_share(quote.cost, quote.budget)}" if quote.cost else "it is free now"
