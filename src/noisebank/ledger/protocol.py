"""What a ledger is to the bank: a boundary with its guarantees written on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from noisebank.records import Case, Record
from noisebank.units import NOTHING, Precision


class Role(Enum):
    """Whose key signs."""

    OWNER = "owner"
    CURATOR = "curator"


@dataclass(frozen=True, slots=True)
class Opening:
    """What the owner fixes when an account is opened."""

    budget: Precision
    policy: bytes
    data: bytes
    raise_delay: int


@dataclass(frozen=True, slots=True)
class AccountState:
    """An account as the contract holds it."""

    account: bytes
    owner: str
    curator: str
    budget: Precision
    spent: Precision
    measurements: int
    policy: bytes
    data: bytes
    raise_delay: int

    @property
    def left(self) -> Precision:
        """What may still be spent."""
        return self.budget - self.spent


@dataclass(frozen=True, slots=True)
class Claim:
    """A request for a reservation. `limit` is the most that it may cost."""

    account: bytes
    id: bytes
    query: bytes
    analyst: bytes
    about: int
    wanted: Precision
    limit: Precision


@dataclass(frozen=True, slots=True)
class Reservation:
    """The contract's decision, durable: from here on the fresh precision is spent."""

    account: bytes
    id: bytes
    query: bytes
    analyst: bytes
    about: int
    case: Case
    wanted: Precision
    fresh: Precision
    reused: bytes | None
    spent: Precision
    block: int
    time: int
    answer: bytes | None = None
    """The published digest, once there is one."""
    published_in: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block: pin it, and a history that is cut or rewritten can be told."""

    number: int
    digest: bytes


class Ledger(Protocol):
    """Where spends are decided and recorded.

    Every method that changes anything is durable on return. A refusal raises `Refused` and
    changes nothing. A failure in between raises `OutcomeUnknown`: ask `reservation` later.
    """

    def open_account(self, opening: Opening) -> bytes:
        """Opens an account of the owner's; returns its id."""
        ...

    def reserve(self, claim: Claim) -> Reservation:
        """Decides and charges. Each id can be reserved once, for ever."""
        ...

    def publish(self, account: bytes, id: bytes, answer: bytes) -> Reservation:
        """Pins the digest of a sealed answer. Once per reservation."""
        ...

    def account(self, account: bytes) -> AccountState:
        """The account's state."""
        ...

    def reservation(self, id: bytes) -> Reservation | None:
        """A reservation by its id."""
        ...

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """All reservations of an account, oldest first."""
        ...

    def records(self, account: bytes, query: bytes) -> tuple[Record, ...]:
        """The paid answers to a query, by rising precision."""
        ...

    def head(self) -> Head:
        """The newest block."""
        ...

    def close(self) -> None:
        """Lets go of everything. Nothing is lost."""
        ...


def best_of(records: tuple[Record, ...]) -> Precision:
    """The largest recorded precision."""
    return records[-1].precision if records else NOTHING
