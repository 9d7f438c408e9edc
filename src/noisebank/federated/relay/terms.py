"""The public terms of a relay round: signed by the host, the same for all members."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.federated.relay.grid import MAX_SCALE, MIN_SCALE, scale_for_variance
from noisebank.federated.relay.split import SPLITS
from noisebank.privacy.calibration import DELTA_RANGE, EPSILON_RANGE, budget_precision

MODES = ("masked", "bas", "sar")
SUBSTITUTES = ("zeros", "past")
"""What is sent instead of a fresh slice."""
MAX_MEMBERS = 256
MAX_SLICES = 256
"""Every slice is a relay of its own: each member sends one message per slice."""
MAX_DRAWS = 2**20
"""Coordinates times attempts: the draws per member that the margins of `account_epsilon` cover."""
BOUND_RANGE = (Fraction(1, 10**12), Fraction(10**12))
NORM_RANGE = (Fraction(1, 10**6), Fraction(1024))
"""Norm of a slice, in bounds: no vector of 2^20 numbers is longer than 1024."""
MAX_SKIP = 1 - Fraction(1, 10**9)
WIRE_KEYS = {
    "dimension", "bound", "mode", "slices", "groups", "split", "floor", "least", "colluders", "attempts", "publish",
    "skip", "instead", "slice_norm", "delta", "least_members", "patience_ms",
}  # fmt: skip
"""Fields of terms on the wire."""
RATIONAL_FIELDS = ("bound", "floor", "least", "skip", "slice_norm", "delta")
RATIONAL_FORMAT = re.compile(r"(0|[1-9][0-9]{0,39})(/[1-9][0-9]{0,39})?")
"""How a rational number is written in terms: in lowest terms, as Python prints a Fraction."""


@dataclass(frozen=True, slots=True)
class RelayTerms:
    """The rules of one round. Variances and norms are in units of `bound`, times in milliseconds.

    mode: masked (pairwise masks, the server sees the sum only), bas (one relay), sar (one relay per slice).
    floor: least variance that every member adds itself. least: least variance that the first of a relay adds.
    colluders: masked only; the noise of all but so many members reaches what the bids ask for.
    skip: sar only; probability of not sending a fresh slice. instead: what goes in its place, zeros or the member's
    slice of the round before ("past"). slice_norm: sar only; slices are re-clipped to it.
    """

    dimension: int
    bound: Fraction = Fraction(1)
    mode: str = "masked"
    slices: int = 1
    groups: int = 1
    split: str = "sorted"
    floor: Fraction = Fraction(0)
    least: Fraction = Fraction(0)
    colluders: int = 0
    attempts: int = 2
    publish: bool = False
    skip: Fraction = Fraction(0)
    instead: str = "zeros"
    slice_norm: Fraction | None = None
    delta: Fraction = Fraction(1, 10**6)
    least_members: int = 2
    patience_ms: int = 10_000

    def __post_init__(self) -> None:
        _check_integer("dimension", self.dimension, 1, MAX_DRAWS)
        _check_integer("attempts", self.attempts, 1, MAX_DRAWS // self.dimension)
        _check_integer("slices", self.slices, 1, min(self.dimension, MAX_SLICES))
        _check_integer("groups", self.groups, 1, MAX_MEMBERS // 2)
        _check_integer("least_members", self.least_members, 2, MAX_MEMBERS)
        _check_integer("colluders", self.colluders, 0, MAX_MEMBERS - 2)
        _check_integer("patience_ms", self.patience_ms, 100, 600_000)
        if self.mode not in MODES:
            raise BadRequest("mode", self.mode, f"must be one of {', '.join(MODES)}")
        if self.split not in SPLITS:
            raise BadRequest("split", self.split, f"must be one of {', '.join(SPLITS)}")
        if self.instead not in SUBSTITUTES or (self.instead == "past" and not self.skip):
            raise BadRequest("instead", self.instead, "must be zeros, or past together with a skip above 0")
        for name in RATIONAL_FIELDS:
            value = getattr(self, name)
            if not isinstance(value, Fraction) and (name != "slice_norm" or value is not None):
                raise BadRequest(name, str(value)[:40], "must be an exact number")
        if not BOUND_RANGE[0] <= self.bound <= BOUND_RANGE[1]:
            raise BadRequest("bound", str(self.bound)[:40], "must lie in 1e-12 .. 1e12")
        if not 0 <= self.skip <= MAX_SKIP:
            raise BadRequest("skip", str(self.skip)[:40], "must lie in 0 .. 0.999999999")
        if self.slice_norm is not None and not NORM_RANGE[0] <= self.slice_norm <= NORM_RANGE[1]:
            raise BadRequest("slice_norm", str(self.slice_norm)[:40], "must lie in 1e-6 .. 1024 bounds")
        if not DELTA_RANGE[0] <= self.delta <= DELTA_RANGE[1]:
            raise BadRequest("delta", str(self.delta)[:40], "must lie in [1e-30, 1/2]")
        for name, variance in (("floor", self.floor), ("least", self.least)):
            if variance < 0 or (variance and not MIN_SCALE <= scale_for_variance(variance) <= MAX_SCALE):
                raise BadRequest(name, str(variance)[:40], "a variance is 0 or lies in 2^-28 .. 2^28 squared bounds")
        if self.mode != "sar" and (self.slices > 1 or self.skip or self.slice_norm is not None):
            raise BadRequest("mode", self.mode, "slices, skip and slice_norm belong to sar")
        if self.mode == "masked" and self.groups > 1:
            raise BadRequest("groups", self.groups, "masked members send to the server directly: there is no sequence")
        if self.mode != "masked" and self.colluders:
            raise BadRequest("colluders", self.colluders, "only masked noise can allow for colluders; use a floor")

    @property
    def slice_ranges(self) -> list[tuple[int, int]]:
        """The slices as (start, stop); the last may be shorter. (The paper's index never advances; this one does.)"""
        length = -(-self.dimension // self.slices)
        return [(start, min(start + length, self.dimension)) for start in range(0, self.dimension, length)]

    @property
    def patience_seconds(self) -> float:
        """Seconds to wait for one step of one member: as agreed, plus two milliseconds per coordinate for its noise."""
        return self.patience_ms / 1e3 + self.dimension * 2e-3

    @property
    def share_sent(self) -> float:
        """The mean is the sum over this times the number of members: zeros make a sum smaller, past slices do not."""
        return 1.0 - float(self.skip) if self.instead == "zeros" else 1.0

    def to_json(self) -> dict[str, Any]:
        """Returns the terms as they are signed: texts and whole numbers."""
        return {
            "dimension": self.dimension,
            "bound": str(self.bound),
            "mode": self.mode,
            "slices": self.slices,
            "groups": self.groups,
            "split": self.split,
            "floor": str(self.floor),
            "least": str(self.least),
            "colluders": self.colluders,
            "attempts": self.attempts,
            "publish": self.publish,
            "skip": str(self.skip),
            "instead": self.instead,
            "slice_norm": None if self.slice_norm is None else str(self.slice_norm),
            "delta": str(self.delta),
            "least_members": self.least_members,
            "patience_ms": self.patience_ms,
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> RelayTerms:
        """Returns terms from somebody else, checked like our own; every number in its canonical form."""
        if not isinstance(plain, dict) or set(plain) != WIRE_KEYS or not isinstance(plain["publish"], bool):
            raise BadRequest("terms", "of another kind", "must have exactly the fields that this version knows")
        fields = dict(plain)
        for name in RATIONAL_FIELDS:
            if name != "slice_norm" or fields[name] is not None:
                fields[name] = _parse_rational(name, fields[name])
        return cls(**fields)


def min_variance(epsilon: Fraction, delta: Fraction, dimension: int, attempts: int) -> Fraction:
    """Returns the variance (squared bounds) with which one vector in [-bound, bound]^d is (epsilon, delta)-private.

    Counts the whole vector, sensitivity 2 sqrt(d), and every attempt: 4 d attempts / precision.
    """
    low, high = EPSILON_RANGE
    if not low <= epsilon <= high:
        raise BadRequest("epsilon", float(epsilon), f"must lie in [{float(low):g}, {float(high):g}]")
    precision = budget_precision(epsilon, delta)
    return 4 * dimension * attempts / precision.exact


def _check_integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadRequest(name, value, f"must be a whole number in {low} .. {high}")


def _parse_rational(name: str, text: object) -> Fraction:
    """Returns an exact number from outside; `1e-400`, `10e-6` and 2/4 are not canonical and are refused."""
    if not isinstance(text, str) or not RATIONAL_FORMAT.fullmatch(text) or str(Fraction(text)) != text:
        raise BadRequest(name, str(text)[:40], "must be a whole number or a fraction in lowest terms")
    return Fraction(text)
