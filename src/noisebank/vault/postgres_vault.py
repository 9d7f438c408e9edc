"""`PostgresVault`: a vault on PostgreSQL (extra `[postgres]`) for several gateways, beside a ledger on a chain."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noisebank.core.digests import canonical, keccak
from noisebank.core.errors import BadBank, KeyReused, Tampered
from noisebank.core.records import Point
from noisebank.core.units import GridValue, Precision
from noisebank.vault.postgres_sessions import Sessions
from noisebank.vault.vault import TABLES, Released, Request, Sealed, points_of

FORMAT = "noisebank vault 1"
MAKING = 0x6E6F697365
"""Advisory lock of whoever creates a vault's tables."""
SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS noisebank",
    "CREATE TABLE IF NOT EXISTS facts (name text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS openings (data bytea PRIMARY KEY, body text NOT NULL)",
    "CREATE TABLE IF NOT EXISTS cubes (digest bytea PRIMARY KEY, body bytea NOT NULL)",
    """CREATE TABLE IF NOT EXISTS identities (
        data bytea NOT NULL, body text NOT NULL, place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)""",
    """CREATE TABLE IF NOT EXISTS requests (
        id bytea PRIMARY KEY, account bytea NOT NULL, analyst text NOT NULL, key text NOT NULL, body text NOT NULL,
        UNIQUE (account, analyst, key))""",
    """CREATE TABLE IF NOT EXISTS answers (
        id bytea PRIMARY KEY, account bytea NOT NULL, query bytea NOT NULL, body text NOT NULL, salt bytea NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS answers_by_query ON answers (account, query)",
    """CREATE TABLE IF NOT EXISTS analysts (
        account bytea NOT NULL, digest bytea NOT NULL, name text NOT NULL,
        place bigint GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (account, digest))""",
    "CREATE TABLE IF NOT EXISTS lost (id bytea PRIMARY KEY)",
)
ORDERED = ("identities", "analysts")
"""Tables whose rows have an order."""
Rows = Iterable[Sequence[Any]]


class PostgresVault:
    """A `Vault` in the schema `noisebank` of a database, shared by all who know its address.

    Only rows are cached in memory, and rows never change: no other gateway can make the cache wrong. Every statement
    may run twice.
    """

    shared = True

    def __init__(self, address: str, name: str) -> None:
        self._sessions = Sessions(address)
        self._access = threading.Lock()
        self._seen: dict[tuple[bytes, bytes], dict[bytes, tuple[int, tuple[GridValue, ...]] | None]] = defaultdict(dict)
        try:
            self._check(name)
            self.lost = frozenset(id for (id,) in self._sessions.rows("SELECT id FROM lost"))
        except BaseException:
            self.close()
            raise

    def turns(self, names: Sequence[bytes]) -> AbstractContextManager[object]:
        """Takes advisory locks in the session that the thread then uses until it releases them."""
        return self._sessions.turns(names)

    def bind(self, ledger: str) -> None:
        """Binds the vault to a ledger, for ever; `BadBank` with another ledger, which would find answers that it never
        paid for."""
        self._add("facts", ("ledger", ledger))
        ((known,),) = self._sessions.rows("SELECT value FROM facts WHERE name = 'ledger'")
        if known != ledger:
            raise BadBank("this vault belongs to another ledger: a vault and a ledger stay together")

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Saves what an account needs, under its data commitment, before the ledger opens the account."""
        self._add("openings", (data, canonical(body)))

    def opening(self, data: bytes) -> dict[str, Any] | None:
        """Returns what was saved for the account with this data commitment; None if nothing was."""
        row = self._one("SELECT body FROM openings WHERE data = %s", (data,))
        if row is None:
            return None
        later = self._one("SELECT body FROM identities WHERE data = %s ORDER BY place DESC LIMIT 1", (data,))
        return dict(json.loads(row[0]), **(json.loads(later[0]) if later else {}))

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """Saves a new identity and source of a table whose rows are the same but were written again or moved."""
        self._add("identities", (data, canonical({"identity": identity, "source": source})))

    def save_cube(self, body: bytes) -> bytes:
        """Saves the totals of a cube's cells, which are as secret as the table; returns their digest."""
        digest = keccak(body)
        self._add("cubes", (digest, body))
        return digest

    def cube(self, digest: bytes) -> bytes:
        """Returns the totals with this digest; `Tampered` if they are missing or changed."""
        row = self._one("SELECT body FROM cubes WHERE digest = %s", (digest,))
        if row is None or keccak(bytes(row[0])) != digest:
            raise Tampered("the vault has lost a cube: open the next version of the table, which tabulates it again")
        return bytes(row[0])

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Saves the name of an analyst whom the ledger knows by a salted digest."""
        self._add("analysts", (account, digest, name))

    def analysts(self, account: bytes) -> tuple[str, ...]:
        """Returns the names of the analysts with a limit, oldest first."""
        rows = self._sessions.rows("SELECT name FROM analysts WHERE account = %s ORDER BY place", (account,))
        return tuple(name for (name,) in rows)

    def save_request(self, request: Request) -> None:
        """Saves a request. The same one again changes nothing; the same key with another request is `KeyReused`."""
        values = request.account, request.analyst, request.key
        taken = "SELECT id FROM requests WHERE account = %s AND analyst = %s AND key = %s"
        row = self._one(taken, values)
        if row is None:
            self._add("requests", (request.id, *values, request.text))
            row = self._one(taken, values)
        if row is None or row[0] != request.id:
            raise KeyReused(request.key)

    def request(self, id: bytes) -> Request | None:
        """Returns a request by its reservation's id; None if there is none."""
        row = self._one("SELECT id, account, analyst, key, body FROM requests WHERE id = %s", (id,))
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def request_under(self, account: bytes, analyst: str, key: str) -> Request | None:
        """Returns the request that came with an idempotency key; None if there is none."""
        row = self._one(
            "SELECT id, account, analyst, key, body FROM requests WHERE account = %s AND analyst = %s AND key = %s",
            (account, analyst, key),
        )
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def seal(self, sealed: Sealed) -> Sealed:
        """Stores an answer for ever, unless there is one already; returns the stored one.

        Sent through the session that holds the query's lock: if that session is gone, so is the lock, and nothing is
        sealed.
        """
        row = (sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt)
        if self._sessions.sealing(_insert("answers") + " RETURNING id", row):
            return sealed
        stored = self.answer(sealed.id)
        if stored is None:
            raise Tampered(f"the vault has lost the answer {sealed.id.hex()[:12]} that somebody has sealed")
        return stored

    def answer(self, id: bytes) -> Sealed | None:
        """Returns the sealed answer of a reservation; None if there is none."""
        row = self._one("SELECT id, account, query, body, salt FROM answers WHERE id = %s", (id,))
        return Sealed(row[0], row[1], row[2], json.loads(row[3]), row[4]) if row else None

    def answers(self, account: bytes) -> Iterator[Sealed]:
        """Returns all sealed answers of an account, in no order."""
        rows = self._sessions.rows("SELECT id, query, body, salt FROM answers WHERE account = %s", (account,))
        return (Sealed(id, account, query, json.loads(body), salt) for id, query, body, salt in rows)

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns account and id of every reservation whose answer is sealed."""
        return tuple((account, id) for account, id in self._sessions.rows("SELECT account, id FROM answers"))

    def released(self, account: bytes, query: bytes) -> Released:
        """Returns all released answers to a query, by rising precision. Rows never change: only new ones are read."""
        with self._access:
            seen = dict(self._seen.get((account, query), {}))
        sql = "SELECT id, body, salt FROM answers WHERE account = %s AND query = %s AND id <> ALL(%s)"
        for id, body, salt in self._sessions.rows(sql, (account, query, list(seen))):
            sealed = Sealed(id, account, query, json.loads(body), salt)
            # An answer from a cube is no point of a bridge: it follows from all that is known about the cube.
            seen[id] = None if "cube" in sealed.body else (sealed.body["wanted"], sealed.values)
        if seen:  # a query without answers leaves nothing in memory
            with self._access:
                self._seen[account, query].update(seen)
        known: dict[int, tuple[GridValue, ...]] = {}
        for units, values in filter(None, seen.values()):
            if known.setdefault(units, values) != values:
                raise Tampered("two different answers of the same precision are sealed for one query")
        return tuple((Precision(units), known[units]) for units in sorted(known))

    def points(self, account: bytes, query: bytes, group: int = 0) -> tuple[Point, ...]:
        """Returns the same as points of the bridge of the query, or of one of its groups."""
        return points_of(self.released(account, query), group)

    def close(self) -> None:
        """Closes the connections. Nothing is lost."""
        self._sessions.close()

    # -- copies --------------------------------------------------------------------------------

    def copied(self) -> Iterator[tuple[str, Iterator[Any]]]:
        """Yields each table with its rows, all from one snapshot."""
        with self._sessions.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as session:
            for table, columns in TABLES.items():
                order = " ORDER BY place" if table in ORDERED else ""
                # A cursor on the server, because a vault need not fit into memory.
                with session.cursor(name="copy") as cursor:
                    cursor.execute(f"SELECT {', '.join(columns)} FROM {table}{order}".encode())
                    yield table, iter(cursor)

    def fill(self, tables: Mapping[str, Rows]) -> None:
        """Inserts the rows of a copy into an empty vault: all of them or none."""
        with self._sessions.transaction("ISOLATION LEVEL READ COMMITTED") as session, session.cursor() as cursor:
            cursor.execute(b"LOCK TABLE openings, requests, answers IN EXCLUSIVE MODE")
            for table in ("openings", "requests", "answers"):
                if cursor.execute(f"SELECT 1 FROM {table} LIMIT 1".encode()).fetchone():
                    raise BadBank("the database holds a vault already that is not empty: nothing was changed")
            for table, rows in tables.items():
                cursor.executemany(_insert(table).encode(), [tuple(row) for row in rows])
        self.lost = frozenset(id for (id,) in self._sessions.rows("SELECT id FROM lost"))

    # -- parts ---------------------------------------------------------------------------------

    def _check(self, name: str) -> None:
        """Checks that the database holds a vault, and the right one; `BadBank` if not. With an empty one, every account
        could be opened a second time."""
        if not self._sessions.rows("SELECT 1 FROM pg_tables WHERE schemaname = 'noisebank' AND tablename = 'facts'"):
            raise BadBank("the database holds no vault: it is another one, or its tables were dropped")
        facts = dict(self._sessions.rows("SELECT name, value FROM facts"))
        if facts.get("format") != FORMAT or facts.get("name") != name:
            raise BadBank("the database holds another vault than this bank's")

    def _one(self, sql: str, values: Sequence[object]) -> Any:
        rows = self._sessions.rows(sql, values)
        return rows[0] if rows else None

    def _add(self, table: str, row: Sequence[object]) -> None:
        self._sessions.rows(_insert(table), row)


def make_postgres_vault(address: str, name: str) -> str:
    """Creates the tables of a vault in a database; returns its name, the old one if there is a vault already."""
    sessions = Sessions(address)
    try:
        ((durable, encoding),) = sessions.rows("SELECT current_setting('fsync'), current_setting('server_encoding')")
        if durable != "on":
            raise BadBank("this PostgreSQL server runs with fsync off: what it has kept can be lost. Turn it on")
        if encoding != "UTF8":
            raise BadBank("a vault needs a database in UTF8")
        with sessions.transaction("ISOLATION LEVEL READ COMMITTED") as session:
            session.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))  # one creates at a time
            for statement in SCHEMA:
                session.execute(statement.encode())
            for fact in (("format", FORMAT), ("name", name)):
                session.execute(_insert("facts").encode(), fact)
        return str(sessions.rows("SELECT value FROM facts WHERE name = 'name'")[0][0])
    finally:
        sessions.close()


def _insert(table: str) -> str:
    """Returns the statement that inserts a row and leaves an existing one as it is. Its text has names of ours only."""
    columns = TABLES.get(table, ("name", "value"))
    placeholders = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"
