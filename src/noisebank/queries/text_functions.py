"""Parses functions of texts in row expressions: UPPER, LEFT, SUBSTRING, CONCAT of declared keys, STRFTIME of dates.

A text column is one of its declared keys, so a function of it has finitely many values: one arm each. What is none of
the keys stays what it is: no text equals it, and it belongs to no group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from functools import reduce
from math import floor
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.calendar import to_date
from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.dates import DATE_TYPES, extract_part, truncate_dates
from noisebank.queries.number_functions import describe_node
from noisebank.queries.polynomials import Polynomial
from noisebank.queries.predicates import Predicate
from noisebank.queries.row_functions import map_values
from noisebank.queries.row_values import TOO_MANY_ARMS, Arm, RowExpression, TextColumn, Value, ValueType
from noisebank.queries.values import make_value_set

if TYPE_CHECKING:
    from noisebank.queries.row_expressions import ExpressionParser

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_CODES: dict[str, Callable[[date], str]] = {
    "Y": lambda day: f"{day.year:04d}",
    "y": lambda day: f"{day.year % 100:02d}",
    "q": lambda day: str((day.month + 2) // 3),
    "m": lambda day: f"{day.month:02d}",
    "B": lambda day: MONTHS[day.month - 1],
    "b": lambda day: MONTHS[day.month - 1][:3],
    "d": lambda day: f"{day.day:02d}",
    "j": lambda day: f"{day.timetuple().tm_yday:03d}",
    "A": lambda day: WEEKDAYS[day.weekday()],
    "a": lambda day: WEEKDAYS[day.weekday()][:3],
    "u": lambda day: str(day.isoweekday()),
    "w": lambda day: str(day.isoweekday() % 7),
    "G": lambda day: f"{day.isocalendar()[0]:04d}",
    "V": lambda day: f"{day.isocalendar()[1]:02d}",
}
TIME_CODES = {"H": 24, "M": 60, "S": 60}
UNITS = {
    "Y": "year", "y": "year", "q": "quarter", "m": "month", "B": "month", "b": "month", "G": "week", "V": "week",
    "H": "hour", "M": "minute", "S": "second",
}  # fmt: skip
"""The longest unit on which a code is constant; a day, where nothing is said."""
ORDER = ("year", "quarter", "month", "day", "hour", "minute", "second")
CYCLES: dict[str, tuple[str, Callable[[int], date]]] = {
    **dict.fromkeys("mBb", ("month", lambda number: date(2001, number, 1))),
    **dict.fromkeys("Aauw", ("isodow", lambda number: date(2001, 1, number))),
    "q": ("quarter", lambda number: date(2001, 3 * number, 1)),
    "d": ("day", lambda number: date(2001, 1, number)),
    "V": ("week", lambda number: date.fromisocalendar(2020, number, 1)),
}
"""Codes that come round: the part that they show, and a day with such a part (1 January 2001 was a Monday)."""


# -- texts -----------------------------------------------------------------------------------------


def list_texts(parser: ExpressionParser, expression: RowExpression, node: exp.Expr) -> Iterator[Arm]:
    """Yields the arms of a text with one arm per declared key of a column."""
    if expression.type is ValueType.NUMBER:
        expression = write_numbers(parser, expression, lambda number: _write_whole(number, node))
    if expression.type not in (ValueType.TEXT, ValueType.NOTHING):
        raise BadQuery(f"{describe_node(node)} needs a text, not {expression.type.value}")
    for arm in expression.arms:
        if not isinstance(arm.value, TextColumn):
            yield arm
            continue
        name, rest = arm.value.column, arm.where
        for number, key in enumerate(parser.find_column(exp.column(name, quoted=True)).key_names):
            is_key = parser.builder.in_values(name, make_value_set([number]))
            yield Arm(parser.builder.conjunction(arm.where, is_key), key)
            rest = parser.builder.conjunction(rest, parser.builder.negation(is_key))
        yield Arm(rest, arm.value)


def map_texts(parser: ExpressionParser, node: exp.Expr, function: Callable[[str], str]) -> RowExpression:
    """Returns a function of a text: of each declared key."""
    arms = [
        Arm(arm.where, function(arm.value) if isinstance(arm.value, str) else arm.value)
        for arm in list_texts(parser, parser.parse_expression(node.this), node)
    ]
    return parser.algebra.make_expression(ValueType.TEXT, arms)


def _write_whole(number: Fraction, node: exp.Expr) -> str:
    if number.denominator != 1:
        raise UnsupportedQuery(f"{describe_node(node)}, a fraction as a text", "engines write it in different ways")
    return str(number.numerator)


def write_text(parser: ExpressionParser, value: RowExpression, node: exp.Expr) -> RowExpression:
    """CAST(number AS TEXT): of whole numbers with few values."""
    return parser.algebra.make_expression(ValueType.TEXT, list_texts(parser, value, node))


def parse_upper(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """UPPER."""
    return map_texts(parser, node, str.upper)


def parse_lower(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """LOWER."""
    return map_texts(parser, node, str.lower)


def parse_left(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """LEFT and RIGHT."""
    size = _read_count(parser, node.expression, node)
    is_left = isinstance(node, exp.Left)
    return map_texts(parser, node, lambda text: text[:size] if is_left else text[max(0, len(text) - size) :])


def parse_substring(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """SUBSTRING(text, first, length), counted from 1."""
    start = _read_count(parser, node.args.get("start"), node)
    length = node.args.get("length")
    stop = None if length is None else start - 1 + _read_count(parser, length, node)
    if start < 1:
        raise UnsupportedQuery(describe_node(node), "SUBSTRING counts from 1")
    return map_texts(parser, node, lambda text: text[start - 1 : stop])


def _read_count(parser: ExpressionParser, node: exp.Expr | None, whole: exp.Expr) -> int:
    count = None if node is None else parser.parse_number(node).constant
    if count is None or count.denominator != 1 or not 0 <= count < 10_000:
        raise BadQuery(f"{describe_node(whole)} takes whole numbers that are written out")
    return int(count)


def parse_concatenation(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """|| is NULL where one of its texts is; CONCAT leaves NULL out."""
    skips = isinstance(node, exp.Concat)
    nodes = node.expressions if skips else [node.this, node.expression]
    texts = []
    for part in nodes:
        arms = list_texts(parser, parser.parse_expression(part), node)
        texts.append(parser.algebra.make_expression(ValueType.TEXT, arms))

    def join(where: Predicate, a: Value, b: Value) -> Iterator[Arm]:
        if isinstance(a, str) and isinstance(b, str):
            yield Arm(where, a + b)
        else:  # one of them is no declared key: what both are together is not known
            yield Arm(where, a if isinstance(a, TextColumn) else b)

    return reduce(
        lambda left, right: parser.algebra.make_expression(
            ValueType.TEXT, parser.algebra.combine(left, right, join, skips_null=skips)
        ),
        texts,
    )


# -- dates as texts ----------------------------------------------------------------------------------


def parse_date_text(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """STRFTIME(day, '%Y-%m'): a text for each year, month or day that there is."""
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or not form.is_string:
        raise UnsupportedQuery(describe_node(node), "write STRFTIME(day, '%Y-%m')")
    text, moment = str(form.this), parser.parse_expression(node.this)
    if moment.type not in DATE_TYPES:
        raise BadQuery(f"{describe_node(node)} needs a date, not {moment.type.value}")
    codes = set(re.findall(r"%(.?)", text.replace("%%", ""), re.DOTALL))
    if not codes <= {*DAY_CODES, *TIME_CODES}:
        raise UnsupportedQuery(describe_node(node), "use codes of years, quarters, months, weeks, days and hours")
    (only,) = codes if len(codes) == 1 else ("",)
    if only in CYCLES:
        part, day_of = CYCLES[only]
        numbers = extract_part(parser, part, moment, describe_node(node))
        return write_numbers(parser, numbers, lambda number: _write_date(text, Fraction(0), day_of(int(number))))
    if only == "H":
        hours = extract_part(parser, "hour", moment, describe_node(node))
        return write_numbers(parser, hours, lambda number: _write_date(text, number / 24, date(2001, 1, 1)))
    units = truncate_dates(parser, _find_unit(codes), moment, describe_node(node))
    return write_numbers(parser, units, lambda days: _write_date(text, days, to_date(days)))


def _find_unit(codes: set[str]) -> str:
    units = {UNITS.get(code, "day") for code in codes}
    if "week" in units:  # it begins in one year or month and may end in another
        units = units - {"week"} | {"day"} if units != {"week"} else {"week"}
    return "week" if units == {"week"} else max(units, key=ORDER.index, default="year")


def _write_date(form: str, days: Fraction, day: date) -> str:
    seconds = floor(days % 1 * 86_400)
    times = {"H": seconds // 3600, "M": seconds // 60 % 60, "S": seconds % 60, "%": None}

    def write_code(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        return DAY_CODES[match[1]](day) if match[1] in DAY_CODES else f"{times[match[1]]:02d}"

    return re.sub(r"%(.)", write_code, form, flags=re.DOTALL)


def write_numbers(parser: ExpressionParser, numbers: RowExpression, write: Callable[[Fraction], str]) -> RowExpression:
    """Returns the texts of a number with finitely many values."""
    finite = map_values(parser.algebra, numbers, lambda number: number, monotone=False)
    arms = []
    for arm in parser.algebra.expand(finite.arms):
        if arm.value is None:
            arms.append(arm)
            continue
        if not isinstance(arm.value, Polynomial) or not arm.value.is_constant:  # it rises evenly, with too many values
            raise UnsupportedQuery("a text with this many values", TOO_MANY_ARMS)
        arms.append(Arm(arm.where, write(arm.value.constant)))
    return parser.algebra.make_expression(ValueType.TEXT, arms)


TEXT_FUNCTIONS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    exp.Upper: parse_upper,
    exp.Lower: parse_lower,
    **dict.fromkeys((exp.Left, exp.Right), parse_left),
    exp.Substring: parse_substring,
    **dict.fromkeys((exp.Concat, exp.DPipe), parse_concatenation),
    exp.TimeToStr: parse_date_text,
}
