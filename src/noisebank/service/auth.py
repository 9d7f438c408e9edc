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

from noisebank.core.asks import OWNER
from noisebank.core.entropy import Entropy
from noisebank.core.errors import BadRequest
from noisebank.ledger.abi import ADDRESS_PATTERN
from noisebank.service.access_database import AccessDatabase
from noisebank.service.errors import ApiError
from noisebank.service.roles import ROLE_SCOPES, Caller, KeyRecord, Person, Role, Scope, SessionRecord

ACCESS_FILE = "access.sqlite"
MAX_CACHED_KEYS, MAX_SESSIONS, MAX_NONCES = 10_000, 100, 100_000
"""Keys cached in memory; sessions per person and nonces on disk: one more ends the oldest."""
KEY_PREFIX, SESSION_PREFIX = "nbk_", "nbs_"
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
PERSON_COLUMNS = "p.name, p.role, p.wallet, p.must_sign, p.made, p.disabled"
LIVE_SESSIONS = """FROM sessions s JOIN people p ON p.name = s.person
LEFT JOIN keys k ON k.id = s.key AND k.person = s.person
WHERE s.expires > :now AND p.disabled IS NULL AND (s.wallet = p.wallet
    OR (k.id IS NOT NULL AND k.revoked IS NULL AND (k.expires IS NULL OR k.expires > :now)))"""
"""A session is only valid together with the key or wallet that it was made with."""


class AccessControl:
    """Durable on return. A revoked key is invalid from then on; other processes notice within 20 ms.

    A session ends with what it depends on: its key (revoked, expired), its wallet (taken away), a limit of its person
    (lowered), the person (disabled). `view_limits` returns a person's current limits in ledger units, by account.
    """

    def __init__(
        self, path: Path, entropy: Entropy, now: Callable[[], float] = time.time,
        view_limits: Callable[[Person], Mapping[str, int]] = lambda person: {},
    ) -> None:  # fmt: skip
        self._database = AccessDatabase(path)
        self.view_limits = view_limits
        self._entropy, self._now, self._lock = entropy, now, self._database.lock
        self._cached_callers: dict[str, tuple[Caller, int | None]] = {}
        """Callers by the secret of their key, with the key's expiry; in memory only."""
        self._generation, self._data_version = 0, 0
        if self.find_person(OWNER) is None:
            self._write_row(
                "INSERT OR IGNORE INTO people VALUES (?, ?, NULL, 0, ?, NULL)",
                (OWNER, Role.OWNER.value, self._now_seconds()),
            )

    # -- people --------------------------------------------------------------------------------

    def add_person(self, name: str, role: Role, wallet: str | None = None, must_sign: bool = False) -> Person:
        """Add a person. The owner exists from the start."""
        if not NAME_PATTERN.fullmatch(name):
            raise BadRequest("name", ascii(name)[:40], "must have 1 to 64 letters, digits or . _ @ -")
        if role is Role.OWNER:
            raise BadRequest("role", role.value, "there is one owner, who is there from the start")
        if must_sign and wallet is None:
            raise BadRequest("must_sign", True, "needs a wallet")
        wallet = _normalize_wallet(wallet)
        with self._lock:
            if self.find_person(name) is not None or (wallet and self.find_wallet_holder(wallet) is not None):
                raise ApiError("name-taken", "somebody has this name or this wallet already")
            row = (name, role.value, wallet, must_sign, self._now_seconds())
            self._write_row("INSERT INTO people VALUES (?, ?, ?, ?, ?, NULL)", row)
        return self._require_person(name)

    def set_wallet(self, name: str, wallet: str | None) -> Person:
        """Set or remove a person's wallet; sessions made with another one end."""
        wallet = _normalize_wallet(wallet)
        with self._lock:
            holder = self.find_wallet_holder(wallet) if wallet else None
            if holder is not None and holder.name != name:
                raise ApiError("name-taken", "somebody else has this wallet")
            self._require_person(name)
            self._write_row("UPDATE people SET wallet = ? WHERE name = ?", (wallet, name))
            self._write_row("DELETE FROM sessions WHERE person = ? AND wallet <> ifnull(?, '')", (name, wallet))
        return self._require_person(name)

    def disable_person(self, name: str) -> Person:
        """Disable a person: their keys are invalid until enabled again, and every session ends."""
        if self._require_person(name).role is Role.OWNER:
            raise BadRequest("name", name, "the owner cannot be disabled")
        with self._lock:
            self._write_row(
                "UPDATE people SET disabled = ? WHERE name = ? AND disabled IS NULL", (self._now_seconds(), name)
            )
            self.end_sessions(name)
        return self._require_person(name)

    def enable_person(self, name: str) -> Person:
        """Enable a person again: keys that are not revoked are valid, sessions need a new sign-in."""
        self._require_person(name)
        self._write_row("UPDATE people SET disabled = NULL WHERE name = ?", (name,))
        return self._require_person(name)

    def find_person(self, name: str) -> Person | None:
        """Return the person of this name, or None."""
        return self._select_person("p.name = ?", name)

    def find_wallet_holder(self, wallet: str) -> Person | None:
        """Return the person who has this wallet, or None."""
        return self._select_person("p.wallet = ?", wallet.lower())

    def list_people(self) -> tuple[Person, ...]:
        """Return everybody, oldest first."""
        rows = self._database.fetch_rows(f"SELECT {PERSON_COLUMNS} FROM people p ORDER BY rowid")
        return tuple(_parse_person(row) for row in rows)

    # -- keys ----------------------------------------------------------------------------------

    def make_key(
        self, name: str, scopes: Iterable[Scope] | None = None, label: str = "", seconds: float | None = None
    ) -> tuple[str, KeyRecord]:
        """Return the secret of a new key, which is stored nowhere, and the key's record.

        Scopes must be those of the person's role; None means all of them.
        """
        person = self._require_person(name)
        allowed = ROLE_SCOPES[person.role]
        chosen = allowed if scopes is None else frozenset(scopes)
        if not chosen <= allowed:
            beyond = ", ".join(sorted(scope.value for scope in chosen - allowed))
            raise BadRequest("scopes", beyond, f"is more than {person.role.value}s may do")
        if len(label) > 80 or not (label.isprintable() or not label):
            raise BadRequest("label", ascii(label)[:40], "must have at most 80 printable characters")
        secret = KEY_PREFIX + _encode_token(self._entropy.token(32))
        id, now = self._entropy.token(9).hex(), self._now_seconds()
        expires = None if seconds is None else now + max(1, int(seconds))
        listed = " ".join(sorted(scope.value for scope in chosen))
        self._write_row(
            "INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (id, _hash_secret(secret), name, listed, label, now, expires),
        )
        return secret, KeyRecord(id, name, tuple(listed.split()), label, now, expires, None)

    def list_keys(self, name: str) -> tuple[KeyRecord, ...]:
        """Return a person's keys, oldest first, including revoked ones."""
        rows = self._database.fetch_rows(
            "SELECT id, person, scopes, label, made, expires, revoked FROM keys WHERE person = ? ORDER BY rowid",
            (name,),
        )
        return tuple(KeyRecord(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows)

    def revoke_key(self, name: str, id: str) -> None:
        """Revoke a key; it and the sessions made with it are invalid from now on."""
        if id not in {key.id for key in self.list_keys(name)}:
            raise ApiError("not-found", "there is no such key")
        self._write_row("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (self._now_seconds(), id))

    # -- sessions and nonces -------------------------------------------------------------------

    def make_session(
        self, name: str, seconds: float, key: str | None = None, wallet: str | None = None
    ) -> tuple[str, SessionRecord]:
        """Return the secret of a new session, which is stored nowhere, and the session's record.

        `key` is the id of the key that it is made with; without one, `wallet` is needed. The session has the scopes of
        that key at most and ends with it, with the wallet, or with its person.
        """
        person = self._require_person(name)
        secret, id, now = (
            SESSION_PREFIX + _encode_token(self._entropy.token(32)),
            self._entropy.token(9).hex(),
            self._now_seconds(),
        )
        session = SessionRecord(id, name, key, _normalize_wallet(wallet), now, now + max(1, int(seconds)))
        limits = json.dumps(dict(self.view_limits(person)))
        row = (_hash_secret(secret), id, name, key, session.wallet, limits, now, session.expires)
        with self._lock:
            self._write_row("DELETE FROM sessions WHERE expires <= ?", (now,))
            self._write_row("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            older = "SELECT rowid FROM sessions WHERE person = ? ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            self._write_row(f"DELETE FROM sessions WHERE rowid IN ({older})", (name, MAX_SESSIONS))
            live = f"SELECT 1 {LIVE_SESSIONS} AND s.id = :id"
            if self._database.fetch_row(live, {"now": self._now(), "id": id}) is None:
                self._write_row("DELETE FROM sessions WHERE id = ?", (id,))  # the key or wallet is invalid by now
                raise ApiError("not-allowed", "the owner lets nobody in with this any more")
        return secret, session

    def list_sessions(self, name: str | None = None) -> tuple[SessionRecord, ...]:
        """Return the valid sessions of a person, or of everybody, oldest first."""
        rows = self._database.fetch_rows(
            f"SELECT s.id, s.person, s.key, s.wallet, s.made, s.expires, s.limits, {PERSON_COLUMNS} {LIVE_SESSIONS} "
            "AND (:name IS NULL OR s.person = :name) ORDER BY s.rowid", {"now": self._now(), "name": name},
        )  # fmt: skip
        return tuple(SessionRecord(*row[:6]) for row in rows if self._limits_still_hold(_parse_person(row[7:]), row[6]))

    def end_session(self, secret: str) -> None:
        """End the session with this secret: sign out."""
        self._write_row("DELETE FROM sessions WHERE digest = ?", (_hash_secret(secret),))

    def end_session_by_id(self, name: str | None, id: str) -> None:
        """End a session by its id; with a name, only a session of that person."""
        if id not in {session.id for session in self.list_sessions(name)}:
            raise ApiError("not-found", "there is no such session")
        self._write_row("DELETE FROM sessions WHERE id = ?", (id,))

    def end_sessions(self, name: str) -> None:
        """End all sessions of a person."""
        self._write_row("DELETE FROM sessions WHERE person = ?", (name,))

    def make_nonce(self, seconds: float) -> tuple[str, int]:
        """Return a nonce for one sign-in with a wallet, and when it expires (seconds since 1970)."""
        nonce, expires = self._entropy.token(16).hex(), self._now_seconds() + max(1, int(seconds))
        self._write_row("DELETE FROM nonces WHERE expires < ?", (self._now_seconds(),))
        self._write_row("INSERT INTO nonces VALUES (?, ?)", (nonce, expires))
        self._write_row("DELETE FROM nonces WHERE rowid <= (SELECT max(rowid) FROM nonces) - ?", (MAX_NONCES,))
        return nonce, expires

    def use_nonce(self, nonce: str) -> bool:
        """Use up a nonce. Returns whether it was ours, unused and not expired."""
        rows = self._database.write_rows("DELETE FROM nonces WHERE nonce = ? RETURNING expires", (nonce,))
        return bool(rows) and rows[0][0] >= self._now()

    def find_caller(self, secret: str) -> Caller | None:
        """Return who holds this key or session, or None if it is unknown or no longer valid."""
        if secret.startswith(KEY_PREFIX):
            self._poll_changes()
            cached = self._cached_callers.get(secret) or self._load_key_holder(secret)
            return cached[0] if cached is not None and (cached[1] is None or cached[1] > self._now()) else None
        if secret.startswith(SESSION_PREFIX):
            row = self._database.fetch_row(
                f"SELECT s.id, s.limits, k.scopes, {PERSON_COLUMNS} {LIVE_SESSIONS} AND s.digest = :digest",
                {"now": self._now(), "digest": _hash_secret(secret)},
            )
            if row is None:
                return None
            person = _parse_person(row[3:])
            if not self._limits_still_hold(person, row[1]):
                self.end_sessions(person.name)
                return None
            scopes = ROLE_SCOPES[person.role]
            if row[2] is not None:
                scopes &= frozenset(Scope(name) for name in row[2].split())
            return Caller(person, scopes, "session", row[0])
        return None

    def _limits_still_hold(self, person: Person, limits: str) -> bool:
        """Whether no limit of a person is lower than it was when the session began; the ledger holds the limits."""
        now = self.view_limits(person)
        return all(now.get(account, units) >= units for account, units in json.loads(limits).items())

    def _load_key_holder(self, secret: str) -> tuple[Caller, int | None] | None:
        """Return who holds a key that is not revoked, and when it expires; caches it."""
        changes = self._generation
        row = self._database.fetch_row(
            f"SELECT k.id, k.scopes, k.expires, k.revoked, {PERSON_COLUMNS} "
            "FROM keys k JOIN people p ON p.name = k.person WHERE k.digest = ? AND p.disabled IS NULL",
            (_hash_secret(secret),),
        )
        if row is None or row[3] is not None:
            return None
        person = _parse_person(row[4:])
        scopes = frozenset(Scope(name) for name in row[1].split()) & ROLE_SCOPES[person.role]
        holder = Caller(person, scopes, row[0]), row[2]
        with self._lock:
            if changes == self._generation and len(self._cached_callers) < MAX_CACHED_KEYS:
                self._cached_callers[secret] = holder
        return holder

    def _poll_changes(self) -> None:
        """Clear the cache if another process has changed the file: whoever it disabled is out from the next call on."""
        with self._lock:
            version = self._database.read_version()
            if version != self._data_version:
                self._data_version = version
                self._clear_cache()

    def _clear_cache(self) -> None:
        self._generation += 1
        self._cached_callers.clear()

    def close(self) -> None:
        """Close the file. Nothing is lost."""
        self._database.close()

    # -- parts ---------------------------------------------------------------------------------

    def _require_person(self, name: str) -> Person:
        person = self.find_person(name)
        if person is None:
            raise ApiError("not-found", "there is nobody of this name")
        return person

    def _select_person(self, condition: str, value: str) -> Person | None:
        row = self._database.fetch_row(f"SELECT {PERSON_COLUMNS} FROM people p WHERE {condition}", (value,))
        return _parse_person(row) if row else None

    def _write_row(self, sql: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            self._database.write_rows(sql, values)
            self._clear_cache()  # whatever was written: nobody is admitted by what was read before

    def _now_seconds(self) -> int:
        return int(self._now())


def _parse_person(row: Any) -> Person:
    return Person(row[0], Role(row[1]), row[2], bool(row[3]), row[4], row[5])


def _hash_secret(secret: str) -> bytes:
    """Return the stored digest. A secret of 256 random bits needs no slow hash: it cannot be guessed."""
    return hashlib.sha256(secret.encode(errors="replace")).digest()


def _encode_token(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _normalize_wallet(address: str | None) -> str | None:
    if address is not None and not ADDRESS_PATTERN.fullmatch(address):
        raise BadRequest("wallet", ascii(address)[:50], "an address has 40 hexadecimal digits after 0x")
    return address.lower() if address else None
