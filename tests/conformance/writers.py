"""The same rows as files by different hands: every writer has its own statistics, dictionaries and row groups."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet

from support.internals import EngineKind, Source, Table

TYPES = {
    "x": (pyarrow.float64(), "double", polars.Float64),
    "y": (pyarrow.float32(), "float", polars.Float32),
    "n": (pyarrow.int64(), "int64", polars.Int64),
    "m": (pyarrow.int32(), "int32", polars.Int32),
    "a": (pyarrow.string(), "string", polars.String),
    "c": (pyarrow.string(), "string", polars.String),
    "b": (pyarrow.bool_(), "boolean", polars.Boolean),
    "d": (pyarrow.date32(), "object", polars.Date),
    "who": (pyarrow.string(), "string", polars.String),
}
SIZES = (1, 2, 3, 7, 50, 1_000, 10_000)
Rows = list[dict[str, Any]]
Writer = Callable[[Path, Rows, Random], Source]
"""Writes a table under a path without an ending. What is drawn (sizes, dictionaries) is the same for the same seed."""


def columns_of(rows: Rows) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in TYPES}


def arrow_table(rows: Rows) -> Any:
    return pyarrow.table(
        {name: pyarrow.array(values, TYPES[name][0], from_pandas=False) for name, values in columns_of(rows).items()}
    )


def by_pyarrow(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".parquet")
    pyarrow.parquet.write_table(
        arrow_table(rows),
        path,
        row_group_size=random.choice(SIZES),
        use_dictionary=random.random() < 0.5,
        data_page_version=random.choice(["1.0", "2.0"]),
        write_page_index=random.random() < 0.5,
        write_statistics=random.random() < 0.9,
        version=random.choice(["1.0", "2.6"]),
    )
    return path


def by_polars(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".parquet")
    schema = {name: kind for name, (_, _, kind) in TYPES.items()}
    frame = polars.DataFrame(columns_of(rows), schema=schema, nan_to_null=False)
    frame.write_parquet(path, row_group_size=random.choice(SIZES), statistics=random.choice([True, "full", False]))
    return path


def by_pandas(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".parquet")
    nullable = {"double": "Float64", "float": "Float32", "int64": "Int64", "int32": "Int32"}
    plain = random.random() < 0.5  # numpy's floats: there NaN and NULL are one
    frame = pandas.DataFrame(
        {
            name: pandas.array(
                values, dtype=kind if plain and kind in ("double", "float") else nullable.get(kind, kind)
            )
            for name, values in columns_of(rows).items()
            for kind in [TYPES[name][1]]
        }
    )
    frame.to_parquet(path, row_group_size=random.choice(SIZES), use_dictionary=random.random() < 0.5)
    return path


def by_duckdb(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".parquet")
    options = ["FORMAT parquet", f"ROW_GROUP_SIZE {random.choice([1, 2048, 10_000])}"]
    options.append(f"PARQUET_VERSION {random.choice(['V1', 'V2'])}")
    if random.random() < 0.5:
        options.append("DICTIONARY_SIZE_LIMIT 1")
    with duckdb.connect() as connection:
        connection.register("people", arrow_table(rows))
        connection.execute(f"COPY people TO '{path}' ({', '.join(options)})")
    return path


def in_duckdb(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".duckdb")
    with duckdb.connect() as connection:
        connection.register("rows", arrow_table(rows))
        size = random.choice([2048, 122880])
        connection.execute(f"ATTACH '{path}' AS made (ROW_GROUP_SIZE {size})")
        connection.execute("CREATE TABLE made.people AS SELECT * FROM rows")
        if random.random() < 0.5:
            connection.execute("CREATE INDEX by_n ON made.people (n)")
        connection.execute("CHECKPOINT made")
    return Table(EngineKind.DUCKDB, ("people",), path)


def by_csv(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        quoting = random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
        writer = csv.writer(file, quoting=quoting, lineterminator=random.choice(["\n", "\r\n"]))
        writer.writerow(TYPES)
        writer.writerows([["" if row[name] is None else row[name] for name in TYPES] for row in rows])
    return path


WRITERS: dict[str, Writer] = {
    "pyarrow": by_pyarrow,
    "polars": by_polars,
    "pandas": by_pandas,
    "DuckDB": by_duckdb,
    "a DuckDB table": in_duckdb,
    "Python's csv": by_csv,
}
