"""SQL expressions over one column: its step, tests of its step, its group. The same for every engine.

A statement first selects each column under a short name (`c0`, `c1`, ...) as a number, a truth value or
a text; everything else is written over these names. Tests compare the value itself with the first
double of a step, so a condition costs the same as in plain SQL and engines can use their indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from noisebank.engines.dialect import Dialect, Stored
from noisebank.engines.edges import first_double
from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.groups import parts_of
from noisebank.queries.values import Values


@dataclass(frozen=True, slots=True)
class Field:
    """A declared column in one statement."""

    column: Column
    name: str
    dialect: Dialect
    stored: Stored
    filled: bool = False
    """Whether a missing number is read as the lower bound, which it counts as: then no test has to look for it."""

    @property
    def read(self) -> str:
        """SQL that reads the column from the table: an integer, a double, a truth value or a text."""
        raw = self.dialect.raw(self.column.name)
        if self.column.kind is Kind.TEXT:
            return self.dialect.text(raw, self.stored)
        if self.column.kind is Kind.BOOLEAN:
            return self.dialect.truth(raw, self.stored)
        if self.filled:
            return f"coalesce({raw}, {self.column.bounds[0]})"
        return raw if self.whole else self.dialect.number(raw, self.stored)

    @property
    def whole(self) -> bool:
        """Whether stored integers are steps already (those that no double holds lie outside all bounds)."""
        return self.stored is Stored.INTEGER and self.column.numeric and self.column.step == 1

    @property
    def missing(self) -> str:
        """SQL test: the value is missing."""
        if self.column.numeric and not self.whole:
            return f"({self.name} IS NULL OR {self.name} > {self.dialect.double(inf)})"  # NaN is larger
        return f"{self.name} IS NULL"

    @property
    def outside(self) -> str:
        """SQL test: a number lies beyond its bounds and will be clipped, or a text is none of the keys."""
        name = self.name
        if self.column.kind is Kind.TEXT:
            return self._unkeyed(self.column.keys)
        low, high = self.column.bounds
        if self.whole:
            return f"({name} < {low} OR {name} > {high})"
        first, last = (self.dialect.double(float(bound * self.column.step)) for bound in (low, high))
        return f"({name} < {first} OR ({name} > {last} AND {name} <= {self.dialect.double(inf)}))"

    def step(self) -> str:
        """Returns SQL for a number as its nearest step inside the bounds; NULL only where the column is nullable."""
        low, high = self.column.bounds
        missing = "NULL" if self.column.nullable else str(low)
        name = self.name
        if self.whole:
            return (
                f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} "
                f"WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {missing} END"
            )
        # Only doubles that round to a step inside the bounds reach the rounding: no infinity, no overflow.
        first, last = self._edge(low), self._edge(high + 1)
        arms = [
            f"WHEN {name} >= {first} AND {name} < {last} THEN {self.dialect.rounded(self._scaled())}",
            f"WHEN {name} < {first} THEN {low}",
            f"WHEN {name} <= {self.dialect.double(inf)} THEN {high}",
        ]
        if self.dialect.underflow_fails:
            nothing = min(max(0, low), high)
            arms.insert(0, f"WHEN {name} >= {self._edge(0)} AND {name} < {self._edge(1)} THEN {nothing}")
        return f"CASE {' '.join(arms)} ELSE {missing} END"

    def total(self) -> str:
        """Returns SQL for the sum of all steps of whole numbers: those inside the bounds are added, the others counted.

        In the forms that are quickest in DuckDB: measured by `python -m research bench engine`.
        """
        low, high = self.column.bounds
        name, wide = self.name, self.dialect.wide
        inside = f"sum({name}) FILTER (WHERE {name} >= {low} AND {name} <= {high})"
        below = f"{name} < {low}" if self.column.nullable else f"({name} < {low} OR {name} IS NULL)"
        terms = [wide(f"coalesce({inside}, 0)")]
        for bound, beyond in ((low, below), (high, f"{name} > {high}")):
            if bound:
                terms.append(f"{wide(str(bound))} * {wide(f'coalesce(count_if({beyond}), 0)')}")
        return " + ".join(terms)

    def among(self, values: Values) -> str:
        """Returns an SQL test: the step is one of `values`."""
        if self.column.kind is Kind.TEXT:
            tests = self._texts(values)
            default = len(self.column.keys)
        elif self.column.kind is Kind.BOOLEAN:
            tests = [test for number, test in ((0, f"NOT {self.name}"), (1, self.name)) if number in values]
            default = 0
        else:
            tests = [self._within(low, high) for low, high in values.runs]
            default = self.column.bounds[0]
        if not self.filled and (values.null if self.column.nullable else default in values):
            tests.append(self.missing)
        return "(" + (" OR ".join(tests) or "FALSE") + ")"

    def grouped(self) -> str:
        """Returns SQL for the group: the key itself, or the number of the bin or truth value."""
        if self.column.kind is Kind.TEXT:
            return self.name
        parts = parts_of(self.column)
        if self.column.kind is Kind.BOOLEAN:
            return f"CASE WHEN {self.name} THEN 1 ELSE 0 END"
        number = self._bin([part.runs[0][0] for part in parts], 0)
        # A missing value that is NaN, not NULL, would be larger than all edges; it counts as the lower bound.
        return f"CASE WHEN {self.missing} THEN 0 ELSE {number} END"

    def key(self) -> str:
        """Returns SQL for a text that is one of the declared keys; NULL for all others."""
        return f"CASE WHEN {self._keyed(self.column.keys)} THEN {self.name} END"

    def in_groups(self) -> str:
        """Returns an SQL test: the value lies in one of the groups."""
        covered = Values(())
        for part in parts_of(self.column):
            covered = covered | part
        return self.among(covered)

    def spelled(self) -> str:
        """Returns SQL for the step as a text and a comma, the same in every engine: a key as itself, else `?`."""
        missing = "-" if self.column.nullable else "?" if self.column.kind is Kind.TEXT else "0"
        if self.column.kind is Kind.TEXT:
            keyed, key = self._keyed(self.column.keys), self.dialect.framed(self.name)
            text = f"CASE WHEN {self.name} IS NULL THEN '{missing}' WHEN {keyed} THEN {key} ELSE '?' END"
        elif self.column.kind is Kind.BOOLEAN:
            text = f"CASE WHEN {self.name} THEN '1' WHEN NOT {self.name} THEN '0' ELSE '{missing}' END"
        else:
            text = f"coalesce({self.dialect.spelled(self.step())}, '-')"
        return f"({text} || ',')"

    def _scaled(self) -> str:
        step = self.column.step
        scaled = f"{self.name} * {self.dialect.double(float(step.denominator))}" if step.denominator != 1 else self.name
        return f"{scaled} / {self.dialect.double(float(step.numerator))}" if step.numerator != 1 else scaled

    def _within(self, low: int, high: int) -> str:
        """Returns an SQL test: the step lies in a range. A range that ends at a bound includes all values beyond."""
        first, last = self.column.bounds
        tests = []
        if low > first:
            tests.append(f"{self.name} >= {self._edge(low)}")
        if high < last:
            tests.append(f"{self.name} < {self._edge(high + 1)}")
        elif not self.whole:
            tests.append(f"{self.name} <= {self.dialect.double(inf)}")  # not NaN
        return "(" + (" AND ".join(tests) or f"{self.name} IS NOT NULL") + ")"

    def _edge(self, place: int) -> str:
        return str(place) if self.whole else self.dialect.double(first_double(place, self.column.step))

    def _texts(self, values: Values) -> list[str]:
        keys = self.column.keys
        if len(keys) in values:  # none of the keys belongs
            return [self._unkeyed(tuple(key for number, key in enumerate(keys) if number not in values))]
        return [self._keyed(tuple(key for number, key in enumerate(keys) if number in values))]

    def _keyed(self, keys: tuple[str, ...]) -> str:
        literals = self._literals(keys)
        if len(literals) == 1:
            return f"{self.name} = {literals[0]}"
        return f"{self.name} IN ({', '.join(literals)})" if literals else "FALSE"

    def _unkeyed(self, keys: tuple[str, ...]) -> str:
        literals = self._literals(keys)
        return f"{self.name} NOT IN ({', '.join(literals)})" if literals else f"{self.name} IS NOT NULL"

    def _literals(self, keys: tuple[str, ...]) -> list[str]:
        return [self.dialect.literal(key) for key in keys if self.dialect.holds(key)]

    def _bin(self, starts: list[int], number: int) -> str:
        """Returns SQL for the number of the last start not above the step, by bisection."""
        if len(starts) == 1:
            return str(number)
        half = len(starts) // 2
        below, above = self._bin(starts[:half], number), self._bin(starts[half:], number + half)
        return f"CASE WHEN {self.name} >= {self._edge(starts[half])} THEN {above} ELSE {below} END"


def fields_of(
    policy: Policy, names: frozenset[str], dialect: Dialect, stored: Mapping[str, Stored]
) -> dict[str, Field]:
    """Returns the fields of these columns, numbered in alphabetical order."""
    return {
        name: Field(policy.columns[name], f"c{number}", dialect, stored.get(name, Stored.OTHER))
        for number, name in enumerate(sorted(names))
    }


def gapless(field: Field) -> Field:
    """Returns the field with missing whole numbers read as the lower bound, where that is what they count as."""
    return replace(field, filled=True) if field.whole and not field.column.nullable else field


def askable(column: Column) -> bool:
    """Whether queries can depend on the column's values at all."""
    return column.kind is Kind.BOOLEAN or bool(column.keys) or column.low is not None
