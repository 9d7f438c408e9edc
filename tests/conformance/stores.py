"""Puts one small table into any engine's hands, value for value."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from conformance.reference import Row
from conformance.server import Server
from noisebank import Policy
from support.internals import EngineKind, Source, SqlEngine, Table, make_engine, read_header

KINDS = ("csv", "parquet", "duckdb", "postgresql", "spark", "spark csv", "spark table")
NUMBERS = count()
DUCKDB_TYPES = {"text": "VARCHAR", "bigint": "BIGINT", "integer": "INTEGER", "double": "DOUBLE", "real": "FLOAT",
                "decimal": "DECIMAL(30, 6)", "boolean": "BOOLEAN", "date": "DATE",
                "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ"}  # fmt: skip
POSTGRES_TYPES = {**{kind: kind for kind in DUCKDB_TYPES}, "double": "double precision", "decimal": "numeric(30, 6)"}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass
class Store:
    """Where a kind of engine finds its tables."""

    kind: str
    folder: Path
    server: Server | None

    @property
    def only_text(self) -> bool:
        """Whether everything is stored as text, and an empty text is a missing one."""
        return self.kind in ("csv", "spark csv")

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Names of columns that the engine refuses."""
        return ("${HOME}", "${spark.app.name}") if self.kind.startswith("spark") else ()

    def put(self, types: dict[str, str], rows: list[Row], name: str = "") -> Source:
        """A table with these columns: a new one, or in place of the one of that name."""
        name = name or f"t{next(NUMBERS)}"
        if self.only_text:
            path = self.folder / f"{name}.csv"
            # Every other table has no header; to Spark an empty one without a header is no table.
            names = tuple(types) if sum(name.encode()) % 2 and (rows or self.kind == "csv") else ()
            _write_csv(path, list(types), rows, header=not names)
            keeper = EngineKind.DUCKDB if self.kind == "csv" else EngineKind.SPARK
            return path if self.kind == "csv" and not names else Table(keeper, path=path, column_names=names)
        if self.kind == "postgresql":
            assert self.server is not None
            _write_postgres(self.server, name, types, rows)
            return Table(EngineKind.POSTGRESQL, (name,))
        path = self.folder / f"{name}.{'duckdb' if self.kind == 'duckdb' else 'parquet'}"
        _write_duckdb(path, types, rows)
        if self.kind == "spark table":
            _spark_table(name, path)
            return Table(EngineKind.SPARK, (name,))
        return {"parquet": path, "duckdb": Table(EngineKind.DUCKDB, ("people",), path)}.get(
            self.kind, Table(EngineKind.SPARK, path=path)
        )

    def put_csv(self, csv: Path, types: dict[str, str]) -> Source:
        """A new table from a CSV file with a header: for tables of more than a few rows."""
        name = f"t{next(NUMBERS)}"
        if self.kind == "postgresql":
            assert self.server is not None
            _write_postgres(self.server, name, types, [], csv.read_bytes())
            return Table(EngineKind.POSTGRESQL, (name,))
        path = self.folder / f"{name}.{'duckdb' if self.kind == 'duckdb' else 'parquet'}"
        columns = ", ".join(f"{quoted(name)}::{DUCKDB_TYPES[kind]} AS {quoted(name)}" for name, kind in types.items())
        select = f"SELECT {columns} FROM read_csv('{csv}', header = true, all_varchar = true)"
        with duckdb.connect(str(path) if self.kind == "duckdb" else ":memory:") as connection:
            made = f"CREATE TABLE people AS {select}" if self.kind == "duckdb" else f"COPY ({select}) TO '{path}'"
            connection.execute(made)
        if self.kind == "duckdb":
            return Table(EngineKind.DUCKDB, ("people",), path)
        return Table(EngineKind.SPARK, path=path) if self.kind == "spark" else path

    def replace(self, source: Source, types: dict[str, str], rows: list[Row]) -> None:
        """Another table under the same name."""
        self.drop(source)
        self.put(types, rows, _name(source))

    def drop(self, source: Source) -> None:
        """The table is gone."""
        if self.kind == "postgresql":
            assert self.server is not None
            self.server.execute(f"DROP TABLE {_name(source)}")
        elif self.kind == "spark table":
            _spark().sql(f"DROP TABLE {_name(source)}")
        for path in self.folder.glob(f"{_name(source)}.*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def engine(self, policy: Policy, types: dict[str, str], rows: list[Row], row_key: str = "k") -> SqlEngine:
        """An engine over a new table."""
        source = self.put(types, rows)
        engine = make_engine(replace(policy, source=source), read_header(source), row_key)
        assert isinstance(engine, SqlEngine)
        return engine


def _write_csv(path: Path, names: list[str], rows: list[Row], header: bool) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        if header:
            writer.writerow(names)
        writer.writerows([["" if row[name] is None else row[name] for name in names] for row in rows])


def _write_duckdb(path: Path, types: dict[str, str], rows: list[Row]) -> None:
    columns = ", ".join(f"{quoted(name)} {DUCKDB_TYPES[kind]}" for name, kind in types.items())
    with duckdb.connect(str(path) if path.suffix == ".duckdb" else ":memory:") as connection:
        connection.execute(f"CREATE TABLE people ({columns})")
        connection.begin()  # one commit, not one a row
        for row in rows:
            values = [_as_duckdb(row[name]) for name in types]
            connection.execute(f"INSERT INTO people VALUES ({', '.join('?' * len(values))})", values)
        connection.commit()
        if path.suffix == ".parquet":
            connection.execute(f"COPY people TO '{path}' (FORMAT parquet)")


def _as_duckdb(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def _write_postgres(server: Server, name: str, types: dict[str, str], rows: list[Row], csv: bytes = b"") -> None:
    columns = ", ".join(f"{quoted(column)} {POSTGRES_TYPES[kind]}" for column, kind in types.items())
    with psycopg.connect(server.where, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        with connection.cursor().copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row([row[column] for column in types])
        if csv:
            with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv, HEADER true)".encode()) as copy:
                copy.write(csv)
        connection.execute("SELECT pg_stat_force_next_flush()")


def _spark_table(name: str, path: Path) -> None:
    _spark().read.parquet(str(path)).write.option("path", str(path.with_suffix(".table"))).saveAsTable(name)


def _spark() -> Any:
    from support.internals import _make_session

    return _make_session()


def _name(source: Source) -> str:
    """What `put` called it."""
    path = source.path if isinstance(source, Table) else source
    return path.stem if path is not None else source.name
