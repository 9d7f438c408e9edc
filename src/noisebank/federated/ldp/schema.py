"""Public schema of a record: its attributes with their ranges and values.

A schema comes from the collector, so its constructor checks it, by itself. A record is never checked: encoding one
succeeds whatever is in it, since a refusal would tell the collector something about it that was not charged.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

from noisebank.core.errors import BadRequest

MAX_ATTRIBUTES = 1 << 12
MAX_VALUES = 1 << 16
"""Values of one category. A report has at most one flag for each."""
MAX_TEXT = 1000
"""Characters of a name or a value."""
MAX_BOUND, MIN_WIDTH = 1e300, 1e-300
"""Limits of a range: within them no difference or quotient of a scaled value overflows or loses its digits."""
MIDPOINT = 0.0
"""A value that is missing or no number is read as the middle of its range."""


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric attribute. What lies outside [low, high] is clipped to it; the range is scaled to [-1, 1]."""

    name: str
    low: float = -1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _check_text("attribute", self.name)
        low, high = _parse_bound(self.low), _parse_bound(self.high)
        if low is None or high is None or not high - low >= MIN_WIDTH:
            raise BadRequest(_describe_value(self.name), f"[{low}, {high}]", "the range must be finite and not empty")
        for slot, bound in (("low", low), ("high", high)):  # 0, 0.0 and -0.0 are one bound and have one fingerprint
            object.__setattr__(self, slot, bound)

    def scale_value(self, value: object) -> float:
        """Returns any value as a number of [-1, 1], clipped; the middle if missing, NaN or no number. Never fails."""
        number = read_number(value)
        if number is None:
            return MIDPOINT
        inside = min(self.high, max(self.low, number))
        return min(1.0, max(-1.0, 2.0 * ((inside - self.low) / (self.high - self.low)) - 1.0))

    def can_report(self, value: object) -> bool:
        """Whether the value itself is reported, possibly clipped. For the device's owner only."""
        return read_number(value) is not None

    def unscale_value(self, value: float) -> float:
        """Returns a number of [-1, 1] (or an estimate around it) in the attribute's own units."""
        return self.low + (value + 1.0) / 2.0 * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class Category:
    """A categorical attribute with its possible values."""

    name: str
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_text("attribute", self.name)
        if not isinstance(self.values, tuple) or not 2 <= len(self.values) <= MAX_VALUES:
            raise BadRequest(
                _describe_value(self.name), "its values", f"needs at least two values, at most {MAX_VALUES}"
            )
        for value in self.values:
            _check_text(self.name, value)
        if len(set(self.values)) != len(self.values):
            raise BadRequest(_describe_value(self.name), "its values", "needs at least two values, all different")

    def index_of(self, value: object) -> int | None:
        """Returns the value's index; None if it is not listed or missing. Never fails.

        A table, not a search: the time of a search reveals where in the collector's list it ended.
        """
        indices = dict(zip(self.values, range(len(self.values)), strict=True))
        return indices.get(value) if isinstance(value, str) else None

    def can_report(self, value: object) -> bool:
        """Whether the value itself is reported. For the device's owner only."""
        return self.index_of(value) is not None


@dataclass(frozen=True, slots=True)
class Schema:
    """The attributes of a record, in order."""

    attributes: tuple[Number | Category, ...]

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if not 0 < len(names) <= MAX_ATTRIBUTES:
            raise BadRequest("schema", f"{len(names)} attributes", f"needs at least one, at most {MAX_ATTRIBUTES}")
        if len(set(names)) != len(names):
            raise BadRequest("schema", _describe_value(", ".join(names)), "names must differ")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the schema: also tells apart schemas that somebody made to be confused."""
        plain = [
            ["Number", attribute.name, attribute.low, attribute.high]
            if isinstance(attribute, Number)
            else ["Category", attribute.name, attribute.values]
            for attribute in self.attributes
        ]
        return hashlib.sha256(json.dumps(plain).encode()).digest()

    @property
    def fingerprint(self) -> bytes:
        """Four bytes of the digest, for the wire: a report made for another schema is refused."""
        return self.digest[:4]

    def encode_record(self, record: Mapping[str, object]) -> list[float | int | None]:
        """Returns a record's values in order: numbers scaled to [-1, 1] (clipped), categories as indices. Never fails.

        What is missing or does not fit: the middle for a number, None for a category (a report draws a listed one).
        """
        values = record if isinstance(record, Mapping) else {}
        return [
            attribute.scale_value(values.get(attribute.name))
            if isinstance(attribute, Number)
            else attribute.index_of(values.get(attribute.name))
            for attribute in self.attributes
        ]

    def find_misfits(self, record: Mapping[str, object]) -> Sequence[str]:
        """Returns the attributes whose value in this record is missing or does not fit. For the device's owner only."""
        values = record if isinstance(record, Mapping) else {}
        return [attribute.name for attribute in self.attributes if not attribute.can_report(values.get(attribute.name))]


def read_number(value: object) -> float | None:
    """Returns a value as a float, an infinity if it is too large for one; None if it is no number. Never fails."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _parse_bound(value: object) -> float | None:
    """Returns a bound of a range as a float of ordinary size; None if it is not one."""
    number = read_number(value)
    return None if number is None or abs(number) > MAX_BOUND else number + 0.0  # -0.0 + 0.0 is 0.0


def _check_text(parameter: str, text: object) -> None:
    if not isinstance(text, str) or len(text) > MAX_TEXT or not _is_encodable(text):
        raise BadRequest(
            _describe_value(parameter), _describe_value(text), f"must be a text of at most {MAX_TEXT} characters"
        )


def _is_encodable(text: str) -> bool:
    """Whether the text can be written and sent: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _describe_value(value: object) -> str:
    """Returns a value for an error message: short and printable."""
    if not isinstance(value, str):
        return f"of type {type(value).__name__}"
    return value if value.isprintable() and len(value) <= 60 else ascii(value)[:60]
