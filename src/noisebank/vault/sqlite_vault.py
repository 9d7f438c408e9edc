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

from noisebank.core.digests import keccak, to_canonical_json
from noisebank.core.durability import GroupCommit, PendingItem, end_process, open_database, translate_errors
from noisebank.core.errors import KeyReused, Tampered
from noisebank.core.locks import NamedLocks
from noisebank.core.units import GridValue, Precision
from noisebank.vault.vault import TABLES, ReleasedAnswers, Request, SealedAnswer

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

TableRow = tuple[str, tuple[object, ...]]
"""A table's name and a row for it."""
IDEMPOTENT_TABLES = ("openings", "requests", "analysts", "cubes", "answers")
"""Tables where inserting a row again changes nothing: the first one stays."""
MAX_ROWS = 500
"""Per statement; SQLite takes 32,766 values."""


class SqliteVault:
    """A `Vault` in one file, for one process at a time (the bank's folder is locked)."""

    is_shared = False

    def __init__(
        self, path: Path | str, vfs: str | None = None, on_failure: Callable[[str], None] = end_process
    ) -> None:
        self._database = open_database(path, SCHEMA, vfs)
        self._write_lock = threading.RLock()
        self._commit = GroupCommit(self._write_group, on_failure)
        # A second connection to the same file, so that readers need not wait until a commit is on disk.
        apart = vfs is None and isinstance(path, Path)
        self._reader = open_database(path, "") if apart else self._database
        self._read_lock: AbstractContextManager[object] = threading.Lock() if apart else self._write_lock
        self._values_lock = threading.Lock()
        self._values: dict[tuple[bytes, bytes], dict[int, tuple[GridValue, ...]]] = defaultdict(dict)
        self.acquire_locks = NamedLocks()
        with translate_errors(self._database):
            for row in self._database.execute("SELECT id, account, query, body, salt FROM answers"):
                self._remember_values(_parse_answer(row))
            self.lost_ids = frozenset(id for (id,) in self._database.execute("SELECT id FROM lost"))

    def save_opening(self, data: bytes, body: dict[str, Any]) -> None:
        """Saves what an account needs, under its data commitment, before the ledger opens the account."""
        self._commit(("openings", (data, to_canonical_json(body))))

    def find_opening(self, data: bytes) -> dict[str, Any] | None:
        """Returns what was saved for the account with this data commitment; None if nothing was."""
        row = self._fetch_one("SELECT body FROM openings WHERE data = ?", (data,))
        if row is None:
            return None
        later = self._fetch_one("SELECT body FROM identities WHERE data = ? ORDER BY rowid DESC LIMIT 1", (data,))
        return dict(json.loads(row[0]), **(json.loads(later[0]) if later else {}))

    def save_identity(self, data: bytes, identity: str, source: Any) -> None:
        """Saves a new identity and source of a table whose rows are the same but were written again or moved."""
        self._commit(("identities", (data, to_canonical_json({"identity": identity, "source": source}))))

    def save_cube(self, body: bytes) -> bytes:
        """Saves the totals of a cube's cells, which are as secret as the table; returns their digest."""
        digest = keccak(body)
        self._commit(("cubes", (digest, body)))
        return digest

    def read_cube(self, digest: bytes) -> bytes:
        """Returns the totals with this digest; `Tampered` if they are missing or changed."""
        row = self._fetch_one("SELECT body FROM cubes WHERE digest = ?", (digest,))
        if row is None or keccak(row[0]) != digest:
            raise Tampered("the vault has lost a cube: open the next version of the table, which tabulates it again")
        return bytes(row[0])

    def save_analyst(self, account: bytes, digest: bytes, name: str) -> None:
        """Saves the name of an analyst whom the ledger knows by a salted digest."""
        self._commit(("analysts", (account, digest, name)))

    def list_analysts(self, account: bytes) -> tuple[str, ...]:
        """Returns the names of the analysts with a limit, oldest first."""
        with self._write_lock, translate_errors(self._database):
            rows = self._database.execute("SELECT name FROM analysts WHERE account = ? ORDER BY rowid", (account,))
            return tuple(name for (name,) in rows)

    def save_request(self, request: Request) -> None:
        """Saves a request. The same one again changes nothing; the same key with another request is `KeyReused`."""
        (refusal,) = self.save_requests([request])
        if refusal is not None:
            raise refusal

    def save_requests(self, requests: Sequence[Request]) -> list[KeyReused | None]:
        """Saves requests in one commit; returns `KeyReused` for each whose key names another request."""
        rows = [(request.id, request.account, request.analyst, request.key, request.text) for request in requests]
        if all(self._insert_all("requests", rows)):
            return [None] * len(requests)
        return [None if self._id_of_key(*row[1:4]) == row[0] else KeyReused(row[3]) for row in rows]

    def find_request(self, id: bytes) -> Request | None:
        """Returns a request by its reservation's id; None if there is none."""
        row = self._fetch_one("SELECT id, account, analyst, key, body FROM requests WHERE id = ?", (id,))
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def find_request_by_key(self, account: bytes, analyst: str, key: str) -> Request | None:
        """Returns the request that came with an idempotency key; None if there is none."""
        row = self._fetch_one(
            "SELECT id, account, analyst, key, body FROM requests WHERE account = ? AND analyst = ? AND key = ?",
            (account, analyst, key),
        )
        return Request(row[0], row[1], row[2], row[3], json.loads(row[4])) if row else None

    def seal(self, sealed: SealedAnswer) -> SealedAnswer:
        """Stores an answer for ever. From here on nobody draws noise for this reservation again."""
        return self.seal_many([sealed])[0]

    def seal_many(self, answers: Sequence[SealedAnswer]) -> list[SealedAnswer]:
        """The same for answers to several reservations, in one commit."""
        rows = [(sealed.id, sealed.account, sealed.query, sealed.text, sealed.salt) for sealed in answers]
        if all(self._insert_all("answers", rows)):
            stored = list(answers)
        else:
            stored = [self._require_answer(sealed.id) for sealed in answers]
        for sealed in stored:
            self._remember_values(sealed)
        return stored

    def find_answer(self, id: bytes) -> SealedAnswer | None:
        """Returns the sealed answer of a reservation; None if there is none."""
        row = self._fetch_one("SELECT id, account, query, body, salt FROM answers WHERE id = ?", (id,))
        return _parse_answer(row) if row else None

    def list_answers(self, account: bytes) -> Iterator[SealedAnswer]:
        """Returns all sealed answers of an account, in no order."""
        with self._write_lock, translate_errors(self._database):
            sql = "SELECT id, account, query, body, salt FROM answers WHERE account = ?"
            return iter([_parse_answer(row) for row in self._database.execute(sql, (account,))])

    def sealed_ids(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns account and id of every reservation whose answer is sealed."""
        with self._write_lock:
            return tuple(self._database.execute("SELECT account, id FROM answers"))

    def list_released(self, account: bytes, query: bytes) -> ReleasedAnswers:
        """Returns all released answers to a query, by rising precision."""
        with self._values_lock:
            known = self._values.get((account, query), {})
            return tuple((Precision(units), known[units]) for units in sorted(known))

    def close(self) -> None:
        """Closes the file. Nothing is lost."""
        self._reader.close()
        self._database.close()

    def _remember_values(self, sealed: SealedAnswer) -> None:
        if "cube" in sealed.body:  # no point of a bridge: it follows from all that is known about the cube
            return
        with self._values_lock:
            known = self._values[sealed.account, sealed.query]
            if known.setdefault(sealed.body["wanted"], sealed.values) != sealed.values:
                raise Tampered(f"two different answers of the same precision are sealed: {sealed.id.hex()[:12]}")

    def _require_answer(self, id: bytes) -> SealedAnswer:
        stored = self.find_answer(id)
        if stored is None:
            raise Tampered(f"the vault has lost the answer {id.hex()[:12]} that it has just sealed")
        return stored

    def _id_of_key(self, account: bytes, analyst: str, key: str) -> bytes | None:
        sql = "SELECT id FROM requests WHERE account = ? AND analyst = ? AND key = ?"
        row = self._fetch_one(sql, (account, analyst, key))
        return row[0] if row else None

    def _insert_all(self, table: str, rows: Sequence[tuple[object, ...]]) -> list[bool]:
        """Inserts rows of one table in one commit; returns for each whether it is certainly new."""
        return [row.get_outcome() for row in self._commit.commit_all([(table, row) for row in rows])]

    def _fetch_one(self, sql: str, values: tuple[object, ...]) -> Any:
        with self._read_lock, translate_errors(self._reader):
            return self._reader.execute(sql, values).fetchone()

    def _write_group(self, turns: Sequence[PendingItem[TableRow, bool]]) -> None:
        """Writes all rows in one transaction with one fsync, in few statements: each one lets other threads run.

        An item's outcome is whether its row is certainly new: True if all rows of its table in this group are. Asking
        SQLite row by row would be exact, but a caller whose row may have been there looks at it anyway.
        """
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for turn in turns:
            table, row = turn.item
            rows[table].append(row)
        statements = [(table, chunk) for table, all_rows in rows.items() for chunk in _chunk_rows(all_rows)]
        added = self._insert_rows(statements)
        new = {table: added[table] == len(all_rows) for table, all_rows in rows.items()}
        for turn in turns:
            turn.outcome = new[turn.item[0]]

    def _insert_rows(self, statements: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> dict[str, int]:
        """Inserts rows; returns how many of each table are new."""
        added: dict[str, int] = defaultdict(int)
        with self._write_lock, self._database if len(statements) > 1 else nullcontext():
            for table, chunk in statements:
                self._database.execute(_insert_sql(table, len(chunk)), tuple(chain.from_iterable(chunk)))
                added[table] += self._database.changes()
        return added


def _chunk_rows(rows: Sequence[tuple[object, ...]]) -> list[Sequence[tuple[object, ...]]]:
    return [rows[start : start + MAX_ROWS] for start in range(0, len(rows), MAX_ROWS)]


@cache
def _insert_sql(table: str, rows: int) -> str:
    """Returns one statement for many rows. Its text has the table's name and placeholders only."""
    placeholders = "(" + ", ".join("?" * len(TABLES[table])) + ")"
    sql = f"INSERT INTO {table} VALUES {', '.join([placeholders] * rows)}"
    return sql + " ON CONFLICT DO NOTHING" * (table in IDEMPOTENT_TABLES)


def _parse_answer(row: Any) -> SealedAnswer:
    sealed = SealedAnswer(row[0], row[1], row[2], json.loads(row[3]), row[4])
    sealed.__dict__["text"] = row[3]  # the stored text is the one that was digested and published, not a new encoding
    return sealed
