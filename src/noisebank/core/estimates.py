"""Numbers with their intervals: `Estimate`, `Verdict` of a relative request, and `Row`, of which a `Result` is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, sqrt
from typing import Any

from noisebank.core.errors import BadRequest
from noisebank.core.units import Precision

CONFIDENCE = 0.95
"""Of the stated intervals, unless another one is asked for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is seen to be as close to the true value, relative to it, as was requested."""

    relative: float
    confidence: float
    floor: float
    """The smallest true value for which the accuracy was promised, in the answer's unit."""
    reached: bool
    """Wrong with probability at most 1 - confidence, for every true value; True with at least confidence above the
    floor."""
    next_cost: Precision | None
    """What half the floor would cost now; None if no account could pay for it."""

    @property
    def message(self) -> str:
        """Says what holds, or what a smaller floor would cost."""
        share, sure = f"{self.relative:.3g}", f"{self.confidence:.3g}"
        if self.reached:
            return f"within {share} of the true value with {sure} confidence"
        price = "more than any account has" if self.next_cost is None else f"{self.next_cost} precision"
        return (
            f"not seen to be within {share} of the true value with {sure} confidence: that is promised for values of "
            f"{self.floor:.6g} or more; with a floor of {self.floor / 2:.6g} it would cost {price}"
        )

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object."""
        return {
            "relative": self.relative,
            "confidence": self.confidence,
            "floor": self.floor,
            "reached": self.reached,
            "next_cost": None if self.next_cost is None else self.next_cost.to_decimal(),
            "message": self.message,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Verdict:
        """Returns the verdict that `to_json` wrote."""
        cost = None if fields["next_cost"] is None else Precision.parse_decimal(fields["next_cost"])
        return cls(fields["relative"], fields["confidence"], fields["floor"], fields["reached"], cost)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number of a result, with the interval that holds the true value. None where nothing can be said."""

    value: float | None
    low: float | None
    high: float | None
    stddev: float | None = None
    """The noise's standard deviation, where the noise is Gaussian; None for what is computed from several answers."""
    exact: Fraction | None = None
    """The released value as a rational; `value` is its nearest float. None if computed from several answers."""
    label: str | None = None
    """Of a most frequent key: the key, whose count is `value`. Of a quantile: the bin that it lies in."""
    verdict: Verdict | None = None
    """Of a relative request."""

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval: what stands after "±"."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object; what there is not is null, and optional fields are left out."""
        fields: dict[str, object] = {
            "value": self.value, "low": self.low, "high": self.high, "stddev": self.stddev,
            "exact": None if self.exact is None else str(self.exact),
        }  # fmt: skip
        if self.label is not None:
            fields["label"] = self.label
        if self.verdict is not None:
            fields["verdict"] = self.verdict.to_json()
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Estimate:
        """Returns the estimate that `to_json` wrote."""
        exact = None if fields["exact"] is None else Fraction(fields["exact"])
        verdict = Verdict.from_json(fields["verdict"]) if "verdict" in fields else None
        value, low, high, stddev = (fields[name] for name in ("value", "low", "high", "stddev"))
        return cls(value, low, high, stddev, exact, fields.get("label"), verdict)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a result: the keys of its group, and one estimate per item. `row["name"]` is the item's estimate."""

    keys: tuple[str | None, ...]
    """In the order of `Result.by`; none without GROUP BY. None stands for all keys together."""
    estimates: tuple[Estimate, ...]
    items: tuple[str, ...]
    """The names of the estimates."""

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.items:
            raise BadRequest("item", name, f"is not in this result; there are {', '.join(self.items)}")
        return self.estimates[self.items.index(name)]

    @property
    def estimate(self) -> Estimate:
        """The estimate of a row that has one item."""
        if len(self.estimates) != 1:
            raise BadRequest("item", None, f"say which: row[name] for one of {', '.join(self.items)}")
        return self.estimates[0]

    @property
    def value(self) -> float:
        """The value of a row that has one item."""
        return require_number(self.estimate.value, self.items[0])

    @property
    def low(self) -> float:
        """The lower end of the interval, of a row that has one item."""
        return require_number(self.estimate.low, f"low of {self.items[0]}")

    @property
    def high(self) -> float:
        """The upper end of the interval, of a row that has one item."""
        return require_number(self.estimate.high, f"high of {self.items[0]}")

    @property
    def stddev(self) -> float:
        """The noise's standard deviation, of a row that has one item."""
        return require_number(self.estimate.stddev, f"standard deviation of {self.items[0]}")

    @property
    def exact(self) -> Fraction:
        """The released value as a rational, of a row that has one item."""
        if self.estimate.exact is None:
            raise BadRequest(
                "exact", self.items[0], "is computed from several answers: their receipts have the exact ones"
            )
        return self.estimate.exact


def make_estimate(
    value: float, low: float, high: float, stddev: float | None = None, exact: Fraction | None = None,
    label: str | None = None, verdict: Verdict | None = None,
) -> Estimate:  # fmt: skip
    """Returns an estimate; what is not finite becomes None."""
    return Estimate(_finite_or_none(value), _finite_or_none(low), _finite_or_none(high), stddev, exact, label, verdict)


def require_number(number: float | None, what: str) -> float:
    """Returns a number that is known; raises otherwise."""
    if number is None:
        raise BadRequest("result", what, "is not known: look at the estimate's interval")
    return number


def _finite_or_none(number: float) -> float | None:
    return number if isfinite(number) else None


def standard_deviation(sensitivity: Fraction, unit: Fraction, precision: Precision) -> float:
    """Returns sensitivity / sqrt(precision) in the question's unit; for display only."""
    return float(sensitivity * abs(unit)) / sqrt(float(precision))
