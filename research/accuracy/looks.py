"""Relative accuracy by a search: look in doublings until a lower bound says what one more look needs.

Accurate, and private for whoever may see its looks. But how many looks it takes, and the precision of the last one,
follow noisy answers: on a public ledger everybody reads them, also readers whom nothing is charged for. So the bank
does not search (`planning.relative`); this stands beside P3's search, and `assurance/public_ledger.py` plants it. All
values are in units of the sensitivity: a count of 200 is 200, an average of 37,000 with sensitivity 202 is 183.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log2, pi
from statistics import NormalDist

from noisebank.core.units import Precision

SEARCH_SHARE = 0.1
"""Share of the error probability that the search may use; the rest is the final interval's."""
REACH = 10.0
"""The final measurement may be this much more precise than the look that decides on it."""
LEAST_LOOK = 30
"""log2 of the smallest look or target in units: about 1e-9 precision."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Within `relative` of the true value's size, with probability at least `confidence`."""

    relative: Fraction
    confidence: Fraction

    @property
    def final_quantile(self) -> float:
        """z of the final interval: it has .9 of the error probability, both sides together."""
        beta = float(1 - self.confidence)
        return -NormalDist().inv_cdf((1.0 - SEARCH_SHARE) * beta / 2.0)

    def look_quantile(self, number: int, two_sided: bool) -> float:
        """z of the bound after look `number` = 1, 2, ...: errors .1 beta 6/(pi k)^2 sum to .1 beta."""
        error = SEARCH_SHARE * float(1 - self.confidence) * 6.0 / (pi * number) ** 2
        return -NormalDist().inv_cdf(error / 2.0 if two_sided else error)

    def needed(self, size: float) -> float:
        """The precision that pins a value of this size down to `relative`."""
        return inf if size <= 0.0 else (self.final_quantile / (float(self.relative) * size)) ** 2

    def first_look(self, largest: float) -> int:
        """log2 units of the first look worth taking, if the value cannot exceed `largest`."""
        units = self.needed(largest) / REACH * 1e18
        return max(LEAST_LOOK, int(log2(units))) if units > 1 else LEAST_LOOK


@dataclass(frozen=True, slots=True)
class Step:
    """What to do after a look: measure with `target` more precision, or (None) look again."""

    target: Precision | None
    needed: float
    """Before rounding up to a power of two; infinite while the lower bound is not above zero."""
    at_least: float
    """No true value inside the bounds can do with less than this much final precision."""


def next_step(wanted: Goal, number: int, look: Precision, estimate: float, nonnegative: bool) -> Step:
    """Decides after look `number` (from 1), of precision `look`, which gave `estimate`.

    With probability at least 1 - .1 beta all lower bounds of a run hold at once (union bound; the
    precisions of the looks are fixed beforehand). Where they hold, a final measurement of the
    target precision is within `relative` of the truth with probability 1 - .9 beta. The target is
    rounded up to a power of two: an exact one would give the estimate away to nine digits (as P3
    does), this one still to a factor of 1.41.
    """
    size = estimate if nonnegative else abs(estimate)
    width = wanted.look_quantile(number, two_sided=not nonnegative) / float(look) ** 0.5
    needed = wanted.needed(size - width)
    at_least = wanted.needed(abs(estimate) + width)
    if needed > REACH * float(look):
        return Step(None, needed, at_least)
    power = (Precision.ceil(Fraction(needed)).units - 1).bit_length()  # exact: a float's log2 may round down
    return Step(Precision(2 ** max(LEAST_LOOK, power)), needed, at_least)
