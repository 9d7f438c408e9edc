"""SQL expressions over one column: its step, tests of its step, its group. The same for every engine.

A statement first selects each column under a short name (`c0`, `c1`, ...) as a number, a truth value or
a text; everything else is written over these names. Tests compare the value itself with the first
double of a step, so a condition costs the same as in plain SQL and engines can use their indexes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from types import MappingProxyType

from noisebank.engines.clocks import first_stage_sql, second_stage_sql
from noisebank.engines.dialect import Dialect, StorageType
from noisebank.engines.edges import first_double
from noisebank.policy.model import Column, Kind, Policy
from noisebank.queries.groups import column_groups
from noisebank.queries.values import ValueSet, make_value_set

NOTHING_ELSE: Mapping[str, str] = MappingProxyType({})
MIN_EVEN_BINS = 256
"""Bins from which on a number's bin is found by division, if they are equally wide."""


@dataclass(frozen=True, slots=True)
class Field:
    """A declared column in one statement."""

    column: Column
    name: str
    dialect: Dialect
    storage_type: StorageType
    is_filled: bool = False
    """Whether a missing number is read as the lower bound, which it counts as: then no test has to look for it."""

    @property
    def source_sql(self) -> str:
        """SQL that reads the column from the table: an integer, a double, a truth value or a text."""
        raw = self.dialect.column_sql(self.column.name)
        if self.column.kind is Kind.TEXT:
            return self.dialect.cast_text(raw, self.storage_type)
        if self.column.kind is Kind.BOOLEAN:
            return self.dialect.cast_boolean(raw, self.storage_type)
        if self.column.is_date:
            return first_stage_sql(self.column, raw, self.dialect, self.storage_type)
        if self.is_filled:
            return f"coalesce({raw}, {self.column.bounds[0]})"
        return raw if self.is_whole else self.dialect.cast_number(raw, self.storage_type)

    @property
    def refined_sql(self) -> str:
        """SQL over its name for what it is read as in the end: its name, unless that takes two stages."""
        if not self.column.is_date:
            return self.name
        steps = self.name
        if self.column.kind is Kind.TIMESTAMP:
            steps = second_stage_sql(self.column, self.name, self.dialect)
        return f"coalesce({steps}, {self.column.bounds[0]})" if self.is_filled else steps

    @property
    def is_number(self) -> bool:
        """Whether it is read as a number: steps and codes."""
        return self.column.kind in (Kind.INTEGER, Kind.NUMBER)

    @property
    def is_whole(self) -> bool:
        """Whether stored integers are steps already (those that no double holds lie outside all bounds)."""
        stored = self.storage_type is StorageType.INTEGER and self.is_number and self.column.step == 1
        return stored or self.column.is_date

    @property
    def has_steps(self) -> bool:
        """Whether its values are steps between bounds, not keys or truth values."""
        return not self.column.is_keyed and self.column.kind is not Kind.BOOLEAN

    @property
    def missing_test(self) -> str:
        """SQL test: the value is missing."""
        if self.is_number and not self.is_whole:
            return f"({self.name} IS NULL OR {self.name} > {self.dialect.double_literal(inf)})"  # NaN is larger
        return f"{self.name} IS NULL"

    @property
    def outside_test(self) -> str:
        """SQL test: a number lies beyond its bounds and will be clipped, or a text or code is none of the keys."""
        name = self.name
        if self.column.is_keyed:
            return self._no_keys_test(self.column.keys)
        low, high = self.column.bounds
        if self.is_whole:
            return f"({name} < {low} OR {name} > {high})"
        first, last = (self.dialect.double_literal(float(bound * self.column.step)) for bound in (low, high))
        return f"({name} < {first} OR ({name} > {last} AND {name} <= {self.dialect.double_literal(inf)}))"

    @property
    def counted_test(self) -> str:
        """SQL test: the row counts, as far as a complete column decides it."""
        keyed = self._keys_test(self.column.keys)
        return f"({keyed} OR {self.missing_test})" if self.column.nullable else keyed

    def step_sql(self) -> str:
        """Returns SQL for a number as its nearest step inside the bounds; NULL only where the column is nullable."""
        low, high = self.column.bounds
        missing = "NULL" if self.column.nullable else str(low)
        name = self.name
        if self.is_whole:
            return (
                f"CASE WHEN {name} BETWEEN {low} AND {high} THEN {name} "
                f"WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {missing} END"
            )
        # Only doubles that round to a step inside the bounds reach the rounding: no infinity, no overflow.
        first, last = self.edge_sql(low), self.edge_sql(high + 1)
        arms = [
            f"WHEN {name} >= {first} AND {name} < {last} THEN {self.dialect.round_double(self._scaled_sql())}",
            f"WHEN {name} < {first} THEN {low}",
            f"WHEN {name} <= {self.dialect.double_literal(inf)} THEN {high}",
        ]
        if self.dialect.underflow_fails:
            nothing = min(max(0, low), high)
            arms.insert(0, f"WHEN {name} >= {self.edge_sql(0)} AND {name} < {self.edge_sql(1)} THEN {nothing}")
        return f"CASE {' '.join(arms)} ELSE {missing} END"

    def total_sql(self) -> str:
        """Returns SQL for the sum of all steps of whole numbers: those inside the bounds are added, the others counted.

        In the forms that are quickest in DuckDB: measured by `python -m research bench engine`.
        """
        low, high = self.column.bounds
        name, wide = self.name, self.dialect.cast_wide
        inside = f"sum({name}) FILTER (WHERE {name} >= {low} AND {name} <= {high})"
        below = f"{name} < {low}" if self.column.nullable else f"({name} < {low} OR {name} IS NULL)"
        terms = [wide(f"coalesce({inside}, 0)")]
        for bound, beyond in ((low, below), (high, f"{name} > {high}")):
            if bound:
                terms.append(f"{wide(str(bound))} * {wide(f'coalesce(count_if({beyond}), 0)')}")
        return " + ".join(terms)

    def values_test(self, values: ValueSet) -> str:
        """Returns an SQL test: the step is one of `values`."""
        if self.column.is_keyed:
            tests = self._key_tests(values)
            default = len(self.column.keys)
        elif self.column.kind is Kind.BOOLEAN:
            tests = [test for number, test in ((0, f"NOT {self.name}"), (1, self.name)) if number in values]
            default = 0
        else:
            tests = [self._range_test(low, high) for low, high in values.ranges]
            default = self.column.bounds[0]
        if not self.is_filled and (values.has_null if self.column.nullable else default in values):
            tests.append(self.missing_test)
        return "(" + (" OR ".join(tests) or "FALSE") + ")"

    def group_sql(self) -> str:
        """Returns SQL for the group: the key itself, or the number of the bin or truth value."""
        if self.column.is_keyed:
            return self.name if self.column.kind is Kind.TEXT else self.key_sql()
        parts = column_groups(self.column)
        if self.column.kind is Kind.BOOLEAN:
            return f"CASE WHEN {self.name} THEN 1 ELSE 0 END"
        starts = [part.ranges[0][0] for part in parts]
        number = self._even_bin_sql(starts) or self._bin_sql(starts, 0)
        # A missing value that is NaN, not NULL, would be larger than all edges; it counts as the lower bound.
        return f"CASE WHEN {self.missing_test} THEN 0 ELSE {number} END"

    def key_sql(self) -> str:
        """Returns SQL for a text or code that is one of the declared keys; NULL for all others."""
        key = self.name if self.is_whole or not self.is_number else self.dialect.round_double(self.name)
        return f"CASE WHEN {self._keys_test(self.column.keys)} THEN {key} END"

    def in_groups_test(self) -> str:
        """Returns an SQL test: the value lies in one of the groups."""
        covered = ValueSet(())
        for part in column_groups(self.column):
            covered = covered | part
        return self.values_test(covered)

    def step_text_sql(self) -> str:
        """Returns SQL for the step as a text and a comma, the same in every engine: a key as itself, else `?`."""
        missing = "-" if self.column.nullable else "?" if self.column.is_keyed else "0"
        if self.column.is_keyed and self.is_number:
            key = self.dialect.format_integer(self.key_sql())
            text = f"CASE WHEN {self.missing_test} THEN '{missing}' ELSE coalesce({key}, '?') END"
        elif self.column.kind is Kind.TEXT:
            keyed, key = self._keys_test(self.column.keys), self.dialect.frame_text(self.name)
            text = f"CASE WHEN {self.name} IS NULL THEN '{missing}' WHEN {keyed} THEN {key} ELSE '?' END"
        elif self.column.kind is Kind.BOOLEAN:
            text = f"CASE WHEN {self.name} THEN '1' WHEN NOT {self.name} THEN '0' ELSE '{missing}' END"
        else:
            text = f"coalesce({self.dialect.format_integer(self.step_sql())}, '-')"
        return f"({text} || ',')"

    def _scaled_sql(self) -> str:
        step = self.column.step
        scaled = (
            f"{self.name} * {self.dialect.double_literal(float(step.denominator))}"
            if step.denominator != 1
            else self.name
        )
        return f"{scaled} / {self.dialect.double_literal(float(step.numerator))}" if step.numerator != 1 else scaled

    def _range_test(self, low: int, high: int) -> str:
        """Returns an SQL test: the step lies in a range. A range that ends at a bound includes all values beyond."""
        first, last = self.column.bounds
        tests = []
        if low > first:
            tests.append(f"{self.name} >= {self.edge_sql(low)}")
        if high < last:
            tests.append(f"{self.name} < {self.edge_sql(high + 1)}")
        elif not self.is_whole:
            tests.append(f"{self.name} <= {self.dialect.double_literal(inf)}")  # not NaN
        return "(" + (" AND ".join(tests) or f"{self.name} IS NOT NULL") + ")"

    def edge_sql(self, step_number: int) -> str:
        """Returns SQL for the smallest value that is read as this step or a later one."""
        return (
            str(step_number)
            if self.is_whole
            else self.dialect.double_literal(first_double(step_number, self.column.step))
        )

    def _key_tests(self, values: ValueSet) -> list[str]:
        keys = self.column.keys
        if len(keys) in values:  # none of the keys belongs
            return [self._no_keys_test(tuple(key for number, key in enumerate(keys) if number not in values))]
        return [self._keys_test(tuple(key for number, key in enumerate(keys) if number in values))]

    def _keys_test(self, keys: tuple[str | int, ...]) -> str:
        if self.is_number and not self.is_whole:
            return "(" + (" OR ".join(self._code_tests(keys)) or "FALSE") + ")"
        literals = self._key_literals(keys)
        if len(literals) == 1:
            return f"{self.name} = {literals[0]}"
        return f"{self.name} IN ({', '.join(literals)})" if literals else "FALSE"

    def _no_keys_test(self, keys: tuple[str | int, ...]) -> str:
        if self.is_number and not self.is_whole:
            return f"(NOT {self._keys_test(keys)} AND NOT {self.missing_test})"
        literals = self._key_literals(keys)
        return f"{self.name} NOT IN ({', '.join(literals)})" if literals else f"{self.name} IS NOT NULL"

    def _key_literals(self, keys: tuple[str | int, ...]) -> list[str]:
        if self.is_number:
            return [str(key) for key in keys]
        return [self.dialect.quote_text(key) for key in map(str, keys) if self.dialect.can_hold(key)]

    def _code_tests(self, keys: tuple[str | int, ...]) -> list[str]:
        """Returns an SQL test per run of codes that follow each other: a double is the code that it is rounded to."""
        runs = make_value_set(map(int, keys)).ranges
        name = self.name
        return [f"({name} >= {self.edge_sql(low)} AND {name} < {self.edge_sql(high + 1)})" for low, high in runs]

    def _even_bin_sql(self, starts: list[int]) -> str | None:
        """Returns SQL for the number of the last start not above the step, where many starts are equally far apart: by
        division, since a statement with thousands of arms takes seconds to read. None where they are not."""
        if len(starts) < MIN_EVEN_BINS or len({after - before for before, after in pairwise(starts)}) > 1:
            return None
        width, position = starts[1] - starts[0], f"(({self.step_sql()}) - ({starts[0]}))"
        return position if width == 1 else self.dialect.divide_whole(position, width)

    def _bin_sql(self, starts: list[int], number: int) -> str:
        """Returns SQL for the number of the last start not above the step, by bisection."""
        if len(starts) == 1:
            return str(number)
        half = len(starts) // 2
        below, above = self._bin_sql(starts[:half], number), self._bin_sql(starts[half:], number + half)
        return f"CASE WHEN {self.name} >= {self.edge_sql(starts[half])} THEN {above} ELSE {below} END"


def make_fields(
    policy: Policy, names: frozenset[str], dialect: Dialect, storage_types: Mapping[str, StorageType]
) -> dict[str, Field]:
    """Returns the fields of these columns, numbered in alphabetical order."""
    return {
        name: Field(policy.columns[name], f"c{number}", dialect, storage_types.get(name, StorageType.OTHER))
        for number, name in enumerate(sorted(names))
    }


def read_rows(
    fields: Mapping[str, Field], table: str, others: Mapping[str, str] = NOTHING_ELSE, fence: str = ""
) -> str:
    """Returns SQL for a table's rows with each field under its short name, and other expressions under theirs."""
    read = [f"{field.source_sql} AS {field.name}" for field in fields.values()]
    read += [f"{expression} AS {name}" for name, expression in others.items()]
    rows = f"(SELECT {', '.join(read)} FROM {table} AS t{fence}) AS t" if read else f"{table} AS t"
    if all(field.refined_sql == field.name for field in fields.values()):
        return rows
    refined = [f"{field.refined_sql} AS {field.name}" for field in fields.values()]
    return f"(SELECT {', '.join([*refined, *others])} FROM {rows}) AS t"


def fill_missing(field: Field) -> Field:
    """Returns the field with missing whole numbers read as the lower bound, where that is what they count as."""
    fills = field.is_whole and not field.column.nullable and not field.column.is_keyed
    return replace(field, is_filled=True) if fills else field


def is_queryable(column: Column) -> bool:
    """Whether queries can depend on the column's values at all."""
    return column.kind is Kind.BOOLEAN or bool(column.keys) or column.low is not None
