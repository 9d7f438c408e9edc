"""Functions of one number with finitely many values, for `row_expressions`: FLOOR, CEIL, ROUND, MOD, width_bucket."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, trunc

from noisebank.queries.polynomials import Polynomial, make_constant
from noisebank.queries.row_values import (
    Arm,
    RowAlgebra,
    RowExpression,
    StepFunction,
    Value,
    ValueType,
    as_univariate,
    make_step_function,
    step_levels,
)


def map_values(
    algebra: RowAlgebra,
    expression: RowExpression,
    function: Callable[[Fraction], Fraction],
    monotone: bool = True,
    grid: Fraction | None = None,
) -> RowExpression:
    """Returns a function of a number: a step function of the column that the number depends on.

    `grid`: all values are multiples of it, and its multiples are mapped to themselves.
    Raises `UnsupportedQuery` if there are too many values.
    """
    arms = []
    for arm in expression.arms:
        value = arm.value
        if isinstance(value, StepFunction):
            arms.append(Arm(arm.where, value.map_values(function)))
        elif isinstance(value, Polynomial):
            arms.append(Arm(arm.where, _map_polynomial(algebra, arm, value, function, monotone, grid)))
        else:
            arms.append(arm)
    return algebra.make_expression(ValueType.NUMBER, arms)


def _map_polynomial(
    algebra: RowAlgebra,
    arm: Arm,
    value: Polynomial,
    function: Callable[[Fraction], Fraction],
    monotone: bool,
    grid: Fraction | None,
) -> Value:
    if value.is_constant:
        return make_constant(function(value.constant))
    if grid is not None and all((coefficient / grid).denominator == 1 for _, coefficient in value.terms):
        return value
    column, square, factor, constant = as_univariate(value)
    if square and monotone:
        monotone = False  # of the column's steps
    inside = algebra.values_of(column, arm.where)

    def value_at(step: int) -> Fraction:
        return function((square * step + factor) * step + constant)

    if monotone and grid is not None and inside.ranges:
        span = value_at(inside.ranges[-1][1]) - value_at(inside.ranges[0][0])
        algebra.count_levels(min(abs(span) / grid, Fraction(sum(high - low + 1 for low, high in inside.ranges))))
    levels = step_levels(inside, value_at, monotone)
    algebra.count_levels(len(levels))
    # By the policy no row may lie in this arm: then its value does not matter.
    return make_step_function(column, levels) if levels else make_constant(0)


def round_down(value: Fraction) -> Fraction:
    """FLOOR."""
    return Fraction(floor(value))


def round_up(value: Fraction) -> Fraction:
    """CEIL."""
    return Fraction(ceil(value))


def round_zero(value: Fraction) -> Fraction:
    """TRUNC: towards zero."""
    return Fraction(trunc(value))


def round_half(value: Fraction) -> Fraction:
    """ROUND: to the nearest integer, halves away from zero.

    >>> [int(round_half(Fraction(n, 2))) for n in (-3, -1, 1, 3)]
    [-2, -1, 1, 2]
    """
    return Fraction(floor(value + Fraction(1, 2)) if value >= 0 else ceil(value - Fraction(1, 2)))


def remainder(modulus: Fraction, value: Fraction) -> Fraction:
    """MOD: with the sign of the dividend.

    >>> int(remainder(Fraction(5), Fraction(7))), int(remainder(Fraction(5), Fraction(-7)))
    (2, -2)
    """
    return value - trunc(value / modulus) * modulus


def bucket_number(low: Fraction, high: Fraction, count: int, value: Fraction) -> Fraction:
    """width_bucket: 0 below `low`, 1 to `count` up to `high`, `count` + 1 from there on.

    >>> [int(bucket_number(Fraction(0), Fraction(100), 10, Fraction(x))) for x in (-1, 0, 9, 10, 99, 100)]
    [0, 1, 1, 2, 10, 11]
    """
    number = floor((value - low) * count / (high - low)) + 1
    return Fraction(min(max(number, 0), count + 1))
