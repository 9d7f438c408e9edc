"""Roles, scopes, and the records of people, keys and sessions. `auth` stores them, `authenticator` checks them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Role(Enum):
    """What a person is to the bank."""

    OWNER = "owner"
    CURATOR = "curator"
    ANALYST = "analyst"
    AUDITOR = "auditor"


class Scope(Enum):
    """What a key allows."""

    QUOTE = "quote"
    ASK = "ask"
    STATEMENT = "statement"
    METRICS = "metrics"
    MANAGE = "manage"


ROLE_SCOPES = {
    Role.OWNER: frozenset(Scope),
    Role.CURATOR: frozenset({Scope.STATEMENT, Scope.METRICS}),
    Role.ANALYST: frozenset({Scope.QUOTE, Scope.ASK}),
    Role.AUDITOR: frozenset[Scope](),
}
"""Scopes by role. An auditor reads what everybody may read, at the rate of a key."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person that the bank knows."""

    name: str
    role: Role
    wallet: str | None
    must_sign: bool
    """Whether each of their answers needs a wallet's signature (EIP-712)."""
    created: int
    disabled_since: int | None
    """Since when the owner has disabled them (seconds since 1970), if at all."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and the scopes of their key or session."""

    person: Person
    scopes: frozenset[Scope]
    key_id: str
    """The key's id, or "session"; never the secret."""
    session_id: str | None = None
    """The session's id, if it is one; not its secret."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A key without its secret."""

    id: str
    person: str
    scopes: tuple[str, ...]
    label: str
    created: int
    expires: int | None
    revoked: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the record as the API shows it."""
        return {
            "id": self.id,
            "person": self.person,
            "scopes": list(self.scopes),
            "label": self.label,
            "made": self.created,
            "expires": self.expires,
            "revoked": self.revoked,
        }


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A valid session without its secret; it was made with either a key (its id) or a wallet."""

    id: str
    person: str
    key: str | None
    wallet: str | None
    created: int
    expires: int

    def to_json(self) -> dict[str, Any]:
        """Return the record as the API and `noisebank key sessions` show it."""
        return {
            "id": self.id,
            "person": self.person,
            "key": self.key,
            "wallet": self.wallet,
            "made": self.created,
            "expires": self.expires,
        }
