"""Roles, scopes, and the records of people, keys and sessions. `auth` stores them, `authenticator` checks them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Part(Enum):
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


ALLOWED = {
    Part.OWNER: frozenset(Scope),
    Part.CURATOR: frozenset({Scope.STATEMENT, Scope.METRICS}),
    Part.ANALYST: frozenset({Scope.QUOTE, Scope.ASK}),
    Part.AUDITOR: frozenset[Scope](),
}
"""Scopes by role. An auditor reads what everybody may read, at the rate of a key."""


@dataclass(frozen=True, slots=True)
class Person:
    """A person that the bank knows."""

    name: str
    part: Part
    wallet: str | None
    must_sign: bool
    """Whether each of their answers needs a wallet's signature (EIP-712)."""
    made: int
    disabled: int | None
    """Since when the owner has disabled them (seconds since 1970), if at all."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and the scopes of their key or session."""

    person: Person
    scopes: frozenset[Scope]
    key: str
    """The key's id, or "session"; never the secret."""
    session: str | None = None
    """The session's id, if it is one; not its secret."""


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

    def to_json(self) -> dict[str, Any]:
        """Return the record as the API shows it."""
        return {
            "id": self.id,
            "person": self.person,
            "scopes": list(self.scopes),
            "label": self.label,
            "made": self.made,
            "expires": self.expires,
            "revoked": self.revoked,
        }


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A valid session without its secret; it was made with either a key (its id) or a wallet."""

    id: str
    person: str
    key: str | None
    wallet: str | None
    made: int
    expires: int

    def to_json(self) -> dict[str, Any]:
        """Return the record as the API and `noisebank key sessions` show it."""
        return {
            "id": self.id,
            "person": self.person,
            "key": self.key,
            "wallet": self.wallet,
            "made": self.made,
            "expires": self.expires,
        }
