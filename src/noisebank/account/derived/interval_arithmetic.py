"""Arithmetic on numbers with intervals: if each argument's true value lies in its interval, so does the result's.

`None` as a value is SQL's NULL. Ends may be infinite; they are never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, floor, inf, isfinite, log, log10, sqrt

Point = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A number, and an interval that holds the true one."""

    value: float | None
    low: float
    high: float
    may_be_null: bool = False
    """Whether the true number may be NULL."""


UNKNOWN = Interval(None, -inf, inf, True)


def apply_function(function: str, arguments: Sequence[Interval]) -> Interval:
    """Returns what a function of SQL makes of intervals."""
    if function == "COALESCE":
        return _coalesce(arguments)
    if function in ("GREATEST", "LEAST"):
        return _choose_extreme(max if function == "GREATEST" else min, arguments)
    if function == "NULLIF":
        return _null_if(*arguments)
    if function == "ABS":
        return _absolute(arguments[0])
    if function == "ROUND":
        digits = int(arguments[1].value or 0)
        return _apply_monotone(lambda number: round_half_up(number, digits), arguments[0])
    if function in MONOTONE:
        point, least = MONOTONE[function]
        return _apply_monotone(point, arguments[0], least)
    return OPERATORS[function](*arguments)


def add_intervals(left: Interval, right: Interval) -> Interval:
    """Returns the sum."""
    return _combine(left, right, _add(left.value, right.value), left.low + right.low, left.high + right.high)


def subtract_intervals(left: Interval, right: Interval) -> Interval:
    """Returns the difference."""
    negative = None if right.value is None else -right.value
    return _combine(left, right, _add(left.value, negative), left.low - right.high, left.high - right.low)


def multiply_intervals(left: Interval, right: Interval) -> Interval:
    """Returns the product."""
    value = None if left.value is None or right.value is None else left.value * right.value
    corners = [_times(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return _combine(left, right, value, min(corners), max(corners))


def divide_intervals(left: Interval, right: Interval) -> Interval:
    """Returns the quotient: anything, if the divisor may be zero."""
    value = None if left.value is None or not right.value else left.value / right.value
    if right.low <= 0 <= right.high:
        return Interval(value, -inf, inf, True)
    corners = [_quotient(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    return _combine(left, right, value, min(corners), max(corners))


def round_half_up(number: float, digits: int) -> float:
    """Returns a number rounded to digits after the point (before it, if negative), halves away from zero, as SQL does.

    >>> round_half_up(2.5, 0), round_half_up(-1234.0, -2), round_half_up(0.125, 2)
    (3.0, -1200.0, 0.13)
    """
    if not isfinite(number) or abs(number) >= 1e15:
        return number
    factor = 10.0**digits
    rounded = floor(abs(number) * factor + 0.5)
    size = rounded / factor if digits >= 0 else float(rounded * 10**-digits)
    return size if number >= 0 else -size


def _combine(left: Interval, right: Interval, value: float | None, low: float, high: float) -> Interval:
    return make_interval(value, low, high, left.may_be_null or right.may_be_null)


def make_interval(value: float | None, low: float, high: float, may_be_null: bool = False) -> Interval:
    """Returns an interval whose ends are no NaN and that holds its value, whatever was rounded."""
    value = None if value is None or not isfinite(value) else value
    low, high = (-inf if low != low else low), (inf if high != high else high)
    if value is None:
        return Interval(None, low, high, may_be_null)
    return Interval(value, min(low, value), max(high, value), may_be_null)


def _apply_monotone(point: Point, argument: Interval, least: float = -inf) -> Interval:
    """Applies a rising function that is defined from `least` on."""
    value = None if argument.value is None or argument.value < least else _evaluate(point, argument.value)
    low = _evaluate(point, max(argument.low, least)) if argument.high >= least else -inf
    high = _evaluate(point, argument.high) if argument.high >= least else inf
    return make_interval(value, low, high, argument.may_be_null or argument.low < least)


def _evaluate(point: Point, number: float) -> float:
    try:
        return point(number)
    except OverflowError:
        return inf
    except ValueError:  # the logarithm of zero
        return -inf


def _absolute(argument: Interval) -> Interval:
    value = None if argument.value is None else abs(argument.value)
    low = 0.0 if argument.low <= 0 <= argument.high else min(abs(argument.low), abs(argument.high))
    return make_interval(value, low, max(abs(argument.low), abs(argument.high)), argument.may_be_null)


def _choose_extreme(choose: Callable[[Sequence[float]], float], arguments: Sequence[Interval]) -> Interval:
    """GREATEST and LEAST leave NULLs out, so an argument that may be NULL may also not count."""
    values = [argument.value for argument in arguments if argument.value is not None]
    lows, highs = [argument.low for argument in arguments], [argument.high for argument in arguments]
    if any(argument.may_be_null for argument in arguments):
        return make_interval(choose(values) if values else None, min(lows), max(highs), True)
    return make_interval(choose(values) if values else None, choose(lows), choose(highs))


def _null_if(argument: Interval, other: Interval) -> Interval:
    value = None if argument.value is not None and argument.value == other.value else argument.value
    may_be_equal = argument.low <= other.high and other.low <= argument.high
    return Interval(value, argument.low, argument.high, argument.may_be_null or may_be_equal)


def _coalesce(arguments: Sequence[Interval]) -> Interval:
    value = next((argument.value for argument in arguments if argument.value is not None), None)
    used = list(arguments[: next((n + 1 for n, each in enumerate(arguments) if not each.may_be_null), len(arguments))])
    low, high = min(argument.low for argument in used), max(argument.high for argument in used)
    return make_interval(value, low, high, all(argument.may_be_null for argument in used))


def _add(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right


def _times(left: float, right: float) -> float:
    return 0.0 if not left or not right else left * right


def _quotient(left: float, right: float) -> float:
    if not left or not isfinite(right):
        return 0.0 if isfinite(left) else left if right > 0 else -left
    return left / right


MONOTONE: dict[str, tuple[Point, float]] = {
    "FLOOR": (lambda number: float(floor(number)) if isfinite(number) else number, -inf),
    "CEIL": (lambda number: float(ceil(number)) if isfinite(number) else number, -inf),
    "SQRT": (lambda number: sqrt(number), 0.0),
    "LN": (lambda number: log(number), 0.0),
    "LOG": (lambda number: log10(number), 0.0),
    "EXP": (lambda number: exp(number), -inf),
}  # fmt: skip
"""Rising functions, and the least number for which they are defined."""
OPERATORS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": add_intervals, "-": subtract_intervals, "*": multiply_intervals, "/": divide_intervals
}  # fmt: skip
