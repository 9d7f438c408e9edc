"""Formats amounts, times and cases as people read them, for the templates (`say`).

For display only: nothing is decided from these texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp
from typing import Any

from noisebank.core import wording
from noisebank.core.units import Precision
from noisebank.ledger.books import Budgets
from noisebank.privacy.calibration import account_epsilon

THIN_SPACE = "\u202f"
CASE_TEXTS: Mapping[str, tuple[str, str]] = {
    "FIRST": ("new", "The first answer to this question: all of it is paid for."),
    "REPEAT": ("reused", "The same answer as before, to the last digit. Nothing is spent."),
    "REFINE": ("improved", "An earlier answer is made better. Only the difference is paid for."),
    "BLUR": ("reused, blurred", "A better answer is known already and gets more noise. Nothing is spent."),
    "INFER": ("inferred", "Worked out from answers that are known already."),
}
"""A label and a sentence for each case."""
RISK_DELTAS = tuple(Fraction(text) for text in ("0.3", "0.2", "0.1", "0.05", "0.02", "0.01", "1e-3", "1e-4", "1e-6"))


def case_label(case: str) -> str:
    """Return a case in a word or two."""
    return CASE_TEXTS[case][0]


def case_sentence(case: str) -> str:
    """Return a case in a sentence."""
    return CASE_TEXTS[case][1]


def format_number(value: float | None, error: float | None = None) -> str:
    """Return a number with as many digits as are meaningful beside its error, as pages show it.

    >>> format_number(12345.678, 8.1), format_number(-0.98765, 0.004), format_number(None), format_number(1234567.0)
    ('12\\u202f345.7', '\u22120.9877', '–', '1\\u202f234\\u202f567')
    """
    return wording.format_number(value, error, THIN_SPACE).replace("-", "\u2212")


def format_amount(value: Precision | float | str) -> str:
    """Return a precision with four digits.

    >>> format_amount(Precision(15_402_300_000_000_000)), format_amount("3.37523")
    ('0.0154', '3.375')
    >>> format_amount(Precision(0)), format_amount(2e-9)
    ('0', 'under 0.000001')
    """
    if 0 < float(value) < 1e-6:
        return "under 0.000001"
    return f"{float(value):.4g}" if float(value) < 1e4 else format_count(round(float(value)))


def format_share(amount: Precision | float | str, budget: Precision | float | str) -> str:
    """Return an amount as a percentage of the budget.

    >>> format_share("0.0154", 3.37523), format_share(Precision(0), "0")
    ('0.46%', '0%')
    """
    return wording.format_percent(float(amount) / float(budget) if float(budget) else float(amount) > 0)


def format_count(value: int) -> str:
    """Return a count with its digits in groups of three.

    >>> format_count(1666), format_count(24)
    ('1\\u202f666', '24')
    """
    return f"{value:,}".replace(",", THIN_SPACE)


def format_times(share: float) -> str:
    """Return a share as times in a hundred, rounded up: it is a limit.

    >>> format_times(0.5317), format_times(0.99996), format_times(0.5)
    ('53.2', '100', '50')
    """
    return f"{ceil(share * 1000 - 1e-9) / 10:g}"


def format_time(seconds: int | float) -> str:
    """Return date and time of day, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def format_timestamp(seconds: int | float) -> str:
    """Return a time in ISO 8601, for machines."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_duration(seconds: float) -> str:
    """Return a duration in its largest unit.

    >>> format_duration(3600), format_duration(86400), format_duration(90), format_duration(86400 * 400)
    ('1 hour', '1 day', '2 minutes', '13 months')
    """
    for size, name in ((86_400 * 30.4, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute")):
        count = round(seconds / size)
        if seconds >= size * 1.9 or (count >= 1 and seconds >= size * 0.99):
            return f"{count:,} {name}{'s' * (count != 1)}".replace(",", THIN_SPACE)
    return f"{round(seconds)} seconds"


def shorten_digest(digest: str, size: int = 10) -> str:
    """Return the beginning of a digest."""
    return digest[:size] + "…" if len(digest) > size + 1 else digest


def format_ether(wei: int) -> str:
    """Return a fee in ether.

    >>> format_ether(1_234_567_000_000_000), format_ether(0)
    ('0.001235 ETH', '0 ETH')
    """
    return f"{wei / 1e18:.4g} ETH"


def max_guess_rate(budgets: Budgets, epsilon: float, delta: Fraction) -> float:
    """Return the highest probability of guessing right, from all answers together, which of two equally likely rows is
    yours, whatever else the guesser knows and whenever they stop to guess. 0.5 is tossing a coin.

    The probability is over the noise. For a budget that was raised after answers were given, it follows from the
    odometer's epsilon; otherwise from the budget that was fixed before. Proof: docs/proofs/odometer.md.
    """
    return guess_rate(epsilon, delta) if budgets.raised else budget_guess_rate(budgets.fixed)


def guess_rate(epsilon: float, delta: Fraction) -> float:
    """Return the share of right guesses that (epsilon, delta) allows.

    Source: for every (epsilon, delta) that holds, the error probabilities a, b of a test satisfy
    a + e^eps b >= 1 - delta and e^eps a + b >= 1 - delta (Kairouz, Oh, Viswanath 2015, Theorem 2.1), so the share of
    right guesses is at most 1 - (1 - delta)/(1 + e^eps).
    """
    return 1.0 - (1.0 - float(delta)) / (1.0 + exp(min(epsilon, 700.0)))


@lru_cache(256)
def budget_guess_rate(budget: Precision) -> float:
    """Return the share of right guesses that a budget allows which was fixed before the first answer.

    The bound holds for each delta, so the least over several of them holds too.
    """
    if not budget:
        return 0.5
    return min(guess_rate(float(account_epsilon(budget, delta)), delta) for delta in RISK_DELTAS)


def describe_column(facts: Mapping[str, Any]) -> str:
    """Return what a policy says about a column, in one line."""
    parts = [str(facts["kind"])]
    if "bounds" in facts:
        step = Fraction(facts.get("step", "1"))
        low, high = (float(step * bound) for bound in facts["bounds"])
        parts.append(f"from {format_number(low)} to {format_number(high)}")
    if facts.get("keys"):
        keys = [str(key) for key in facts["keys"]]
        parts.append(", ".join(keys[:8]) + (f" and {len(keys) - 8} more" if len(keys) > 8 else ""))
    if facts.get("complete"):
        parts.append("nothing else counts")
    if facts.get("nullable"):
        parts.append("may be missing")
    return "; ".join(parts)
