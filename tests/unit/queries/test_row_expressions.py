"""Row expressions: one digest however they are spelled, tight ranges, dates, and clear refusals."""

from __future__ import annotations

import re
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest

from noisebank.core.errors import BadQuery, Misuse
from noisebank.policy.file import parse_policy
from noisebank.queries.cells import has_cell_totals
from noisebank.queries.current_time import write_moment
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import row_range
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
bins = [20, 40, 60, 80]
[columns.y]
type = "number"
step = 0.01
bounds = [-50, 50]
nullable = true
[columns.b]
type = "boolean"
[columns.k]
type = "text"
keys = ["I20", "I21", "J10"]
nullable = true
[columns.day]
type = "date"
bounds = ["2024-01-01", "2026-12-31"]
bins = "month"
[columns.moment]
type = "timestamp"
zone = "Europe/Zurich"
bounds = ["2026-01-01", "2026-12-31 23:59:59"]
""",
    Path(),
)


def ask(sql: str) -> Question:
    return parse_question(f"SELECT {sql}", POLICY)


SAME = [
    ("COUNT(*) FROM t WHERE ABS(x - 42) <= 2", "COUNT(*) FROM t WHERE x BETWEEN 40 AND 44"),
    ("COUNT(*) FROM t WHERE 2026 - x < 1980", "COUNT(*) FROM t WHERE x > 46"),
    ("COUNT(*) FROM t WHERE x * 2 + 1 >= 9", "COUNT(*) FROM t WHERE NOT x < 4"),
    ("COUNT(*) FROM t WHERE x * x > 50", "COUNT(*) FROM t WHERE x >= 8"),
    ("COUNT(*) FROM t WHERE k LIKE 'I2%'", "COUNT(*) FROM t WHERE k IN ('I21', 'I20')"),
    ("COUNT(*) FROM t WHERE k NOT LIKE '%1'", "COUNT(*) FROM t WHERE k <> 'I21'"),
    ("COUNT(*) FROM t WHERE FLOOR(x / 10) = 3", "COUNT(*) FROM t WHERE x >= 30 AND x < 40"),
    ("COUNT(*) FROM t WHERE COALESCE(y, 1) > 0", "COUNT(*) FROM t WHERE y > 0 OR y IS NULL"),
    ("COUNT(*) FROM t WHERE x > y", "COUNT(*) FROM t WHERE y - x < 0"),
    ("COUNT(*) FROM t WHERE 3 * y - 3 * x > 6", "COUNT(*) FROM t WHERE x + 2 < y"),
    ("SUM(CASE WHEN b THEN x ELSE 0 END) FROM t", "SUM(x) FROM t WHERE b"),
    ("SUM(CASE WHEN b THEN x END) FROM t", "SUM(x) FILTER (WHERE b) FROM t"),
    ("SUM(b::int) FROM t", "COUNT_IF(b) FROM t"),
    ("SUM(CASE WHEN x > 5 THEN CASE WHEN b THEN 1 ELSE 2 END END) FROM t",
     "COUNT(*) FILTER (WHERE x > 5 AND b) + 2 * COUNT(*) FILTER (WHERE x > 5 AND NOT b) FROM t"),
    ("SUM((x + 1) * 2) FROM t", "2 * SUM(x) + 2 * COUNT(*) FROM t"),
    ("SUM(x * y) FROM t", "SUM(y * x / 4) FROM t"),
    ("SUM(POWER(x - 3, 2)) FROM t", "SUM(x * x - 6 * x + 9) FROM t"),
    ("SUM(ABS(x)) FROM t", "SUM(x) FROM t"),
    ("SUM(GREATEST(x, 30)) FROM t", "SUM(CASE WHEN x < 30 THEN 30 ELSE x END) FROM t"),
    ("SUM(LEAST(x, 30)) FROM t", "SUM(CLAMP(x, 0, 30)) FROM t"),
    ("COUNT(NULLIF(x, 7)) FROM t", "COUNT(*) FROM t WHERE x <> 7"),
    ("COUNT(*) FROM t GROUP BY CASE WHEN x < 18 THEN 'child' ELSE 'adult' END",
     "COUNT(*) FROM t GROUP BY CASE WHEN NOT x < 18 THEN 'grown' WHEN TRUE THEN 'minor' END"),
    ("COUNT(*) FROM t GROUP BY x", "COUNT(*) FROM t GROUP BY LEAST(FLOOR(x / 20), 4)"),
    ("COUNT(*) FROM t GROUP BY day", "COUNT(*) FROM t GROUP BY DATE_TRUNC('month', day)"),
    ("COUNT(*) FROM t WHERE day >= DATE '2025-01-01'", "COUNT(*) FROM t WHERE EXTRACT(year FROM day) > 2024"),
    ("COUNT(*) FROM t WHERE DATE '2026-11-18' - day > 7", "COUNT(*) FROM t WHERE day < '2026-11-11'"),
    ("COUNT(*) FROM t WHERE CAST(moment AS DATE) = DATE '2026-10-25'",
     "COUNT(*) FROM t WHERE moment BETWEEN '2026-10-25' AND '2026-10-25 23:59:59'"),
    ("COUNT(*) FROM t WHERE moment > TIMESTAMP '2026-11-18' - INTERVAL '1 week'",
     "COUNT(*) FROM t WHERE TIMESTAMP '2026-11-11' < moment"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_equivalent_spellings_are_one_query(one: str, other: str) -> None:
    assert ask(one).query.digest == ask(other).query.digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SUM(x * y) FROM t", "SUM(x * x) FROM t"),
        ("COUNT(*) FROM t WHERE x > y", "COUNT(*) FROM t WHERE x >= y"),
        ("COUNT(*) FROM t GROUP BY FLOOR(x / 10)", "COUNT(*) FROM t GROUP BY FLOOR(x / 11)"),
        ("COUNT(*) FROM t GROUP BY EXTRACT(dow FROM day)", "COUNT(*) FROM t GROUP BY EXTRACT(day FROM day)"),
    ],
)
def test_different_questions_are_different_queries(one: str, other: str) -> None:
    assert ask(one).query.digest != ask(other).query.digest


@pytest.mark.parametrize(
    ("sql", "largest"),
    [
        ("SUM(x) FROM t", 100), ("SUM(x) FROM t WHERE x < 10", 9), ("SUM(x) FILTER (WHERE x < 10 OR b) FROM t", 100),
        ("SUM(CASE WHEN x < 10 THEN x END) FROM t", 9), ("SUM(CLAMP(x, 0, 10)) FROM t", 10),
        ("SUM(x * x) FROM t WHERE x <= 5", 25), ("SUM(CLAMP(x - y, 0, 60)) FROM t", 60), ("SUM(30 - x) FROM t", 70),
        ("SUM(CASE WHEN x < 30 THEN 30 - x ELSE 0 END) FROM t", 30), ("SUM(x * y) FROM t", 5000),
        ("SUM(x) FROM t WHERE x = 0", 100), ("SUM(CLAMP(DATE '2026-12-31' - day, 0, 30)) FROM t", 30),
    ],
)  # fmt: skip
def test_what_a_row_adds_is_narrowed_by_its_own_condition(sql: str, largest: int) -> None:
    question = ask(sql)
    assert max(map(abs, row_range(question.query, POLICY))) * abs(question.unit) == Fraction(largest)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COUNT(*) FROM t WHERE day > 'soon'", "is no date"), ("COUNT(*) FROM t WHERE day > 5", "compares"),
        ("COUNT(*) FROM t WHERE NOW() > moment", "changes while it is read"), ("SUM(day) FROM t", "date, not a number"),
        ("COUNT(*) FROM t WHERE DATE_TRUNC('year', day + 9000000) = day", "beyond the years"),
        ("COUNT(*) FROM t WHERE DATE '9999-12-31' + INTERVAL '1 day' > day", "beyond the years"),
        ("COUNT(*) FROM t WHERE DATE '2026-01-31' + INTERVAL '99999 years' > day", "beyond the years"),
        ("COUNT(*) FROM t WHERE day > DATE '2026-01-01' + INTERVAL 'soon'", "is no interval"),
        ("COUNT(*) FROM t GROUP BY DATE_TRUNC('second', moment)", "at most 10000 groups: take longer periods"),
        ("COUNT(*) FROM t GROUP BY y * 100", "at most 10000 groups"), ("COUNT(*) FROM t GROUP BY 1 + 1", "one group"),
        ("SUM(EXTRACT(century FROM day)) FROM t", "EXTRACT of century"),
        ("COUNT(*) FROM t WHERE x LIKE 'a'", "not text"),
        ("COUNT(*) FROM t WHERE k > k", "order of texts"), ("COUNT(*) FROM t WHERE x IN (SELECT 1)", "subquery"),
    ],
)  # fmt: skip
def test_refusals_say_why(sql: str, message: str) -> None:
    with pytest.raises(Misuse, match=re.escape(message)):
        ask(sql)


def test_a_hundred_arms_and_ten_thousand_values() -> None:
    arms = " ".join(f"WHEN x = {number} THEN {number * number}" for number in range(100))
    assert (
        ask(f"SUM(CASE {arms} ELSE 0 END) FROM t").query.digest
        == ask(f"SUM(CASE {arms.replace('x = ', 'x + 0 = ')} END) FROM t").query.digest
    )
    values = ", ".join(str(number % 90) for number in range(5_000))
    assert (
        ask(f"COUNT(*) FROM t WHERE x IN ({values})").query.digest == ask("COUNT(*) FROM t WHERE x < 90").query.digest
    )
    with pytest.raises(BadQuery, match="characters"):
        ask(f"COUNT(*) FROM t WHERE x IN ({', '.join(map(str, range(10_000)))})")


def test_nested_cases_take_no_longer_than_flat_ones() -> None:
    sql = "x"
    for number in range(20):
        sql = f"CASE WHEN {sql} > {number} THEN x ELSE x + 1 END"
    assert ask(f"SUM({sql}) FROM t").query.parts


def test_cells_do_not_hold_dates_and_computed_columns() -> None:
    assert all(has_cell_totals(part, POLICY) for part in ask("SUM(x) FROM t").query.parts)
    for sql in ("SUM(EXTRACT(epoch FROM day)) FROM t", "SUM(x * y) FROM t"):
        assert not all(has_cell_totals(part, POLICY) for part in ask(sql).query.parts)


def test_the_present_is_written_out_once() -> None:
    now = datetime(2026, 11, 18, 13, 5, 7)
    fixed = write_moment("SELECT COUNT(*) FROM t WHERE moment >= NOW() - INTERVAL '7 days' -- now()", now)
    assert fixed.startswith("SELECT COUNT(*) FROM t WHERE moment >= TIMESTAMP '2026-11-18 13:05:07' - INTERVAL")
    assert write_moment("SELECT COUNT(*) FROM t WHERE now = 'current_date'", now).endswith("now = 'current_date'")
    assert parse_question(fixed, POLICY) == parse_question(write_moment(fixed, datetime(2027, 1, 1)), POLICY)
