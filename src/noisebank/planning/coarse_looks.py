"""How precise an answer must be whose error depends on the data: coarse looks first, then the answer itself.

A look is a request like any other: charged, sealed and published. What its released answers decide is one number, a
step of a public ladder, and that is all that a reader of the ledger learns. What follows a look is at least 16 times
as precise, so that what the look has decided cannot bend the answer far: intervals that are stated at
`looked_confidence` hold. Proof: docs/proofs/looks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from noisebank.core.errors import BadRequest
from noisebank.core.estimates import Estimate
from noisebank.core.intervals import quantile_bound
from noisebank.core.units import MIN_PRECISION, Precision, ceil_to_ladder

LOOK_RESOLUTION = 64
"""The first look knows each part to within this fraction of the largest value that the policy allows, at 95%."""
MIN_GROWTH_BITS = 4
"""What follows a look is at least 2^4 times as precise."""
SECOND_LOOK_BITS, SECOND_LOOK_GAP = 9, 5
"""If a look calls for 2^9 times its precision or more, a second look of 2^5 times less comes between."""
MAX_LOOKS = 2
MAX_TOTAL_BITS = 24
"""Of growth over the first look: the most that is ever tried."""
ERROR_FACTOR, STOP_FACTOR = Fraction(17, 10), Fraction(30)
"""Of the permitted error, what intervals after looks may use, and those of a look at which a request ends."""
MAX_CONFIDENCE = Fraction(9999, 10_000)
"""Up to here the proof's numbers were computed, with room for Bonferroni's corrections."""
DEFAULT_SPEND = Fraction(1, 10)
"""The most of the budget that a request with looks may cost, unless it says so."""
MAX_LOOK_SHARE_BITS = 12
"""A first look costs at most 2^-12 of the budget: then what follows it has room to grow."""
LOOKS_SHARE_BITS = 4
"""All looks of an account together that may be followed have at most 2^-4 of the budget's precision: so much, and no
more, the public ledger may say."""
SAFETY = 0.8
"""The predicted half width is at most this share of the target: predictions are noisy."""


@dataclass(frozen=True, slots=True)
class ErrorGoal:
    """How far off each number may be: a distance, or a share of the true value."""

    within: Fraction | None
    relative: Fraction | None

    def is_reached(self, estimate: Estimate, slack: float = 1.0) -> bool:
        """Whether every value of the interval is close enough to the stated one. `slack` below 1 asks for more."""
        value, low, high = estimate.value, estimate.low, estimate.high
        if value is None or low is None or high is None:
            return False
        if self.within is not None:
            return max(value - low, high - value) <= slack * float(self.within)
        share = slack * float(self.relative or 0)
        return low * high > 0 and value - low <= share * abs(low) and high - value <= share * abs(high)

    def __str__(self) -> str:
        if self.within is not None:
            return f"within {float(self.within):.6g}"
        return f"within {float(self.relative or 0) * 100:.6g}% of the true value"


def looked_confidence(confidence: Fraction, is_final: bool = True) -> Fraction:
    """Returns the confidence at which an interval must be stated so that it holds after looks.

    Guarantees: for normal noise whose precision was chosen by at most `MAX_LOOKS` looks, each at most 1/16 as precise
    as what follows, the stated intervals miss with probability at most 1 - confidence.
    """
    return 1 - (1 - confidence) / (ERROR_FACTOR if is_final else STOP_FACTOR)


def check_looked_confidence(confidence: Fraction) -> None:
    """Refuses a confidence for which nothing is proved."""
    if confidence > MAX_CONFIDENCE:
        raise BadRequest(
            "confidence", float(confidence), f"is at most {float(MAX_CONFIDENCE)} where a look comes first"
        )


def first_look_precision(sensitivity: Fraction, largest: Fraction) -> Precision:
    """Returns the precision of a part's first look, from public numbers."""
    root = quantile_bound(Fraction(19, 20)) * sensitivity * LOOK_RESOLUTION / largest if largest else Fraction(0)
    return max(MIN_PRECISION, ceil_to_ladder(Precision.ceil(root * root)))


def shrink_bits(look: Precision, budget: Precision) -> int:
    """Returns by how many bits first looks must shrink to cost at most 2^-12 of the budget together."""
    return max(0, (look.units // max(1, budget.units >> MAX_LOOK_SHARE_BITS)).bit_length())


def most_for_looks(budget: Precision) -> Precision:
    """Returns how precise all looks of an account may be together whose answers decide what follows."""
    return Precision(budget.units >> LOOKS_SHARE_BITS)


def grow_precision(precision: Precision, bits: int) -> Precision:
    """Returns 2^bits times a precision: a step of the ladder again."""
    return Precision(precision.units << bits)


def max_growth(first_look: Precision, limit: Precision) -> int:
    """Returns by how many bits a first look can grow within a limit; negative if it is beyond it."""
    return min(MAX_TOTAL_BITS, (limit.units // max(1, first_look.units)).bit_length() - 1)


def least_half_width(sensitivity: float, precision: Precision, largest_count: float, confidence: float) -> float:
    """Returns what an average's half width is never below, if its sum is known at this precision.

    Guarantees: Fieller's interval of S / N has half width z sd(S) / N at least (docs/proofs/ratios.md), and the noisy N
    stays below twice the largest count: coarse looks know it to within 1/64.
    """
    z = float(quantile_bound(Fraction(confidence).limit_denominator(10**9)))
    return z * sensitivity / (2.0 * largest_count * sqrt(precision.exact))


def choose_growth(least: int, most: int, is_enough: Callable[[int], bool]) -> int:
    """Returns the least growth in bits that is predicted to be enough; the most if none is.

    Requires: `is_enough` reads released answers only, and holds from some growth on.
    """
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if is_enough(middle) else (middle + 1, most)
    return most
