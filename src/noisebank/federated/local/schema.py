"""What a device is asked for: the attributes of a record, their ranges and values. Public."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

from noisebank.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric attribute. What lies outside [low, high] is clipped to it; the range is scaled to [-1, 1]."""

    name: str
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise BadRequest(self.name, f"[{self.low}, {self.high}]", "the range must be finite and not empty")
        for bound in ("low", "high"):  # 0 and 0.0 are one range and must have one fingerprint
            object.__setattr__(self, bound, float(getattr(self, bound)))

    def scaled(self, value: object) -> float:
        """A value as a number of [-1, 1]."""
        if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
            raise BadRequest(self.name, "the device's value", "must be a number, and not NaN")
        inside = min(self.high, max(self.low, float(value)))
        return 2.0 * (inside - self.low) / (self.high - self.low) - 1.0

    def restored(self, value: float) -> float:
        """A number of [-1, 1] (or an estimate around it) in the attribute's own units."""
        return self.low + (value + 1.0) / 2.0 * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Category:
    """A categorical attribute with its possible values."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise BadRequest(self.name, self.values, "needs at least two values, all different")

    def place(self, value: object) -> int:
        """The value's number."""
        if value not in self.values:
            raise BadRequest(self.name, "the device's value", f"must be one of {', '.join(self.values)}")
        return self.values.index(str(value))


@dataclass(frozen=True, slots=True)
class Schema:
    """The attributes of a record, in order."""

    attributes: tuple[Number | Category, ...]

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if not names:
            raise BadRequest("schema", "no attributes", "needs at least one")
        if len(set(names)) != len(names):
            raise BadRequest("schema", ", ".join(names), "names must differ")

    @property
    def fingerprint(self) -> bytes:
        """Four bytes that tell schemas apart: a report made for another one is refused."""
        plain = [[type(part).__name__, *(getattr(part, slot) for slot in part.__slots__)] for part in self.attributes]
        return hashlib.sha256(json.dumps(plain).encode()).digest()[:4]

    def read(self, record: Mapping[str, object]) -> list[float | int]:
        """A record's values in order: numbers scaled to [-1, 1] (clipped), categories as places."""
        missing = [part.name for part in self.attributes if part.name not in record]
        if missing:
            raise BadRequest("record", f"without {', '.join(missing)}", "must have every attribute of the schema")
        return [
            part.scaled(record[part.name]) if isinstance(part, Number) else part.place(record[part.name])
            for part in self.attributes
        ]
