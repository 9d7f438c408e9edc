"""The SQLite file behind `auth`: its tables, their migration, and locked reads and writes."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw

from noisebank.core.durability import open_database, reading

SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, wallet TEXT UNIQUE, must_sign INTEGER NOT NULL, made INTEGER NOT NULL,
    disabled INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, digest BLOB UNIQUE NOT NULL, person TEXT NOT NULL, scopes TEXT NOT NULL, label TEXT NOT NULL,
    made INTEGER NOT NULL, expires INTEGER, revoked INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, id TEXT UNIQUE NOT NULL, person TEXT NOT NULL, key TEXT, wallet TEXT, limits TEXT NOT NULL,
    made INTEGER NOT NULL, expires INTEGER NOT NULL, CHECK ((key IS NULL) <> (wallet IS NULL))) STRICT;
CREATE TABLE IF NOT EXISTS nonces (nonce TEXT PRIMARY KEY, expires INTEGER NOT NULL) STRICT;
"""
SqlValues = tuple[Any, ...] | Mapping[str, Any]


class AccessDatabase:
    """One connection, safe for many threads. Writes are durable on return."""

    def __init__(self, path: Path) -> None:
        self._connection = open_database(path, SCHEMA)
        self.lock = threading.RLock()
        """Held during each call; whoever needs several statements in a row holds it around them."""
        _migrate_schema(self._connection)

    def close(self) -> None:
        """Close the connection. Nothing is lost."""
        self._connection.close()

    def fetch_row(self, sql: str, values: SqlValues) -> Any:
        """Return the first row, or None. Raises BadBank if the file cannot be read."""
        with self.lock, reading(self._connection):
            return self._connection.execute(sql, values).fetchone()

    def fetch_rows(self, sql: str, values: SqlValues = ()) -> list[Any]:
        """Return all rows. Raises BadBank if the file cannot be read."""
        with self.lock, reading(self._connection):
            return list(self._connection.execute(sql, values))

    def write_rows(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        """Run one statement that writes; return the rows of its RETURNING clause, if it has one."""
        with self.lock:
            return list(self._connection.execute(sql, values))

    def read_version(self) -> int:
        """Return a number that changes whenever another connection has changed the file."""
        with self.lock, reading(self._connection):
            return int(self._connection.pragma("data_version"))


def _migrate_schema(connection: apsw.Connection) -> None:
    """Bring a file of an earlier version up to date: nobody is disabled; sessions end, as their origin is unknown."""
    with reading(connection):
        connection.execute("BEGIN IMMEDIATE")
        if not any(row[1] == "disabled" for row in connection.execute("PRAGMA table_info(people)")):
            connection.execute("ALTER TABLE people ADD COLUMN disabled INTEGER; DROP TABLE sessions")
            connection.execute(SCHEMA)
        connection.execute("COMMIT")
