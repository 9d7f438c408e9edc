"""Numbers in people's words, for every surface: shares of the budget, epsilon, values with their meaningful digits.

For display only: nothing is decided from these texts. Where a charge is shown, its share of the account's budget comes
first, then epsilon: `describe_charge`, `describe_balance`. "±" is the half-width of the stated interval, everywhere.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from math import erfc, exp, floor, inf, isfinite, log, log10, sqrt

from noisebank.core.records import Case
from noisebank.core.units import Precision

CASE_DESCRIPTIONS = {
    Case.FIRST: "first answer to this query: all of it is paid for",
    Case.REPEAT: "the recorded answer, same bits, nothing spent",
    Case.REFINE: "an earlier answer was improved, only the difference is paid for",
    Case.BLUR: "a better answer is known and was blurred, nothing spent",
    Case.INFER: "inferred from what is known already",
}
"""A sentence for each case."""


def budget_share(amount: Precision, budget: Precision) -> float:
    """Returns an amount as a share of the budget, from 0 to 1; all of it if there is no budget."""
    return float(amount) / float(budget) if budget else 1.0


def describe_charge(cost: Precision, remaining: Precision, budget: Precision, delta: float) -> str:
    """Returns what was spent and what is left, as shares of the budget; then the epsilon of the spend alone.

    >>> describe_charge(Precision(6 * 10**15), Precision(91 * 10**16), Precision(10**18), 1e-6)
    '0.6% of the budget; 91% left (epsilon 0.303 alone, at delta 1e-06)'
    >>> describe_charge(Precision(0), Precision(91 * 10**16), Precision(10**18), 1e-6)
    'nothing; 91% of the budget left'
    """
    left = format_percent(budget_share(remaining, budget))
    if not cost:
        return f"nothing; {left} of the budget left"
    alone = f"epsilon {format_epsilon(gaussian_epsilon(cost, delta))} alone, at delta {delta:g}"
    return f"{format_percent(budget_share(cost, budget))} of the budget; {left} left ({alone})"


def describe_balance(spent: Precision, budget: Precision, epsilon: float, delta: float) -> str:
    """Returns what is spent and what is left of a budget, then the epsilon that it promises.

    >>> describe_balance(Precision(10**17), Precision(10**18), 4.887, 1e-6)
    '10% of the budget is spent, 90% left; it promises epsilon 4.89 at delta 1e-06'
    """
    share = budget_share(spent, budget)
    left = format_percent(max(0.0, 1.0 - share))
    promise = f"it promises epsilon {format_epsilon(epsilon)} at delta {delta:g}"
    return f"{format_percent(share)} of the budget is spent, {left} left; {promise}"


def describe_share(amount: Precision, budget: Precision) -> str:
    """Returns an amount as a share of the budget.

    >>> describe_share(Precision(6 * 10**15), Precision(10**18))
    '0.6% of the budget'
    """
    return f"{format_percent(budget_share(amount, budget))} of the budget"


def describe_savings(saved: Precision, looks: Precision, returned: Precision, budget: Precision) -> str:
    """Returns what reuse has saved so far, and what became of looks at cubes, as shares of the budget.

    >>> budget = Precision(10**18)
    >>> describe_savings(Precision(10**17), Precision(0), Precision(0), budget)
    '10% of the budget'
    >>> describe_savings(Precision(10**17), Precision(5 * 10**16), Precision(2 * 10**16), budget)
    '10% of the budget; looks at cubes cost 5%, of which 2% has come back'
    >>> describe_savings(Precision(10**17), Precision(5 * 10**16), Precision(8 * 10**16), budget)
    '10% of the budget; looks at cubes cost 5% and have saved 8% since'
    """
    text = f"{format_percent(budget_share(saved, budget))} of the budget"
    if not looks:
        return text
    cost, back = (format_percent(budget_share(amount, budget)) for amount in (looks, returned))
    outcome = f" and have saved {back} since" if returned >= looks else f", of which {back} has come back"
    return f"{text}; looks at cubes cost {cost}{outcome}"


def describe_promise(epsilon: float, delta: float, fixed_budget: Precision | None = None) -> str:
    """Returns what all answers together promise, with the zCDP parameter of a budget that has not changed since the
    first answer: half its precision.

    >>> describe_promise(7.234, 1e-6), describe_promise(7.234, 1e-6, Precision(2 * 10**18))
    ('epsilon 7.24 at delta 1e-06', 'epsilon 7.24 at delta 1e-06 (zCDP: rho 1)')
    """
    rho = "" if fixed_budget is None else f" (zCDP: rho {format_epsilon(float(fixed_budget) / 2)})"
    return f"epsilon {format_epsilon(epsilon)} at delta {delta:g}{rho}"


def format_percent(share: float) -> str:
    """Returns a share of 1 as a percentage; a part never reads as all or as nothing.

    >>> format_percent(0.1234), format_percent(0.00012), format_percent(0.0), format_percent(1.0)
    ('12%', '0.012%', '0%', '100%')
    >>> format_percent(0.9999), format_percent(0.999999999), format_percent(1e-9)
    ('99.99%', 'over 99.999%', 'under 0.001%')
    """
    value = share * 100
    if value == 0 or 10 <= value < 99.5 or value >= 100:
        return f"{value:.0f}%"
    if value < 10:
        return f"{value:.2g}%" if value >= 0.001 else "under 0.001%"
    return next((f"{value:.{places}f}%" for places in (1, 2, 3) if round(value, places) < 100), "over 99.999%")


def format_epsilon(value: float) -> str:
    """Returns epsilon with three digits, rounded up: it is a limit.

    >>> format_epsilon(0.55589), format_epsilon(1.9221), format_epsilon(3.0), format_epsilon(0.0), format_epsilon(99.91)
    ('0.556', '1.93', '3', '0', '100')
    """
    exact = Decimal(repr(value))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)):.4g}"


def format_number(value: float | None, error: float | None = None, separator: str = ",") -> str:
    """Returns a number with as many digits as are meaningful beside its error.

    >>> format_number(12345.678, 8.1), format_number(0.98765, 0.004), format_number(None), format_number(1234567.0)
    ('12,345.7', '0.9877', '–', '1,234,567')
    """
    if value is None or not isfinite(value):
        return "–"
    scale = error if error and isfinite(error) and error > 0 else abs(value) / 1e3
    places = min(12, max(0, 1 - floor(log10(scale)))) if scale else 0
    text = f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.6g}"
    if error is None and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace(",", separator)


@lru_cache(1024)
def gaussian_epsilon(precision: Precision, delta: float) -> float:
    """Returns the epsilon at `delta` of one Gaussian answer of this precision, in floats, rounded up a little.

    What an account promises is proven elsewhere: `privacy.calibration`. Source: Balle and Wang 2018, Theorem 8.
    """
    if not precision:
        return 0.0
    mu = sqrt(float(precision))

    def exceeds_delta(epsilon: float) -> bool:
        return _normal_tail(epsilon / mu - mu / 2) - _scaled_tail(epsilon, epsilon / mu + mu / 2) > delta

    low, high = 0.0, 1e-6
    while exceeds_delta(high):
        low, high = high, high * 2
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds_delta(middle) else (low, middle)
    return high


def _normal_tail(x: float) -> float:
    return erfc(x / sqrt(2)) / 2


def _scaled_tail(epsilon: float, x: float) -> float:
    """Returns e^epsilon times the tail of the normal distribution beyond x; by its bound where the tail underflows."""
    tail = _normal_tail(x)
    exponent = epsilon + log(tail) if tail else epsilon - x * x / 2 - log(x * sqrt(2 * 3.141592653589793))
    return exp(exponent) if exponent < 700 else inf
