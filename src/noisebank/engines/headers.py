"""Whether the names of a file's columns are names, or the row of somebody whose file has no header.

Names of columns become part of a policy, which is public. So a header that looks like a row is not believed unless the
owner says so. What is said about it gives places, never what stands there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from noisebank.core.errors import BadTable
from noisebank.engines.duckdb_connection import connected
from noisebank.engines.duckdb_engine import GLOB_SIGNS, given_names, header_of
from noisebank.engines.spark_engine import csv_files, spark_header
from noisebank.engines.statement import literal, quoted
from noisebank.policy.model import Keeper, Source, Table

if TYPE_CHECKING:
    import duckdb

DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
MONTH = re.compile(r"(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?", re.IGNORECASE)
SEPARATORS = ";|\t"
MOST_SHOWN = 10


def check_header(source: Source) -> None:
    """`BadTable` if what a file calls its columns looks like a row: numbers, dates, nothing, something twice, or
    values that occur below. Tables of databases and names that the policy gives are deliberate, and not judged."""
    places = _suspicious(source)
    if places:
        shown = ", ".join(map(str, places[:MOST_SHOWN])) + (" and more" if len(places) > MOST_SHOWN else "")
        raise BadTable(
            f"{source.name}: the names of its columns look like a row (column {shown}): empty, twice, a number, a "
            "date, a value that occurs below, or a line that commas do not separate. If the file has no header, give "
            "names: column_names in the policy, --column-names for a draft. If these are names, say --header yes"
        )


def looks_like_data(name: str) -> bool:
    """Whether a name is empty, a number or a date, or a whole line that is separated by something else than commas.

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
    dated = any(map(MONTH.fullmatch, words)) and any(word.isdigit() for word in words)
    if DAY.match(name.strip()) or (dated and all(word.isdigit() or MONTH.fullmatch(word) for word in words)):
        return True
    try:
        float(name)
    except ValueError:
        return False
    return True


def _suspicious(source: Source) -> list[int]:
    """Which columns, counted from 1."""
    import duckdb

    files = _files(source)
    if not files or given_names(source):
        return []
    names = spark_header(source) if isinstance(source, Table) else header_of(source)
    try:
        with connected() as connection:
            if files[0].suffix.lower() == ".parquet":
                table = f"read_parquet({_list(files)}, hive_partitioning = false)"
                names = tuple(row[0] for row in connection.execute(f"DESCRIBE SELECT * FROM {table}").fetchall())
                columns = [quoted(name) for name in names]
            else:
                columns = [f"c{place}" for place in range(len(names))]
                table = _csv_table(files, columns)
            occurring = _occurring(connection, table, dict(zip(columns, names, strict=True)))
    except duckdb.Error as error:
        raise BadTable(f"{source.name} cannot be read by DuckDB ({type(error).__name__})") from None
    often = Counter(name.lower() for name in names)
    found = {place for place, name in enumerate(names, 1) if looks_like_data(name) or often[name.lower()] > 1}
    return sorted(found | occurring)


def _files(source: Source) -> list[Path]:
    """The files whose names of columns are judged."""
    if not isinstance(source, Table):
        return [source]
    return csv_files(source.path) if source.keeper is Keeper.SPARK and source.path is not None else []


def _list(files: Sequence[Path]) -> str:
    # A sign in brackets is that sign, where it would be a pattern otherwise.
    plain = ("".join(f"[{sign}]" if sign in GLOB_SIGNS else sign for sign in str(file)) for file in files)
    return "[" + ", ".join(map(literal, plain)) + "]"


def _csv_table(files: Sequence[Path], columns: Sequence[str]) -> str:
    kinds = ", ".join(f"'{column}': 'VARCHAR'" for column in columns)
    return (
        f"read_csv({_list(files)}, columns = {{{kinds}}}, header = true, auto_detect = false, delim = ',', "
        "quote = '\"', escape = '\"', strict_mode = false, null_padding = true, parallel = false, "
        "hive_partitioning = false)"
    )


def _occurring(connection: duckdb.DuckDBPyConnection, table: str, names: Mapping[str, str]) -> set[int]:
    """Columns whose name is one of their values. Counted inside DuckDB: rows never enter Python."""
    if not names:
        return set()
    same = [
        f"count(*) FILTER (WHERE trim(CAST({column} AS VARCHAR)) = {literal(name)})" for column, name in names.items()
    ]
    (counts,) = connection.execute(f"SELECT {', '.join(same)} FROM {table}").fetchall()
    return {place for place, count in enumerate(counts, 1) if count}
