"""How precise an answer must be whose error depends on the data: a coarse look first, then the answer itself.

The looks are requests like any other: charged, sealed and published. What the look's released answers decide is one
number, a step of a public ladder, and that is all that a reader of the ledger learns. The answer measures each part at
least 16 times as precisely as the look before it, so that what the look has decided cannot bend the answer far: stated
at `looked_confidence`, intervals hold. Proof: docs/proofs/looks.md.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from noisebank.core.intervals import quantile_bound
from noisebank.core.units import MIN_PRECISION, Precision, ceil_to_ladder

LOOK_RESOLUTION = 64
"""The first look measures each part to within this fraction of the largest value that the policy allows."""
MIN_GROWTH_BITS = 4
"""The answer is at least 2^4 times as precise as the last look."""
MAX_GROWTH_BITS = 8
"""A look that calls for more than 2^8 times its own precision is followed by another look."""
MAX_LOOKS = 2
MAX_TOTAL_BITS = 16
"""Of growth over the first look: the most that is ever tried."""
ERROR_FACTOR = Fraction(8, 5)
"""By how much looks can raise the probability that an interval misses, at most."""
SAFETY = 0.9
"""The predicted half width is at most this share of the target: predictions are noisy."""


def looked_confidence(confidence: Fraction) -> Fraction:
    """Returns the confidence at which an interval must be stated so that it holds after looks.

    Guarantees: for normal noise whose precision was chosen by at most `MAX_LOOKS` looks, each at most 1/16 as precise
    as what follows, an interval at this confidence misses with probability at most 1 - confidence.
    """
    return 1 - (1 - confidence) / ERROR_FACTOR


def first_look_precision(sensitivity: Fraction, largest: Fraction) -> Precision:
    """Returns the precision of a part's first look, from public numbers: its 95% interval is largest/64 wide, half."""
    root = quantile_bound(Fraction(19, 20)) * sensitivity * LOOK_RESOLUTION / largest if largest else Fraction(0)
    return max(MIN_PRECISION, ceil_to_ladder(Precision.ceil(root * root)))


def grow_precision(precision: Precision, bits: int) -> Precision:
    """Returns 2^bits times a precision: a step of the ladder again."""
    return Precision(precision.units << bits)


def choose_growth(is_enough: Callable[[int], bool]) -> int | None:
    """Returns by how many bits precision must grow: the least step of the ladder that is predicted to be enough.

    None if even the largest is not. Requires: `is_enough` reads released answers only.
    """
    return next((bits for bits in range(MIN_GROWTH_BITS, MAX_TOTAL_BITS + 1) if is_enough(bits)), None)
