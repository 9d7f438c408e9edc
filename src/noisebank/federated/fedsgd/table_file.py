"""Read a CSV or Parquet file by columns, for simulations in which each row is a device."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from noisebank.core.errors import BadTable
from noisebank.engines.csv_lines import count_csv_rows, line_end
from noisebank.engines.duckdb_connection import open_connection
from noisebank.engines.duckdb_engine import csv_header
from noisebank.engines.statement import quote_text
from noisebank.federated.fedsgd.design import Design
from noisebank.federated.ldp import Number


def read_columns(path: Path, design: Design) -> dict[str, Any]:
    """Returns the columns of the design's attributes: numbers as floats, categories as text. Errors quote no value."""
    import duckdb

    if path.suffix.lower() not in (".csv", ".parquet") or not path.is_file():
        raise BadTable(f"{path} is no .csv or .parquet file")
    is_csv = path.suffix.lower() == ".csv"
    reader = _csv_reader_sql(path) if is_csv else "read_parquet(?)"
    attributes = design.schema.attributes
    chosen = ", ".join(
        f"CAST({_quote_identifier(attribute.name)} AS {'DOUBLE' if isinstance(attribute, Number) else 'VARCHAR'})"
        for attribute in attributes
    )
    try:
        with open_connection() as connection:
            read = connection.execute(f"SELECT {chosen} FROM {reader}", [str(path)]).fetchnumpy()
    except duckdb.Error as error:
        what = "a column is missing" if "not found" in str(error) else "a column cannot be read as the schema says"
        raise BadTable(
            f"{path.name}: {what}; the schema has {', '.join(attribute.name for attribute in attributes)}"
        ) from None
    rows = len(next(iter(read.values()), ()))
    if is_csv and rows != count_csv_rows(path, header=True, blank_rows=len(csv_header(path)) == 1):
        raise BadTable(f"{path.name} has other rows than DuckDB reads")  # one person would be several devices
    columns: dict[str, Any] = {}
    for attribute, values in zip(attributes, read.values(), strict=True):
        if np.ma.getmaskarray(values).any():
            raise BadTable(
                f"{path.name}: column {attribute.name} has missing values; a device without one takes no part"
            )
        columns[attribute.name] = values
    return columns


def _csv_reader_sql(path: Path) -> str:
    """Returns the SQL that reads the file; neither types nor line ends are guessed from the rows."""
    count_csv_rows(path, header=True, blank_rows=True)  # refuses a file whose lines are not all lines
    columns = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in csv_header(path))
    end = "\\r\\n" if line_end(path) == b"\r\n" else "\\n"
    return (
        f"read_csv(?, columns = {{{columns}}}, header = true, auto_detect = false, delim = ',', quote = '\"', "
        f"escape = '\"', nullstr = '', strict_mode = false, null_padding = true, parallel = false, new_line = '{end}')"
    )


def file_digest(path: Path) -> bytes:
    """Returns the SHA-256 of a file. Secret: a guess at the table could be checked against it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        raise BadTable(f"{path} cannot be read") from None


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
