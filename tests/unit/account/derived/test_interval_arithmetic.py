"""Interval arithmetic: whatever lies in the arguments' intervals, its result lies in the result's."""

from __future__ import annotations

from math import ceil, exp, floor, inf, isnan, log, log10, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.account.derived.interval_arithmetic import Interval, apply_function, make_interval, round_half_up

numbers = st.floats(-1e6, 1e6, allow_subnormal=False) | st.sampled_from([0.0, 1.0, -1.0, 0.5])
Point = tuple[Interval, float]


@st.composite
def points(draw: st.DrawFn) -> Point:
    """An interval, and a number in it; sometimes without an end."""
    low, inside, high = sorted(draw(st.lists(numbers, min_size=3, max_size=3)))
    ends = draw(st.sampled_from([(low, high), (-inf, high), (low, inf), (-inf, inf), (inside, inside)]))
    return make_interval(draw(st.sampled_from([low, inside, high])), *ends), inside


def holds(interval: Interval, true: float | None) -> bool:
    assert not isnan(interval.low) and not isnan(interval.high)
    assert interval.value is None or interval.low <= interval.value <= interval.high
    if true is None:
        return interval.may_be_null
    slack = 1e-9 * (1 + abs(true))
    return interval.low - slack <= true <= interval.high + slack


def divide(a: float, b: float) -> float | None:
    return a / b if b else None


@given(points(), points(), st.sampled_from(["+", "-", "*", "/", "NULLIF", "GREATEST", "LEAST", "COALESCE"]))
def test_two_arguments(left: Point, right: Point, function: str) -> None:
    (one, a), (two, b) = left, right
    true = {
        "+": a + b, "-": a - b, "*": a * b, "/": divide(a, b), "NULLIF": None if a == b else a, "GREATEST": max(a, b),
        "LEAST": min(a, b), "COALESCE": a,
    }[function]  # fmt: skip
    assert holds(apply_function(function, [one, two]), true)


@given(points(), points())
def test_a_quotient_that_may_be_null_is_replaced(left: Point, right: Point) -> None:
    """COALESCE(a / NULLIF(b, 0), 7), the whole chain."""
    zero, seven = make_interval(0.0, 0.0, 0.0), make_interval(7.0, 7.0, 7.0)
    quotient = apply_function("/", [left[0], apply_function("NULLIF", [right[0], zero])])
    true = divide(left[1], right[1])
    assert holds(apply_function("COALESCE", [quotient, seven]), 7.0 if true is None else true)


@given(points(), st.sampled_from(["ABS", "FLOOR", "CEIL", "SQRT", "LN", "LOG", "EXP"]))
def test_one_argument(argument: Point, function: str) -> None:
    interval, x = argument
    true = {
        "ABS": lambda: abs(x), "FLOOR": lambda: floor(x), "CEIL": lambda: ceil(x),
        "SQRT": lambda: sqrt(x) if x >= 0 else None, "LN": lambda: log(x) if x > 0 else None,
        "LOG": lambda: log10(x) if x > 0 else None, "EXP": lambda: exp(x) if x < 700 else inf,
    }[function]()  # fmt: skip
    assert holds(apply_function(function, [interval]), true) or (function in ("LN", "LOG") and x == 0)


@given(points(), st.integers(-6, 6))
def test_rounding(argument: Point, digits: int) -> None:
    places = make_interval(float(digits), float(digits), float(digits))
    assert holds(apply_function("ROUND", [argument[0], places]), round_half_up(argument[1], digits))


def test_an_interval_that_is_too_narrow_would_be_seen() -> None:
    narrow = Interval(3.0, 2.9, 3.1)
    assert not holds(apply_function("+", [narrow, narrow]), 6.3)
    assert not holds(apply_function("/", [narrow, Interval(1.0, 0.9, 1.1)]), 3.5)


def test_a_divisor_that_may_be_zero_bounds_nothing() -> None:
    one, near = make_interval(1.0, 1.0, 1.0), make_interval(0.5, -1.0, 2.0)
    quotient = apply_function("/", [one, near])
    assert (quotient.value, quotient.low, quotient.high, quotient.may_be_null) == (2.0, -inf, inf, True)
    assert apply_function("/", [one, make_interval(0.0, -1.0, 1.0)]).value is None


@pytest.mark.parametrize(("x", "digits", "rounded"), [(2.5, 0, 3), (-2.5, 0, -3), (1234, -2, 1200), (1e300, 2, 1e300)])
def test_rounding_by_hand(x: float, digits: int, rounded: float) -> None:
    assert round_half_up(x, digits) == rounded
