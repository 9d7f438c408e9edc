"""Sets of column values, as ranges of integers plus possibly the missing value. Predicates are built from them.

Each declared column has a finite domain. A number is its step (low to high), a text or a code the position
of its key (one more for "none of the keys", unless the keys are all there is), a boolean 0 or 1; a nullable
column has the missing value besides. So every predicate on one column is one such set, and equality of sets is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import BadQuery
from noisebank.policy.model import Column, Kind

ValueRange = tuple[int, int]
"""Inclusive on both ends."""


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Sorted, disjoint, never adjacent ranges; `has_null` says whether the missing value belongs."""

    ranges: tuple[ValueRange, ...]
    has_null: bool = False

    def __bool__(self) -> bool:
        return bool(self.ranges) or self.has_null

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet(_merge_ranges([*self.ranges, *other.ranges]), self.has_null or other.has_null)

    def __and__(self, other: ValueSet) -> ValueSet:
        both: list[ValueRange] = []
        mine, theirs = list(self.ranges), list(other.ranges)
        while mine and theirs:
            (a, b), (c, d) = mine[0], theirs[0]
            if max(a, c) <= min(b, d):
                both.append((max(a, c), min(b, d)))
            (mine if b < d else theirs).pop(0)
        return ValueSet(tuple(both), self.has_null and other.has_null)

    def complement_in(self, domain: ValueSet) -> ValueSet:
        """Returns the values of `domain` that are not in this set."""
        left: list[ValueRange] = []
        for start, stop in domain.ranges:
            for a, b in self.ranges:
                if b < start or a > stop:
                    continue
                if a > start:
                    left.append((start, a - 1))
                start = b + 1
            if start <= stop:
                left.append((start, stop))
        return ValueSet(tuple(left), domain.has_null and not self.has_null)

    def __contains__(self, value: int | None) -> bool:
        if value is None:
            return self.has_null
        return any(a <= value <= b for a, b in self.ranges)

    def sort_key(self) -> tuple[int, int]:
        """Returns a key that sorts the parts of a partition: by first value, the missing value last."""
        return (0, self.ranges[0][0]) if self.ranges else (1, 0)

    def to_json(self) -> list[object]:
        """Returns the set as JSON of texts and integers."""
        return [*([a, b] for a, b in self.ranges), *(["null"] if self.has_null else [])]


def column_domain(column: Column) -> ValueSet:
    """Returns all values that `column` can take, by the policy."""
    if column.kind is Kind.BOOLEAN:
        return ValueSet(((0, 1),), column.nullable)
    if column.is_keyed:
        if not column.keys:
            raise BadQuery(
                f"column {column.name} has no declared keys, so it cannot be compared; add keys to the policy"
            )
        last = len(column.keys) - 1 if column.complete else len(column.keys)
        return ValueSet(((0, last),), column.nullable)
    if column.low is None or column.high is None:
        raise BadQuery(f"column {column.name} has no bounds, so it cannot be used; add bounds to the policy")
    return ValueSet(((column.low, column.high),), column.nullable)


def parse_values(items: Sequence[Any]) -> ValueSet:
    """Returns the set that `ValueSet.to_json` wrote."""
    ranges = [(item[0], item[1]) for item in items if item != "null"]
    return ValueSet(tuple(ranges), len(ranges) < len(items))


def make_value_set(items: Iterable[int]) -> ValueSet:
    """Returns the set of these integers."""
    return join_ranges((item, item) for item in items)


def join_ranges(ranges: Iterable[ValueRange]) -> ValueSet:
    """Returns the set of all integers in some of these ranges, which may overlap."""
    return ValueSet(_merge_ranges(list(ranges)))


def _merge_ranges(ranges: list[ValueRange]) -> tuple[ValueRange, ...]:
    merged: list[ValueRange] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
