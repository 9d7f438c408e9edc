"""One share of the budget for many questions: how much of it each may spend. From texts and the policy only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from noisebank.account.context import AccountContext
from noisebank.account.current_time import fix_sql
from noisebank.core.asks import Ask
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.core.units import Exact
from noisebank.planning.precision_shares import balance_shares
from noisebank.planning.pricing import parse_spend
from noisebank.queries.query import Query
from noisebank.queries.selects import SelectList

WAYS = ("epsilon", "delta", "within", "relative", "floor", "sigma", "calibration", "spend")
"""Options that say how accurate an answer shall be; a batch that says it for all questions takes none of them."""
SPEND_DIGITS = 12
"""What a question may spend is rounded down to a decimal of so many places: it goes over the wire as text."""


def spread_spend(
    context: AccountContext, parse_list: Callable[[str], SelectList], asks: Sequence[Ask], spend: Exact | None
) -> list[Ask]:
    """Returns the questions with what each of them spends, so that all together cost at most `spend` of the budget.

    All spend alike, and a query that several questions need is paid for once: so each spends more than an even part
    where they have queries in common. Questions that cannot be parsed take nothing.
    """
    if spend is None:
        return list(asks)
    share = parse_spend(spend)
    own = next((name for ask in asks for name in WAYS if ask.accuracy.get(name) is not None), None)
    if own is not None:
        raise BadRequest(own, "of a question", "does not go with a spend for all questions: say one of them")
    largest: dict[Query, Fraction] = defaultdict(Fraction)
    for ask in asks:
        if not isinstance(ask.sql, str):  # refused when it is read
            continue
        try:
            select = parse_list(context.policy.resolve_sql(fix_sql(context, ask.sql)))
        except NoisebankError:  # it will be the outcome of this question
            continue
        for query, part in balance_shares(select.aggregates, context.sensitivity_of).items():
            largest[query] = max(largest[query], part)
    total = sum(largest.values(), Fraction(0)) or Fraction(1)
    each = f"{int(share / total * 10**SPEND_DIGITS):0{SPEND_DIGITS + 1}d}"
    text = f"{each[:-SPEND_DIGITS]}.{each[-SPEND_DIGITS:]}"
    return [replace(ask, accuracy={**ask.accuracy, "spend": text}) for ask in asks]
