"""Sets of column values, as ranges of integers plus possibly the missing value. Predicates are built from them.

Each declared column has a finite domain. A number is its step (low to high), a text the position
of its key (one more for "none of the keys"), a boolean 0 or 1; a nullable column has the missing
value besides. So every predicate on one column is one such set, and equality of sets is exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from noisebank.core.errors import BadQuery
from noisebank.policy.model import Column, Kind

Run = tuple[int, int]
"""Inclusive on both ends."""


@dataclass(frozen=True, slots=True)
class Values:
    """Sorted, disjoint, never adjacent ranges; `has_null` says whether the missing value belongs."""

    runs: tuple[Run, ...]
    null: bool = False

    def __bool__(self) -> bool:
        return bool(self.runs) or self.null

    def __or__(self, other: Values) -> Values:
        return Values(_merged([*self.runs, *other.runs]), self.null or other.null)

    def __and__(self, other: Values) -> Values:
        both: list[Run] = []
        mine, theirs = list(self.runs), list(other.runs)
        while mine and theirs:
            (a, b), (c, d) = mine[0], theirs[0]
            if max(a, c) <= min(b, d):
                both.append((max(a, c), min(b, d)))
            (mine if b < d else theirs).pop(0)
        return Values(tuple(both), self.null and other.null)

    def outside(self, domain: Values) -> Values:
        """Returns the values of `domain` that are not in this set."""
        left: list[Run] = []
        for start, stop in domain.runs:
            for a, b in self.runs:
                if b < start or a > stop:
                    continue
                if a > start:
                    left.append((start, a - 1))
                start = b + 1
            if start <= stop:
                left.append((start, stop))
        return Values(tuple(left), domain.null and not self.null)

    def __contains__(self, value: int | None) -> bool:
        if value is None:
            return self.null
        return any(a <= value <= b for a, b in self.runs)

    def order(self) -> tuple[int, int]:
        """Returns a key that sorts the parts of a partition: by first value, the missing value last."""
        return (0, self.runs[0][0]) if self.runs else (1, 0)

    def canonical(self) -> list[object]:
        """Returns the set as JSON of texts and integers."""
        return [*([a, b] for a, b in self.runs), *(["null"] if self.null else [])]


def domain_of(column: Column) -> Values:
    """Returns all values that `column` can take, by the policy."""
    if column.kind is Kind.BOOLEAN:
        return Values(((0, 1),), column.nullable)
    if column.kind is Kind.TEXT:
        if not column.keys:
            raise BadQuery(
                f"column {column.name} has no declared keys, so it cannot be compared; add keys to the policy"
            )
        return Values(((0, len(column.keys)),), column.nullable)
    if column.low is None or column.high is None:
        raise BadQuery(f"column {column.name} has no bounds, so it cannot be used; add bounds to the policy")
    return Values(((column.low, column.high),), column.nullable)


def values_of(items: Iterable[int]) -> Values:
    """Returns the set of these integers."""
    return Values(_merged([(item, item) for item in items]))


def _merged(runs: list[Run]) -> tuple[Run, ...]:
    merged: list[Run] = []
    for start, stop in sorted(runs):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
