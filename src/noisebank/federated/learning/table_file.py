"""A CSV or Parquet file as columns, for simulations: there a row stands for a device, and Python plays all devices."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from noisebank.errors import BadTable
from noisebank.federated.learning.design import Design
from noisebank.federated.local import Number

READERS = {".csv": "read_csv(?, all_varchar = true, header = true)", ".parquet": "read_parquet(?)"}


def read_columns(path: Path, design: Design) -> dict[str, Any]:
    """The design's attributes: numbers as floats, categories as text. Never quotes a value of the table."""
    import duckdb

    reader = READERS.get(path.suffix.lower())
    if reader is None or not path.is_file():
        raise BadTable(f"{path} is no .csv or .parquet file")
    parts = design.schema.attributes
    chosen = ", ".join(
        f"CAST({_quoted(part.name)} AS {'DOUBLE' if isinstance(part, Number) else 'VARCHAR'})" for part in parts
    )
    try:
        with duckdb.connect() as connection:
            found = connection.execute(f"SELECT {chosen} FROM {reader}", [str(path)]).fetchnumpy()
    except duckdb.Error as error:
        what = "a column is missing" if "not found" in str(error) else "a column cannot be read as the schema says"
        raise BadTable(f"{path.name}: {what}; the schema has {', '.join(part.name for part in parts)}") from None
    columns: dict[str, Any] = {}
    for part, values in zip(parts, found.values(), strict=True):
        if np.ma.getmaskarray(values).any():
            raise BadTable(f"{path.name}: column {part.name} has missing values; a device without one takes no part")
        columns[part.name] = values
    return columns


def file_digest(path: Path) -> bytes:
    """Of the bytes of a file. Secret: a guess at the table could be checked against it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        raise BadTable(f"{path} cannot be read") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
