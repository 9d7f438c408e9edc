"""SQL for computed columns: exact integers of 64 bits, worked out from the steps of one row and from nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noisebank.engines.dialect import Dialect, StorageType
from noisebank.engines.fields import Field
from noisebank.policy.model import Column
from noisebank.queries.computed import (
    CaseColumn,
    CycleColumn,
    GroupColumn,
    PolynomialColumn,
    parse_definition,
    resolve_column,
)
from noisebank.queries.predicates import Predicate, PredicateBuilder
from noisebank.queries.values import ValueRange

Fields = Mapping[str, Field]
PredicateSql = Callable[[Predicate, Fields], str]


@dataclass(frozen=True, slots=True)
class ComputedField(Field):
    """A computed column in one statement: an integer in a column of a subquery, like any other field."""

    computed_sql: str = ""

    @property
    def is_group(self) -> bool:
        """Whether its integers number the groups of GROUP BY."""
        return self.column.is_keyed

    def group_sql(self) -> str:
        """See `Field`. The number of a group is computed already."""
        return self.name if self.is_group else Field.group_sql(self)

    def in_groups_test(self) -> str:
        """See `Field`. A row that lies in no group has no number."""
        return f"{self.name} IS NOT NULL" if self.is_group else Field.in_groups_test(self)


def add_computed(
    fields: Fields, names: Iterable[str], columns: Mapping[str, Column], dialect: Dialect, predicate_sql: PredicateSql
) -> dict[str, Field]:
    """Returns the fields with those of computed columns; `fields` must have all that these are computed from."""
    writer = _ComputedWriter(fields, columns, dialect, predicate_sql)
    computed = {
        name: ComputedField(
            resolve_column(name, columns), f"d{number}", dialect, StorageType.INTEGER, computed_sql=writer.write(name)
        )
        for number, name in enumerate(sorted(names))
    }
    return {**fields, **computed}


def wrap_computed(rows: str, fields: Fields) -> str:
    """Returns SQL for rows with the computed columns beside the others."""
    added = [f"{field.computed_sql} AS {field.name}" for field in fields.values() if isinstance(field, ComputedField)]
    return f"(SELECT *, {', '.join(added)} FROM {rows}) AS t" if added else rows


class _ComputedWriter:
    """Writes the SQL of computed columns over the fields of declared ones."""

    def __init__(
        self, fields: Fields, columns: Mapping[str, Column], dialect: Dialect, predicate_sql: PredicateSql
    ) -> None:
        self._fields, self._columns, self._dialect, self._predicate_sql = fields, columns, dialect, predicate_sql

    def write(self, name: str) -> str:
        """Returns SQL for a column as an integer: a declared one as its step."""
        field = self._fields.get(name)
        if field is not None:
            return self._dialect.cast_long(field.step_sql())
        definition = parse_definition(name)
        if isinstance(definition, PolynomialColumn):
            return self._write_polynomial(definition)
        if isinstance(definition, CycleColumn):
            return self._write_cycle(definition)
        if isinstance(definition, GroupColumn):
            return self._write_groups(definition)
        return self._write_cases(definition)

    def _write_polynomial(self, definition: PolynomialColumn) -> str:
        terms = []
        for monomial, weight in definition.terms:
            factors = [f"({self.write(column)})" for column in monomial]
            terms.append(" * ".join([self._dialect.cast_long(str(weight)), *factors] if weight != 1 else factors))
        return "(" + " + ".join(terms) + ")"

    def _write_cycle(self, definition: CycleColumn) -> str:
        period = definition.width * definition.modulus
        lowest = resolve_column(definition.column, self._columns).bounds[0] + definition.offset
        shift = definition.offset + (-lowest // period + 1) * period if lowest < 0 else definition.offset
        position = f"({self.write(definition.column)} + {self._dialect.cast_long(str(shift))})"
        quotient = self._dialect.divide_whole(position, definition.width)
        return f"({quotient} % {self._dialect.cast_long(str(definition.modulus))})"

    def _write_groups(self, definition: GroupColumn) -> str:
        field = self._field(definition.column)
        if not field.has_steps:
            arms = [f"WHEN {field.values_test(piece)} THEN {n}" for n, piece in enumerate(definition.pieces)]
            return f"CASE {' '.join(arms)} END"
        ranges = sorted((ends, number) for number, piece in enumerate(definition.pieces) for ends in piece.ranges)
        default = next((n for n, piece in enumerate(definition.pieces) if _counts_missing(field.column, piece)), None)
        number = _bisect(field, _close_gaps(ranges, field.column.bounds))
        return f"CASE WHEN {field.missing_test} THEN {_number_sql(default)} ELSE {number} END"

    def _write_cases(self, definition: CaseColumn) -> str:
        builder = PredicateBuilder(self._columns)
        predicates = [builder.from_form(json.loads(form)) for form in definition.forms]
        names = {name for predicate in predicates for name in predicate.column_names()}
        fields = {name: self._field(name) for name in names}
        arms = [f"WHEN {self._predicate_sql(part, fields)} THEN {n}" for n, part in enumerate(predicates)]
        return f"CASE {' '.join(arms)} END"

    def _field(self, name: str) -> Field:
        """Returns the field of a declared column, or one whose name is the expression of a computed one."""
        known = self._fields.get(name)
        column = resolve_column(name, self._columns)
        return known or Field(column, self.write(name), self._dialect, StorageType.INTEGER)


def _counts_missing(column: Column, piece: Any) -> bool:
    return bool(piece.has_null if column.nullable else column.bounds[0] in piece)


def _close_gaps(ranges: list[tuple[ValueRange, int]], bounds: ValueRange) -> list[tuple[int, int | None]]:
    """Returns where each group begins, and where there is none."""
    starts: list[tuple[int, int | None]] = []
    free = bounds[0]
    for (low, high), number in ranges:
        if low > free:
            starts.append((free, None))
        starts.append((low, number))
        free = high + 1
    return [*starts, (free, None)] if free <= bounds[1] or not starts else starts


def _bisect(field: Field, starts: list[tuple[int, int | None]]) -> str:
    if len(starts) == 1:
        return _number_sql(starts[0][1])
    half = len(starts) // 2
    below, above = _bisect(field, starts[:half]), _bisect(field, starts[half:])
    return f"CASE WHEN {field.name} >= {field.edge_sql(starts[half][0])} THEN {above} ELSE {below} END"


def _number_sql(number: int | None) -> str:
    return "NULL" if number is None else str(number)
