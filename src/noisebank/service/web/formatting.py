"""Formats amounts, times and cases as people read them, for the templates (`say`).

For display only: nothing is decided from these texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, floor, isfinite, log10
from typing import Any

from noisebank.core.units import Precision
from noisebank.ledger.books import Budgets
from noisebank.privacy.calibration import account_epsilon

THIN = "\u202f"
CASES: Mapping[str, tuple[str, str]] = {
    "FIRST": ("new", "The first answer to this question: all of it is paid for."),
    "REPEAT": ("reused", "The same answer as before, to the last digit. Nothing is spent."),
    "REFINE": ("improved", "An earlier answer is made better. Only the difference is paid for."),
    "BLUR": ("reused, blurred", "A better answer is known already and gets more noise. Nothing is spent."),
    "INFER": ("inferred", "Worked out from answers that are known already."),
}
"""A label and a sentence for each case."""
RISK_DELTAS = tuple(Fraction(text) for text in ("0.3", "0.2", "0.1", "0.05", "0.02", "0.01", "1e-3", "1e-4", "1e-6"))


def word(case: str) -> str:
    """Return a case in a word or two."""
    return CASES[case][0]


def sentence(case: str) -> str:
    """Return a case in a sentence."""
    return CASES[case][1]


def number(value: float | None, error: float | None = None) -> str:
    """Return a number with as many digits as are meaningful beside its error.

    >>> number(12345.678, 8.1), number(0.98765, 0.004), number(None), number(1234567.0)
    ('12\\u202f345.7', '0.9877', '–', '1\\u202f234\\u202f567')
    """
    if value is None or not isfinite(value):
        return "–"
    scale = error if error and isfinite(error) and error > 0 else abs(value) / 1e3
    places = min(12, max(0, 1 - floor(log10(scale)))) if scale else 0
    text = f"{value:,.{places}f}" if abs(value) < 1e15 else f"{value:.6g}"
    if error is None and "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace(",", THIN).replace("-", "\u2212")


def amount(value: Precision | float | str) -> str:
    """Return a precision with four digits.

    >>> amount(Precision(15_402_300_000_000_000)), amount("3.37523")
    ('0.0154', '3.375')
    >>> amount(Precision(0)), amount(2e-9)
    ('0', 'under 0.000001')
    """
    if 0 < float(value) < 1e-6:
        return "under 0.000001"
    return f"{float(value):.4g}" if float(value) < 1e4 else count(round(float(value)))


def count(value: int) -> str:
    """Return a count with its digits in groups of three.

    >>> count(1666), count(24)
    ('1\\u202f666', '24')
    """
    return f"{value:,}".replace(",", THIN)


def epsilon(value: float) -> str:
    """Return epsilon with three digits, rounded up: it is a limit.

    >>> epsilon(0.55589), epsilon(1.9221), epsilon(3.0), epsilon(0.0), epsilon(99.91)
    ('0.556', '1.93', '3', '0', '100')
    """
    exact = Decimal(repr(value))
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_CEILING)):.4g}"


def times(share: float) -> str:
    """Return a share as times in a hundred, rounded up: it is a limit.

    >>> times(0.5317), times(0.99996), times(0.5)
    ('53.2', '100', '50')
    """
    return f"{ceil(share * 1000 - 1e-9) / 10:g}"


def percent(share: float) -> str:
    """Return a share of 1 as a percentage.

    >>> percent(0.1234), percent(0.00012), percent(0.0), percent(1.0)
    ('12%', '0.012%', '0%', '100%')
    """
    value = share * 100
    return f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.2g}%"


def when(seconds: int | float) -> str:
    """Return date and time of day, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def stamp(seconds: int | float) -> str:
    """Return a time in ISO 8601, for machines."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def span(seconds: float) -> str:
    """Return a duration in its largest unit.

    >>> span(3600), span(86400), span(90), span(86400 * 400)
    ('1 hour', '1 day', '2 minutes', '13 months')
    """
    for size, name in ((86_400 * 30.4, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = round(seconds / size)
        if seconds >= size * 1.9 or (count >= 1 and seconds >= size * 0.99):
            return f"{count:,} {name}{'s' * (count != 1)}".replace(",", THIN)
    return f"{round(seconds)} seconds"


def short(digest: str, size: int = 10) -> str:
    """Return the beginning of a digest."""
    return digest[:size] + "…" if len(digest) > size + 1 else digest


def ether(wei: int) -> str:
    """Return a fee in ether.

    >>> ether(1_234_567_000_000_000), ether(0)
    ('0.001235 ETH', '0 ETH')
    """
    return f"{wei / 1e18:.4g} ETH"


def at_best(budgets: Budgets, epsilon: float, delta: Fraction) -> float:
    """Return the highest probability of guessing right, from all answers together, which of two equally likely rows is
    yours, whatever else the guesser knows and whenever they stop to guess. 0.5 is tossing a coin.

    The probability is over the noise. For a budget that was raised after answers were given, it follows from the
    odometer's epsilon; otherwise from the budget that was fixed before. Proof: docs/proofs/odometer.md.
    """
    return right_guesses(epsilon, delta) if budgets.raised else within_budget(budgets.fixed)


def right_guesses(epsilon: float, delta: Fraction) -> float:
    """Return the share of right guesses that (epsilon, delta) allows.

    Source: for every (epsilon, delta) that holds, the error probabilities a, b of a test satisfy
    a + e^eps b >= 1 - delta and e^eps a + b >= 1 - delta (Kairouz, Oh, Viswanath 2015, Theorem 2.1), so the share of
    right guesses is at most 1 - (1 - delta)/(1 + e^eps).
    """
    return 1.0 - (1.0 - float(delta)) / (1.0 + exp(min(epsilon, 700.0)))


@lru_cache(256)
def within_budget(budget: Precision) -> float:
    """Return the share of right guesses that a budget allows which was fixed before the first answer.

    The bound holds for each delta, so the least over several of them holds too.
    """
    if not budget:
        return 0.5
    return min(right_guesses(float(account_epsilon(budget, delta)), delta) for delta in RISK_DELTAS)


def column_facts(facts: Mapping[str, Any]) -> str:
    """Return what a policy says about a column, in one line."""
    parts = [str(facts["kind"])]
    if "bounds" in facts:
        step = Fraction(facts.get("step", "1"))
        low, high = (float(step * bound) for bound in facts["bounds"])
        parts.append(f"from {number(low)} to {number(high)}")
    if facts.get("keys"):
        keys = facts["keys"]
        parts.append(", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else ""))
    if facts.get("nullable"):
        parts.append("may be missing")
    return "; ".join(parts)
