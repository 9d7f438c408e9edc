"""The DuckDB engine: a CSV or Parquet file, or a table of a DuckDB database. Rows never enter Python."""

from __future__ import annotations

import csv
import threading
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadTable
from noisebank.engines.csv_lines import count_csv_rows, line_end
from noisebank.engines.dialect import DUCKDB, DuckDBDialect, StorageType
from noisebank.engines.duckdb_connection import open_connection
from noisebank.engines.engine import Inspection, read_each
from noisebank.engines.sql_engine import SqlEngine
from noisebank.engines.statement import counts_statement, is_plain_count, quote_name, quote_text
from noisebank.policy.model import Policy, Source, Table
from noisebank.queries.query import Query
from noisebank.queries.sensitivity import saturation_limit

if TYPE_CHECKING:
    import duckdb

GLOB_CHARACTERS = "*?["
STORAGE_TYPES = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"), StorageType.INTEGER
    ),
    "FLOAT": StorageType.FLOAT,
    "DOUBLE": StorageType.FLOAT,
    "BOOLEAN": StorageType.BOOLEAN,
    "VARCHAR": StorageType.TEXT,
    "DATE": StorageType.DATE,
    "TIMESTAMP": StorageType.CLOCK,
    "TIMESTAMP WITH TIME ZONE": StorageType.INSTANT,
}
ATTACHED_NAME = "source"
SMALL_FILE_BYTES = 4 << 20
"""Files up to this size are read by one thread."""


def duckdb_header(source: Source) -> tuple[str, ...]:
    """Returns the names of a table's columns: metadata, no rows."""
    path = source_path(source)
    _check_file(path)
    if isinstance(source, Table) and source.name_parts:
        return tuple(name for name, _ in _AttachedDatabase(path, source.name_parts).read_columns())
    if path.suffix.lower() == ".parquet":
        import duckdb

        try:
            names = open_connection().execute(f"SELECT name FROM parquet_schema({quote_text(str(path))}) OFFSET 1")
            return tuple(str(name) for (name,) in names.fetchall())
        except duckdb.Error:
            raise BadTable(f"{path} is no Parquet file") from None
    return csv_header(path, policy_column_names(source))


def duckdb_tables(path: Path) -> tuple[str, ...]:
    """Returns the names of the tables in a DuckDB file, with their schema unless it is main; none if unreadable."""
    import duckdb

    _check_file(path)
    try:
        with open_connection() as connection:
            connection.execute(f"ATTACH {quote_text(str(path))} AS {ATTACHED_NAME} (READ_ONLY)")
            rows = connection.execute(
                "SELECT schema_name, table_name FROM duckdb_tables() "
                f"WHERE database_name = {quote_text(ATTACHED_NAME)} ORDER BY ALL"
            ).fetchall()
    except duckdb.Error:
        return ()
    return tuple(str(name) if schema == "main" else f"{schema}.{name}" for schema, name in rows)


def policy_column_names(source: Source) -> tuple[str, ...]:
    """Returns the names that the policy gives to the columns of a CSV file without a header; else an empty tuple."""
    return source.column_names if isinstance(source, Table) else ()


def csv_header(path: Path, column_names: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the names of a CSV file's columns: those of the policy if there are any, else its first line."""
    first = _read_first_line(path)
    if column_names and first and len(column_names) != len(first):  # an empty file has no columns to compare
        raise BadTable(f"{path} has {len(first)} columns; the policy's column_names are {len(column_names)}")
    if column_names and first == column_names:
        raise BadTable(f"{path} begins with the policy's column_names: it has a header, leave them out")
    return column_names or first


def _read_first_line(path: Path) -> tuple[str, ...]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return tuple(name.strip() for name in next(csv.reader(file), []))
    except UnicodeDecodeError:
        raise BadTable(f"{path} is not UTF-8 text: save it as CSV with that encoding") from None
    except (OSError, csv.Error):
        raise BadTable(f"{path} is no readable CSV file") from None


def csv_table_sql(path: Path, names: Sequence[str], header: bool, end: bytes) -> str:
    """Returns SQL that reads a CSV file, every column as a text; an empty field is NULL."""
    # Nothing is sniffed: what a sniffer sees in the rows would decide types and errors.
    columns = ", ".join(f"{quote_text(name)}: 'VARCHAR'" for name in names)
    new_line = "\\r\\n" if end == b"\r\n" else "\\n"
    return (
        f"read_csv({quote_text(str(path))}, columns = {{{columns}}}, header = {str(header).lower()}, "
        "auto_detect = false, delim = ',', quote = '\"', escape = '\"', nullstr = '', strict_mode = false, "
        f"null_padding = true, parallel = false, new_line = '{new_line}', hive_partitioning = false)"
    )


def file_identity(path: Path) -> str:
    """Returns a file's size and time of change, in words."""
    try:
        status = path.stat()
    except OSError as error:
        raise BadTable(f"{path} cannot be read: {error.strerror}") from None
    return f"{status.st_size} bytes, modified {status.st_mtime_ns}"


def source_path(source: Source) -> Path:
    """Returns the file of a source for DuckDB or Spark."""
    path = source.path if isinstance(source, Table) else source
    if path is None:
        raise ValueError(f"{source} is no file")
    return path


class DuckDBEngine(SqlEngine):
    """An `Engine` over one file. For a table of a database see `DuckDBTableEngine`.

    For a small file, planning a statement takes longer than running it: so one thread reads it, and counts that are
    asked for at the same time are one statement.
    """

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str) -> None:
        super().__init__(policy, header, row_key, DUCKDB)
        self._path = source_path(policy.source)
        self._is_small = self._path.is_file() and self._path.stat().st_size <= SMALL_FILE_BYTES
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._cached_types: tuple[str, Mapping[str, StorageType]] | None = None
        self._cached_line_end: tuple[str, bytes] | None = None

    def identity(self) -> str:
        return file_identity(self._path)

    def statistic(self, query: Query) -> int:
        """See `Engine`."""
        if self._is_small and is_plain_count(query):
            return self._run_counts([query])[0]
        return super().statistic(query)

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        """See `Engine`. Counts are one statement; if that fails, each is tried alone."""
        counts = [query for query in queries if self._is_small and is_plain_count(query)]
        try:
            totals = dict(zip((query.digest for query in counts), self._run_counts(counts), strict=True))
        except BadTable:
            totals = {}
        return [(totals[query.digest],) if query.digest in totals else read_each(self, [query])[0] for query in queries]

    def _run_counts(self, queries: Sequence[Query]) -> list[int]:
        if not queries:
            return []
        if len(queries) == 1:
            sql = self._query_sql(queries[0])
        else:
            sql = counts_statement(
                queries, self._policy, self._table_sql(), self._row_key, DUCKDB, self._checked_storage_types()
            )
        (values,) = self._run_sql(sql)
        return [  # DuckDB's count_if of no rows is NULL
            min(int(value or 0), saturation_limit(query, self._policy))
            for value, query in zip(values, queries, strict=True)
        ]

    def inspect(self) -> Inspection:
        """See `SqlEngine`. Refuses a CSV file in which DuckDB sees other rows than its lines."""
        rows = None
        if self._path.suffix.lower() != ".parquet":
            _check_file(self._path)
            rows = count_csv_rows(
                self._path, header=not policy_column_names(self._policy.source), blank_rows=len(self._header) == 1
            )
        inspection = super().inspect()
        if rows not in (None, inspection.rows):
            raise BadTable(f"{self._path.name} has {rows} rows, of which DuckDB reads {inspection.rows}")
        return inspection

    def fingerprint(self, salt: bytes) -> bytes:
        """Digests the column names that the policy gives, if any, then the file's bytes."""
        digest = blake2b(key=salt, digest_size=32)
        for name in policy_column_names(self._policy.source):
            digest.update(f"{len(name)}:{name}".encode())
        with self._path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        return digest.digest()

    def _storage_types(self) -> Mapping[str, StorageType]:
        if self._path.suffix.lower() != ".parquet":
            return dict.fromkeys(self._header, StorageType.TEXT)
        identity = self.identity()
        if self._cached_types is None or self._cached_types[0] != identity:  # the same file has the same types
            columns = self._run_sql(f"DESCRIBE SELECT * FROM {self._table_sql()}")
            self._cached_types = identity, {row[0]: storage_type(row[1]) for row in columns}
        return self._cached_types[1]

    def _table_sql(self) -> str:
        path = quote_text(str(self._path))
        if self._path.suffix.lower() == ".parquet":
            return f"read_parquet({path}, hive_partitioning = false)"
        header = not policy_column_names(self._policy.source)
        return csv_table_sql(self._path, self._header, header, self._file_line_end())

    def _file_line_end(self) -> bytes:
        """Returns the file's line end, cached until the file changes."""
        identity = self.identity()
        if self._cached_line_end is None or self._cached_line_end[0] != identity:
            self._cached_line_end = identity, line_end(self._path)
        return self._cached_line_end[1]

    def _run_sql(self, sql: str) -> list[Any]:
        import duckdb

        _check_file(self._path)
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = open_connection()
                    if self._is_small:
                        self._connection.execute("SET threads = 1")
                return self._connection.execute(sql).fetchall()
        except duckdb.Error as error:
            # Engine messages may quote values: only their kind leaves this module.
            raise BadTable(f"{self._policy.source.name} cannot be read by DuckDB ({type(error).__name__})") from None


class DuckDBTableEngine(SqlEngine):
    """An `Engine` over a table of a DuckDB database, which is open only while a statement runs."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str) -> None:
        super().__init__(policy, header, row_key, DuckDBDialect(collated=True))
        assert isinstance(policy.source, Table)
        self._database = _AttachedDatabase(source_path(policy.source), policy.source.name_parts)

    def identity(self) -> str:
        """Size and time of change of the file, and of the log in which DuckDB keeps what is not yet in it."""
        path = self._database.path
        log = path.with_name(path.name + ".wal")
        return file_identity(path) + (f"; log {file_identity(log)}" if log.exists() else "")

    def _storage_types(self) -> Mapping[str, StorageType]:
        return {name: storage_type(kind) for name, kind in self._database.read_columns()}

    def _table_sql(self) -> str:
        return self._database.table_sql

    def _run_sql(self, sql: str) -> list[Any]:
        return self._database.run_sql(sql)


class _AttachedDatabase:
    """A DuckDB database file, attached only while a statement runs.

    In between, others may write to it or replace the file; the next statement sees that.
    """

    def __init__(self, path: Path, parts: tuple[str, ...]) -> None:
        self.path, self._parts = path, parts
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self.table_sql = ".".join(
            [ATTACHED_NAME, *(quote_name(part) for part in (parts if len(parts) > 1 else ("main", *parts)))]
        )

    def read_columns(self) -> list[tuple[str, str]]:
        """Returns names and types. Refuses a view: changes behind it cannot be seen."""
        schema, name = self._parts if len(self._parts) > 1 else ("main", self._parts[0])
        where = f"schema_name = {quote_text(schema)} AND table_name = {quote_text(name)}"
        if not self.run_sql(f"SELECT 1 FROM duckdb_tables() WHERE database_name = '{ATTACHED_NAME}' AND {where}"):
            raise BadTable(f"{self.path} has no table {'.'.join(self._parts)}")
        return [(str(row[0]), str(row[1])) for row in self.run_sql(f"DESCRIBE {self.table_sql}")]

    def run_sql(self, sql: str) -> list[Any]:
        """Runs a statement and returns its rows."""
        import duckdb

        _check_file(self.path)
        try:
            with self._lock:
                if self._connection is None:
                    self._connection = open_connection()
                self._connection.execute(f"ATTACH {quote_text(str(self.path))} AS {ATTACHED_NAME} (READ_ONLY)")
                try:
                    return self._connection.execute(sql).fetchall()
                finally:
                    self._connection.execute(f"DETACH {ATTACHED_NAME}")
        except duckdb.Error as error:
            raise BadTable(f"{self._parts[-1]} cannot be read by DuckDB ({type(error).__name__})") from None


def storage_type(kind: str) -> StorageType:
    """Returns how DuckDB stores a column of this type, as far as casts need to know."""
    return STORAGE_TYPES.get(kind, StorageType.DECIMAL if kind.startswith("DECIMAL") else StorageType.OTHER)


def _check_file(source: Path) -> None:
    if any(sign in str(source) for sign in GLOB_CHARACTERS):
        raise BadTable(f"{source}: DuckDB would read {GLOB_CHARACTERS} as patterns; rename the file")
    if not source.is_file():
        raise BadTable(f"there is no file {source}")
