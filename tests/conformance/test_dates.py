"""Dates: every engine reads the days and clocks that plain Python reads, whatever stores them."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow
import pyarrow.parquet
import pytest

from conformance.stores import Store
from conformance.tables import policy_of
from noisebank import Policy
from support.internals import (
    Column,
    Kind,
    SqlEngine,
    group_labels,
    group_order,
    make_engine,
    parse_question,
    read_header,
)

EPOCH = date(1970, 1, 1)
ZONE = "Europe/Zurich"
TEXTS = (
    "2024-02-29", "2023-02-29", "2100-02-29", "2000-02-29", "0001-01-01", "9999-12-31", "0000-01-01", "2024-13-01",
    "2024-00-10", "2024-04-31", "2024-12-31", "2025-01-01", "2026-03-29 02:30", "2026-03-29T01:00:00Z",
    "2026-03-29 00:59:59.999999Z", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00+00:00",
    "2026-10-25 02:30:00+02", "2026-10-25 02:30:00+0100", "2026-11-18 23:59:59.999999999", "2026-11-18 24:00:00",
    "2026-11-18 12:60", "2026-11-18 7:00", "2026-11-18 ", " 2026-11-18", "18.11.2026", "11/18/2026", "infinity",
    "-infinity", "epoch", "now", "today", "2026-11-18 BC", "+2026-11-18", "12026-11-18", "2026-W47-3", "20261118",
    "2026-11-18 13:00 Europe/Zurich", "２０２６-11-18", "2026-11-18T13:00:00-18:00", "", "1969-12-31 23:59:59",
    "2026-11-18\n", "NULL",
)  # fmt: skip
FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?( ?(?:Z|([+-])(\d\d)(?::?(\d\d))?))?)?",
    re.ASCII,
)
DAY = Column("day", Kind.DATE, low=-700_000, high=2_900_000, nullable=True)
NARROW = Column("narrow", Kind.DATE, low=19_723, high=20_818)  # 2024 to 2026
CLOCK = Column("clock", Kind.TIMESTAMP, low=1_700_000_000, high=1_800_000_000, nullable=True, zone=ZONE)
HOURS = Column("hours", Kind.TIMESTAMP, Fraction(3600), 472_222, 499_999, zone=ZONE)
COLUMNS = [DAY, NARROW, CLOCK, HOURS]


def read_text(text: str) -> tuple[datetime, int | None] | None:
    """What a text says, and how many seconds its clock is ahead of UTC, if it says so."""
    match = FORM.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime(*(int(part or 0) for part in match.groups()[:6]))  # type: ignore[arg-type]
    except ValueError:
        return None
    if match[7] is None:
        return moment, None
    hours, minutes = int(match[9] or 0), int(match[10] or 0)
    if hours > 18 or minutes > 59:
        return None
    return moment, (hours * 3600 + minutes * 60) * (-1 if match[8] == "-" else 1)


def step_of(column: Column, value: Any) -> int | None:
    """The step of a stored value, by Python's own calendar."""
    low, high = column.bounds
    missing = None if column.nullable else low
    if isinstance(value, str):
        found = read_text(value)
        if found is None:
            return missing
        value, ahead = found
        if ahead is not None and column.kind is Kind.TIMESTAMP:
            value = value.replace(tzinfo=timezone(timedelta(seconds=ahead)))
    if value is None:
        return missing
    if column.kind is Kind.DATE:
        if isinstance(value, datetime):
            value = (value.astimezone(ZoneInfo("UTC")) if value.tzinfo else value).date()
        return min(max((value - EPOCH).days, low), high)
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is not None:
        try:
            value = value.astimezone(ZoneInfo(column.zone)).replace(tzinfo=None)
        except OverflowError:
            return low if value.year < 1000 else high
    seconds = (value.date() - EPOCH).days * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    return min(max(seconds // int(column.step), low), high)


def values_of(kind: str) -> list[Any]:
    days = [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2026, 11, 18), None]
    if kind == "date":
        return days
    if kind == "text":
        return list(TEXTS)
    clocks: list[Any] = [datetime(day.year, day.month, day.day, 13, 5, 59, 999_999) for day in days if day]
    clocks += [datetime(2026, 10, 25, 0, 30), datetime(2026, 10, 25, 1, 30), datetime(2026, 3, 29, 0, 59, 59), None]
    zone = ZoneInfo("UTC")
    return [clock.replace(tzinfo=zone) if clock else None for clock in clocks] if kind == "timestamptz" else clocks


@pytest.mark.parametrize("kind", ["text", "date", "timestamp", "timestamptz"])
def test_every_engine_reads_the_same_days_and_clocks(store: Store, kind: str) -> None:
    if store.only_text and kind != "text":
        pytest.skip("everything is text here")
    policy = policy_of(COLUMNS, row_cap=1000)
    values = values_of(kind)
    rows = [{column.name: value for column in COLUMNS} for value in values]
    engine = store.engine(policy, {column.name: kind for column in COLUMNS}, rows, "k")
    random = Random(1)
    for column in COLUMNS:
        steps = [step_of(column, value or None) for value in values]
        weights = {step: random.randrange(1, 2**20) for step in dict.fromkeys(steps) if step is not None}
        arms = " ".join(f"WHEN {literal(column, step)} THEN {weight}" for step, weight in weights.items())
        question = parse_question(f"SELECT SUM(CASE {column.name} {arms} ELSE 0 END) FROM t", policy)
        assert engine.statistic(question.query) * question.unit == sum(weights[s] for s in steps if s is not None), (
            column
        )
        if column.nullable:
            assert ask_count(engine, policy, f"{column.name} IS NULL") == steps.count(None)
    inspection = engine.inspect()
    unread = sum(1 for value in values if not value or (isinstance(value, str) and read_text(value) is None))
    assert inspection.missing == {column.name: unread for column in COLUMNS}


def literal(column: Column, step: int) -> str:
    seconds = step * int(column.step_days * 86_400)
    moment = datetime(1970, 1, 1) + timedelta(seconds=seconds)
    return f"DATE '{moment.date()}'" if column.kind is Kind.DATE else f"TIMESTAMP '{moment}'"


def ask_count(engine: SqlEngine, policy: Policy, condition: str) -> int:
    return engine.statistic(parse_question(f"SELECT COUNT(*) FROM t WHERE {condition}", policy).query)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_first_and_the_last_microsecond_that_a_file_can_hold(tmp_path: Path, zone: str | None) -> None:
    """One row with the least integer was an error for everybody: what was worked out from it left 64 bits."""
    moments = [-(2**63), -(2**63) + 1, -1, 0, 1, 1_750_000_000_000_001, 2**63 - 1]
    stored = pyarrow.Array.from_buffers(
        pyarrow.timestamp("us", zone),
        len(moments),
        [None, pyarrow.py_buffer(struct.pack(f"<{len(moments)}q", *moments))],
    )
    pyarrow.parquet.write_table(pyarrow.table({"clock": stored, "day": stored}), tmp_path / "t.parquet")
    column = Column("clock", Kind.TIMESTAMP, low=-1, high=2_000_000_000, nullable=True, zone="UTC")
    source = tmp_path / "t.parquet"
    policy = replace(policy_of([column, DAY], row_cap=1000), source=source)
    engine = make_engine(policy, read_header(source), "k")
    infinite = [-(2**63) + 1, 2**63 - 1]  # how DuckDB stores what has no end
    seconds = [None if moment in infinite else min(max(moment // 10**6, -1), 2 * 10**9) for moment in moments]
    assert isinstance(engine, SqlEngine) and engine.inspect().rows == len(moments)
    assert ask_count(engine, policy, "clock IS NULL") == seconds.count(None)
    for second in {second for second in seconds if second is not None}:
        moment = datetime(1970, 1, 1) + timedelta(seconds=second)
        assert ask_count(engine, policy, f"clock = TIMESTAMP '{moment}'") == seconds.count(second), second


CALENDAR: dict[str, Callable[[datetime], str]] = {
    "DATE_TRUNC('year', {})": lambda m: f"{m.year:04}-01-01",
    "DATE_TRUNC('month', {})": lambda m: f"{m:%Y-%m}-01",
    "DATE_TRUNC('quarter', {})": lambda m: f"{m.year:04}-{(m.month - 1) // 3 * 3 + 1:02}-01",
    "DATE_TRUNC('week', {})": lambda m: str((m - timedelta(days=m.weekday())).date()),
    "EXTRACT(year FROM {})": lambda m: str(m.year),
    "EXTRACT(month FROM {})": lambda m: str(m.month),
    "EXTRACT(day FROM {})": lambda m: str(m.day),
    "EXTRACT(dow FROM {})": lambda m: str(m.isoweekday() % 7),
    "EXTRACT(isodow FROM {})": lambda m: str(m.isoweekday()),
    "EXTRACT(week FROM {})": lambda m: str(m.isocalendar()[1]),
    "CAST({} AS DATE)": lambda m: str(m.date()),
}
CLOCKS: dict[str, Callable[[datetime], str]] = {
    "EXTRACT(hour FROM {})": lambda m: str(m.hour),
    "EXTRACT(minute FROM {})": lambda m: str(m.minute),
}


@pytest.mark.parametrize("name", ["a", "b"])
def test_groups_by_the_calendar(store: Store, name: str) -> None:
    """Leap days, ends of years, and both hours of the day on which clocks are put back."""
    columns = [
        Column("a", Kind.DATE, low=19_723, high=20_818),
        Column("b", Kind.TIMESTAMP, low=1_704_067_200, high=1_798_761_599, zone=ZONE),
    ]
    policy = policy_of(columns, row_cap=1000)
    moments = [datetime(2024, 1, 1) + timedelta(hours=37 * number, minutes=7 * number) for number in range(700)]
    moments += [datetime(2024, 2, 29, 5), datetime(2024, 12, 30), datetime(2026, 10, 25, 2, 30), datetime(2026, 1, 1)]
    rows = [{"a": str(moment.date()), "b": str(moment)} for moment in moments]
    engine = store.engine(policy, {"a": "text", "b": "text"}, rows, "k")
    for form, label in {**CALENDAR, **(CLOCKS if name == "b" else {})}.items():
        key = form.format(name)
        query = parse_question(f"SELECT COUNT(*) FROM t GROUP BY {key}", policy).query
        values = engine.statistics(query)
        shown = [values[place] for place in group_order(query, policy)]
        result = {names[0]: count for names, count in zip(group_labels(query, policy), shown, strict=True) if count}
        exact = [moment if name == "b" else datetime(moment.year, moment.month, moment.day) for moment in moments]
        assert result == Counter(map(label, exact)), key
        assert list(result) == sorted(result, key=lambda text: (len(text), text)), "in the order of their values"


def test_differences_and_intervals(store: Store) -> None:
    columns = [
        Column("a", Kind.DATE, low=19_723, high=20_818),
        Column("b", Kind.DATE, low=19_723, high=20_900, nullable=True),
        Column("c", Kind.TIMESTAMP, low=1_704_067_200, high=1_798_761_599, zone=ZONE),
    ]
    policy = policy_of(columns, row_cap=1000)
    pairs = [
        ("2024-02-28", "2024-03-01"),
        ("2026-01-31", "2026-02-28"),
        ("2025-06-01", None),
        ("2024-01-01", "2027-03-01"),
    ]
    rows = [{"a": a, "b": b, "c": f"{a} 12:00:00"} for a, b in pairs]
    if store.only_text:
        rows = [{name: value or "" for name, value in row.items()} for row in rows]
    engine = store.engine(policy, {"a": "text", "b": "text", "c": "text"}, rows, "k")
    expected = {
        "SUM(b - a) FROM t": 2 + 28 + 1155,
        "SUM(CLAMP(b - a, 0, 60)) FROM t": 2 + 28 + 60,
        "COUNT(*) FROM t WHERE b - a > 7": 2,
        "COUNT(*) FROM t WHERE b > a + 2": 2,
        "COUNT(*) FROM t WHERE DATE '2026-11-18' - a > 365": 3,
        "COUNT(*) FROM t WHERE a = DATE '2024-01-31' - INTERVAL '1 month' + INTERVAL '59 days'": 1,
        "COUNT(*) FROM t WHERE c - TIMESTAMP '2024-01-01' >= INTERVAL '58 days 12 hours'": 3,
        "COUNT(*) FROM t WHERE c BETWEEN TIMESTAMP '2024-02-28 12:00' AND TIMESTAMP '2024-02-28 12:00'": 1,
        "SUM(DATE_DIFF('month', a, DATE '2026-12-31')) FROM t": 34 + 11 + 18 + 35,
        "SUM(EXTRACT(epoch FROM (c - TIMESTAMP '2024-01-01')) / 86400) FROM t WHERE a < '2024-06-01'": 58 + 1,
        "COUNT(*) FROM t WHERE CASE WHEN b IS NULL THEN a ELSE b END >= DATE '2026-01-01'": 2,
        "SUM(CASE WHEN COALESCE(b, DATE '2026-12-31') > a THEN 1 ELSE 0 END) FROM t": 4,
    }
    for sql, answer in expected.items():
        question = parse_question(f"SELECT {sql}", policy)
        assert engine.statistic(question.query) * question.unit + question.offset == answer, sql
