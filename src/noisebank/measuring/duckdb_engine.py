"""DuckDB over a CSV or Parquet file. Rows never enter Python."""

from __future__ import annotations

import csv
import threading
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisebank.errors import BadTable
from noisebank.measuring.engine import Inspection, filled
from noisebank.measuring.statement import literal, quoted, statement, step_of
from noisebank.policy import Kind, Policy
from noisebank.queries.query import Query

if TYPE_CHECKING:
    import duckdb

GLOB_SIGNS = "*?["
UNSOUND = "type_pushdown"
"""DuckDB 2.0 pushes TRY_CAST into its CSV reader as a plain CAST: a bad value then fails the scan (duckdb #23818)."""


def header_of(source: Path) -> tuple[str, ...]:
    """The names of a table's columns: metadata, no rows."""
    _check_file(source)
    if source.suffix.lower() == ".parquet":
        import duckdb

        try:
            found = duckdb.connect().execute(f"SELECT name FROM parquet_schema({literal(str(source))}) OFFSET 1")
            return tuple(str(name) for (name,) in found.fetchall())
        except duckdb.Error:
            raise BadTable(f"{source} is no Parquet file") from None
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            return tuple(name.strip() for name in next(csv.reader(file), []))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise BadTable(f"{source} is no readable CSV file") from None


class DuckDBEngine:
    """An `Engine` over one file."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str) -> None:
        self._policy, self._header, self._row_key = policy, header, row_key
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        missing = sorted(set(policy.columns) - set(header))
        if missing:
            raise BadTable(f"{policy.source} has no column {', '.join(missing)}; it has {', '.join(header)}")

    def identity(self) -> str:
        try:
            status = self._policy.source.stat()
        except OSError as error:
            raise BadTable(f"{self._policy.source} cannot be read: {error.strerror}") from None
        return f"{status.st_size} bytes, modified {status.st_mtime_ns}"

    def statistic(self, query: Query) -> int:
        ((value,),) = self._rows(statement(query, self._policy, self._table(), self._row_key))
        return int(value)

    def statistics(self, query: Query) -> tuple[int, ...]:
        found = self._rows(statement(query, self._policy, self._table(), self._row_key))
        return filled(query, self._policy, found)

    def inspect(self) -> Inspection:
        """Counts for the owner. Each value is looked at as a measurement would see it."""
        missing: dict[str, int] = {}
        outside: dict[str, int] = {}
        unkeyed: dict[str, int] = {}
        parts = ["count(*)"]
        for column in self._policy.columns.values():
            name = quoted(column.name)
            number = f"TRY_CAST({name} AS DOUBLE)"
            if column.numeric:
                parts.append(f"count(*) FILTER ({number} IS NULL OR isnan({number}))")
            elif column.kind is Kind.BOOLEAN:
                parts.append(f"count(*) FILTER (TRY_CAST({name} AS BOOLEAN) IS NULL)")
            else:
                parts.append(f"count(*) FILTER ({name} IS NULL)")
            if column.numeric and column.low is not None and column.high is not None:
                low, high = float(column.low * column.step), float(column.high * column.step)
                parts.append(f"count(*) FILTER ({number} < {low!r} OR {number} > {high!r})")
            elif column.keys:
                parts.append(f"count(*) FILTER ({name} IS NOT NULL AND {step_of(column)} = {len(column.keys)})")
            else:
                parts.append("0")
        (found,) = self._rows(f"SELECT {', '.join(parts)} FROM {self._table()}")
        for place, column in enumerate(self._policy.columns.values()):
            absent, beyond = int(found[1 + 2 * place]), int(found[2 + 2 * place])
            missing[column.name] = absent
            (unkeyed if column.keys else outside)[column.name] = beyond
        return Inspection(int(found[0]), missing, outside, unkeyed)

    def fingerprint(self, salt: bytes) -> bytes:
        digest = blake2b(key=salt, digest_size=32)
        with self._policy.source.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.digest()

    def _table(self) -> str:
        path = literal(str(self._policy.source))
        if self._policy.source.suffix.lower() == ".parquet":
            return f"read_parquet({path}, hive_partitioning = false)"
        # Nothing is sniffed: what a sniffer sees in the rows would decide types and errors.
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self._header)
        return (
            f"read_csv({path}, columns = {{{columns}}}, header = true, auto_detect = false, delim = ',', "
            f"quote = '\"', escape = '\"', nullstr = '', strict_mode = false, null_padding = true, parallel = false, "
            f"hive_partitioning = false)"
        )

    def _rows(self, sql: str) -> list[Any]:
        import duckdb

        _check_file(self._policy.source)
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = _connected()
                return self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # Engine messages may quote values: only their kind leaves this room.
            raise BadTable(f"{self._policy.source.name} cannot be read by DuckDB ({type(error).__name__})") from None


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    if (UNSOUND,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall():
        connection.execute(f"SET disabled_optimizers = '{UNSOUND}'")
    return connection


def _check_file(source: Path) -> None:
    if any(sign in str(source) for sign in GLOB_SIGNS):
        raise BadTable(f"{source}: DuckDB would read {GLOB_SIGNS} as patterns; rename the file")
    if not source.is_file():
        raise BadTable(f"there is no file {source}")
