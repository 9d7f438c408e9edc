"""Who may come in: people, their keys, sessions and wallets, and one-use nonces. Secrets are kept as digests only."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw

from noisebank.account.plain import OWNER
from noisebank.core.durability import open_database, reading
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest
from noisebank.ledger.abi import ADDRESS
from noisebank.service.errors import Turned
from noisebank.service.roles import ALLOWED, Caller, KeyFacts, Part, Person, Scope, SessionFacts

FILE = "access.sqlite"
LOOK_SECONDS = 0.02
"""How often a process looks whether another one has changed the file: a look costs more than all else at the gate."""
MOST_KNOWN, MOST_SESSIONS, MOST_NONCES = 10_000, 100, 100_000
"""Keys kept in memory; sessions of one person and nonces on disk: one more, and the oldest ends."""
KEY, SESSION = "nbk_", "nbs_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")

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
PERSON = "p.name, p.role, p.wallet, p.must_sign, p.made, p.disabled"
LIVE = """FROM sessions s JOIN people p ON p.name = s.person LEFT JOIN keys k ON k.id = s.key AND k.person = s.person
WHERE s.expires > :now AND p.disabled IS NULL AND (s.wallet = p.wallet
    OR (k.id IS NOT NULL AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > :now)))"""
"""A session is never looked up without what it was made with."""


class Access:
    """Durable on return. A revoked key opens nothing from then on; other processes notice within 20 ms.

    A session ends with what made it: its key (revoked, expired), its wallet (taken away), a limit of its person
    (lowered), the person (disabled). `limits` says what somebody may learn now, by account.
    """

    def __init__(
        self, path: Path, entropy: Entropy, now: Callable[[], float] = time.time,
        limits: Callable[[Person], Mapping[str, int]] = lambda person: {},
    ) -> None:  # fmt: skip
        self._database = open_database(path, SCHEMA)
        _bring_up_to_date(self._database)
        self.limits = limits
        self._entropy, self._now = entropy, now
        self._lock = threading.RLock()
        self._holders: dict[str, tuple[Caller, int | None]] = {}
        """Who was let in lately by a key, and until when it opens; in memory only."""
        self._changes, self._version, self._looked = 0, 0, 0.0
        if self.person(OWNER) is None:
            self._run(
                "INSERT OR IGNORE INTO people VALUES (?, ?, NULL, 0, ?, NULL)", (OWNER, Part.OWNER.value, self._time())
            )

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
            made = (name, part.value, wallet, must_sign, self._time())
            self._run("INSERT INTO people VALUES (?, ?, ?, ?, ?, NULL)", made)
        return self._there(name)

    def set_wallet(self, name: str, wallet: str | None) -> Person:
        """Gives somebody a wallet, or takes it away; sessions made with another one end."""
        wallet = _wallet(wallet)
        with self._lock:
            holder = self.person_with(wallet) if wallet else None
            if holder is not None and holder.name != name:
                raise Turned("name-taken", "somebody else has this wallet")
            self._there(name)
            self._run("UPDATE people SET wallet = ? WHERE name = ?", (wallet, name))
            self._run("DELETE FROM sessions WHERE person = ? AND wallet <> ifnull(?, '')", (name, wallet))
        return self._there(name)

    def disable(self, name: str) -> Person:
        """Shuts somebody out: keys open nothing while it lasts, and every session ends."""
        if self._there(name).part is Part.OWNER:
            raise BadRequest("name", name, "the owner cannot be disabled")
        with self._lock:
            self._run("UPDATE people SET disabled = ? WHERE name = ? AND disabled IS NULL", (self._time(), name))
            self.end_sessions(name)
        return self._there(name)

    def enable(self, name: str) -> Person:
        """Lets somebody in again: with the keys that are not revoked, or by a new sign-in."""
        self._there(name)
        self._run("UPDATE people SET disabled = NULL WHERE name = ?", (name,))
        return self._there(name)

    def person(self, name: str) -> Person | None:
        """By name."""
        return self._person("p.name = ?", name)

    def person_with(self, wallet: str) -> Person | None:
        """By wallet."""
        return self._person("p.wallet = ?", wallet.lower())

    def people(self) -> tuple[Person, ...]:
        """Everybody, oldest first."""
        rows = self._all(f"SELECT {PERSON} FROM people p ORDER BY rowid")
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
        id, made = self._entropy.token(9).hex(), self._time()
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
            "SELECT id, person, scopes, label, made, expires, revoked FROM keys WHERE person = ? ORDER BY rowid",
            (name,),
        )
        return tuple(KeyFacts(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows)

    def revoke(self, name: str, id: str) -> None:
        """From now on this key opens nothing, nor do the sessions that were made with it."""
        if id not in {key.id for key in self.keys(name)}:
            raise Turned("not-found", "there is no such key")
        self._run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (self._time(), id))

    # -- sessions and nonces -------------------------------------------------------------------

    def make_session(
        self, name: str, seconds: float, key: str | None = None, wallet: str | None = None
    ) -> tuple[str, SessionFacts]:
        """A session's secret, shown this once. It opens no more than the key does whose id is given, and nothing once
        that key, or the wallet that is given instead, or its person opens nothing."""
        person = self._there(name)
        secret, id, made = SESSION + _text(self._entropy.token(32)), self._entropy.token(9).hex(), self._time()
        facts = SessionFacts(id, name, key, _wallet(wallet), made, made + max(1, int(seconds)))
        limits = json.dumps(dict(self.limits(person)))
        row = (_digest(secret), id, name, key, facts.wallet, limits, made, facts.expires)
        with self._lock:
            self._run("DELETE FROM sessions WHERE expires <= ?", (made,))
            self._run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            older = "SELECT rowid FROM sessions WHERE person = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._run(f"DELETE FROM sessions WHERE rowid IN ({older})", (name, MOST_SESSIONS))
            if self._one(f"SELECT 1 {LIVE} AND s.id = :id", {"now": self._now(), "id": id}) is None:
                self._run("DELETE FROM sessions WHERE id = ?", (id,))  # what it would be made with opens nothing
                raise Turned("not-allowed", "the owner lets nobody in with this any more")
        return secret, facts

    def sessions(self, name: str | None = None) -> tuple[SessionFacts, ...]:
        """Sessions that open something now, of somebody or of everybody, oldest first."""
        rows = self._all(
            f"SELECT s.id, s.person, s.key, s.wallet, s.made, s.expires, s.limits, {PERSON} {LIVE} "
            "AND (:name IS NULL OR s.person = :name) ORDER BY s.rowid", {"now": self._now(), "name": name},
        )  # fmt: skip
        return tuple(SessionFacts(*row[:6]) for row in rows if self._allowed(_person(row[7:]), row[6]))

    def end_session(self, secret: str) -> None:
        """Signs out."""
        self._run("DELETE FROM sessions WHERE digest = ?", (_digest(secret),))

    def end_session_of(self, name: str | None, id: str) -> None:
        """Ends a session by its id: of somebody, or whosever it is."""
        if id not in {each.id for each in self.sessions(name)}:
            raise Turned("not-found", "there is no such session")
        self._run("DELETE FROM sessions WHERE id = ?", (id,))

    def end_sessions(self, name: str) -> None:
        """Ends all of somebody's sessions."""
        self._run("DELETE FROM sessions WHERE person = ?", (name,))

    def make_nonce(self, seconds: float) -> tuple[str, int]:
        """For one sign-in with a wallet."""
        nonce, expires = self._entropy.token(16).hex(), self._time() + max(1, int(seconds))
        self._run("DELETE FROM nonces WHERE expires < ?", (self._time(),))
        self._run("INSERT INTO nonces VALUES (?, ?)", (nonce, expires))
        self._run("DELETE FROM nonces WHERE rowid <= (SELECT max(rowid) FROM nonces) - ?", (MOST_NONCES,))
        return nonce, expires

    def use_nonce(self, nonce: str) -> bool:
        """Whether this nonce was ours, and is used now for the first time, in time."""
        with self._lock:
            rows = list(self._database.execute("DELETE FROM nonces WHERE nonce = ? RETURNING expires", (nonce,)))
        return bool(rows) and rows[0][0] >= self._now()

    def caller(self, secret: str) -> Caller | None:
        """Who holds this key or session, if it opens anything now."""
        if secret.startswith(KEY):
            self._look_around()
            known = self._holders.get(secret) or self._holder(secret)
            return known[0] if known is not None and (known[1] is None or known[1] > self._now()) else None
        if secret.startswith(SESSION):
            row = self._one(
                f"SELECT s.id, s.limits, k.scopes, {PERSON} {LIVE} AND s.digest = :digest",
                {"now": self._now(), "digest": _digest(secret)},
            )
            if row is None:
                return None
            person = _person(row[3:])
            if not self._allowed(person, row[1]):
                self.end_sessions(person.name)
                return None
            scopes = ALLOWED[person.part]
            if row[2] is not None:
                scopes &= frozenset(Scope(name) for name in row[2].split())
            return Caller(person, scopes, "session", row[0])
        return None

    def _allowed(self, person: Person, limits: str) -> bool:
        """Whether somebody may still learn all that they might when the session began; the ledger says so."""
        now = self.limits(person)
        return all(now.get(account, units) >= units for account, units in json.loads(limits).items())

    def _holder(self, secret: str) -> tuple[Caller, int | None] | None:
        """Who holds a key that is not revoked, and until when."""
        changes = self._changes
        row = self._one(
            f"SELECT k.id, k.scopes, k.expires, k.revoked, {PERSON} FROM keys k JOIN people p ON p.name = k.person "
            "WHERE k.digest = ? AND p.disabled IS NULL",
            (_digest(secret),),
        )
        if row is None or row[3] is not None:
            return None
        person = _person(row[4:])
        found = Caller(person, frozenset(Scope(name) for name in row[1].split()) & ALLOWED[person.part], row[0]), row[2]
        with self._lock:
            if changes == self._changes and len(self._holders) < MOST_KNOWN:
                self._holders[secret] = found
        return found

    def _look_around(self) -> None:
        """Forgets who was let in when another process has changed the file."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            with self._lock, reading(self._database):
                version = self._database.pragma("data_version")
                if version != self._version:
                    self._version = version
                    self._forget()

    def _forget(self) -> None:
        self._changes += 1
        self._holders.clear()

    def close(self) -> None:
        """Nothing is lost."""
        self._database.close()

    # -- parts ---------------------------------------------------------------------------------

    def _there(self, name: str) -> Person:
        person = self.person(name)
        if person is None:
            raise Turned("not-found", "there is nobody of this name")
        return person

    def _person(self, which: str, value: str) -> Person | None:
        row = self._one(f"SELECT {PERSON} FROM people p WHERE {which}", (value,))
        return _person(row) if row else None

    def _one(self, sql: str, values: Any) -> Any:
        with self._lock, reading(self._database):
            return self._database.execute(sql, values).fetchone()

    def _all(self, sql: str, values: Any = ()) -> list[Any]:
        with self._lock, reading(self._database):
            return list(self._database.execute(sql, values))

    def _run(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            self._database.execute(sql, values)
            self._forget()  # whatever it was, nobody is let in on an old word

    def _time(self) -> int:
        return int(self._now())


def _person(row: Any) -> Person:
    return Person(row[0], Part(row[1]), row[2], bool(row[3]), row[4], row[5])


def _bring_up_to_date(database: apsw.Connection) -> None:
    """A file of an earlier version: nobody in it is disabled, and its sessions, whose origin is unknown, end."""
    with reading(database):
        database.execute("BEGIN IMMEDIATE")
        if not any(row[1] == "disabled" for row in database.execute("PRAGMA table_info(people)")):
            database.execute("ALTER TABLE people ADD COLUMN disabled INTEGER; DROP TABLE sessions")
            database.execute(SCHEMA)
        database.execute("COMMIT")


def _digest(secret: str) -> bytes:
    """256 random bits need no slow digest: nobody can try them out."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _wallet(address: str | None) -> str | None:
    if address is not None and not ADDRESS.fullmatch(address):
        raise BadRequest("wallet", ascii(address)[:50], "an address has 40 hexadecimal digits after 0x")
    return address.lower() if address else None
