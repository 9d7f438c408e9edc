"""The PostgreSQL engine (extra `[postgres]`): the table stays where it is; a role that may only read is enough.

How to reach the server is given by the policy's address, by the environment variable NOISEBANK_POSTGRES
or by PostgreSQL's own variables (PGHOST, ...); the password by PGPASSWORD or ~/.pgpass. The bank never
writes a password down, and no address leaves this module in an error.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadTable
from noisebank.core.postgres import connect, explain_failure, is_installed
from noisebank.engines.dialect import StorageType
from noisebank.engines.postgres_dialect import POSTGRES
from noisebank.engines.sql_engine import SqlEngine
from noisebank.policy.model import Policy, Table

if TYPE_CHECKING:
    import psycopg

ADDRESS_VARIABLE = "NOISEBANK_POSTGRES"
CLIENT_VARIABLES = ("PGHOST", "PGSERVICE", "PGDATABASE")
"""If one of them is set, PostgreSQL's client library finds the server by itself."""
SETTINGS = {
    "default_transaction_isolation": "repeatable read",  # one snapshot
    "default_transaction_read_only": "on",
    "standard_conforming_strings": "on",  # a backslash in a text is a backslash
    "search_path": "pg_catalog",  # nobody's md5() but the server's
    "row_security": "off",  # an error instead of fewer rows
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
STORAGE_TYPES = {
    **dict.fromkeys(("int2", "int4", "int8"), StorageType.INTEGER),
    **dict.fromkeys(("float4", "float8"), StorageType.FLOAT),
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), StorageType.TEXT),
    "numeric": StorageType.DECIMAL,
    "bool": StorageType.BOOLEAN,
    "bytea": StorageType.BYTES,
    "date": StorageType.DATE,
    "timestamp": StorageType.CLOCK,
    "timestamptz": StorageType.INSTANT,
}
COLUMNS_SQL = """
SELECT a.attname::text, CASE WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname ELSE '' END::text
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
FAMILY_SQL = """
WITH RECURSIVE family(id) AS (
  SELECT {oid} UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.id
)
"""
KINDS_SQL = f"""
{FAMILY_SQL.format(oid="to_regclass({name})::oid")}
SELECT c.oid::bigint, c.relkind::text, pg_is_in_recovery() OR current_setting('track_counts') <> 'on'
FROM pg_class c JOIN family f ON f.id = c.oid ORDER BY c.oid = to_regclass({{name}})::oid DESC
"""
IDENTITY_SQL = f"""
{FAMILY_SQL.format(oid="{oid}::oid")}, facts AS (
  SELECT concat_ws(' ', c.oid, pg_relation_filenode(c.oid),
    pg_stat_get_tuples_inserted(c.oid), pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid),
    (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid), ',' ORDER BY a.attnum)
     FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)) AS fact
  FROM pg_class c JOIN family f ON f.id = c.oid
)
SELECT md5(string_agg(fact, ';' ORDER BY fact)) FROM facts
"""
READABLE_KINDS = frozenset("rpm")
"""Tables, partitioned tables, materialised views."""
REFUSED_KINDS = {"v": "is a view", "f": "is a foreign table or has one among its parts"}


class PostgresEngine(SqlEngine):
    """An `Engine` over one PostgreSQL table. Each statement sees one snapshot of it."""

    def __init__(self, policy: Policy, header: tuple[str, ...], row_key: str) -> None:
        super().__init__(policy, header, row_key, POSTGRES)
        assert isinstance(policy.source, Table)
        self._server = _TableConnection(policy.source)

    def identity(self) -> str:
        """Returns a digest of the table's entries in catalogue and statistics.

        These are the files of the table and of its partitions, names and types of columns, and how many rows
        were ever inserted, updated and deleted. The server publishes such counts within about a
        second of a commit (ten, if the writer falls idle), and forgets them in a crash.
        What they miss: docs/reference/engines.md.
        """
        ((facts,),) = self._server.run_sql(IDENTITY_SQL.format(oid=self._server.read_oid()))
        return f"PostgreSQL {facts}"

    def _storage_types(self) -> Mapping[str, StorageType]:
        return {name: STORAGE_TYPES.get(kind, StorageType.OTHER) for name, kind in self._server.read_columns()}

    def _table_sql(self) -> str:
        return self._server.table_sql

    def _run_sql(self, sql: str) -> list[Any]:
        return self._server.run_sql(sql)


def postgres_header(source: Table) -> tuple[str, ...]:
    """Returns the names of a table's columns: metadata, no rows."""
    return tuple(name for name, _ in _TableConnection(source).read_columns())


class _TableConnection:
    """A connection for one table, opened when it is needed, and again when it was lost."""

    def __init__(self, source: Table) -> None:
        parts = source.name_parts if len(source.name_parts) > 1 else ("public", *source.name_parts)
        self.table_sql = ".".join(POSTGRES.quote_name(part) for part in parts)
        self._name, self._address = source.name, source.address
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection[Any]] = []
        weakref.finalize(self, _close_all, self._connections)

    def read_oid(self) -> int:
        """Returns the table's number in the catalogue; refuses a table whose changes cannot be seen."""
        members = self.run_sql(KINDS_SQL.format(name=POSTGRES.quote_text(self.table_sql)))
        if not members:
            raise BadTable(f"PostgreSQL has no table {self.table_sql} that this role may see")
        for _, kind, blind in members:
            if blind:
                raise BadTable("this PostgreSQL server is a replica or does not count changes, so they cannot be seen")
            if kind not in READABLE_KINDS:
                what = REFUSED_KINDS.get(kind, "is no table")
                raise BadTable(f"{self.table_sql} {what}: changes behind it cannot be seen; copy it into a table")
        return int(members[0][0])

    def read_columns(self) -> list[tuple[str, str]]:
        """Returns names and types."""
        return [(str(name), str(kind)) for name, kind in self.run_sql(COLUMNS_SQL.format(oid=self.read_oid()))]

    def run_sql(self, sql: str) -> list[Any]:
        """Runs one statement and returns its rows. It only reads, so it is sent again if the connection had died."""
        _check_installed()
        import psycopg

        with self._lock:
            old = bool(self._connections)
            try:
                try:
                    return self._send_sql(sql)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    if not (old and self._drop_broken()):
                        raise
                    return self._send_sql(sql)
            except psycopg.Error as error:
                self._drop_broken()
                # Messages quote values, names and hosts: only their kind leaves this module.
                raise BadTable(f"{self._name} cannot be read by PostgreSQL ({type(error).__name__})") from None

    def _send_sql(self, sql: str) -> list[Any]:
        if not self._connections:
            self._connections.append(_connect_server(self._address))
        # Binary results need the protocol in which one message is one statement.
        return self._connections[0].execute(sql.encode(), binary=True).fetchall()

    def _drop_broken(self) -> bool:
        """Drops a broken connection; returns whether there is none now, so that the next statement opens a new one."""
        if self._connections and self._connections[0].broken:
            _close_all(self._connections)
        return not self._connections


def _close_all(connections: list[psycopg.Connection[Any]]) -> None:
    while connections:
        connections.pop().close()


def _check_installed() -> None:
    if not is_installed():
        raise BadTable("a PostgreSQL table needs psycopg: pip install 'noisebank[postgres]'")


def _connect_server(address: str) -> psycopg.Connection[Any]:
    import psycopg

    target = address or os.environ.get(ADDRESS_VARIABLE, "")
    if not target and not any(os.environ.get(name) for name in CLIENT_VARIABLES):
        raise BadTable(
            f"nobody says where the PostgreSQL server is: set {ADDRESS_VARIABLE}, or give its address as source"
        )
    try:
        return connect(target, SETTINGS)
    except psycopg.OperationalError as error:
        raise BadTable(f"the PostgreSQL server cannot be reached: {explain_failure(error)}") from None
