"""What the answers should be: DuckDB evaluates each question, as it is written, on the generated tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb

from conformance.sixty.banks import NOW, TYPES
from conformance.stores import DUCKDB_TYPES, quoted
from examples.questions import ExampleQuestion
from examples.worlds import World
from noisebank import Result

WITH_KEYS = {
    "M18": "SELECT firmware, MIN(voltage), MAX(voltage), AVG(voltage) FROM readings GROUP BY firmware",
}
"""Questions that do not select what they group by: a bank shows it all the same."""
WITHIN_INTERVAL = {"H10", "H19", "S04", "M06", "M18"}
"""Quantiles and extremes are known up to a bin: the exact value lies in the interval."""
WIDTH_BUCKET = """
CREATE MACRO width_bucket(x, low, high, count) AS
CASE WHEN x < low THEN 0 WHEN x >= high THEN count + 1 ELSE CAST(FLOOR((x - low) * count / (high - low)) AS INT) + 1 END
"""
TOLERANCE = 1e-9
Key = tuple[object, ...]


@dataclass
class ExactTables:
    """The tables of an example in DuckDB."""

    connection: duckdb.DuckDBPyConnection

    @classmethod
    def load(cls, world: World, folder: Path) -> ExactTables:
        """Reads the CSV files of an example, with the types of its columns."""
        connection = duckdb.connect()
        connection.execute(WIDTH_BUCKET)
        for path in sorted(folder.glob("*.csv")):
            columns = ", ".join(
                f"{quoted(n)}::{type_name(kind)} AS {quoted(n)}" for n, kind in TYPES[path.stem].items()
            )
            read = f"read_csv('{path}', header = true, all_varchar = true)"
            connection.execute(f"CREATE TABLE {path.stem} AS SELECT {columns} FROM {read}")
        return cls(connection)

    def evaluate(self, name: str, sql: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a question."""
        return self.connection.execute(fix_clock(WITH_KEYS.get(name, sql))).fetchall()


def fix_clock(sql: str) -> str:
    """Returns SQL in which it is the day of the examples. What an oracle says must not depend on when it is asked."""
    moment = NOW.replace(tzinfo=None).isoformat(sep=" ")
    for written, fixed in (
        (r"\bNOW\(\)|\bCURRENT_TIMESTAMP\b|\bLOCALTIMESTAMP\b", f"TIMESTAMP '{moment}'"),
        (r"\bCURRENT_DATE\b|\bTODAY\(\)", f"DATE '{moment[:10]}'"),
        (r"\bAGE\((\w+)\)", rf"AGE(DATE '{moment[:10]}', \1)"),  # of one argument: until today
    ):
        sql = re.sub(written, fixed, sql, flags=re.IGNORECASE)
    assert not re.search(
        r"\b(CURRENT_TIME|LOCALTIME|CLOCK_TIMESTAMP|GETDATE|SYSDATE|'now'|'today')\b", sql, re.IGNORECASE
    ), sql
    return sql


def type_name(kind: str) -> str:
    return DUCKDB_TYPES[kind]


def find_difference(question: ExampleQuestion, result: Result, exact: list[tuple[Any, ...]]) -> str:
    """Returns what is wrong with an answer; nothing if it has the right rows, columns and values."""
    is_key = [name in result.by for name in result.columns]
    if exact and len(exact[0]) != len(is_key):
        return f"{len(is_key)} columns instead of {len(exact[0])}"
    rows = {tuple(comparable(text) for text in row.keys): row for row in result.rows}
    order = [result.by.index(name) for name in result.columns if name in result.by]
    left = dict.fromkeys(rows)
    for values in exact:
        own = [comparable(value) for value, key in zip(values, is_key, strict=True) if key]
        key: Key = tuple(own[order.index(index)] for index in range(len(order)))
        if key not in rows:
            if "education" in question.sql and None in key:
                continue  # a missing value belongs to no declared group
            return f"no row {key}"
        left.pop(key, None)
        numbers = [value for value, key_column in zip(values, is_key, strict=True) if not key_column]
        for name, value, estimate in zip(result.items, numbers, rows[key].estimates, strict=True):
            if estimate.value is None or estimate.low is None or estimate.high is None:
                return f"{name} of {key} is {estimate}"
            number = float(value)
            slack = TOLERANCE * max(1.0, abs(number))
            if not estimate.low - slack <= number <= estimate.high + slack:
                return f"{name} of {key}: {number} is outside of {estimate}"
            if question.name not in WITHIN_INTERVAL and abs(estimate.value - number) > slack:
                return f"{name} of {key} is {estimate.value} instead of {number}"
    for key in left:  # nobody is in these groups
        for name, estimate in zip(result.items, rows[key].estimates, strict=True):
            if estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high:
                return f"{name} of {key}, where nobody is, is {estimate}"
    if "ORDER BY" in question.sql.rpartition(")")[2] and not left:
        return find_order_difference(result, exact, is_key)
    if ("HAVING" in question.sql or "LIMIT" in question.sql) and left:
        return f"rows that do not meet the condition: {list(left)[:3]}"
    return ""


def find_order_difference(result: Result, exact: list[tuple[Any, ...]], is_key: list[bool]) -> str:
    """Returns where the order of the rows differs."""
    keys = [[comparable(value) for value, key in zip(values, is_key, strict=True) if key] for values in exact]
    order = [result.by.index(name) for name in result.columns if name in result.by]
    own = [[comparable(row.keys[index]) for index in order] for row in result.rows]
    numbers = [[value for value, key in zip(values, is_key, strict=True) if not key] for values in exact]
    ties = all(numbers[place] == numbers[keys.index(key)] for place, key in enumerate(own) if key != keys[place])
    return "" if ties else f"rows are in the order {own[:4]} instead of {keys[:4]}"


def comparable(value: object) -> object:
    """Returns a key in a form in which a text and the value that it stands for are equal."""
    if value is None or isinstance(value, bool):
        return value if value is None else str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day).isoformat()
    text = str(value)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None).isoformat()
    except ValueError:
        return text
