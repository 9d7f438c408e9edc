"""Reads date and timestamp columns of a policy file: bounds as dates, the zone, bins by the calendar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

from noisebank.core.calendar import format_clock, from_date, is_zone, parse_clock, to_date
from noisebank.core.errors import BadRequest
from noisebank.core.units import parse_exact
from noisebank.policy.model import MAX_STEPS, Column, Kind

AddMistake = Callable[[str, str, str], None]
DAY_SECONDS = 86_400
MAX_BINS = 10_000
CALENDAR_BINS = ("year", "quarter", "month", "week", "day")


def read_date_column(
    name: str, kind: Kind, facts: Mapping[str, Any], nullable: bool, add_mistake: AddMistake
) -> Column:
    """Returns a date or timestamp column; mistakes go to `add_mistake`."""
    where = f"columns.{name}"
    for key in ("keys", "complete", *(("step", "zone") if kind is Kind.DATE else ())):
        if key in facts:
            add_mistake(f"{where}.{key}", f"does not go with type {kind.value!r}", "leave it out")
    step = _read_step(where, kind, facts.get("step", 1), add_mistake)
    zone = "" if kind is Kind.DATE else _read_zone(where, facts.get("zone", "UTC"), add_mistake)
    column = Column(name, kind, step, nullable=nullable, zone=zone)
    if "bounds" not in facts:
        if "bins" in facts:
            add_mistake(f"{where}.bins", "needs bounds", 'write bounds = ["2020-01-01", "2030-12-31"]')
        return column
    low, high = _read_bounds(where, column, facts["bounds"], add_mistake)
    bounded = Column(name, kind, step, low, high, nullable=nullable, zone=zone)
    bins = _read_bins(where, bounded, facts.get("bins", []), add_mistake)
    return Column(name, kind, step, low, high, bins=bins, nullable=nullable, zone=zone)


def _read_step(where: str, kind: Kind, value: Any, add_mistake: AddMistake) -> Fraction:
    try:
        step = parse_exact(value, "step")
    except BadRequest:
        step = Fraction(0)
    if kind is Kind.TIMESTAMP and (step.denominator != 1 or step < 1 or DAY_SECONDS % step):
        add_mistake(f"{where}.step", f"{value!r} does not fit", "write seconds that divide a day, e.g. 1, 60 or 3600")
        return Fraction(1)
    return step if kind is Kind.TIMESTAMP else Fraction(1)


def _read_zone(where: str, value: Any, add_mistake: AddMistake) -> str:
    if not isinstance(value, str) or not is_zone(value):
        add_mistake(f"{where}.zone", f"{value!r} is no time zone", 'write one like "UTC" or "Europe/Zurich"')
        return "UTC"
    return value


def _read_bounds(where: str, column: Column, bounds: Any, add_mistake: AddMistake) -> tuple[int, int]:
    example = '["2020-01-01", "2030-12-31"]' if column.kind is Kind.DATE else '["2020-01-01", "2030-12-31 23:59:59"]'
    right = f"write bounds = {example}: the first and the last {column.kind.value}"
    days = [_read_days(column, bound) for bound in bounds] if isinstance(bounds, list) else []
    first, last = days if len(days) == 2 else (None, None)
    if first is None or last is None:
        add_mistake(f"{where}.bounds", f"{bounds!r} are no two dates from year 1 to 9999", right)
        return 0, 1
    low, high = first / column.step_days, last // column.step_days
    if low.denominator != 1:
        add_mistake(f"{where}.bounds", "do not begin at a multiple of the step", right)
    elif low >= high:
        add_mistake(f"{where}.bounds", f"{format_clock(first)} is not before {format_clock(last)}", right)
    elif high - low > MAX_STEPS:
        add_mistake(f"{where}.bounds", "are more than 2^31 steps wide", "write narrower bounds, or step = 60")
    else:
        return int(low), int(high)
    return 0, 1


def _read_days(column: Column, value: Any) -> Fraction | None:
    """Returns a bound or edge as days since 1970. TOML has dates and times of its own."""
    if isinstance(value, datetime):
        value = None if value.tzinfo else value.isoformat(sep=" ", timespec="seconds")
    elif isinstance(value, date):
        value = value.isoformat()
    days = parse_clock(value) if isinstance(value, str) else None
    return None if days is None or (column.kind is Kind.DATE and days.denominator != 1) else days


def _read_bins(where: str, column: Column, bins: Any, add_mistake: AddMistake) -> tuple[int, ...]:
    low, high = column.bounds
    names = ", ".join(f'"{unit}"' for unit in CALENDAR_BINS)
    right = f"write rising dates inside the bounds, or one of {names}"
    if isinstance(bins, str) and bins in CALENDAR_BINS:
        return calendar_bins(column, bins)
    days = [_read_days(column, edge) for edge in bins] if isinstance(bins, list) else [None]
    edges = [edge / column.step_days for edge in days if edge is not None]
    rising = all(a < b for a, b in pairwise(edges)) and len(edges) == len(days)
    if not rising or any(edge.denominator != 1 or not low < edge <= high for edge in edges):
        add_mistake(f"{where}.bins", f"{bins!r} do not fit", right)
        return ()
    return tuple(int(edge) for edge in edges)


def calendar_bins(column: Column, unit: str) -> tuple[int, ...]:
    """Returns the steps at which a new year, quarter, month, week or day begins, inside the bounds."""
    low, high = (bound * column.step_days for bound in column.bounds)
    edges: list[int] = []
    day = next_start(to_date(low), unit)
    while day is not None and from_date(day) <= high and len(edges) < MAX_BINS:
        edges.append(int(from_date(day) / column.step_days))
        day = next_start(day, unit)
    return tuple(edges)


def next_start(day: date, unit: str) -> date | None:
    """Returns the first day of the next year, quarter, month, week (Monday) or day; None after the year 9999."""
    try:
        if unit == "day":
            return day + timedelta(days=1)
        if unit == "week":
            return day + timedelta(days=7 - day.weekday())
        month = {"year": 13, "quarter": (day.month - 1) // 3 * 3 + 4, "month": day.month + 1}[unit]
        return date(day.year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    except (ValueError, OverflowError):
        return None
