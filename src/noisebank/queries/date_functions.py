"""Reads the spellings of functions of dates from a syntax tree: DATE_TRUNC, EXTRACT, YEAR, DATE_DIFF, CURRENT_DATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from noisebank.core.errors import BadQuery
from noisebank.queries.dates import (
    count_boundaries,
    extract_part,
    parse_interval,
    shift_by_interval,
    truncate_dates,
)
from noisebank.queries.number_functions import describe_node
from noisebank.queries.row_values import RowExpression

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
    part = str(node.this.name).lower()
    return extract_part(parser, part, parser.parse_expression(node.expression), describe_node(node))


def parse_named_part(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """YEAR(day) and its like."""
    return extract_part(parser, NAMED_PARTS[type(node)], parser.parse_expression(node.this), describe_node(node))


def parse_difference(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """DATE_DIFF('day', first, last)."""
    unit = "day" if node.args.get("unit") is None else str(node.args["unit"].name).lower()
    first, last = parser.parse_expression(node.expression), parser.parse_expression(node.this)
    return count_boundaries(parser, unit, first, last, describe_node(node))


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
    return extract_part(parser, str(part.name).lower(), parser.parse_expression(moment), describe_node(node))


def refuse_moving(parser: ExpressionParser, node: exp.Expr) -> RowExpression:
    """CURRENT_DATE and NOW() are written out before a question is read: see `queries.present`."""
    raise BadQuery(f"{describe_node(node)} changes while it is read: write a date, such as DATE '2026-11-18'")


DATE_FUNCTIONS: dict[type[exp.Expr], Callable[[ExpressionParser, exp.Expr], RowExpression]] = {
    **dict.fromkeys((exp.TimestampTrunc, exp.DateTrunc, exp.DatetimeTrunc), parse_truncation),
    **dict.fromkeys(NAMED_PARTS, parse_named_part),
    **dict.fromkeys((exp.DateDiff, exp.TimestampDiff, exp.DatetimeDiff), parse_difference),
    **dict.fromkeys((exp.DateAdd, exp.DateSub), parse_shift),
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp, exp.Localtimestamp), refuse_moving),
    exp.Extract: parse_extraction,
    exp.Interval: parse_interval,
    exp.Date: parse_date_of,
}
