"""A vault in one SQLite file."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from noisebank.core.digests import canonical, keccak
from noisebank.core.durability import GroupCommit, Turn, end_process, open_database, reading
from noisebank.core.errors import KeyReused, Tampered
from noisebank.core.records import Point
from noisebank.core.units import GridValue, Precision
from noisebank.runtime.gathering import apart
from noisebank.runtime.turns import Turns
from noisebank.vault.vault import TABLES, Released, Request, Sealed, points_of

SCHEMA = """
CREATE TABLE IF NOT EXISTS openings (data BLOB PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS cubes (digest BLOB PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS identities (data BLOB NOT NULL, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS requests (
    id BLOB PRIMARY KEY, account BLOB NOT NULL, analyst TEXT NOT NULL, key TEXT NOT NULL, body TEXT NOT NULL,
    UNIQUE (account, analyst, key)) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    id BLOB PRIMARY KEY, account BLOB NOT NULL, query BLOB NOT NULL, body TEXT NOT NULL, salt BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS analysts (
    account BLOB NOT NULL, digest BLOB NOT NULL, name TEXT NOT NULL, PRIMARY KEY (account, digest)) STRICT;
CREATE TABLE IF NOT EXISTS lost (id BLOB PRIMARY KEY) STRICT;
"""

Write = tuple[str, tuple[object, ...]]
"""A table and a row for it."""
AGAIN = ("openings", "requests", "analysts", "cubes", "answers")
"""Tables that take the same row again and change nothing: the first stays."""
MOST_ROWS = 500
"""In a statement; SQLite takes 32,766 values."""


class SqliteVault:
    """A `Vault` in one file, for one process at a time: the bank's folder is locked."""

    shared = False

    def __init__(self, path: Path | str, vfs: str | None = None, die: Callable[[str], None] = end_process) -> None:
        self._database = open_database(path, SCHEMA, vfs)
        self._access = threading.RLock()
        self._commit = GroupCommit(self._write, die)
        # A second connection to the same file: whoever reads need not wait until a commit is on disk.
        apart = vfs is None and isinstance(path, Path)
        self._reader = open_database(path, "") if apart else self._database
        self._reading: AbstractContextManager[object] = threading.Lock() if apart else self._access
        self._known = threading.Lock()
        self._values: dict[tuple[bytes, bytes], dict[int, tuple[GridValue, ...]]] = defaultdict(dict)
        self.turns = Turns()
        with reading(self._database):
            for row in self._database.execute("SELECT id, account, query, body, salt FROM answers"):
                self._remember(_sealed(row))
            self.lost = frozenset(id for (id,) in self._database.execute("SELECT id FROM lost"))

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Keeps what an account needs, under its data commitment, before the ledger opens it."""
        self._commit(("openings", (data, canonical(body))))

    def opening(self, data: bytes) -> dict[str, Any] | None:
        """What was saved for the account with this data commitment."""
        row = self._one("SELECT body FROM openings WHERE data = ?", (data,))
        if row is None:
            return None
        later = self._one("SELECT body FROM identities WHERE data = ? ORDER BY rowid DESC LIMIT 1", (data,))
        return dict(json.loads(row[0]), **(json.loads(later[0]) if later else {}))

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """The same rows were written again, or somewhere else: what tells from now on that they have not changed."""
        self._commit(("identities", (data, canonical({"identity": identity, "source": source}))))

    def save_cube(self, body: bytes) -> bytes:
        """Keeps the totals of a cube's cells, as secret as the table; returns their digest."""
        digest = keccak(body)
        self._commit(("cubes", (digest, body)))
        return digest

    def cube(self, digest: bytes) -> bytes:
        """The totals with this digest, and no others."""
        row = self._one("SELECT body FROM cubes WHERE digest = ?", (digest,))
        if row is None or keccak(row[0]) != digest:
            raise Tampered("the vault has lost a cube: open the next version of the table, which tabulates it again")
        return bytes(row[0])

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Keeps the name behind a salted digest on the ledger."""
        self._commit(("analysts", (account, digest, name)))

    def analysts(self, account: bytes) -> tuple[str, ...]:
        """Names of the analysts with a limit, oldest first."""
        with self._access, reading(self._database):
            rows = self._database.execute("SELECT name FROM analysts WHERE account = ? ORDER BY rowid", (account,))
            return tuple(name for (name,) in rows)

    def save_request(self, request: Request) -> None:
        """Keeps a request. The same one again is fine; the same key for another one is `KeyReused`."""
        known = (request.account, request.analyst, request.key)
        if self._commit(("requests", (request.id, *known, request.text))):
            return
        row = self._one("SELECT id FROM requests WHERE account = ? AND analyst = ? AND key = ?", known)
        if row is None or row[0] != request.id:
            raise KeyReused(request.key)

    def request(self, id: bytes) -> Request | None:
        """A request by its reservation id."""
        row = self._one("SELECT id, account, analyst, key, body FROM requests WHERE id = ?", (id,))
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def request_under(self, account: bytes, analyst: str, key: str) -> Request | None:
        """The request that came with an idempotency key."""
        row = self._one(
            "SELECT id, account, analyst, key, body FROM requests WHERE account = ? AND analyst = ? AND key = ?",
            (account, analyst, key),
        )
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def seal(self, sealed: Sealed) -> Sealed:
        """Keeps an answer for ever. From here on nobody draws noise for this reservation again."""
        row = (sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt)
        kept = sealed if self._commit(("answers", row)) else self.answer(sealed.id)
        if kept is None:
            raise Tampered(f"the vault has lost the answer {sealed.id.hex()[:12]} that it has just sealed")
        self._remember(kept)
        return kept

    def answer(self, id: bytes) -> Sealed | None:
        """The sealed answer of a reservation."""
        row = self._one("SELECT id, account, query, body, salt FROM answers WHERE id = ?", (id,))
        return _sealed(row) if row else None

    def answers(self, account: bytes) -> Iterator[Sealed]:
        """All sealed answers of an account, in no order."""
        with self._access, reading(self._database):
            sql = "SELECT id, account, query, body, salt FROM answers WHERE account = ?"
            return iter([_sealed(row) for row in self._database.execute(sql, (account,))])

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Account and id of the reservations whose answers are sealed."""
        with self._access:
            return tuple(self._database.execute("SELECT account, id FROM answers"))

    def released(self, account: bytes, query: bytes) -> Released:
        """All released answers to a query, by rising precision."""
        with self._known:
            known = self._values.get((account, query), {})
            return tuple((Precision(units), known[units]) for units in sorted(known))

    def points(self, account: bytes, query: bytes, group: int = 0) -> tuple[Point, ...]:
        """The same as points of the bridge of the query, or of one of its groups."""
        return points_of(self.released(account, query), group)

    def close(self) -> None:
        """Nothing is lost."""
        self._reader.close()
        self._database.close()

    def _remember(self, sealed: Sealed) -> None:
        if "cube" in sealed.body:  # no point of a bridge: it follows from all that is known about the cube
            return
        with self._known:
            known = self._values[sealed.account, sealed.query]
            if known.setdefault(sealed.body["wanted"], sealed.values) != sealed.values:
                raise Tampered(f"two different answers of the same precision are sealed: {sealed.id.hex()[:12]}")

    def _one(self, sql: str, values: tuple[object, ...]) -> Any:
        with self._reading, reading(self._reader):
            return self._reader.execute(sql, values).fetchone()

    def _write(self, turns: Sequence[Turn[Write, bool]]) -> None:
        """One transaction, one fsync; few statements, since each gives way to whoever waits to run.

        The outcome of a turn is whether its row is surely new: all rows of its table are, in this group. Which ones are
        could be asked of SQLite, row by row; those who come to a row that was there look at it anyway.
        """
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for turn in turns:
            table, row = turn.item
            rows[table].append(row)
        statements = [(table, some) for table, found in rows.items() for some in _some(found)]
        added = apart(lambda: self._add(statements))
        new = {table: added[table] == len(found) for table, found in rows.items()}
        for turn in turns:
            turn.outcome = new[turn.item[0]]

    def _add(self, statements: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> dict[str, int]:
        """How many rows of each table are new."""
        added: dict[str, int] = defaultdict(int)
        with self._access, self._database if len(statements) > 1 else nullcontext():
            for table, some in statements:
                self._database.execute(_insert(table, len(some)), tuple(chain.from_iterable(some)))
                added[table] += self._database.changes()
        return added


def _some(rows: Sequence[tuple[object, ...]]) -> list[Sequence[tuple[object, ...]]]:
    return [rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)]


@cache
def _insert(table: str, rows: int) -> str:
    """One statement for many rows; only the table's name and places for values are put into its text."""
    places = "(" + ", ".join("?" * len(TABLES[table])) + ")"
    sql = f"INSERT INTO {table} VALUES {', '.join([places] * rows)}"
    return sql + " ON CONFLICT DO NOTHING" * (table in AGAIN)


def _sealed(row: Any) -> Sealed:
    sealed = Sealed(row[0], row[1], row[2], json.loads(row[3]), row[4])
    sealed.__dict__["text"] = row[3]  # what is kept is what was digested: any other spelling is not the one published
    return sealed
