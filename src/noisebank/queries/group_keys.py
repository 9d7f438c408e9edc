"""The keys of GROUP BY: declared columns, and row expressions with finitely many values as groups of their own.

What the groups are called is no part of the query: `CASE WHEN age < 18 THEN 'child' ...` and `... THEN 'minor' ...` are
one question. Where the groups are a column's own keys or bins, the key is that column, so cubes can answer it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from sqlglot import exp

from noisebank.core.calendar import format_clock
from noisebank.core.digests import to_canonical_json
from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column
from noisebank.queries.computed import is_computed, name_cases, name_groups, resolve_column
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.groups import MAX_GROUPS, column_groups
from noisebank.queries.polynomials import Polynomial
from noisebank.queries.predicates import FALSE, Predicate
from noisebank.queries.query import AxisLabels
from noisebank.queries.row_values import (
    Arm,
    RowAlgebra,
    RowExpression,
    StepFunction,
    TextColumn,
    ValueType,
    as_univariate,
    step_levels,
)
from noisebank.queries.values import ValueSet, make_value_set

MAX_OWN_VALUES = 1_000
"""Of a column that is grouped by its values as it stands. More of them are a mistake rather than a wish."""
Label = Fraction | str
Pieces = dict[Label, ValueSet]


@dataclass(frozen=True, slots=True)
class GroupKey:
    """One key of GROUP BY: the column, declared or computed, that has its groups, and what they are called."""

    column: str
    labels: AxisLabels | None = None
    """None for a declared column with its own keys, bins or truth values."""
    is_text: bool = False
    """Whether the groups of an expression are called by texts, which ORDER BY sorts as such."""

    @property
    def is_number(self) -> bool:
        """Whether the groups of an expression are numbers."""
        return not self.is_text and self.labels is not None and all(map(_is_number, self.labels.names))


def parse_group_key(node: exp.Expr, conditions: ConditionParser) -> GroupKey:
    """Returns the key that a node of GROUP BY is. Only values that rows in the WHERE clause can have are groups."""
    bare = node.unnest()
    if isinstance(bare, exp.Column) and not has_own_values(find_column(bare, conditions.columns)):
        return GroupKey(find_column(bare, conditions.columns).name)
    sql = str(bare.sql(dialect="duckdb"))[:60]
    if isinstance(bare, (exp.Literal, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
        raise UnsupportedQuery(f"GROUP BY {sql}", "name the columns: GROUP BY a, b")
    expression = conditions.expressions.parse_expression(bare)
    grouping = _Grouping(conditions.expressions.algebra, conditions.columns, expression, sql)
    return grouping.make_key(format_clock if grouping.is_clock else format_fraction)


def has_own_values(column: Column) -> bool:
    """Whether a number without keys and bins has so few values that each of them is a group."""
    if not column.is_numeric or column.keys or column.bins or column.low is None or column.high is None:
        return False
    return column.high - column.low < MAX_OWN_VALUES


class _Grouping:
    """The groups of one expression."""

    def __init__(self, algebra: RowAlgebra, columns: Mapping[str, Column], expression: RowExpression, sql: str) -> None:
        self.algebra, self.builder, self.columns, self.sql = algebra, algebra.builder, columns, sql
        self.is_text = expression.type is ValueType.TEXT
        self.is_clock = expression.type in (ValueType.DATE, ValueType.TIMESTAMP)
        self.arms = [
            Arm(arm.where, self._with_few_values(arm))
            for arm in expression.arms
            if arm.value is not None and self.builder.conjunction(arm.where, algebra.within) is not FALSE
        ]

    def make_key(self, format_number: Callable[[Fraction], str]) -> GroupKey:
        read = {name for arm in self.arms for name in arm.where.column_names()}
        read |= {arm.value.column for arm in self.arms if isinstance(arm.value, (StepFunction, TextColumn))}
        if not read:
            raise BadQuery(f"GROUP BY {self.sql} has one group only")
        if len(read) == 1:
            return self._key_of_one(read.pop(), format_number)
        predicates: dict[Label, Predicate] = {}
        for label, where in self._expand_labels():
            predicates[label] = self.builder.disjunction(predicates.get(label, FALSE), where)
        forms = {
            label: where.canonical_form
            for label, where in predicates.items()
            if self.builder.conjunction(where, self.algebra.within) is not FALSE
        }
        labels = sorted(forms, key=lambda label: to_canonical_json(forms[label]))
        columns = frozenset(name for label in labels for name in predicates[label].column_names())
        name = name_cases([forms[label] for label in labels], columns)
        return GroupKey(name, _order_labels(labels, format_number), self.is_text)

    def _key_of_one(self, column: str, format_number: Callable[[Fraction], str]) -> GroupKey:
        allowed = self.algebra.within.values_of(column, self.builder.domain_of(column))
        pieces: Pieces = {}
        for arm in self.arms:
            inside = arm.where.values_of(column, self.builder.domain_of(column)) & allowed
            for label, values in self._label_values(arm):
                both = values & inside if values is not None else inside
                if both:
                    pieces[label] = pieces.get(label, ValueSet(())) | both
        if len(pieces) > MAX_GROUPS:
            raise UnsupportedQuery(f"more than {MAX_GROUPS} groups", "group by a coarser expression, or use WHERE")
        if not pieces:
            raise BadQuery(f"GROUP BY {self.sql}: by the policy no row can have a value of it")
        labels = sorted(pieces, key=lambda label: pieces[label].sort_key())
        groups = tuple(pieces[label] for label in labels)
        name = column if self._are_own_groups(column, groups) else name_groups(column, groups)
        return GroupKey(name, _order_labels(labels, format_number), self.is_text)

    def _are_own_groups(self, column: str, groups: tuple[ValueSet, ...]) -> bool:
        try:
            return not is_computed(column) and column_groups(self.columns[column]) == groups
        except BadQuery:  # it has neither keys nor bins
            return False

    def _with_few_values(self, arm: Arm) -> StepFunction | TextColumn | Polynomial | str | bool | None:
        if not isinstance(arm.value, Polynomial) or arm.value.is_constant:
            return arm.value
        column, square, factor, constant = as_univariate(arm.value)
        inside = self.algebra.values_of(column, arm.where)
        count = sum(high - low + 1 for low, high in inside.ranges)
        if count > MAX_GROUPS:
            raise UnsupportedQuery(
                f"GROUP BY {self.sql}, which has {count} values",
                f"at most {MAX_GROUPS} groups: "
                + ("take longer periods, or WHERE" if self.is_clock else f"try FLOOR({self.sql})"),
            )
        levels = step_levels(inside, lambda step: (square * step + factor) * step + constant, monotone=False)
        ranges = {value: ValueSet(()) for value in levels}
        for value, pieces in levels.items():
            ranges[value] = make_value_set(low for low, _ in pieces)
        return StepFunction(column, tuple(sorted(ranges.items())))

    def _label_values(self, arm: Arm) -> Iterator[tuple[Label, ValueSet | None]]:
        """Yields the labels of an arm, each with where its column has it; None for everywhere in the arm."""
        value = arm.value
        if isinstance(value, StepFunction):
            yield from value.levels
        elif isinstance(value, TextColumn):
            for number, key in enumerate(resolve_column(value.column, self.columns).key_names):
                yield key, make_value_set([number])
        elif isinstance(value, Polynomial):
            yield value.constant, None
        else:
            yield {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value), None

    def _expand_labels(self) -> Iterator[tuple[Label, Predicate]]:
        for arm in self.arms:
            for label, values in self._label_values(arm):
                if values is None:
                    yield label, arm.where
                else:
                    assert isinstance(arm.value, (StepFunction, TextColumn))
                    inside = self.builder.in_values(arm.value.column, values)
                    yield label, self.builder.conjunction(arm.where, inside)


def _order_labels(labels: list[Label], format_number: Callable[[Fraction], str]) -> AxisLabels:
    """Returns the names of the groups: numbers and dates are shown in rising order, texts as their groups lie."""
    names = tuple(label if isinstance(label, str) else format_number(label) for label in labels)
    numbers = [(label, place) for place, label in enumerate(labels) if isinstance(label, Fraction)]
    if len(numbers) < len(labels):
        return AxisLabels(names, tuple(range(len(labels))))
    return AxisLabels(names, tuple(place for _, place in sorted(numbers)))


def _is_number(label: str) -> bool:
    try:
        return isfinite(float(label))
    except ValueError:
        return False


def format_fraction(value: Fraction) -> str:
    """Returns a number as a decimal if it is one, else as the nearest double.

    >>> format_fraction(Fraction(5)), format_fraction(Fraction(-1, 4)), format_fraction(Fraction(1, 3))
    ('5', '-0.25', '0.3333333333333333')
    """
    return str(value.numerator) if value.denominator == 1 else f"{float(value)!r}"
