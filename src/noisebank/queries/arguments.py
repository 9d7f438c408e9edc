"""What the argument of an aggregate is: a truth value, or a number with exact bounds, described as a column."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import ceil, floor, lcm

from sqlglot import exp

from noisebank.core.errors import BadQuery
from noisebank.policy.model import Column, Kind
from noisebank.queries.computed import name_polynomial
from noisebank.queries.conditions import ConditionParser, find_column
from noisebank.queries.polynomials import Polynomial
from noisebank.queries.row_values import Arm, StepFunction, ValueType


def describe_argument(node: exp.Expr, conditions: ConditionParser) -> Column | None:
    """Returns a declared column, or a row expression as a column with a step and bounds; None for a truth value."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        column = find_column(bare, conditions.columns)
        if column.kind is Kind.BOOLEAN:
            return None
        if not (column.kind is Kind.INTEGER and column.is_keyed and column.complete):  # codes are an expression
            return column
    if conditions.expressions.parse_expression(bare).type is ValueType.TRUTH:
        return None
    expression = conditions.expressions.parse_number(bare)
    ranges = [_range_of(arm, conditions) for arm in expression.arms if arm.value is not None]
    if not ranges:
        raise BadQuery(f"{bare.sql(dialect='duckdb')[:60]} is NULL for every row")
    step = Fraction(1, reduce(lcm, (end.denominator for ends in ranges for end in ends), 1))
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    nullable = any(arm.value is None for arm in expression.arms)
    name = str(bare.sql(dialect="duckdb"))
    return Column(name, Kind.NUMBER, step, floor(low / step), ceil(high / step), nullable=nullable)


def _range_of(arm: Arm, conditions: ConditionParser) -> tuple[Fraction, Fraction]:
    """Returns bounds of an arm's value, each column narrowed to what the arm allows."""
    value = arm.value
    if isinstance(value, StepFunction):
        return value.levels[0][0], value.levels[-1][0]
    assert isinstance(value, Polynomial)
    algebra = conditions.expressions.algebra
    bounds = {}
    for name in value.columns:
        inside = algebra.values_of(name, arm.where).ranges or ((0, 0),)
        bounds[name] = inside[0][0], inside[-1][1]
    low, high = value.range_over(bounds)
    if len(value.columns) > 1:
        whole, factor = value.normalize()
        name = name_polynomial(whole)
        if name in arm.where.column_names():  # CLAMP(a - b, 0, 60): the arm speaks of that very number
            limits = algebra.values_of(name, arm.where).ranges
            numbers = [factor * end + value.constant for pair in limits for end in pair]
            low, high = max(low, min(numbers, default=low)), min(high, max(numbers, default=high))
    return low, high
