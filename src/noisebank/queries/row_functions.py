"""Functions of one number with finitely many values, for `row_expressions`: FLOOR, CEIL, ROUND, MOD, width_bucket."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, floor, trunc

from noisebank.queries.computed import name_cycle
from noisebank.queries.polynomials import Polynomial, make_constant, make_polynomial
from noisebank.queries.row_values import (
    MAX_LEVELS,
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
    max_steps: int = MAX_LEVELS,
) -> RowExpression:
    """Returns a function of a number: a step function of the column that the number depends on.

    `grid`: all values are multiples of it, and its multiples are mapped to themselves. `max_steps`: how many steps of
    the column are looked at one by one.
    Raises `UnsupportedQuery` if there are too many values.
    """
    arms = []
    for arm in expression.arms:
        value = arm.value
        if isinstance(value, StepFunction):
            arms.append(Arm(arm.where, value.map_values(function)))
        elif isinstance(value, Polynomial):
            arms.append(Arm(arm.where, _map_polynomial(algebra, arm, value, function, monotone, grid, max_steps)))
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
    max_steps: int,
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
    levels = step_levels(inside, value_at, monotone, max_steps)
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


def take_remainder(algebra: RowAlgebra, expression: RowExpression, modulus: Fraction) -> RowExpression:
    """Returns MOD: a step function, or a computed column that comes round where there are too many steps for one."""
    arms = []
    for arm in expression.arms:
        cycle = _as_cycle(algebra, arm, modulus)
        own = RowExpression(expression.type, (arm,))
        arms += (
            [Arm(arm.where, cycle)]
            if cycle is not None
            else [*map_values(algebra, own, partial(remainder, modulus), monotone=False).arms]
        )
    return algebra.make_expression(ValueType.NUMBER, arms)


def _as_cycle(algebra: RowAlgebra, arm: Arm, modulus: Fraction) -> Polynomial | None:
    """Returns MOD of one column with more steps than are read one by one; None if it has few, or may be negative."""
    if not isinstance(arm.value, Polynomial) or arm.value.is_constant:
        return None
    column, square, factor, constant = as_univariate(arm.value)
    inside = algebra.values_of(column, arm.where)
    width, offset = modulus / factor if factor else Fraction(0), constant / factor if factor else Fraction(0)
    few = sum(high - low + 1 for low, high in inside.ranges) <= MAX_LEVELS
    if few or square or factor < 0 or modulus < 0 or width.denominator != 1 or offset.denominator != 1:
        return None
    if inside.ranges[0][0] + offset < 0:
        return None
    name = name_cycle(column, int(offset), 1, int(width))
    return make_polynomial([((name,), factor)])
