"""Reads the spellings of functions of dates from a syntax tree: DATE_TRUNC, EXTRACT, YEAR, DATE_DIFF, CURRENT_DATE."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.queries.dates import (
    count_boundaries,
    count_years,
    end_month,
    extract_part,
    fill_buckets,
    parse_date_texts,
    parse_interval,
    read_interval,
    shift_by_interval,
    truncate_dates,
)
from noisebank.queries.number_functions import describe_node
from noisebank.queries.row_values import RowExpression, ValueType

if TYPE_CHECKING:
    from noisebank.queries.row_expressions import ExpressionParser

NAMED_PARTS: dict[type[exp.Expr], str] = {
    exp.Year: "year", exp.Quarter: "quarter", exp.Month: "month", exp.Week: "week", exp.WeekOfYear: "week",
    exp.Day: "day", exp.DayOfMonth: "day", exp.DayOfWeek: "dow", exp.DayOfWeekIso: "isodow", exp.DayOfYear: "doy",
    exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second",
}  # fmt: skip


def parse_truncation(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """DATE_TRUNC('month', day)."""
    unit = str(node.args["unit"].name).lower().removesuffix("(monday)")
    return truncate_dates(parser, unit, parser.parse_expression(node.this), describe_node(node))


def parse_extraction(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """EXTRACT(month FROM day)."""
    return _extract_from(parser, str(node.this.name).lower(), node.expression, node)


def parse_named_part(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """YEAR(day) and its like."""
    return extract_part(parser, NAMED_PARTS[type(node)], parser.parse_expression(node.this), describe_node(node))


def parse_difference(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """DATE_DIFF('day', first, last)."""
    unit = "day" if node.args.get("unit") is None else str(node.args["unit"].name).lower()
    first, last = _read_moment(parser, node.expression), _read_moment(parser, node.this)
    return count_boundaries(parser, unit, first, last, describe_node(node))


def parse_bin(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """time_bucket(INTERVAL '15 minutes', moment): days and weeks begin as those of DATE_TRUNC do."""
    interval, moment = node.this, parser.parse_expression(node.expression)
    sql, origin = describe_node(node), node.args.get("unit")
    if isinstance(interval, exp.Literal) and interval.is_string:
        interval = exp.Interval(this=interval.copy())
    starts_at = Fraction(0) if origin is None else _read_moment(parser, origin).constant
    if not isinstance(interval, exp.Interval) or node.args.get("zone") is not None:
        raise UnsupportedQuery(sql, "write time_bucket(INTERVAL '1 hour', moment)")
    months, days = read_interval(interval)
    if origin is not None and (months or days > 1 or starts_at is None or starts_at % 1):
        raise UnsupportedQuery(sql, "begin at midnight, with buckets that divide a day")
    if months:
        units = {1: "month", 3: "quarter", 12: "year"}
        if days or months not in units:
            raise UnsupportedQuery(
                sql, "a bucket is a month, a quarter or a year, or a number of days, hours or minutes"
            )
        return truncate_dates(parser, units[months], moment, sql)
    return fill_buckets(parser, days, moment, sql)


def refuse_zone(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """AT TIME ZONE."""
    raise UnsupportedQuery(describe_node(node), "timestamps show the clock of the policy's zone: leave it out")


def parse_last_day(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """LAST_DAY: of the month."""
    if node.args.get("unit") is not None:
        raise UnsupportedQuery(describe_node(node), "LAST_DAY is that of the month")
    return end_month(parser, parser.parse_expression(node.this), describe_node(node))


def parse_shift(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """DATE_ADD and DATE_SUB."""
    if not isinstance(node.expression, exp.Interval):
        raise BadQuery(f"{describe_node(node)}: write INTERVAL '7 days'")
    return shift_by_interval(parser, node, parser.parse_expression(node.this), node.expression)


def parse_date_of(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """DATE(moment)."""
    return parser.parse_expression(exp.cast(node.this.copy(), "DATE"))


def parse_date_part(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """date_part('year', day)."""
    if len(node.expressions) != 2:
        raise BadQuery("date_part takes a part and a date: date_part('year', day)")
    part, moment = node.expressions
    return _extract_from(parser, str(part.name).lower(), moment, node)


def _extract_from(parser: ExpressionParser, part: str, moment: exp.Expr, node: exp.Expr) -> RowExpression:
    bare = moment.unnest()
    if not isinstance(bare, exp.Anonymous) or str(bare.this).lower() != "age":
        return extract_part(parser, part, parser.parse_expression(moment), describe_node(node))
    if part not in ("year", "years"):
        raise UnsupportedQuery(f"EXTRACT of {part} from AGE", "take the year, or the difference of two dates in days")
    ends = [_read_moment(parser, each) for each in bare.expressions]
    if len(ends) != 2:
        raise BadQuery("AGE takes two dates: AGE(CURRENT_DATE, born)")
    return count_years(parser, ends[0], ends[1], describe_node(node))


def refuse_age(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """AGE without EXTRACT: months have different lengths."""
    raise UnsupportedQuery(describe_node(node), "ask EXTRACT(year FROM AGE(last, first)), or last - first in days")


def _read_moment(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """Returns a date, also where it is written as a plain text."""
    moment = parser.parse_expression(node)
    return parse_date_texts(moment) if moment.type is ValueType.TEXT else moment


def refuse_moving(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """CURRENT_DATE and NOW() are written out before a question is read: see `queries.current_time`."""
    raise BadQuery(f"{describe_node(node)} changes while it is read: write a date, such as DATE '2026-11-18'")


DATE_FUNCTIONS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc), parse_truncation),
    **dict.fromkeys(NAMED_PARTS, parse_named_part),
    **dict.fromkeys((exp.DateDiff, exp.TimestampDiff, exp.DatetimeDiff), parse_difference),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), parse_shift),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp), refuse_moving),
    exp.Extract: parse_extraction,
    exp.DateBin: parse_bin,
    exp.AtTimeZone: refuse_zone,
    exp.LastDay: parse_last_day,
    exp.Interval: parse_interval,
    exp.Date: parse_date_of,
}
