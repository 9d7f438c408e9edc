"""Checks that the header of a file is not a row: a file without a header would publish somebody's values as names.

Names of columns become part of a policy, which is public. So a header that looks like a row is refused unless the
owner confirms it. Messages give the numbers of columns, never their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisebank.core.errors import BadTable
from noisebank.engines.duckdb_connection import open_connection
from noisebank.engines.duckdb_engine import GLOB_CHARACTERS, duckdb_header, policy_column_names
from noisebank.engines.spark_engine import csv_files, spark_header
from noisebank.engines.statement import quote_name, quote_text
from noisebank.policy.model import EngineKind, Source, Table

if TYPE_CHECKING:
    import duckdb

DAY_PATTERN = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
MONTH_PATTERN = re.compile(r"(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?", re.IGNORECASE)
SEPARATORS = {";": "semicolons", "|": "bars", "\t": "tabs"}
MAX_LISTED = 10


def check_header(source: Source) -> None:
    """Raises `BadTable` if a file's column names look like a row: numbers, dates, empty, repeated, or values that
    occur below. Names in databases and names that the policy gives are deliberate, and not checked."""
    _check_separator(source)
    columns = _suspicious_columns(source)
    if columns:
        listed = ", ".join(map(str, columns[:MAX_LISTED])) + (" and more" if len(columns) > MAX_LISTED else "")
        raise BadTable(
            f"{source.name}: the names of its columns look like a row (column {listed}): empty, twice, a number, a "
            "date, or a value that occurs below. If the file has no header, give names: column_names in the policy, "
            "--column-names for a draft. If these are names, say --header yes"
        )


def _check_separator(source: Source) -> None:
    """Refuses a file whose first line other signs than commas separate: all of it would be one name."""
    files = _header_files(source)
    if not files or files[0].suffix.lower() == ".parquet" or policy_column_names(source):
        return
    names = spark_header(source) if isinstance(source, Table) else duckdb_header(source)
    sign = next((sign for sign in SEPARATORS if len(names) == 1 and sign in names[0]), None)
    if sign is not None:
        raise BadTable(
            f"{source.name}: {SEPARATORS[sign]} separate its columns, and only commas are read. Write the file again "
            "with commas. If its first line is one name all the same, say --header yes"
        )


def looks_like_data(name: str) -> bool:
    """Whether a name is empty, a number or a date, or a whole line with another separator than commas.

    >>> [looks_like_data(name) for name in ("39", " 7,5 %", "nan", "2020-01-31T10:00Z", "12 March 2020", "", "Ann;1")]
    [True, True, True, True, True, True, True]
    >>> [looks_like_data(name) for name in ("age", "t1", "x_2020", "May", "Q1 2020", "naïve")]
    [False, False, False, False, False, False]
    """
    if any(sign in name for sign in SEPARATORS) or not name.isprintable():
        return True
    if not any(sign.isalpha() for sign in name):
        return not name.strip() or any(sign.isdigit() for sign in name)
    words = [word for word in re.split(r"[\s,./-]+", name) if word]
    dated = any(map(MONTH_PATTERN.fullmatch, words)) and any(word.isdigit() for word in words)
    if DAY_PATTERN.match(name.strip()) or (
        dated and all(word.isdigit() or MONTH_PATTERN.fullmatch(word) for word in words)
    ):
        return True
    try:
        float(name)
    except ValueError:
        return False
    return True


def _suspicious_columns(source: Source) -> list[int]:
    """Returns the numbers of suspicious columns, from 1."""
    import duckdb

    files = _header_files(source)
    if not files or policy_column_names(source):
        return []
    names = spark_header(source) if isinstance(source, Table) else duckdb_header(source)
    try:
        with open_connection() as connection:
            if files[0].suffix.lower() == ".parquet":
                table = f"read_parquet({_file_list(files)}, hive_partitioning = false)"
                names = tuple(row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall())
                columns = [quote_name(name) for name in names]
            else:
                columns = [f"c{number}" for number in range(len(names))]
                table = _csv_table(files, columns)
            occurring = _columns_repeating_name(connection, table, dict(zip(columns, names, strict=True)))
    except duckdb.Error as error:
        raise BadTable(f"{source.name} cannot be read by DuckDB ({type(error).__name__})") from None
    often = Counter(name.lower() for name in names)
    odd = {number for number, name in enumerate(names, 1) if looks_like_data(name) or often[name.lower()] > 1}
    return sorted(odd | occurring)


def _header_files(source: Source) -> list[Path]:
    """Returns the files whose headers are checked."""
    if not isinstance(source, Table):
        return [source]
    return csv_files(source.path) if source.engine is EngineKind.SPARK and source.path is not None else []


def _file_list(files: Sequence[Path]) -> str:
    # A pattern character in brackets stands for itself.
    escaped = ("".join(f"[{sign}]" if sign in GLOB_CHARACTERS else sign for sign in str(file)) for file in files)
    return "[" + ", ".join(map(quote_text, escaped)) + "]"


def _csv_table(files: Sequence[Path], columns: Sequence[str]) -> str:
    kinds = ", ".join(f"'{column}': 'VARCHAR'" for column in columns)
    return (
        f"read_csv({_file_list(files)}, columns = {{{kinds}}}, header = true, auto_detect = false, delim = ',', "
        "quote = '\"', escape = '\"', strict_mode = false, null_padding = true, parallel = false, "
        "hive_partitioning = false)"
    )


def _columns_repeating_name(connection: duckdb.DuckDBPyConnection, table: str, names: Mapping[str, str]) -> set[int]:
    """Returns the columns whose name is one of their values. Counted inside DuckDB: rows never enter Python."""
    if not names:
        return set()
    same = [
        f"count(*) FILTER (WHERE trim(CAST({column} AS VARCHAR)) = {quote_text(name)})"
        for column, name in names.items()
    ]
    (counts,) = connection.execute(f"SELECT {', '.join(same)} FROM {table}").fetchall()
    return {number for number, count in enumerate(counts, 1) if count}
