"""Compares row expressions: the rows for which a comparison is true, and those for which it is false."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import reduce

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column
from noisebank.queries.computed import resolve_column
from noisebank.queries.dates import is_date_expression, parse_date_texts
from noisebank.queries.polynomials import Polynomial
from noisebank.queries.predicates import FALSE, TRUE, Predicate
from noisebank.queries.row_values import (
    Arm,
    RowAlgebra,
    RowExpression,
    StepFunction,
    TextColumn,
    Value,
    ValueType,
)
from noisebank.queries.values import ValueSet, join_ranges, make_value_set

Outcomes = tuple[Predicate, Predicate]
HOLDS: dict[type[exp.Expr], Callable[[Fraction], bool]] = {
    exp.EQ: lambda x: x == 0, exp.NEQ: lambda x: x != 0, exp.LT: lambda x: x < 0,
    exp.LTE: lambda x: x <= 0, exp.GT: lambda x: x > 0, exp.GTE: lambda x: x >= 0,
}  # fmt: skip
"""Of left minus right."""


def compare_expressions(
    algebra: RowAlgebra,
    columns: Mapping[str, Column],
    operator: type[exp.Expr],
    left: RowExpression,
    right: RowExpression,
    sql: str,
) -> Outcomes:
    """Returns where `left operator right` is true and where it is false; unknown where one of them is NULL."""
    if is_date_expression(left) and right.type is ValueType.TEXT:
        right = parse_date_texts(right)
    elif is_date_expression(right) and left.type is ValueType.TEXT:
        left = parse_date_texts(left)
    different = {left.type, right.type} - {ValueType.NOTHING}
    if len(different) > 1 and different != {ValueType.DATE, ValueType.TIMESTAMP}:
        raise BadQuery(f"{sql} compares {left.type.value} with {right.type.value}")
    if different & {ValueType.TEXT, ValueType.TRUTH} and operator not in (exp.EQ, exp.NEQ):
        raise UnsupportedQuery(f"an order of texts or truth values ({sql})", "use =, <> or IN")

    texts = [{arm.value for arm in side.arms if isinstance(arm.value, str)} for side in (left, right)]
    results = texts[0] & texts[1]  # a text that one of the arms has is no misspelled key

    def join(where: Predicate, a: Value, b: Value) -> Iterator[Arm]:
        yield from _compare_values(algebra, columns, operator, where, a, b, results)

    arms = list(algebra.combine(left, right, join))
    builder = algebra.builder
    true, false = (
        reduce(builder.disjunction, (arm.where for arm in arms if arm.value is outcome), FALSE)
        for outcome in (True, False)
    )
    return true, false


def _compare_values(
    algebra: RowAlgebra,
    columns: Mapping[str, Column],
    operator: type[exp.Expr],
    where: Predicate,
    a: Value,
    b: Value,
    results: set[str],
) -> Iterator[Arm]:
    builder = algebra.builder
    if isinstance(a, StepFunction) and isinstance(b, Polynomial) and b.is_constant:
        yield from _split(algebra, where, _levels_where(algebra, a, lambda x: HOLDS[operator](x - b.constant)))
    elif isinstance(b, StepFunction) and isinstance(a, Polynomial) and a.is_constant:
        yield from _split(algebra, where, _levels_where(algebra, b, lambda x: HOLDS[operator](a.constant - x)))
    elif isinstance(a, (Polynomial, StepFunction)):
        for first in algebra.expand([Arm(where, a)]):
            for second in algebra.expand([Arm(first.where, b)]):
                assert isinstance(first.value, Polynomial) and isinstance(second.value, Polynomial)
                holds = _sign_predicate(algebra, operator, first.value.minus(second.value))
                yield from _split(algebra, second.where, holds)
    else:
        equal = _equal_predicate(algebra, columns, a, b, results)
        yield from _split(algebra, where, equal if operator is exp.EQ else builder.negation(equal))


def _split(algebra: RowAlgebra, where: Predicate, holds: Predicate) -> Iterator[Arm]:
    yield Arm(algebra.builder.conjunction(where, holds), True)
    yield Arm(algebra.builder.conjunction(where, algebra.builder.negation(holds)), False)


def _levels_where(algebra: RowAlgebra, function: StepFunction, holds: Callable[[Fraction], bool]) -> Predicate:
    ranges = [piece for value, values in function.levels if holds(value) for piece in values.ranges]
    return algebra.builder.in_values(function.column, join_ranges(ranges))


def _sign_predicate(algebra: RowAlgebra, operator: type[exp.Expr], difference: Polynomial) -> Predicate:
    builder = algebra.builder
    minus = difference.scale_by(Fraction(-1))
    if operator is exp.GTE:
        return algebra.at_least_zero(difference)
    if operator is exp.LTE:
        return algebra.at_least_zero(minus)
    if operator is exp.GT:
        return builder.negation(algebra.at_least_zero(minus))
    if operator is exp.LT:
        return builder.negation(algebra.at_least_zero(difference))
    equal = builder.conjunction(algebra.at_least_zero(difference), algebra.at_least_zero(minus))
    return equal if operator is exp.EQ else builder.negation(equal)


def _equal_predicate(
    algebra: RowAlgebra, columns: Mapping[str, Column], a: Value, b: Value, results: set[str]
) -> Predicate:
    if isinstance(a, TextColumn) and isinstance(b, TextColumn):
        if a == b:
            return TRUE
        raise UnsupportedQuery("a comparison of two text columns", "compare each with its keys")
    if isinstance(a, TextColumn) or isinstance(b, TextColumn):
        column, text = (a, b) if isinstance(a, TextColumn) else (b, a)
        assert isinstance(column, TextColumn) and isinstance(text, str)
        if text in results and text not in resolve_column(column.column, columns).keys:
            return FALSE
        return algebra.builder.in_values(column.column, find_key(resolve_column(column.column, columns), text))
    return TRUE if a == b else FALSE


def find_key(column: Column, key: str | int) -> ValueSet:
    """Returns the position of a declared key as a set of values; raises `BadQuery` if it is none."""
    if key not in column.keys:
        known = ", ".join(repr(each) for each in column.keys[:12])
        raise BadQuery(f"{key!r} is no declared key of {column.name}; declared are {known}")
    return make_value_set([column.keys.index(key)])
