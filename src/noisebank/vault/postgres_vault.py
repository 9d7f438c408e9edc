"""`PostgresVault`: a vault on PostgreSQL (extra `[postgres]`) for several gateways, beside a ledger on a chain."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.errors import BadBank, KeyReused, Tampered
from noisebank.core.units import GridValue, Precision
from noisebank.vault.postgres_sessions import SessionPool
from noisebank.vault.vault import TABLES, ReleasedAnswers, Request, SealedAnswer

FORMAT = "noisebank vault 1"
CREATION_LOCK = 0x6E6F697365
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
COLUMN_TYPES = {
    "requests": ("bytea", "bytea", "text", "text", "text"),
    "answers": ("bytea", "bytea", "bytea", "text", "bytea"),
}
"""Of the tables that many rows are inserted into at once."""
FIND_KEYS_SQL = """SELECT account, analyst, key, id FROM requests
    JOIN unnest(%s::bytea[], %s::text[], %s::text[]) AS wanted(account, analyst, key) USING (account, analyst, key)"""
ORDERED_TABLES = ("identities", "analysts")
"""Tables whose rows have an order."""
Rows = Iterable[Sequence[Any]]


class PostgresVault:
    """A `Vault` in the schema `noisebank` of a database, shared by all who know its address.

    Only rows are cached in memory, and rows never change: no other gateway can make the cache wrong. Every statement
    may run twice.
    """

    is_shared = True

    def __init__(self, address: str, name: str) -> None:
        self._sessions = SessionPool(address)
        self._seen_lock = threading.Lock()
        self._seen_values: dict[tuple[bytes, bytes], dict[bytes, tuple[int, tuple[GridValue, ...]] | None]] = (
            defaultdict(dict)
        )
        try:
            self._check_name(name)
            self.lost_ids = frozenset(id for (id,) in self._sessions.fetch_rows("SELECT id FROM lost"))
        except BaseException:
            self.close()
            raise

    def acquire_locks(self, names: Sequence[bytes]) -> AbstractContextManager[object]:
        """Takes advisory locks in the session that the thread then uses until it releases them."""
        return self._sessions.acquire_locks(names)

    def bind_ledger(self, ledger: str) -> None:
        """Binds the vault to a ledger, for ever; `BadBank` with another ledger, which would find answers that it never
        paid for."""
        self._insert_row("facts", ("ledger", ledger))
        ((known,),) = self._sessions.fetch_rows("SELECT value FROM facts WHERE name = 'ledger'")
        if known != ledger:
            raise BadBank("this vault belongs to another ledger: a vault and a ledger stay together")

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Saves what an account needs, under its data commitment, before the ledger opens the account."""
        self._insert_row("openings", (data, to_canonical_json(body)))

    def find_opening(self, data: bytes) -> dict[str, Any] | None:
        """Returns what was saved for the account with this data commitment; None if nothing was."""
        row = self._fetch_one("SELECT body FROM openings WHERE data = %s", (data,))
        if row is None:
            return None
        later = self._fetch_one("SELECT body FROM identities WHERE data = %s ORDER BY place DESC LIMIT 1", (data,))
        return dict(json.loads(row[0]), **(json.loads(later[0]) if later else {}))

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """Saves a new identity and source of a table whose rows are the same but were written again or moved."""
        self._insert_row("identities", (data, to_canonical_json({"identity": identity, "source": source})))

    def save_cube(self, body: bytes) -> bytes:
        """Saves the totals of a cube's cells, which are as secret as the table; returns their digest."""
        digest = keccak(body)
        self._insert_row("cubes", (digest, body))
        return digest

    def read_cube(self, digest: bytes) -> bytes:
        """Returns the totals with this digest; `Tampered` if they are missing or changed."""
        row = self._fetch_one("SELECT body FROM cubes WHERE digest = %s", (digest,))
        if row is None or keccak(bytes(row[0])) != digest:
            raise Tampered("the vault has lost a cube: open the next version of the table, which tabulates it again")
        return bytes(row[0])

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Saves the name of an analyst whom the ledger knows by a salted digest."""
        self._insert_row("analysts", (account, digest, name))

    def list_analysts(self, account: bytes) -> tuple[str, ...]:
        """Returns the names of the analysts with a limit, oldest first."""
        rows = self._sessions.fetch_rows("SELECT name FROM analysts WHERE account = %s ORDER BY place", (account,))
        return tuple(name for (name,) in rows)

    def save_request(self, request: Request) -> None:
        """Saves a request. The same one again changes nothing; the same key with another request is `KeyReused`."""
        (refusal,) = self.save_requests([request])
        if refusal is not None:
            raise refusal

    def save_requests(self, requests: Sequence[Request]) -> list[KeyReused | None]:
        """Saves requests in one statement; returns `KeyReused` for each whose key names another request."""
        # In the order of their keys, so that gateways which save some of the same ones do not wait for each other.
        ordered = sorted(requests, key=lambda request: (request.account, request.analyst, request.key))
        rows = [(request.id, request.account, request.analyst, request.key, request.text) for request in ordered]
        self._sessions.fetch_rows(_insert_many_sql("requests"), _columns_of(rows))
        keys = [row[1:4] for row in rows]
        known = {
            (account, analyst, key): id
            for account, analyst, key, id in self._sessions.fetch_rows(FIND_KEYS_SQL, _columns_of(keys))
        }
        return [
            None if known.get((request.account, request.analyst, request.key)) == request.id else KeyReused(request.key)
            for request in requests
        ]

    def find_request(self, id: bytes) -> Request | None:
        """Returns a request by its reservation's id; None if there is none."""
        row = self._fetch_one("SELECT id, account, analyst, key, body FROM requests WHERE id = %s", (id,))
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def find_request_by_key(self, account: bytes, analyst: str, key: str) -> Request | None:
        """Returns the request that came with an idempotency key; None if there is none."""
        row = self._fetch_one(
            "SELECT id, account, analyst, key, body FROM requests WHERE account = %s AND analyst = %s AND key = %s",
            (account, analyst, key),
        )
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def seal(self, sealed: SealedAnswer) -> SealedAnswer:
        """Stores an answer for ever, unless there is one already; returns the stored one."""
        return self.seal_many([sealed])[0]

    def seal_many(self, answers: Sequence[SealedAnswer]) -> list[SealedAnswer]:
        """The same for answers to several reservations, in one statement.

        Sent through the session that holds the queries' locks: if that session is gone, so are the locks, and nothing
        is sealed.
        """
        rows = [(sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt) for sealed in answers]
        sql = _insert_many_sql("answers") + " RETURNING id"
        new = {bytes(id) for (id,) in self._sessions.fetch_under_lock(sql, _columns_of(rows))}
        return [sealed if sealed.id in new else self._require_answer(sealed.id) for sealed in answers]

    def _require_answer(self, id: bytes) -> SealedAnswer:
        stored = self.find_answer(id)
        if stored is None:
            raise Tampered(f"the vault has lost the answer {id.hex()[:12]} that somebody has sealed")
        return stored

    def find_answer(self, id: bytes) -> SealedAnswer | None:
        """Returns the sealed answer of a reservation; None if there is none."""
        row = self._fetch_one("SELECT id, account, query, body, salt FROM answers WHERE id = %s", (id,))
        return SealedAnswer(row[0], row[1], row[2], json.loads(row[3]), row[4]) if row else None

    def list_answers(self, account: bytes) -> Iterator[SealedAnswer]:
        """Returns all sealed answers of an account, in no order."""
        rows = self._sessions.fetch_rows("SELECT id, query, body, salt FROM answers WHERE account = %s", (account,))
        return (SealedAnswer(id, account, query, json.loads(body), salt) for id, query, body, salt in rows)

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns account and id of every reservation whose answer is sealed."""
        return tuple((account, id) for account, id in self._sessions.fetch_rows("SELECT account, id FROM answers"))

    def list_released(self, account: bytes, query: bytes) -> ReleasedAnswers:
        """Returns all released answers to a query, by rising precision. Rows never change: only new ones are read."""
        with self._seen_lock:
            seen = dict(self._seen_values.get((account, query), {}))
        sql = "SELECT id, body, salt FROM answers WHERE account = %s AND query = %s AND id <> ALL(%s)"
        for id, body, salt in self._sessions.fetch_rows(sql, (account, query, list(seen))):
            sealed = SealedAnswer(id, account, query, json.loads(body), salt)
            # An answer from a cube is no point of a bridge: it follows from all that is known about the cube.
            seen[id] = None if "cube" in sealed.body else (sealed.body["wanted"], sealed.values)
        if seen:  # a query without answers leaves nothing in memory
            with self._seen_lock:
                self._seen_values[account, query].update(seen)
        known: dict[int, tuple[GridValue, ...]] = {}
        for units, values in filter(None, seen.values()):
            if known.setdefault(units, values) != values:
                raise Tampered("two different answers of the same precision are sealed for one query")
        return tuple((Precision(units), known[units]) for units in sorted(known))

    def close(self) -> None:
        """Closes the connections. Nothing is lost."""
        self._sessions.close()

    # -- copies --------------------------------------------------------------------------------

    def copy_tables(self) -> Iterator[tuple[str, Iterator[Any]]]:
        """Yields each table with its rows, all from one snapshot."""
        with self._sessions.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY") as session:
            for table, columns in TABLES.items():
                order = " ORDER BY place" if table in ORDERED_TABLES else ""
                # A cursor on the server, because a vault need not fit into memory.
                with session.cursor(name="copy") as cursor:
                    cursor.execute(f"SELECT {', '.join(columns)} FROM {table}{order}".encode())
                    yield table, iter(cursor)

    def fill_tables(self, tables: Mapping[str, Rows]) -> None:
        """Inserts the rows of a copy into an empty vault: all of them or none."""
        with self._sessions.transaction("ISOLATION LEVEL READ COMMITTED") as session, session.cursor() as cursor:
            cursor.execute(b"LOCK TABLE openings, requests, answers IN EXCLUSIVE MODE")
            for table in ("openings", "requests", "answers"):
                if cursor.execute(f"SELECT 1 FROM {table} LIMIT 1".encode()).fetchone():
                    raise BadBank("the database holds a vault already that is not empty: nothing was changed")
            for table, rows in tables.items():
                cursor.executemany(_insert_sql(table).encode(), [tuple(row) for row in rows])
        self.lost_ids = frozenset(id for (id,) in self._sessions.fetch_rows("SELECT id FROM lost"))

    # -- parts ---------------------------------------------------------------------------------

    def _check_name(self, name: str) -> None:
        """Checks that the database holds a vault, and the right one; `BadBank` if not. With an empty one, every account
        could be opened a second time."""
        if not self._sessions.fetch_rows(
            "SELECT 1 FROM pg_tables WHERE schemaname = 'noisebank' AND tablename = 'facts'"
        ):
            raise BadBank("the database holds no vault: it is another one, or its tables were dropped")
        facts = dict(self._sessions.fetch_rows("SELECT name, value FROM facts"))
        if facts.get("format") != FORMAT or facts.get("name") != name:
            raise BadBank("the database holds another vault than this bank's")

    def _fetch_one(self, sql: str, values: Sequence[object]) -> Any:
        rows = self._sessions.fetch_rows(sql, values)
        return rows[0] if rows else None

    def _insert_row(self, table: str, row: Sequence[object]) -> None:
        self._sessions.fetch_rows(_insert_sql(table), row)


def create_postgres_vault(address: str, name: str) -> str:
    """Creates the tables of a vault in a database; returns its name, the old one if there is a vault already."""
    sessions = SessionPool(address)
    try:
        ((durable, encoding),) = sessions.fetch_rows(
            "SELECT current_setting('fsync'), current_setting('server_encoding')"
        )
        if durable != "on":
            raise BadBank("this PostgreSQL server runs with fsync off: what it has kept can be lost. Turn it on")
        if encoding != "UTF8":
            raise BadBank("a vault needs a database in UTF8")
        with sessions.transaction("ISOLATION LEVEL READ COMMITTED") as session:
            session.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))  # one creates at a time
            for statement in SCHEMA:
                session.execute(statement.encode())
            for fact in (("format", FORMAT), ("name", name)):
                session.execute(_insert_sql("facts").encode(), fact)
        return str(sessions.fetch_rows("SELECT value FROM facts WHERE name = 'name'")[0][0])
    finally:
        sessions.close()


def _insert_sql(table: str) -> str:
    """Returns the statement that inserts a row and leaves an existing one as it is. Its text has names of ours only."""
    columns = TABLES.get(table, ("name", "value"))
    placeholders = ", ".join(["%s"] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders}) ON CONFLICT DO NOTHING"


def _insert_many_sql(table: str) -> str:
    """Returns the same for many rows, given as one array per column."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in COLUMN_TYPES[table])
    return f"INSERT INTO {table} ({', '.join(TABLES[table])}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"


def _columns_of(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
