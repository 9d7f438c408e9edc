"""Counts over a sample of a table, by column: how many of its values are numbers, dates, long texts, all different.

For the draft of a policy, which the table's owner makes before there is an account. The sample stays inside DuckDB:
`profile_columns` returns counts, never a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noisebank.core.errors import BadTable
from noisebank.engines.clocks import CLOCK_FORM
from noisebank.engines.csv_lines import count_csv_rows, line_end
from noisebank.engines.dialect import DUCKDB, StorageType
from noisebank.engines.duckdb_connection import open_connection
from noisebank.engines.duckdb_engine import (
    ATTACHED_NAME,
    csv_table_sql,
    duckdb_header,
    policy_column_names,
    source_path,
    storage_type,
)
from noisebank.engines.statement import quote_name, quote_text
from noisebank.policy.model import Source, Table

if TYPE_CHECKING:
    import duckdb

MAX_SAMPLE_ROWS = 10_000
MAX_SAMPLE_CELLS = 2_000_000
"""The sample has fewer rows if the table has many columns."""
MAX_DECIMALS = 4
"""Decimal places that are counted; more are "many"."""
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "-", ".", "?")
NUMERIC_TYPES = (StorageType.INTEGER, StorageType.FLOAT, StorageType.DECIMAL)
MAX_RISE = 3
"""Numbers of rows may have gaps: they rise by at most this much per row."""
WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")
DATE_FORMATS = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?",
    r"\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})([ T].*)?",
    r"(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])",
    r"(?i)\d{1,2}[ -.]+(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[ -.]+\d{2,4}",
)
FORMATTED_NUMBER = r"[-+]?\s?[$€£¥]?\s?\d+([,.' ’\x{00a0}\x{202f}]\d{3})*([.,]\d+)?\s?[%$€£¥]?"
LONG_TEXT = r"(?s).{41,}|\S+(\s+\S+){3,}"


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """How many values of one column in the sample are of each form. Missing values are in none of the counts."""

    name: str
    storage: str
    """The type in which DuckDB stores it; VARCHAR for every column of a CSV file."""
    is_numeric: bool
    """Whether that type is one of numbers."""
    values: int = 0
    distinct: int = 0
    numbers: int = 0
    whole_numbers: int = 0
    within_decimals: tuple[int, ...] = (0,) * (MAX_DECIMALS + 1)
    """Numbers with at most 0, 1, ... decimal places."""
    trues: int = 0
    falses: int = 0
    dates: int = 0
    iso_dates: int = 0
    """Dates in the form that engines read: 2026-11-18, perhaps with a time."""
    timed_dates: int = 0
    """Those with a time."""
    formatted_numbers: int = 0
    """Numbers in a form that engines do not read as numbers: 1,234 or 7,5 or 12%."""
    zero_led: int = 0
    """Numbers that begin with 0 like codes: 0123."""
    long_numbers: int = 0
    long_texts: int = 0
    padded: int = 0
    """Values that begin or end with a space."""
    counting: int = 0
    """Numbers that rise from row to row, by one or a little more per row; counted if most values differ."""


def profile_columns(source: Source) -> list[ColumnProfile]:
    """Returns the counts of every column, over the first rows and rows spread evenly over the rest of the table.

    The same table gives the same sample. Counts are zero for a table without rows.
    """
    import duckdb

    names = duckdb_header(source)  # refuses what is no table
    try:
        with open_connection() as connection:
            table = _open_table(connection, source, names)
            described = connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
            storage_types = {str(row[0]): str(row[1]) for row in described}
            _make_sample(connection, table, list(storage_types))
            connection.execute("SET threads = 1")  # many short statements
            return [
                _profile_column(connection, number, name, storage)
                for number, (name, storage) in enumerate(storage_types.items())
            ]
    except duckdb.Error as error:
        # Engine messages may quote values: only their kind leaves this module.
        raise BadTable(f"{source.name} cannot be read by DuckDB ({type(error).__name__})") from None


def _open_table(connection: duckdb.DuckDBPyConnection, source: Source, names: Sequence[str]) -> str:
    """Returns SQL for the table, as the engine will read it."""
    path = source_path(source)
    if isinstance(source, Table) and source.name_parts:
        connection.execute(f"ATTACH {quote_text(str(path))} AS {ATTACHED_NAME} (READ_ONLY)")
        parts = source.name_parts if len(source.name_parts) > 1 else ("main", *source.name_parts)
        return ".".join([ATTACHED_NAME, *map(quote_name, parts)])
    if path.suffix.lower() == ".parquet":
        return f"read_parquet({quote_text(str(path))}, hive_partitioning = false)"
    header = not policy_column_names(source)
    count_csv_rows(path, header, blank_rows=len(names) == 1)  # refuses what the engine would refuse, with the line
    return csv_table_sql(path, names, header, line_end(path))


def _make_sample(connection: duckdb.DuckDBPyConnection, table: str, names: Sequence[str]) -> None:
    """Creates the table `sample`: its columns as texts c0, c1, ..., in the order of the rows."""
    (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
    half = max(1, min(MAX_SAMPLE_ROWS, MAX_SAMPLE_CELLS // max(1, len(names))) // 2)
    stride = 1 if rows <= 2 * half else -(-rows // half)
    index = "row_index"
    while index in {name.lower() for name in names}:
        index += "_"
    texts = ", ".join(f"CAST({quote_name(name)} AS VARCHAR) AS c{number}" for number, name in enumerate(names))
    connection.execute(
        f"CREATE TEMP TABLE sample AS SELECT {index} AS row_index, {texts} "
        f"FROM (SELECT *, row_number() OVER () AS {index} FROM {table}) "
        f"WHERE {index} <= {half} OR {index} % {stride} = 0"
    )


def _profile_column(connection: duckdb.DuckDBPyConnection, number: int, name: str, storage: str) -> ColumnProfile:
    stored = storage_type(storage)
    is_numeric = stored in NUMERIC_TYPES or storage in WIDE_INTEGERS
    missing = ", ".join(map(quote_text, MISSING_WORDS))
    present = f"c{number} IS NOT NULL AND lower(trim(c{number})) NOT IN ({missing})"
    tests = _form_tests(is_numeric)
    sums = ", ".join(f"coalesce(sum(n) FILTER (WHERE {test}), 0)" for test in tests.values())
    counts = _fetch_counts(
        connection,
        f"SELECT coalesce(sum(n), 0), count(*), {sums} FROM "
        f"(SELECT c{number} AS c, trim(c{number}) AS v, count(*) AS n FROM sample WHERE {present} GROUP BY c{number})",
    )
    forms = dict(zip(tests, counts[2:], strict=True))
    counting = 0
    if forms["numbers"] and 2 * counts[1] > counts[0]:  # slow, and of interest only where values differ
        (counting,) = _fetch_counts(
            connection,
            f"SELECT count_if(x - lag_x BETWEEN rows AND {MAX_RISE} * rows) FROM (SELECT x, lag(x) OVER w AS lag_x, "
            "row_index - lag(row_index) OVER w AS rows FROM (SELECT row_index, "
            f"TRY_CAST(c{number} AS DOUBLE) AS x FROM sample WHERE {present}) WINDOW w AS (ORDER BY row_index))",
        )
    decimals = tuple(forms.pop(str(places)) for places in range(MAX_DECIMALS + 1))
    return ColumnProfile(
        name, storage, is_numeric, counts[0], counts[1], within_decimals=decimals, counting=counting, **forms
    )


def _form_tests(is_numeric: bool) -> dict[str, str]:
    """Returns SQL tests of a value `c`, which is `v` without spaces around it, by the field of `ColumnProfile` that
    counts them; "0", "1", ... for decimal places."""
    double = DUCKDB.cast_number("v", StorageType.TEXT)
    truth = f"{double} = 1" if is_numeric else DUCKDB.cast_boolean("c", StorageType.TEXT)
    is_number = f"coalesce(isfinite({double}), false)"
    return {
        "numbers": is_number,
        "whole_numbers": f"{is_number} AND {double} = round({double})",
        **{str(places): _match(rf"[-+]?\d+(\.\d{{0,{places}}}0*)?") for places in range(MAX_DECIMALS + 1)},
        "trues": truth,
        "falses": f"{double} = 0" if is_numeric else f"NOT {truth}",
        "dates": " OR ".join(map(_match, DATE_FORMATS)),
        "iso_dates": _match(CLOCK_FORM),
        "timed_dates": f"{_match(CLOCK_FORM)} AND length(v) > 10 AND substr(v, 12, 5) <> '00:00'",
        "formatted_numbers": f"NOT {is_number} AND {_match(FORMATTED_NUMBER)}",
        "zero_led": _match(r"0\d+"),
        "long_numbers": _match(r"\d{9,}"),
        "long_texts": _match(LONG_TEXT),
        "padded": "c <> v",
    }


def _fetch_counts(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, ...]:
    return tuple(int(count or 0) for count in connection.execute(sql).fetchone() or ())


def _match(form: str) -> str:
    return f"regexp_full_match(v, {quote_text(form)})"
