"""Copies a bank's databases while the bank is in use, each as a snapshot of one moment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from noisebank.core.durability import open_database
from noisebank.core.errors import BadBank
from noisebank.ledger.journal import SCHEMA as JOURNAL_SCHEMA
from noisebank.vault.postgres_vault import PostgresVault
from noisebank.vault.sqlite_vault import SCHEMA as VAULT_SCHEMA
from noisebank.vault.vault import TABLES


def copy_database(source: Path, target: Path) -> None:
    """Copies an SQLite file by its online backup: all pages of one snapshot. It blocks no writer (WAL)."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with _connection(source) as reading, _connection(target) as writing:
            with writing.backup("main", reading, "main") as copy:
                while not copy.done:
                    copy.step()
            writing.pragma("journal_mode", "DELETE")  # a single file, without a WAL
    except apsw.Error as error:
        raise BadBank(f"{source} cannot be copied: {type(error).__name__}") from None


def copy_vault(vault: PostgresVault, target: Path) -> None:
    """Copies the rows of a vault on PostgreSQL into a vault in a file."""
    database = open_database(target, VAULT_SCHEMA)
    try:
        with database:
            for table, rows in vault.copied():
                _insert(database, table, rows)
        database.pragma("journal_mode", "DELETE")
    finally:
        database.close()


def rows_of(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yields each table of a vault in a file, with its rows."""
    with _connection(path) as database:
        for table, columns in TABLES.items():
            order = "" if table == "lost" else " ORDER BY rowid"
            yield table, list(database.execute(f"SELECT {', '.join(columns)} FROM {table}{order}"))


def change(path: Path, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """Runs one statement for many rows, in a copy that nobody uses yet."""
    with _connection(path) as database, database:
        database.executemany(statement, rows)


def write_journal(target: Path, lines: Iterable[str]) -> None:
    """Writes a journal's SQLite file from its lines."""
    database = open_database(target, JOURNAL_SCHEMA)
    try:
        with database:
            database.executemany("INSERT INTO lines VALUES (?, ?)", enumerate(lines, -1))
        database.pragma("journal_mode", "DELETE")
    finally:
        database.close()


def _insert(database: apsw.Connection, table: str, rows: Iterable[Any]) -> None:
    placeholders = ", ".join("?" * len(TABLES[table]))
    database.executemany(f"INSERT INTO {table} VALUES ({placeholders})", (tuple(row) for row in rows))


@contextmanager
def _connection(path: Path) -> Iterator[apsw.Connection]:
    """Opens a database that must exist already; closes it at the end."""
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        database.set_busy_timeout(5_000)
        yield database
    finally:
        database.close()
