"""Functions of numbers and dates, on constants whose values anybody can look up. The whole file takes a second.

A condition on constants is worked out while it is parsed: where it holds, the question is one about all rows.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.file import parse_policy
from noisebank.queries.sql import parse_question

POLICY = parse_policy(
    """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
[budget]
epsilon = 8
delta = 1e-6
[columns.x]
type = "integer"
bounds = [0, 100]
[columns.y]
type = "number"
step = 0.25
bounds = [-50, 50]
[columns.b]
type = "boolean"
[columns.day]
type = "date"
bounds = ["2024-01-01", "2026-12-31"]
[columns.moment]
type = "timestamp"
bounds = ["2026-01-01", "2026-12-31 23:59:59"]
""",
    Path(),
)


NOBODY = b""


def digest(condition: str) -> bytes:
    """The question's digest; none where the condition can hold for no row, which is refused."""
    try:
        return parse_question(f"SELECT COUNT(*) FROM t WHERE {condition}", POLICY).query.digest
    except BadQuery as error:
        if "no row can meet this condition" not in str(error):
            raise
        return NOBODY


EVERYBODY = digest("x >= 0")


def assert_value(expression: str, value: str) -> None:
    """An expression is this value, and no other one."""
    assert digest(f"{expression} = {value}") == EVERYBODY != NOBODY == digest(f"{expression} <> {value}"), expression


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("FLOOR(2.5)", "2"), ("FLOOR(-2.5)", "-3"), ("CEIL(2.5)", "3"), ("CEIL(-2.5)", "-2"), ("TRUNC(2.7)", "2"),
        ("TRUNC(-2.7)", "-2"), ("ROUND(2.5)", "3"), ("ROUND(-2.5)", "-3"), ("ROUND(2.4)", "2"), ("ROUND(-2.4)", "-2"),
        ("ROUND(0.125, 2)", "0.13"), ("ROUND(-0.125, 2)", "-0.13"), ("ROUND(1250, -2)", "1300"), ("ROUND(7, 0)", "7"),
        ("ABS(-3)", "3"), ("ABS(3)", "3"), ("ABS(0)", "0"), ("SIGN(-0.5)", "-1"), ("SIGN(0)", "0"), ("SIGN(9)", "1"),
        ("MOD(7, 3)", "1"), ("MOD(-7, 3)", "-1"), ("MOD(7, -3)", "1"), ("MOD(6, 3)", "0"), ("MOD(7.5, 2)", "1.5"),
        ("GREATEST(1, 3, 2)", "3"), ("GREATEST(1, NULL)", "1"), ("LEAST(2, -1, 3)", "-1"), ("LEAST(NULL, 4)", "4"),
        ("GREATEST(2, 2)", "2"), ("LEAST(1, 2)", "1"), ("LEAST(1, 3)", "1"), ("GREATEST(-3, -1)", "-1"),
        ("CLAMP(7, 0, 5)", "5"), ("CLAMP(-7, 0, 5)", "0"), ("CLAMP(3, 0, 5)", "3"), ("CLAMP(9, 5, 5)", "5"),
        ("width_bucket(-1, 0, 10, 5)", "0"), ("width_bucket(0, 0, 10, 5)", "1"), ("width_bucket(1.9, 0, 10, 5)", "1"),
        ("width_bucket(2, 0, 10, 5)", "2"), ("width_bucket(9.9, 0, 10, 5)", "5"), ("width_bucket(10, 0, 10, 5)", "6"),
        ("width_bucket(3, 3, 4, 1)", "1"), ("CAST(TRUE AS INT)", "1"), ("CAST(FALSE AS INT)", "0"),
        ("CAST(2.5 AS DOUBLE)", "2.5"), ("CAST(2.5 AS DECIMAL)", "2.5"), ("CAST(7 AS BIGINT)", "7"),
        ("CAST(2.25 AS DECIMAL(5, 2))", "2.25"), ("COALESCE(NULL, 3)", "3"), ("NULLIF(3, 4)", "3"), ("2 - -3", "5"),
    ],
)  # fmt: skip
def test_functions_of_numbers(expression: str, value: str) -> None:
    assert_value(expression, value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CAST(2.5 AS INT) = 2", "write ROUND"), ("CAST(y AS INT) = 2", "write ROUND"),
        ("CAST(y AS BIGINT) = 2", "write ROUND"), ("CAST(y AS DECIMAL(9, 1)) = 2", "write ROUND"),
        ("CAST(2.25 AS DECIMAL(5, 1)) = 2", "write ROUND"), ("CAST(b AS TEXT) = 'a'", "truth values and numbers"),
        ("CAST(x AS DATE) = DATE '2026-01-01'", "needs a date"), ("CLAMP(x, 0) = 1", "CLAMP takes"),
        ("CAST(x AS TIMESTAMP) = TIMESTAMP '2026-01-01'", "needs a date"),
        ("CLAMP(x, 5, 4) = 5", "the lower one first"),
        ("width_bucket(x, 5, 5, 3) = 1", "low < high"), ("width_bucket(x, 0, 5, 0) = 1", "low < high"),
        ("width_bucket(x, 0, 5, 1.5) = 1", "low < high"), ("ROUND(y, 0.5) = 1", "whole number"),
        ("ROUND(y, 31) = 1", "whole number"), ("day < DATE '9999-12-31' + 1", "years 1 to 9999"),
        ("day > DATE '0001-01-31' - INTERVAL '1 month'", "years 1 to 9999"),
        ("day > day - INTERVAL '1 month'", "compare it with a constant"),
        ("day - day < INTERVAL '1 month'", "different lengths"),
        ("day > day + INTERVAL '1.5 years'", "whole numbers"), ("EXTRACT(century FROM day) = 20", "use year"),
        ("DATE_TRUNC('decade', day) = day", "use second"), ("day > '2026-02-30'", "is no date"),
    ],
)  # fmt: skip
def test_what_engines_do_differently_is_refused(sql: str, message: str) -> None:
    with pytest.raises((BadQuery, UnsupportedQuery), match=message):
        digest(sql)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CAST(y AS DOUBLE) > 1", "y > 1"), ("CAST(y AS DECIMAL) > 1", "y > 1"), ("CAST(x AS INT) > 1", "x > 1"),
        ("CAST(y AS DECIMAL(9, 2)) > 1", "y > 1"), ("CAST(4 * y AS INT) > 8", "y > 2"), ("CAST(b AS INT) = 1", "b"),
        ("SIGN(y) = -1", "y < 0"), ("SIGN(y) = 0", "y = 0"), ("MOD(x, 100) = 0", "x IN (0, 100)"),
        ("LEAST(x, 30) = 30", "x >= 30"), ("GREATEST(x, 30) = 30", "x <= 30"), ("ABS(y) > 49", "y > 49 OR y < -49"),
        ("width_bucket(x, 0, 50, 2) = 2", "x BETWEEN 25 AND 49"), ("width_bucket(x, 10, 50, 2) = 0", "x < 10"),
        ("CEIL(y) = 1", "y > 0 AND y <= 1"), ("TRUNC(y) = 0", "y > -1 AND y < 1"),
        ("FLOOR(y) = -1", "y >= -1 AND y < 0"),
        ("ROUND(y) = 1", "y >= 0.5 AND y < 1.5"), ("ROUND(y) = -1", "y > -1.5 AND y <= -0.5"), ("-x = -7", "x = 7"),
    ],
)  # fmt: skip
def test_functions_of_a_column_are_conditions_on_it(one: str, other: str) -> None:
    assert digest(one) == digest(other) not in (EVERYBODY, NOBODY)


DAYS = [
    date(2023, 12, 31),
    date(2024, 2, 29),
    date(2024, 3, 31),
    date(2024, 4, 1),
    date(2026, 11, 18),
    date(2027, 1, 1),
]


@pytest.mark.parametrize("day", DAYS, ids=str)
def test_parts_of_a_date_are_those_of_the_calendar(day: date) -> None:
    parts = {
        "year": day.year, "quarter": (day.month - 1) // 3 + 1, "month": day.month, "week": day.isocalendar().week,
        "day": day.day, "doy": int(day.strftime("%j")), "isodow": day.isoweekday(), "dow": day.isoweekday() % 7,
        "epoch": (day - date(1970, 1, 1)).days * 86_400,
    }  # fmt: skip
    for part, number in parts.items():
        assert_value(f"EXTRACT({part} FROM DATE '{day}')", str(number))
        if "y" not in part[:1] and part != "epoch":
            assert digest(f"EXTRACT({part} FROM DATE '{day}') > {number}") == NOBODY


@pytest.mark.parametrize("day", DAYS, ids=str)
def test_dates_are_cut_off_at_the_beginning_of_their_unit(day: date) -> None:
    starts = {
        "day": day, "week": day - timedelta(days=day.weekday()), "month": day.replace(day=1),
        "quarter": date(day.year, {1: 1, 2: 1, 3: 1, 4: 4, 11: 10, 12: 10}[day.month], 1), "year": date(day.year, 1, 1),
    }  # fmt: skip
    for unit, start in starts.items():
        assert_value(f"DATE_TRUNC('{unit}', DATE '{day}')", f"DATE '{start}'")
        assert_value(f"DATE_TRUNC('{unit}', TIMESTAMP '{day} 23:59:59')", f"DATE '{start}'")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("EXTRACT(hour FROM TIMESTAMP '2026-11-18 13:07:09')", "13"),
        ("EXTRACT(minute FROM TIMESTAMP '2026-11-18 13:07:09')", "7"),
        ("EXTRACT(second FROM TIMESTAMP '2026-11-18 13:07:09')", "9"),
        ("EXTRACT(hour FROM TIMESTAMP '1969-12-31 23:00:00')", "23"),
        ("EXTRACT(epoch FROM TIMESTAMP '1970-01-02 00:00:01')", "86401"),
        ("DATE_TRUNC('hour', TIMESTAMP '2026-11-18 13:07:09')", "TIMESTAMP '2026-11-18 13:00:00'"),
        ("DATE_TRUNC('minute', TIMESTAMP '2026-11-18 13:07:09')", "TIMESTAMP '2026-11-18 13:07:00'"),
        ("DATE_TRUNC('second', TIMESTAMP '2026-11-18 13:07:09')", "TIMESTAMP '2026-11-18 13:07:09'"),
        ("CAST(TIMESTAMP '2026-11-18 13:07:09' AS DATE)", "DATE '2026-11-18'"),
        ("CAST('2026-11-18' AS DATE)", "DATE '2026-11-18'"),
        ("CAST(DATE '2026-11-18' AS TIMESTAMP)", "TIMESTAMP '2026-11-18 00:00:00'"),
        ("DATE '2026-11-18' - DATE '2026-11-11'", "7"), ("DATE '2026-11-11' - DATE '2026-11-18'", "-7"),
        ("DATE '2026-11-18' + 14", "DATE '2026-12-02'"), ("DATE '2026-11-18' - 18", "DATE '2026-10-31'"),
        ("DATE '2026-11-18' + INTERVAL '2 weeks'", "DATE '2026-12-02'"),
        ("DATE '2024-01-31' + INTERVAL '1 month'", "DATE '2024-02-29'"),
        ("DATE '2024-02-29' + INTERVAL '1 year'", "DATE '2025-02-28'"),
        ("DATE '2024-03-31' - INTERVAL '1 month'", "DATE '2024-02-29'"),
        ("DATE '2024-01-15' - INTERVAL '1 month'", "DATE '2023-12-15'"),
        ("DATE '2024-11-15' + INTERVAL '1 month'", "DATE '2024-12-15'"),
        ("DATE '2024-12-15' + INTERVAL '1 month'", "DATE '2025-01-15'"),
        ("DATE '2024-01-15' + INTERVAL '2 quarters'", "DATE '2024-07-15'"),
        ("DATE '2024-01-15' + INTERVAL '1 decade'", "DATE '2034-01-15'"),
        ("TIMESTAMP '2026-11-18 13:00:00' - INTERVAL '36 hours'", "TIMESTAMP '2026-11-17 01:00:00'"),
        ("TIMESTAMP '2026-11-18 13:00:00' + INTERVAL '90 minutes'", "TIMESTAMP '2026-11-18 14:30:00'"),
        ("TIMESTAMP '2026-11-18 13:00:30' + INTERVAL '1 month'", "TIMESTAMP '2026-12-18 13:00:30'"),
        ("TIMESTAMP '2026-11-18' - TIMESTAMP '2026-11-17 12:00:00'", "INTERVAL '12 hours'"),
        ("DATE_DIFF('day', DATE '2024-02-28', DATE '2024-03-01')", "2"),
        ("DATE_DIFF('month', DATE '2024-01-31', DATE '2024-02-01')", "1"),
        ("DATE_DIFF('month', DATE '2023-12-31', DATE '2024-02-01')", "2"),
        ("DATE_DIFF('year', DATE '2023-12-31', DATE '2024-01-01')", "1"),
        ("DATE_DIFF('quarter', DATE '2024-03-31', DATE '2024-04-01')", "1"),
        ("DATE_DIFF('quarter', DATE '2024-04-01', DATE '2024-06-30')", "0"),
        ("DATE_DIFF('week', DATE '2026-11-15', DATE '2026-11-16')", "1"),
        ("DATE_DIFF('day', DATE '2026-11-18', DATE '2026-11-11')", "-7"),
        ("DATE_DIFF('hour', TIMESTAMP '2026-11-18 00:59:59', TIMESTAMP '2026-11-18 02:00:00')", "2"),
    ],
)  # fmt: skip
def test_arithmetic_with_dates(expression: str, value: str) -> None:
    assert_value(expression, value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("EXTRACT(dow FROM day) = 0", "EXTRACT(isodow FROM day) = 7"),
        ("EXTRACT(dow FROM day) IN (1, 6)", "EXTRACT(isodow FROM day) IN (1, 6)"),
        ("EXTRACT(quarter FROM day) = 2 AND day > '2026-01-01'", "day BETWEEN '2026-04-01' AND '2026-06-30'"),
        ("EXTRACT(month FROM day) = 2 AND day < '2025-01-01'", "day BETWEEN '2024-02-01' AND '2024-02-29'"),
        ("DATE_TRUNC('year', day) = DATE '2025-01-01'", "day BETWEEN '2025-01-01' AND '2025-12-31'"),
        ("DATE_DIFF('year', day, DATE '2026-06-01') = 1", "day BETWEEN '2025-01-01' AND '2025-12-31'"),
        ("day + 7 > DATE '2026-11-18'", "day > '2026-11-11'"),
        ("moment - INTERVAL '1 day' > TIMESTAMP '2026-11-18 12:00:00'", "moment > '2026-11-19 12:00:00'"),
    ],
)  # fmt: skip
def test_functions_of_a_date_column_are_conditions_on_it(one: str, other: str) -> None:
    assert digest(one) == digest(other) not in (EVERYBODY, NOBODY)
