"""People, their API keys, sessions and wallets, and one-use nonces; for `authenticator` and `noisebank key`.

Secrets are stored as digests only. What roles and scopes there are is in `roles`, the tables in `access_database`.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from noisebank.account.plain import OWNER
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest
from noisebank.ledger.abi import ADDRESS
from noisebank.service.access_database import AccessDatabase
from noisebank.service.errors import Turned
from noisebank.service.roles import ALLOWED, Caller, KeyFacts, Part, Person, Scope, SessionFacts

FILE = "access.sqlite"
LOOK_SECONDS = 0.02
"""How often a process checks whether another one has changed the file: a check costs more than the rest of
authentication."""
MOST_KNOWN, MOST_SESSIONS, MOST_NONCES = 10_000, 100, 100_000
"""Keys cached in memory; sessions per person and nonces on disk: one more ends the oldest."""
KEY, SESSION = "nbk_", "nbs_"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
PERSON = "p.name, p.role, p.wallet, p.must_sign, p.made, p.disabled"
LIVE = """FROM sessions s JOIN people p ON p.name = s.person
LEFT JOIN keys k ON k.id = s.key AND k.person = s.person
WHERE s.expires > :now AND p.disabled IS NULL AND (s.wallet = p.wallet
    OR (k.id IS NOT NULL AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > :now)))"""
"""A session is only valid together with the key or wallet that it was made with."""


class Access:
    """Durable on return. A revoked key is invalid from then on; other processes notice within 20 ms.

    A session ends with what it depends on: its key (revoked, expired), its wallet (taken away), a limit of its person
    (lowered), the person (disabled). `view_limits` returns a person's current limits in ledger units, by account.
    """

    def __init__(
        self, path: Path, entropy: Entropy, now: Callable[[], float] = time.time,
        limits: Callable[[Person], Mapping[str, int]] = lambda person: {},
    ) -> None:  # fmt: skip
        self._database = AccessDatabase(path)
        self.limits = limits
        self._entropy, self._now, self._lock = entropy, now, self._database.lock
        self._holders: dict[str, tuple[Caller, int | None]] = {}
        """Callers by the secret of their key, with the key's expiry; in memory only."""
        self._changes, self._version, self._looked = 0, 0, 0.0
        if self.person(OWNER) is None:
            self._run(
                "INSERT OR IGNORE INTO people VALUES (?, ?, NULL, 0, ?, NULL)", (OWNER, Part.OWNER.value, self._time())
            )

    # -- people --------------------------------------------------------------------------------

    def add_person(self, name: str, part: Part, wallet: str | None = None, must_sign: bool = False) -> Person:
        """Add a person. The owner exists from the start."""
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
            row = (name, part.value, wallet, must_sign, self._time())
            self._run("INSERT INTO people VALUES (?, ?, ?, ?, ?, NULL)", row)
        return self._there(name)

    def set_wallet(self, name: str, wallet: str | None) -> Person:
        """Set or remove a person's wallet; sessions made with another one end."""
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
        """Disable a person: their keys are invalid until enabled again, and every session ends."""
        if self._there(name).part is Part.OWNER:
            raise BadRequest("name", name, "the owner cannot be disabled")
        with self._lock:
            self._run("UPDATE people SET disabled = ? WHERE name = ? AND disabled IS NULL", (self._time(), name))
            self.end_sessions(name)
        return self._there(name)

    def enable(self, name: str) -> Person:
        """Enable a person again: keys that are not revoked are valid, sessions need a new sign-in."""
        self._there(name)
        self._run("UPDATE people SET disabled = NULL WHERE name = ?", (name,))
        return self._there(name)

    def person(self, name: str) -> Person | None:
        """Return the person of this name, or None."""
        return self._person("p.name = ?", name)

    def person_with(self, wallet: str) -> Person | None:
        """Return the person who has this wallet, or None."""
        return self._person("p.wallet = ?", wallet.lower())

    def people(self) -> tuple[Person, ...]:
        """Return everybody, oldest first."""
        rows = self._database.fetch_rows(f"SELECT {PERSON} FROM people p ORDER BY rowid")
        return tuple(_person(row) for row in rows)

    # -- keys ----------------------------------------------------------------------------------

    def make_key(
        self, name: str, scopes: Iterable[Scope] | None = None, label: str = "", seconds: float | None = None
    ) -> tuple[str, KeyFacts]:
        """Return the secret of a new key, which is stored nowhere, and the key's record.

        Scopes must be those of the person's role; None means all of them.
        """
        person = self._there(name)
        allowed = ALLOWED[person.part]
        chosen = allowed if scopes is None else frozenset(scopes)
        if not chosen <= allowed:
            beyond = ", ".join(sorted(scope.value for scope in chosen - allowed))
            raise BadRequest("scopes", beyond, f"is more than {person.part.value}s may do")
        if len(label) > 80 or not (label.isprintable() or not label):
            raise BadRequest("label", ascii(label)[:40], "must have at most 80 printable characters")
        secret = KEY + _text(self._entropy.token(32))
        id, now = self._entropy.token(9).hex(), self._time()
        expires = None if seconds is None else now + max(1, int(seconds))
        listed = " ".join(sorted(scope.value for scope in chosen))
        self._run(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (id, _digest(secret), name, listed, label, now, expires),
        )
        return secret, KeyFacts(id, name, tuple(listed.split()), label, now, expires, None)

    def keys(self, name: str) -> tuple[KeyFacts, ...]:
        """Return a person's keys, oldest first, including revoked ones."""
        rows = self._database.fetch_rows(
            "SELECT id, person, scopes, label, made, expires, revoked FROM keys WHERE person = ? ORDER BY rowid",
            (name,),
        )
        return tuple(KeyFacts(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows)

    def revoke(self, name: str, id: str) -> None:
        """Revoke a key; it and the sessions made with it are invalid from now on."""
        if id not in {key.id for key in self.keys(name)}:
            raise Turned("not-found", "there is no such key")
        self._run("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (self._time(), id))

    # -- sessions and nonces -------------------------------------------------------------------

    def make_session(
        self, name: str, seconds: float, key: str | None = None, wallet: str | None = None
    ) -> tuple[str, SessionFacts]:
        """Return the secret of a new session, which is stored nowhere, and the session's record.

        `key` is the id of the key that it is made with; without one, `wallet` is needed. The session has the scopes of
        that key at most and ends with it, with the wallet, or with its person.
        """
        person = self._there(name)
        secret, id, now = SESSION + _text(self._entropy.token(32)), self._entropy.token(9).hex(), self._time()
        session = SessionFacts(id, name, key, _wallet(wallet), now, now + max(1, int(seconds)))
        limits = json.dumps(dict(self.limits(person)))
        row = (_digest(secret), id, name, key, session.wallet, limits, now, session.expires)
        with self._lock:
            self._run("DELETE FROM sessions WHERE expires <= ?", (now,))
            self._run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            older = "SELECT rowid FROM sessions WHERE person = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._run(f"DELETE FROM sessions WHERE rowid IN ({older})", (name, MOST_SESSIONS))
            live = f"SELECT 1 {LIVE} AND s.id = :id"
            if self._database.fetch_row(live, {"now": self._now(), "id": id}) is None:
                self._run("DELETE FROM sessions WHERE id = ?", (id,))  # the key or wallet is invalid by now
                raise Turned("not-allowed", "the owner lets nobody in with this any more")
        return secret, session

    def sessions(self, name: str | None = None) -> tuple[SessionFacts, ...]:
        """Return the valid sessions of a person, or of everybody, oldest first."""
        rows = self._database.fetch_rows(
            f"SELECT s.id, s.person, s.key, s.wallet, s.made, s.expires, s.limits, {PERSON} {LIVE} "
            "AND (:name IS NULL OR s.person = :name) ORDER BY s.rowid", {"now": self._now(), "name": name},
        )  # fmt: skip
        return tuple(SessionFacts(*row[:6]) for row in rows if self._allowed(_person(row[7:]), row[6]))

    def end_session(self, secret: str) -> None:
        """End the session with this secret: sign out."""
        self._run("DELETE FROM sessions WHERE digest = ?", (_digest(secret),))

    def end_session_of(self, name: str | None, id: str) -> None:
        """End a session by its id; with a name, only a session of that person."""
        if id not in {session.id for session in self.sessions(name)}:
            raise Turned("not-found", "there is no such session")
        self._run("DELETE FROM sessions WHERE id = ?", (id,))

    def end_sessions(self, name: str) -> None:
        """End all sessions of a person."""
        self._run("DELETE FROM sessions WHERE person = ?", (name,))

    def make_nonce(self, seconds: float) -> tuple[str, int]:
        """Return a nonce for one sign-in with a wallet, and when it expires (seconds since 1970)."""
        nonce, expires = self._entropy.token(16).hex(), self._time() + max(1, int(seconds))
        self._run("DELETE FROM nonces WHERE expires < ?", (self._time(),))
        self._run("INSERT INTO nonces VALUES (?, ?)", (nonce, expires))
        self._run("DELETE FROM nonces WHERE rowid <= (SELECT max(rowid) FROM nonces) - ?", (MOST_NONCES,))
        return nonce, expires

    def use_nonce(self, nonce: str) -> bool:
        """Use up a nonce. Returns whether it was ours, unused and not expired."""
        rows = self._database.write_rows("DELETE FROM nonces WHERE nonce = ? RETURNING expires", (nonce,))
        return bool(rows) and rows[0][0] >= self._now()

    def caller(self, secret: str) -> Caller | None:
        """Return who holds this key or session, or None if it is unknown or no longer valid."""
        if secret.startswith(KEY):
            self._look_around()
            cached = self._holders.get(secret) or self._holder(secret)
            return cached[0] if cached is not None and (cached[1] is None or cached[1] > self._now()) else None
        if secret.startswith(SESSION):
            row = self._database.fetch_row(
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
        """Whether no limit of a person is lower than it was when the session began; the ledger holds the limits."""
        now = self.limits(person)
        return all(now.get(account, units) >= units for account, units in json.loads(limits).items())

    def _holder(self, secret: str) -> tuple[Caller, int | None] | None:
        """Return who holds a key that is not revoked, and when it expires; caches it."""
        changes = self._changes
        row = self._database.fetch_row(
            f"SELECT k.id, k.scopes, k.expires, k.revoked, {PERSON} "
            "FROM keys k JOIN people p ON p.name = k.person WHERE k.digest = ? AND p.disabled IS NULL",
            (_digest(secret),),
        )
        if row is None or row[3] is not None:
            return None
        person = _person(row[4:])
        scopes = frozenset(Scope(name) for name in row[1].split()) & ALLOWED[person.part]
        holder = Caller(person, scopes, row[0]), row[2]
        with self._lock:
            if changes == self._changes and len(self._holders) < MOST_KNOWN:
                self._holders[secret] = holder
        return holder

    def _look_around(self) -> None:
        """Clear the cache if another process has changed the file."""
        now = time.monotonic()
        if now - self._looked > LOOK_SECONDS:
            self._looked = now
            with self._lock:
                version = self._database.read_version()
                if version != self._version:
                    self._version = version
                    self._forget()

    def _forget(self) -> None:
        self._changes += 1
        self._holders.clear()

    def close(self) -> None:
        """Close the file. Nothing is lost."""
        self._database.close()

    # -- parts ---------------------------------------------------------------------------------

    def _there(self, name: str) -> Person:
        person = self.person(name)
        if person is None:
            raise Turned("not-found", "there is nobody of this name")
        return person

    def _person(self, which: str, value: str) -> Person | None:
        row = self._database.fetch_row(f"SELECT {PERSON} FROM people p WHERE {which}", (value,))
        return _person(row) if row else None

    def _run(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            self._database.write_rows(sql, values)
            self._forget()  # whatever was written: nobody is admitted by what was read before

    def _time(self) -> int:
        return int(self._now())


def _person(row: Any) -> Person:
    return Person(row[0], Part(row[1]), row[2], bool(row[3]), row[4], row[5])


def _digest(secret: str) -> bytes:
    """Return the stored digest. A secret of 256 random bits needs no slow hash: it cannot be guessed."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _wallet(address: str | None) -> str | None:
    if address is not None and not ADDRESS.fullmatch(address):
        raise BadRequest("wallet", ascii(address)[:50], "an address has 40 hexadecimal digits after 0x")
    return address.lower() if address else None
