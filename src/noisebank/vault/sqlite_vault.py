"""`SqliteVault`: a vault in one SQLite file, with group commit."""

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
"""A table's name and a row for it."""
AGAIN = ("openings", "requests", "analysts", "cubes", "answers")
"""Tables where inserting a row again changes nothing: the first one stays."""
MOST_ROWS = 500
"""Per statement; SQLite takes 32,766 values."""


class SqliteVault:
    """A `Vault` in one file, for one process at a time (the bank's folder is locked)."""

    shared = False

    def __init__(self, path: Path | str, vfs: str | None = None, die: Callable[[str], None] = end_process) -> None:
        self._database = open_database(path, SCHEMA, vfs)
        self._access = threading.RLock()
        self._commit = GroupCommit(self._write, die)
        # A second connection to the same file, so that readers need not wait until a commit is on disk.
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
        """Saves what an account needs, under its data commitment, before the ledger opens the account."""
        self._commit(("openings", (data, canonical(body))))

    def opening(self, data: bytes) -> dict[str, Any] | None:
        """Returns what was saved for the account with this data commitment; None if nothing was."""
        row = self._one("SELECT body FROM openings WHERE data = ?", (data,))
        if row is None:
            return None
        later = self._one("SELECT body FROM identities WHERE data = ? ORDER BY rowid DESC LIMIT 1", (data,))
        return dict(json.loads(row[0]), **(json.loads(later[0]) if later else {}))

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """Saves a new identity and source of a table whose rows are the same but were written again or moved."""
        self._commit(("identities", (data, canonical({"identity": identity, "source": source}))))

    def save_cube(self, body: bytes) -> bytes:
        """Saves the totals of a cube's cells, which are as secret as the table; returns their digest."""
        digest = keccak(body)
        self._commit(("cubes", (digest, body)))
        return digest

    def cube(self, digest: bytes) -> bytes:
        """Returns the totals with this digest; `Tampered` if they are missing or changed."""
        row = self._one("SELECT body FROM cubes WHERE digest = ?", (digest,))
        if row is None or keccak(row[0]) != digest:
            raise Tampered("the vault has lost a cube: open the next version of the table, which tabulates it again")
        return bytes(row[0])

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Saves the name of an analyst whom the ledger knows by a salted digest."""
        self._commit(("analysts", (account, digest, name)))

    def analysts(self, account: bytes) -> tuple[str, ...]:
        """Returns the names of the analysts with a limit, oldest first."""
        with self._access, reading(self._database):
            rows = self._database.execute("SELECT name FROM analysts WHERE account = ? ORDER BY rowid", (account,))
            return tuple(name for (name,) in rows)

    def save_request(self, request: Request) -> None:
        """Saves a request. The same one again changes nothing; the same key with another request is `KeyReused`."""
        known = (request.account, request.analyst, request.key)
        if self._commit(("requests", (request.id, *known, request.text))):
            return
        row = self._one("SELECT id FROM requests WHERE account = ? AND analyst = ? AND key = ?", known)
        if row is None or row[0] != request.id:
            raise KeyReused(request.key)

    def request(self, id: bytes) -> Request | None:
        """Returns a request by its reservation's id; None if there is none."""
        row = self._one("SELECT id, account, analyst, key, body FROM requests WHERE id = ?", (id,))
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def request_under(self, account: bytes, analyst: str, key: str) -> Request | None:
        """Returns the request that came with an idempotency key; None if there is none."""
        row = self._one(
            "SELECT id, account, analyst, key, body FROM requests WHERE account = ? AND analyst = ? AND key = ?",
            (account, analyst, key),
        )
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def seal(self, sealed: Sealed) -> Sealed:
        """Stores an answer for ever. From here on nobody draws noise for this reservation again."""
        row = (sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt)
        stored = sealed if self._commit(("answers", row)) else self.answer(sealed.id)
        if stored is None:
            raise Tampered(f"the vault has lost the answer {sealed.id.hex()[:12]} that it has just sealed")
        self._remember(stored)
        return stored

    def answer(self, id: bytes) -> Sealed | None:
        """Returns the sealed answer of a reservation; None if there is none."""
        row = self._one("SELECT id, account, query, body, salt FROM answers WHERE id = ?", (id,))
        return _sealed(row) if row else None

    def answers(self, account: bytes) -> Iterator[Sealed]:
        """Returns all sealed answers of an account, in no order."""
        with self._access, reading(self._database):
            sql = "SELECT id, account, query, body, salt FROM answers WHERE account = ?"
            return iter([_sealed(row) for row in self._database.execute(sql, (account,))])

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns account and id of every reservation whose answer is sealed."""
        with self._access:
            return tuple(self._database.execute("SELECT account, id FROM answers"))

    def released(self, account: bytes, query: bytes) -> Released:
        """Returns all released answers to a query, by rising precision."""
        with self._known:
            known = self._values.get((account, query), {})
            return tuple((Precision(units), known[units]) for units in sorted(known))

    def points(self, account: bytes, query: bytes, group: int = 0) -> tuple[Point, ...]:
        """Returns the same as points of the bridge of the query, or of one of its groups."""
        return points_of(self.released(account, query), group)

    def close(self) -> None:
        """Closes the file. Nothing is lost."""
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
        """Writes all rows in one transaction with one fsync, in few statements: each one lets other threads run.

        An item's outcome is whether its row is certainly new: True if all rows of its table in this group are. Asking
        SQLite row by row would be exact, but a caller whose row may have been there looks at it anyway.
        """
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for turn in turns:
            table, row = turn.item
            rows[table].append(row)
        statements = [(table, chunk) for table, all_rows in rows.items() for chunk in _some(all_rows)]
        added = apart(lambda: self._add(statements))
        new = {table: added[table] == len(all_rows) for table, all_rows in rows.items()}
        for turn in turns:
            turn.outcome = new[turn.item[0]]

    def _add(self, statements: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> dict[str, int]:
        """Inserts rows; returns how many of each table are new."""
        added: dict[str, int] = defaultdict(int)
        with self._access, self._database if len(statements) > 1 else nullcontext():
            for table, chunk in statements:
                self._database.execute(_insert(table, len(chunk)), tuple(chain.from_iterable(chunk)))
                added[table] += self._database.changes()
        return added


def _some(rows: Sequence[tuple[object, ...]]) -> list[Sequence[tuple[object, ...]]]:
    return [rows[start : start + MOST_ROWS] for start in range(0, len(rows), MOST_ROWS)]


@cache
def _insert(table: str, rows: int) -> str:
    """Returns one statement for many rows. Its text has the table's name and placeholders only."""
    placeholders = "(" + ", ".join("?" * len(TABLES[table])) + ")"
    sql = f"INSERT INTO {table} VALUES {', '.join([placeholders] * rows)}"
    return sql + " ON CONFLICT DO NOTHING" * (table in AGAIN)


def _sealed(row: Any) -> Sealed:
    sealed = Sealed(row[0], row[1], row[2], json.loads(row[3]), row[4])
    sealed.__dict__["text"] = row[3]  # the stored text is the one that was digested and published, not a new encoding
    return sealed
