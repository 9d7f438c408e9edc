"""Openings, requests and sealed answers, in one SQLite file. Rows are added, never changed."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from noisebank.digests import answer_text_digest, canonical, keccak
from noisebank.durable import GroupCommit, Turn, end_process, open_database, reading
from noisebank.errors import KeyReused, Tampered
from noisebank.records import Point
from noisebank.units import GridValue, Precision

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
"""

Write = tuple[str, tuple[object, ...]]
"""A table and a row for it."""
AGAIN = ("requests", "analysts", "cubes")
"""Tables that take the same row again and change nothing."""
MOST_ROWS = 500
"""In a statement; SQLite takes 32,766 values."""
MOST_SEALED = 10_000
"""Answers that are kept in memory as they were read."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asked, durable before anything is charged, so that a crash can be finished."""

    id: bytes
    account: bytes
    analyst: str
    key: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Sealed:
    """An answer that will never change: a retry reads it and never draws again."""

    id: bytes
    account: bytes
    query: bytes
    body: dict[str, Any]
    salt: bytes

    @cached_property
    def text(self) -> str:
        """The canonical text that the published digest commits to."""
        return canonical(self.body)

    @cached_property
    def digest(self) -> bytes:
        """What goes on the ledger: salted, so that nobody can guess the answer from it."""
        return answer_text_digest(self.salt, self.text)

    @property
    def point(self) -> Point:
        """The answer as a point of its query's bridge."""
        return Point(Precision(self.body["wanted"]), self.values[0])

    @property
    def values(self) -> tuple[GridValue, ...]:
        """The released numbers: one, or one a group."""
        if "values" in self.body:
            return tuple(GridValue(numerator, shift) for numerator, shift in self.body["values"])
        numerator, shift = self.body["value"]
        return (GridValue(numerator, shift),)


class Vault:
    """Durable on return of every `save` and `seal`."""

    def __init__(self, path: Path | str, vfs: str | None = None, die: Callable[[str], None] = end_process) -> None:
        self._database = open_database(path, SCHEMA, vfs)
        self._access = threading.RLock()
        self._commit = GroupCommit(self._write, die)
        # A second connection to the same file: whoever reads need not wait until a commit is on disk.
        apart = vfs is None and isinstance(path, Path)
        self._reader = open_database(path, "") if apart else self._database
        self._reading = threading.Lock() if apart else self._access
        self._sealed: dict[bytes, Sealed] = {}
        self._known = threading.Lock()
        self._values: dict[tuple[bytes, bytes], dict[int, tuple[GridValue, ...]]] = defaultdict(dict)
        with reading(self._database):
            for row in self._database.execute("SELECT id, account, query, body, salt FROM answers"):
                self._remember(_sealed(row))

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
        if self._commit(("requests", (request.id, *known, canonical(request.body)))):
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

    def seal(self, sealed: Sealed) -> None:
        """Keeps an answer for ever. From here on nobody draws noise for this reservation again."""
        self._commit(
            (
                "answers",
                (sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt),
            )
        )
        self._remember(sealed)

    def answer(self, id: bytes) -> Sealed | None:
        """The sealed answer of a reservation."""
        if (known := self._sealed.get(id)) is not None:  # rows never change
            return known
        row = self._one("SELECT id, account, query, body, salt FROM answers WHERE id = ?", (id,))
        if row is None:
            return None
        found = _sealed(row)
        with self._known:
            while len(self._sealed) >= MOST_SEALED:
                del self._sealed[next(iter(self._sealed))]
            self._sealed[id] = found
        return found

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Account and id of the reservations whose answers are sealed."""
        with self._access:
            return tuple(self._database.execute("SELECT account, id FROM answers"))

    def points(self, account: bytes, query: bytes, group: int = 0) -> tuple[Point, ...]:
        """All released answers to a query, or to one of its groups, by rising precision."""
        with self._known:
            known = self._values.get((account, query), {})
            return tuple(Point(Precision(units), known[units][group]) for units in sorted(known))

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

        The outcome of a turn is whether its row is new.
        """
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for turn in turns:
            table, row = turn.item
            rows[table].append(row)
        statements = [_insert(table, some) for table, found in rows.items() for some in _some(found)]
        added: set[object] = set()
        with self._access, self._database if len(statements) > 1 else nullcontext():
            for sql, values in statements:
                added.update(id for (id,) in self._database.execute(sql, values))
        for turn in turns:
            id = turn.item[1][0]
            turn.outcome = id in added
            added.discard(id)  # of two equal rows in one group, one is new


def _some(rows: Sequence[tuple[object, ...]]) -> list[Sequence[tuple[object, ...]]]:
    return [rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)]


def _insert(table: str, rows: Sequence[tuple[object, ...]]) -> tuple[str, tuple[object, ...]]:
    """One statement for many rows; only the table's name and places for values are put into its text."""
    places = "(" + ", ".join("?" * len(rows[0])) + ")"
    sql = f"INSERT INTO {table} VALUES {', '.join([places] * len(rows))}"
    sql += " ON CONFLICT DO NOTHING" * (table in AGAIN) + " RETURNING id" * (table == "requests")
    return sql, tuple(value for row in rows for value in row)


def _sealed(row: Any) -> Sealed:
    return Sealed(row[0], row[1], row[2], json.loads(row[3]), row[4])
