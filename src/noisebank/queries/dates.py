"""Parses dates in row expressions: literals, differences, intervals, DATE_TRUNC, EXTRACT. Values are days since 1970.

A function of the calendar is a step function of its column over the policy's bounds (or those that WHERE leaves); hours
and days of the week, which come round again and again, are computed columns.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.calendar import DAY_SECONDS, FIRST_DAY, LAST_DAY, from_date, parse_clock, to_date
from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.computed import name_cycle
from noisebank.queries.number_functions import describe_node
from noisebank.queries.polynomials import Polynomial, make_constant, make_polynomial
from noisebank.queries.predicates import TRUE
from noisebank.queries.row_functions import map_values, round_zero
from noisebank.queries.row_values import (
    MAX_LEVELS,
    Arm,
    RowAlgebra,
    RowExpression,
    StepFunction,
    ValueType,
    make_step_function,
)

if TYPE_CHECKING:
    from noisebank.queries.row_expressions import ExpressionParser

DATE, TIMESTAMP, INTERVAL, NUMBER = ValueType.DATE, ValueType.TIMESTAMP, ValueType.INTERVAL, ValueType.NUMBER
DATE_TYPES = (DATE, TIMESTAMP)
PER_DAY = {"hour": 24, "minute": 1440, "second": DAY_SECONDS}
INTERVAL_DAYS = {
    "second": Fraction(1, DAY_SECONDS), "minute": Fraction(1, 1440), "hour": Fraction(1, 24),
    "day": Fraction(1), "week": Fraction(7),
}  # fmt: skip
INTERVAL_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
BUCKET_ORIGIN = from_date(date(2000, 1, 3))
"""A Monday: where databases begin to count buckets of days."""
MAX_CALENDAR_DAYS = 45_000
"""That a day of the month or of the year is taken from: dates of birth of a century."""
UNITS = "second, minute, hour, day, week, month, quarter or year"
CYCLES = {"dow": 7, "isodow": 7, "hour": 24, "minute": 60, "second": 60}
CALENDAR_PARTS: dict[str, Callable[[date], int]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar()[1],
    "day": lambda day: day.day,
    "doy": lambda day: day.timetuple().tm_yday,
}
SPELLINGS = {"dayofweek": "dow", "weekday": "dow", "dayofyear": "doy", "dayofmonth": "day", "weekofyear": "week"}


def read_date(text: str) -> Fraction:
    """Returns a date or timestamp as days since 1970; raises `BadQuery` if it is none."""
    days = parse_clock(text)
    if days is None:
        raise BadQuery(f"{text[:40]!r} is no date: write '2026-11-18', or '2026-11-18 13:00:00' without a time zone")
    return days


def is_date_expression(expression: RowExpression) -> bool:
    """Whether an expression is a date, a timestamp or an interval."""
    return expression.type in (*DATE_TYPES, INTERVAL)


def parse_date_texts(expression: RowExpression) -> RowExpression:
    """Returns texts as timestamps, where they are compared with dates."""
    arms = [
        Arm(arm.where, make_constant(read_date(arm.value)) if isinstance(arm.value, str) else arm.value)
        for arm in expression.arms
    ]
    if any(not isinstance(arm.value, Polynomial | None) for arm in arms):
        raise BadQuery('a text column is no date: declare it as type = "date" in the policy')
    return RowExpression(TIMESTAMP, tuple(arms))


# -- arithmetic ------------------------------------------------------------------------------------


def join_dates(parser: ExpressionParser, node: exp.Expr, left: RowExpression, right: RowExpression) -> RowExpression:
    """Returns a sum or difference in which there is a date or an interval."""
    kinds, is_sum = (left.type, right.type), isinstance(node, exp.Add)
    joined = parser.join_numbers(left, right, Polynomial.plus if is_sum else Polynomial.minus)
    if not is_sum and left.type in DATE_TYPES and right.type in DATE_TYPES:
        return RowExpression(NUMBER if kinds == (DATE, DATE) else INTERVAL, joined.arms)
    if left.type in DATE_TYPES and right.type in (INTERVAL, NUMBER):
        return _check_years(parser.algebra, RowExpression(_shifted_type(left.type, right), joined.arms))
    if is_sum and right.type in DATE_TYPES and left.type in (INTERVAL, NUMBER):
        return _check_years(parser.algebra, RowExpression(_shifted_type(right.type, left), joined.arms))
    if kinds == (INTERVAL, INTERVAL):
        return RowExpression(INTERVAL, joined.arms)
    raise BadQuery(f"{describe_node(node)} joins {left.type.value} and {right.type.value}")


def _shifted_type(kind: ValueType, interval: RowExpression) -> ValueType:
    """A date stays one if it is moved by whole days."""
    whole = all(
        isinstance(arm.value, Polynomial) and all(weight.denominator == 1 for _, weight in arm.value.terms)
        for arm in interval.arms
        if arm.value is not None
    )
    return DATE if kind is DATE and whole else TIMESTAMP


def shift_by_interval(
    parser: ExpressionParser, node: exp.Expr, moment: RowExpression, interval: exp.Interval
) -> RowExpression:
    """Returns a date moved by an interval that is written out."""
    sign = 1 if isinstance(node, (exp.Add, exp.DateAdd)) else -1
    months, days = read_interval(interval)
    if moment.type not in DATE_TYPES:
        raise BadQuery(f"{describe_node(node)}: an interval is added to dates")
    if months:
        moment = _shift_months(parser.algebra, moment, sign * months, describe_node(node))
    amount = RowExpression(INTERVAL, (Arm(TRUE, make_constant(sign * days)),))
    moved = parser.join_numbers(moment, amount, Polynomial.plus)
    return _check_years(parser.algebra, RowExpression(_shifted_type(moment.type, amount), moved.arms))


def _shift_months(algebra: RowAlgebra, moment: RowExpression, months: int, sql: str) -> RowExpression:
    def shift(value: Fraction) -> Fraction:
        day = to_date(value)
        month = day.year * 12 + day.month - 1 + months
        if not 12 <= month < 120_000:
            raise BadQuery(f"{sql} is beyond the years 1 to 9999")
        year, number = divmod(month, 12)
        first = date(year, number + 1, 1)
        last = monthrange(year, number + 1)[1]
        return from_date(first.replace(day=min(day.day, last))) + value % 1

    try:
        return RowExpression(moment.type, map_values(algebra, moment, shift).arms)
    except UnsupportedQuery:
        advice = "months have different lengths, and it has too many values: move the literal instead, or write days"
        raise UnsupportedQuery(sql, advice) from None


def _check_years(algebra: RowAlgebra, moment: RowExpression) -> RowExpression:
    for arm in moment.arms:
        ends = [arm.value.constant] if isinstance(arm.value, Polynomial) and arm.value.is_constant else []
        if any(not FIRST_DAY <= end < LAST_DAY + 1 for end in ends):
            raise BadQuery("a date beyond the years 1 to 9999")
    return moment


def read_interval(node: exp.Interval) -> tuple[int, Fraction]:
    """Returns the months and the days of an interval.

    >>> from sqlglot import parse_one
    >>> read_interval(parse_one("INTERVAL '1 year 2 weeks'", dialect="duckdb"))
    (12, Fraction(14, 1))
    """
    unit = "" if node.args.get("unit") is None else str(node.args["unit"].name)
    text = f"{node.this.name if node.this is not None else ''} {unit}".lower().strip()
    parts = re.findall(r"([+-]?\d{1,9}(?:\.\d{1,9})?)\s*([a-z]+)", text)
    if "".join("".join(part) for part in parts) != re.sub(r"\s", "", text) or not parts:
        raise BadQuery(f"{describe_node(node)} is no interval: write INTERVAL '7 days'")
    months, days = 0, Fraction(0)
    for number, name in parts:
        unit, amount = name.removesuffix("s"), Fraction(number)
        if unit in INTERVAL_DAYS:
            days += amount * INTERVAL_DAYS[unit]
        elif unit in INTERVAL_MONTHS and amount.denominator == 1:
            months += int(amount) * INTERVAL_MONTHS[unit]
        else:
            raise BadQuery(f"{describe_node(node)}: write whole numbers of {UNITS}")
    return months, days


def parse_interval(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """An interval by itself: what a difference of timestamps is compared with."""
    assert isinstance(node, exp.Interval)
    months, days = read_interval(node)
    if months:
        raise UnsupportedQuery(describe_node(node), "months have different lengths: write days")
    return RowExpression(INTERVAL, (Arm(TRUE, make_constant(days)),))


# -- functions of the calendar -----------------------------------------------------------------------


def truncate(unit: str, days: Fraction) -> Fraction:
    """Returns when the year, quarter, month, week, day, hour, minute or second began.

    >>> int(truncate("week", Fraction(0))), int(truncate("month", Fraction(40)))
    (-3, 31)
    """
    if unit in PER_DAY:
        return Fraction(floor(days * PER_DAY[unit]), PER_DAY[unit])
    day = floor(days)
    if unit == "day":
        return Fraction(day)
    if unit == "week":
        return Fraction(max(day - (day + 3) % 7, FIRST_DAY))
    first = to_date(day)
    month = {"month": first.month, "quarter": (first.month - 1) // 3 * 3 + 1, "year": 1}[unit]
    return Fraction(from_date(first.replace(month=month, day=1)))


def truncate_dates(parser: ExpressionParser, unit: str, moment: RowExpression, sql: str) -> RowExpression:
    """DATE_TRUNC."""
    if moment.type not in DATE_TYPES:
        raise BadQuery(f"{sql} needs a date, not {moment.type.value}")
    if unit not in (*PER_DAY, "day", "week", "month", "quarter", "year"):
        raise UnsupportedQuery(f"DATE_TRUNC of {unit}", f"use {UNITS}")
    grid = Fraction(1, PER_DAY[unit]) if unit in PER_DAY else Fraction(1) if unit == "day" else None
    kind = moment.type if unit in PER_DAY else DATE
    return RowExpression(kind, map_values(parser.algebra, moment, lambda days: truncate(unit, days), grid=grid).arms)


def end_month(parser: ExpressionParser, moment: RowExpression, sql: str) -> RowExpression:
    """Returns the last day of the month."""
    months = truncate_dates(parser, "month", moment, sql)

    def last_day(days: Fraction) -> Fraction:
        first = to_date(days)
        return days + monthrange(first.year, first.month)[1] - 1

    return RowExpression(DATE, map_values(parser.algebra, months, last_day).arms)


def extract_part(parser: ExpressionParser, part: str, moment: RowExpression, sql: str) -> RowExpression:
    """EXTRACT: of a date or timestamp, or of the difference of two timestamps."""
    part = SPELLINGS.get(part, part)
    algebra = parser.algebra
    if moment.type is INTERVAL and part in ("epoch", "day"):
        seconds = parser.join_numbers(moment, parser.make_number(Fraction(DAY_SECONDS)), Polynomial.times)
        return seconds if part == "epoch" else map_values(algebra, moment, round_zero)
    if moment.type not in DATE_TYPES:
        raise BadQuery(f"{sql} needs a date, not {moment.type.value}")
    if part == "epoch":
        return parser.join_numbers(moment, parser.make_number(Fraction(DAY_SECONDS)), Polynomial.times)
    if part in CYCLES:
        return algebra.make_expression(NUMBER, [Arm(arm.where, _cycle(algebra, part, arm)) for arm in moment.arms])
    if part not in CALENDAR_PARTS:
        raise UnsupportedQuery(f"EXTRACT of {part}", "use year, quarter, month, week, day, dow, hour, minute")
    unit = part if part in ("year", "quarter", "month", "week") else "day"
    units = truncate_dates(parser, unit, moment, sql)

    def read_part(days: Fraction) -> Fraction:
        return Fraction(CALENDAR_PARTS[part](to_date(days)))

    most = MAX_CALENDAR_DAYS if unit == "day" and moment.type is DATE else MAX_LEVELS
    return map_values(algebra, units, read_part, monotone=part == "year", max_steps=most)


def _cycle(algebra: RowAlgebra, part: str, arm: Arm) -> Polynomial | StepFunction | None:
    """Returns a part of the clock that comes round: hours in days, days in weeks."""
    if arm.value is None:
        return None
    if isinstance(arm.value, StepFunction):
        return arm.value.map_values(lambda days: _cycle_part(part, days))
    assert isinstance(arm.value, Polynomial)
    if arm.value.is_constant:
        return make_constant(_cycle_part(part, arm.value.constant))
    rate = Fraction(1) if "dow" in part else Fraction(PER_DAY[part])
    names = [monomial for monomial, _ in arm.value.terms if monomial]
    step = dict(arm.value.terms)[names[0]]
    width, offset = 1 / (rate * step), arm.value.constant / step
    if len(names) > 1 or len(names[0]) > 1 or step < 0 or offset.denominator != 1:
        raise UnsupportedQuery(f"EXTRACT of {part} from this", "take it from a column")
    if width < 1:  # a date has no hours, and a minute no seconds
        return make_constant(0)
    if width.denominator != 1:
        raise UnsupportedQuery(f"EXTRACT of {part} from this", "take it from a column")
    shift = 3 * int(width) if "dow" in part else 0  # 1970 began on a Thursday
    name = name_cycle(names[0][0], int(offset) + shift, int(width), CYCLES[part])
    number = make_polynomial([((name,), Fraction(1))])
    if part == "isodow":
        return number.plus(make_constant(1))
    if part == "dow":
        return make_step_function(name, {Fraction((day + 1) % 7): [(day, day)] for day in range(7)})
    return number


def _cycle_part(part: str, days: Fraction) -> Fraction:
    if part in PER_DAY:
        return Fraction(floor(days * PER_DAY[part]) % CYCLES[part])
    monday = (floor(days) + 3) % 7
    return Fraction(monday + 1 if part == "isodow" else (monday + 1) % 7)


def count_boundaries(
    parser: ExpressionParser, unit: str, first: RowExpression, last: RowExpression, sql: str
) -> RowExpression:
    """DATE_DIFF: how many years, months, days, ... begin between two dates."""
    ends = [truncate_dates(parser, unit, moment, sql) for moment in (last, first)]
    if unit in INTERVAL_MONTHS:

        def number_of(days: Fraction) -> Fraction:
            day = to_date(days)
            return Fraction((day.year * 12 + day.month - 1) // INTERVAL_MONTHS[unit])

        ends = [map_values(parser.algebra, end, number_of) for end in ends]
        factor = Fraction(1)
    else:
        factor = 1 / INTERVAL_DAYS[unit]
    difference = parser.join_numbers(ends[0], ends[1], Polynomial.minus)
    return parser.join_numbers(difference, parser.make_number(factor), Polynomial.times)


def count_years(parser: ExpressionParser, last: RowExpression, first: RowExpression, sql: str) -> RowExpression:
    """EXTRACT(year FROM AGE(last, first)): the full years between two dates, one of which is written out."""
    for moment in (last, first):
        if moment.type not in DATE_TYPES:
            raise BadQuery(f"{sql} needs dates, not {moment.type.value}")
    if last.constant is not None:
        end = last.constant
        return map_values(parser.algebra, first, lambda start: Fraction(_full_years(start, end)))
    if first.constant is None:
        advice = "one of the dates of AGE is written out: (last - first) / 365.25 is nearly the same"
        raise UnsupportedQuery(sql, advice)
    start = first.constant
    return map_values(parser.algebra, last, lambda end: Fraction(_full_years(start, end)))


def _full_years(start: Fraction, end: Fraction) -> int:
    """Returns the birthdays between two moments, which may be the wrong way round.

    >>> _full_years(Fraction(from_date(date(2000, 2, 29))), Fraction(from_date(date(2026, 2, 28))))
    25
    """
    if end < start:
        return -_full_years(end, start)
    first, last = to_date(start), to_date(end)
    is_before = (last.month, last.day, end % 1) < (first.month, first.day, start % 1)
    return last.year - first.year - is_before


def fill_buckets(parser: ExpressionParser, width: Fraction, moment: RowExpression, sql: str) -> RowExpression:
    """Returns when the bucket of so many days began: days are divided evenly, longer ones count from a Monday."""
    if moment.type not in DATE_TYPES:
        raise BadQuery(f"{sql} needs a date, not {moment.type.value}")
    if width <= 0 or (width < 1 and (1 / width).denominator != 1) or (width > 1 and width.denominator != 1):
        raise UnsupportedQuery(sql, "a bucket is a number of days, or divides a day: 1 hour, 15 minutes")
    origin = Fraction(0) if width <= 1 else Fraction(BUCKET_ORIGIN)
    grid = width if width <= 1 else None
    buckets = map_values(
        parser.algebra, moment, lambda days: floor((days - origin) / width) * width + origin, grid=grid
    )
    return RowExpression(moment.type if width < 1 else DATE, buckets.arms)
