"""Refuses averages that no answer can be as close to as is asked, before a coarse look at them is bought."""

from __future__ import annotations

from noisebank.account.context import AccountContext
from noisebank.account.selects import ParsedSelect
from noisebank.core.errors import BadRequest
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.coarse_looks import least_half_width, max_growth
from noisebank.queries.derived import Aggregate, Derivation
from noisebank.queries.result_expressions import Released
from noisebank.queries.sensitivity import saturation_limit


def check_goal(context: AccountContext, parsed: ParsedSelect, limit: Precision) -> None:
    """Refuses a `within` that is finer than any average of the SELECT can be, for at most `limit`, whatever the table.

    From public numbers only. What is computed from averages and other results is looked at first, and then seen.
    """
    if parsed.goal is None or parsed.goal.within is None:
        return
    look = sum((context.target_precision(*targeted) for targeted in parsed.questions), ZERO_PRECISION)
    growth = max(0, max_growth(look, limit))
    for column in parsed.select.items:
        if not isinstance(column.expression, Released):
            continue
        index = column.expression.aggregate
        aggregate = parsed.select.aggregates[index]
        if aggregate.derivation is not Derivation.RATIO:
            continue
        target = context.target_precision(*parsed.questions[parsed.question_indices[index][0]])
        least = _least_width(context, aggregate, Precision(target.units << growth), parsed.confidence)
        if parsed.goal.within < least:
            reason = (
                f"is finer than {column.name} can be for this price, whatever the table is: say at least {least:.3g}"
            )
            raise BadRequest("within", float(parsed.goal.within), reason)


def _least_width(context: AccountContext, average: Aggregate, precision: Precision, confidence: float) -> float:
    top, bottom = average.questions
    sensitivity = float(context.sensitivity_of(top.query) * abs(top.unit))
    largest = float(saturation_limit(bottom.query, context.policy) * abs(bottom.unit))
    return least_half_width(sensitivity, precision, largest, confidence)
