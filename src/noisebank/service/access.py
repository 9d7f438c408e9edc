"""Who may come in: people, their keys, sessions and wallets, and one-use nonces. Secrets are kept as digests only."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from noisebank.durable import open_database, reading
from noisebank.entropy import Entropy
from noisebank.errors import BadRequest
from noisebank.ledger.abi import ADDRESS
from noisebank.service.problems import Turned
from noisebank.steps import OWNER

FILE = "access.sqlite"
KEY, SESSION = "nbk_", "nbs_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

SCHEMA = """
CREATE TABLE IF NOT EXISTS people (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, wallet TEXT UNIQUE, must_sign INTEGER NOT NULL, made INTEGER NOT NULL)
    STRICT;
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, digest BLOB UNIQUE NOT NULL, person TEXT NOT NULL, scopes TEXT NOT NULL, label TEXT NOT NULL,
    made INTEGER NOT NULL, expires INTEGER, revoked INTEGER) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    digest BLOB PRIMARY KEY, person TEXT NOT NULL, key TEXT, expires INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS nonces (nonce TEXT PRIMARY KEY, expires INTEGER NOT NULL) STRICT;
"""


class Part(Enum):
    """What somebody is to the bank."""

    OWNER = "owner"
    CURATOR = "curator"
    ANALYST = "analyst"
    AUDITOR = "auditor"


class Scope(Enum):
    """What a key opens."""

    QUOTE = "quote"
    ASK = "ask"
    STATEMENT = "statement"
    METRICS = "metrics"
    MANAGE = "manage"


ALLOWED = {
    Part.OWNER: frozenset(Scope),
    Part.CURATOR: frozenset({Scope.STATEMENT, Scope.METRICS}),
    Part.ANALYST: frozenset({Scope.QUOTE, Scope.ASK}),
    Part.AUDITOR: frozenset[Scope](),
}
"""An auditor reads what everybody may read, at a key's pace."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody the bank knows."""

    name: str
    part: Part
    wallet: str | None
    must_sign: bool
    """Whether each of their answers needs a wallet's signature (EIP-712)."""
    made: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, and what the key or session opens."""

    person: Person
    scopes: frozenset[Scope]
    key: str
    """The key's id, or "session"; never the key."""


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key without its secret."""

    id: str
    person: str
    scopes: tuple[str, ...]
    label: str
    made: int
    expires: int | None
    revoked: int | None


class Access:
    """Durable on return. A revoked key opens nothing from then on, in every process that shares this file."""

    def __init__(self, path: Path, entropy: Entropy, now: Callable[[], float] = time.time) -> None:
        self._database = open_database(path, SCHEMA)
        self._entropy, self._now = entropy, now
        self._lock = threading.RLock()
        if self.person(OWNER) is None:
            self._run("INSERT OR IGNORE INTO people VALUES (?, ?, NULL, 0, ?)", (OWNER, Part.OWNER.value, self._time()))

    # -- people --------------------------------------------------------------------------------

    def add_person(self, name: str, part: Part, wallet: str | None = None, must_sign: bool = False) -> Person:
        """Somebody new. The owner is there from the start."""
        if not NAME.fullmatch(name):
            raise BadRequest("name", ascii(name)[:40], "must have 1 to 64 letters, digits or . _ @ -")
        if part is Part.OWNER:
            raise BadRequest("role", part.value, "there is one owner, who is there from the start")
        if must_sign and wallet is None:
            raise BadRequest("must_sign", True, "needs a wallet")
        wallet = _wallet(wallet)
        with self._lock:
            if self.person(name) is not None or (wallet and self.person_with(wallet) is not None):
                raise Turned("name-taken", "somebody has this name or this wallet already")
            self._run("INSERT INTO people VALUES (?, ?, ?, ?, ?)", (name, part.value, wallet, must_sign, self._time()))
        return self._there(name)

    def set_wallet(self, name: str, wallet: str | None) -> Person:
        """Gives somebody a wallet, or takes it away."""
        wallet = _wallet(wallet)
        with self._lock:
            holder = self.person_with(wallet) if wallet else None
            if holder is not None and holder.name != name:
                raise Turned("name-taken", "somebody else has this wallet")
            self._there(name)
            self._run("UPDATE people SET wallet = ? WHERE name = ?", (wallet, name))
        return self._there(name)

    def person(self, name: str) -> Person | None:
        """By name."""
        return self._person("SELECT name, role, wallet, must_sign, made FROM people WHERE name = ?", name)

    def person_with(self, wallet: str) -> Person | None:
        """By wallet."""
        return self._person("SELECT name, role, wallet, must_sign, made FROM people WHERE wallet = ?", wallet.lower())

    def people(self) -> tuple[Person, ...]:
        """Everybody, oldest first."""
        rows = self._all("SELECT name, role, wallet, must_sign, made FROM people ORDER BY rowid")
        return tuple(_person(row) for row in rows)

    # -- keys ----------------------------------------------------------------------------------

    def make_key(
        self, name: str, scopes: Iterable[Scope] | None = None, label: str = "", seconds: float | None = None
    ) -> tuple[str, KeyFacts]:
        """A new key, shown this once; no scope that its person's role does not have."""
        person = self._there(name)
        allowed = ALLOWED[person.part]
        wanted = allowed if scopes is None else frozenset(scopes)
        if not wanted <= allowed:
            beyond = ", ".join(sorted(scope.value for scope in wanted - allowed))
            raise BadRequest("scopes", beyond, f"is more than {person.part.value}s may do")
        if len(label) > 80 or not (label.isprintable() or not label):
            raise BadRequest("label", ascii(label)[:40], "must have at most 80 printable characters")
        secret = KEY + _text(self._entropy.token(32))
        id, made = _text(self._entropy.token(9)), self._time()
        expires = None if seconds is None else made + max(1, int(seconds))
        listed = " ".join(sorted(scope.value for scope in wanted))
        self._run(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (id, _digest(secret), name, listed, label, made, expires),
        )
        return secret, KeyFacts(id, name, tuple(listed.split()), label, made, expires, None)

    def keys(self, name: str) -> tuple[KeyFacts, ...]:
        """Somebody's keys, oldest first, the revoked ones too."""
        rows = self._all(
            "SELECT id, person, scopes, label, made, expires, revoked FROM keys WHERE person = ? ORDER BY rowid", name
        )
        return tuple(KeyFacts(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows)

    def revoke(self, name: str, id: str) -> None:
        """From now on this key opens nothing."""
        if id not in {key.id for key in self.keys(name)}:
            raise Turned("not-found", "there is no such key")
        self._run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (self._time(), id))

    # -- sessions and nonces -------------------------------------------------------------------

    def make_session(self, name: str, seconds: float, key: str | None = None) -> tuple[str, int]:
        """A session's secret, shown this once, and when it ends. With `key`, the id of the key that it was made
        with: it opens no more than that key does, and nothing once that key opens nothing."""
        secret, expires = SESSION + _text(self._entropy.token(32)), self._time() + max(1, int(seconds))
        self._run("DELETE FROM sessions WHERE expires < ?", (self._time(),))
        self._run("INSERT INTO sessions VALUES (?, ?, ?, ?)", (_digest(secret), name, key, expires))
        return secret, expires

    def end_session(self, secret: str) -> None:
        """Signs out."""
        self._run("DELETE FROM sessions WHERE digest = ?", (_digest(secret),))

    def make_nonce(self, seconds: float) -> tuple[str, int]:
        """For one sign-in with a wallet."""
        nonce, expires = self._entropy.token(16).hex(), self._time() + max(1, int(seconds))
        self._run("DELETE FROM nonces WHERE expires < ?", (self._time(),))
        self._run("INSERT INTO nonces VALUES (?, ?)", (nonce, expires))
        return nonce, expires

    def use_nonce(self, nonce: str) -> bool:
        """Whether this nonce was ours, and is used now for the first time, in time."""
        with self._lock:
            rows = list(self._database.execute("DELETE FROM nonces WHERE nonce = ? RETURNING expires", (nonce,)))
        return bool(rows) and rows[0][0] >= self._now()

    def caller(self, secret: str) -> Caller | None:
        """Who holds this key or session, if it opens anything now."""
        if secret.startswith(KEY):
            row = self._one(
                "SELECT k.id, k.scopes, k.expires, k.revoked, p.name, p.role, p.wallet, p.must_sign, p.made "
                "FROM keys k JOIN people p ON p.name = k.person WHERE k.digest = ?", _digest(secret),
            )  # fmt: skip
            if row is None or row[3] is not None or (row[2] is not None and row[2] <= self._now()):
                return None
            person = _person(row[4:])
            return Caller(person, frozenset(Scope(name) for name in row[1].split()) & ALLOWED[person.part], row[0])
        if secret.startswith(SESSION):
            row = self._one(
                "SELECT s.expires, s.key, k.scopes, k.expires, k.revoked, "
                "p.name, p.role, p.wallet, p.must_sign, p.made FROM sessions s "
                "JOIN people p ON p.name = s.person LEFT JOIN keys k ON k.id = s.key "
                "WHERE s.digest = ?", _digest(secret),
            )  # fmt: skip
            if row is None or row[0] <= self._now():
                return None
            person, scopes = _person(row[5:]), ALLOWED[_person(row[5:]).part]
            if row[1] is not None:
                if row[2] is None or row[4] is not None or (row[3] is not None and row[3] <= self._now()):
                    return None  # the key that it was made with opens nothing any more
                scopes &= frozenset(Scope(name) for name in row[2].split())
            return Caller(person, scopes, "session")
        return None

    def close(self) -> None:
        """Nothing is lost."""
        self._database.close()

    # -- parts ---------------------------------------------------------------------------------

    def _there(self, name: str) -> Person:
        person = self.person(name)
        if person is None:
            raise Turned("not-found", "there is nobody of this name")
        return person

    def _person(self, sql: str, value: str) -> Person | None:
        row = self._one(sql, value)
        return _person(row) if row else None

    def _one(self, sql: str, *values: object) -> Any:
        with self._lock, reading(self._database):
            return self._database.execute(sql, values).fetchone()

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lock, reading(self._database):
            return list(self._database.execute(sql, values))

    def _run(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            self._database.execute(sql, values)

    def _time(self) -> int:
        return int(self._now())


def _person(row: Any) -> Person:
    return Person(row[0], Part(row[1]), row[2], bool(row[3]), row[4])


def _digest(secret: str) -> bytes:
    """256 random bits need no slow digest: nobody can try them out."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _wallet(address: str | None) -> str | None:
    if address is not None and not ADDRESS.fullmatch(address):
        raise BadRequest("wallet", ascii(address)[:50], "an address has 40 hexadecimal digits after 0x")
    return address.lower() if address else None
