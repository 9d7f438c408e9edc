"""What somebody may do: parts, scopes, and the facts that are kept of people, keys and sessions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


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
    disabled: int | None
    """Since when the owner has shut them out, if at all."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request, and what the key or session opens."""

    person: Person
    scopes: frozenset[Scope]
    key: str
    """The key's id, or "session"; never the key."""
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
        """As the API shows it."""
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
    """A session that opens something now, without its secret, and what it was made with: a key or a wallet."""

    id: str
    person: str
    key: str | None
    wallet: str | None
    made: int
    expires: int

    def to_json(self) -> dict[str, Any]:
        """As the API and `noisebank key sessions` show it."""
        return {
            "id": self.id,
            "person": self.person,
            "key": self.key,
            "wallet": self.wallet,
            "made": self.made,
            "expires": self.expires,
        }
