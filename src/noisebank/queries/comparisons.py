"""Compares row expressions: the rows for which a comparison is true, and those for which it is false."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
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
SIGNS = (Fraction(-1), Fraction(0), Fraction(1))


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


def find_members(algebra: RowAlgebra, value: RowExpression, members: Collection[Fraction]) -> Outcomes:
    """Returns where a number or date is one of these, and where it is none of them: `IN` over a list of any length."""
    builder = algebra.builder
    true = false = FALSE
    for arm in value.arms:
        if arm.value is None:
            continue
        inside, outside = _split_members(algebra, arm.value, members)
        true = builder.disjunction(true, builder.conjunction(arm.where, inside))
        false = builder.disjunction(false, builder.conjunction(arm.where, outside))
    return true, false


def _split_members(algebra: RowAlgebra, value: Value, members: Collection[Fraction]) -> Outcomes:
    if isinstance(value, StepFunction):
        return _split_levels(algebra, value, lambda level: level in members)
    assert isinstance(value, Polynomial)
    if value.is_constant:
        return (TRUE, FALSE) if value.constant in members else (FALSE, TRUE)
    return algebra.where_members(value, members)


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
        yield from _split(algebra, where, _split_levels(algebra, a, lambda x: HOLDS[operator](x - b.constant)))
    elif isinstance(b, StepFunction) and isinstance(a, Polynomial) and a.is_constant:
        yield from _split(algebra, where, _split_levels(algebra, b, lambda x: HOLDS[operator](a.constant - x)))
    elif isinstance(a, (Polynomial, StepFunction)):
        for first in algebra.expand([Arm(where, a)]):
            for second in algebra.expand([Arm(first.where, b)]):
                assert isinstance(first.value, Polynomial) and isinstance(second.value, Polynomial)
                difference = first.value.minus(second.value)
                yield from _split(algebra, second.where, _sign_outcomes(algebra, operator, difference))
    else:
        equal = _equal_predicate(algebra, columns, a, b, results)
        outcomes = equal, builder.negation(equal)
        yield from _split(algebra, where, outcomes if operator is exp.EQ else outcomes[::-1])


def _split(algebra: RowAlgebra, where: Predicate, outcomes: Outcomes) -> Iterator[Arm]:
    yield Arm(algebra.builder.conjunction(where, outcomes[0]), True)
    yield Arm(algebra.builder.conjunction(where, outcomes[1]), False)


def _split_levels(algebra: RowAlgebra, function: StepFunction, holds: Callable[[Fraction], bool]) -> Outcomes:
    inside = join_ranges(piece for value, values in function.levels if holds(value) for piece in values.ranges)
    return algebra.split_values(function.column, inside)


def _sign_outcomes(algebra: RowAlgebra, operator: type[exp.Expr], difference: Polynomial) -> Outcomes:
    """Returns where a difference has a sign for which a comparison is true, and where it has another one.

    Neither holds the missing value: `> 5` and `>= 6` of whole numbers are one condition.
    """
    true, false = (
        reduce(
            algebra.builder.disjunction, (algebra.where_sign(difference, sign) for sign in SIGNS if holds(sign)), FALSE
        )
        for holds in (HOLDS[operator], lambda sign: not HOLDS[operator](sign))
    )
    return true, false


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
