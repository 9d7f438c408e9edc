"""Relative accuracy by one measurement: its precision follows from public numbers, its success from its own interval.

A search for the right precision would follow noisy answers, and the public ledger would show it to everybody. So the
caller gives a floor, the smallest true value for which the promise must hold. Proof: docs/proofs/relative.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from noisebank.core.errors import BadRequest
from noisebank.core.intervals import quantile_bound
from noisebank.core.units import MIN_PRECISION, Exact, Precision, ceil_to_ladder, parse_exact

DEFAULT_FLOOR_SHARE = Fraction(1, 10)
"""The default floor, as a share of the largest value that the policy allows."""
MAX_FLOOR = 10**300
"""Shown as a double. No policy allows values as large."""


@dataclass(frozen=True, slots=True)
class RelativeTarget:
    """Within `relative` of the true value with this confidence, if that is at least `floor` in size."""

    relative: Fraction
    confidence: Fraction
    floor: Fraction | None = None
    """In the answer's own unit."""

    @property
    def within(self) -> Fraction:
        """The half width h that an interval needs, so that a true value of at least the floor gives a reached target.

        Reached means |answer| R >= h (1 + R). The answer is at least floor - h, and (floor - h) R = h (1 + R) here.
        """
        if self.floor is None:
            raise BadRequest("floor", None, "must be above 0")
        return self.floor * self.relative / (1 + 2 * self.relative)

    def target_precision(self, sensitivity: Fraction) -> Precision:
        """Returns (z Delta / within)^2, rounded up: never less accurate than asked."""
        root = quantile_bound(self.confidence) * sensitivity / self.within
        return max(MIN_PRECISION, ceil_to_ladder(Precision.ceil(root * root)))

    def to_json(self) -> dict[str, str]:
        """Returns the target as texts, for the vault and for opened records."""
        fields = {"relative": str(self.relative), "confidence": str(self.confidence)}
        return fields if self.floor is None else {**fields, "floor": str(self.floor)}

    def with_floor(self, max_value: Fraction) -> RelativeTarget:
        """Returns the target with a floor: its own, or a share of the largest absolute value. Public numbers only."""
        if self.floor is not None:
            return self
        if not max_value:
            raise BadRequest("relative", self.relative, "this can only be 0, which is known")
        return replace(self, floor=max_value * DEFAULT_FLOOR_SHARE)

    def with_half_floor(self) -> RelativeTarget:
        """Returns the target with half the floor. Always half, whatever was answered: about four times the price."""
        return self if self.floor is None else replace(self, floor=self.floor / 2)

    def is_reached(self, value: Fraction, stddev: float) -> bool:
        """Whether the answer's own interval shows that it is within `relative` of the true value, whatever that is.

        Every u with |u - value| <= h must satisfy |u - value| <= R |u|: so for the smallest, h <= R (|value| - h).
        """
        half = quantile_bound(self.confidence) * Fraction(stddev)
        return abs(value) * self.relative >= half * (1 + self.relative)


def parse_share(value: Exact, parameter: str) -> Fraction:
    """Returns a share: "2%" and 0.02 are the same."""
    text = value.strip() if isinstance(value, str) else ""
    return parse_exact(text[:-1], parameter) / 100 if text.endswith("%") else parse_exact(value, parameter)


def parse_relative(relative: Exact, confidence: Fraction, floor: Exact | None) -> RelativeTarget:
    """Returns the checked target. "2%" and 0.02 are the same."""
    share = parse_share(relative, "relative")
    if not 0 < share < 1:
        raise BadRequest("relative", relative, "must lie in (0, 1), e.g. 0.02 or 2%")
    if share < Fraction(1, 10**6):
        raise BadRequest("relative", relative, "must be at least one millionth")
    least = None if floor is None else parse_exact(floor, "floor")
    if least is not None and least <= 0:
        raise BadRequest("floor", floor, "must be above 0")
    if least is not None and least > MAX_FLOOR:
        raise BadRequest("floor", floor, "must be at most 1e300")
    return RelativeTarget(share, confidence, least)
