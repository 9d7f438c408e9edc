"""What a ledger is to the bank: a boundary with its guarantees written on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from noisebank.core.records import Case, Record
from noisebank.core.units import NOTHING, Precision


class Role(Enum):
    """Whose key signs."""

    OWNER = "owner"
    CURATOR = "curator"
    SEALER = "sealer"
    """Signs the embedded chain's blocks; the first curator's key, also after the curator has changed."""


class Unit(Enum):
    """What an account counts; the values are the contract's. Both add up, and they are never mixed."""

    PRECISION = 1
    EPSILON = 2
    """Pure epsilon, for accounts without a trusted bank."""


THE_OWNER = bytes(32)
"""The analyst whose limit is the budget."""
WHOLE_WEIGHT = 2**32
"""A run of this weight is charged what is fresh."""
MOST_RUNS = 16
MOST_CELLS = 2**20


@dataclass(frozen=True, slots=True)
class Opening:
    """What the owner fixes when an account is opened."""

    budget: Precision
    policy: bytes
    data: bytes
    raise_delay: int
    unit: Unit = Unit.PRECISION


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
    unit: Unit = Unit.PRECISION
    version: int = 1
    base: Precision = NOTHING
    """What earlier versions have spent."""
    paused: bool = False
    cubes: tuple[int, ...] = ()
    """Cells of cube 1, 2, ..."""

    @property
    def left(self) -> Precision:
        """What may still be spent."""
        return self.budget - self.spent


@dataclass(frozen=True, slots=True)
class Run:
    """Cells [start, stop) of a cube, each charged its weight's share of what is fresh."""

    start: int
    stop: int
    weight: int = WHOLE_WEIGHT


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
    cube: int = 0
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Seal:
    """What is published: the salted digest of a reservation's sealed answer."""

    id: bytes
    answer: bytes


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
    """By the account, after this."""
    block: int
    time: int
    cost: Precision = NOTHING
    """What the account paid: in a cube, by how much its largest cell rose."""
    used: Precision = NOTHING
    """By the analyst's view, after this."""
    cube: int = 0
    runs: tuple[Run, ...] = ()
    version: int = 1
    answer: bytes | None = None
    """The published digest, once there is one."""
    published_in: int | None = None

    @property
    def whole_cube(self) -> bool:
        """Whether it may be a first look, which charges all cells of its cube alike."""
        return len(self.runs) == 1 and self.runs[0].start == 0

    @property
    def finished(self) -> bool:
        """Whether nothing more has to be done for it. REPEAT has its record's answer."""
        return self.answer is not None or self.case is Case.REPEAT

    def published(self, answer: bytes, block: int) -> Reservation:
        """The same with its answer's digest. Said in full: `dataclasses.replace` takes three times as long."""
        return Reservation(
            self.account, self.id, self.query, self.analyst, self.about, self.case, self.wanted, self.fresh,
            self.reused, self.spent, self.block, self.time, self.cost, self.used, self.cube, self.runs, self.version,
            answer, block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block: pin it, and a history that is cut or rewritten can be told."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class View:
    """What one analyst may learn, and has learned so far."""

    limit: Precision = NOTHING
    used: Precision = NOTHING


class Ledger(Protocol):
    """Where spends are decided and recorded.

    Every method that changes anything is durable on return. A refusal raises `Refused` and
    changes nothing. A failure in between raises `OutcomeUnknown`: ask `reservation` later.
    """

    def open_account(self, opening: Opening) -> bytes:
        """Opens an account of the owner's; returns its id."""
        ...

    def reserve(self, *group: Claim) -> tuple[Reservation, ...]:
        """Decides and charges an atomic group: all of it or nothing. Each id can be reserved once, for ever."""
        ...

    def publish(self, account: bytes, *group: Seal) -> tuple[Reservation, ...]:
        """Pins the digests of sealed answers, all or none. Once per reservation; none for REPEAT."""
        ...

    def account(self, account: bytes) -> AccountState:
        """The account's state."""
        ...

    def reservation(self, account: bytes, id: bytes) -> Reservation | None:
        """A reservation of an account. Ids are an account's own: others may use the same."""
        ...

    def reservations(self, account: bytes) -> tuple[Reservation, ...]:
        """All reservations of an account, oldest first."""
        ...

    def records(self, account: bytes, query: bytes, cube: int = 0, runs: tuple[Run, ...] = ()) -> tuple[Record, ...]:
        """The paid answers to a query in this version of the table, by rising precision."""
        ...

    def view(self, account: bytes, analyst: bytes) -> View:
        """What an analyst may learn, and has learned."""
        ...

    def head(self) -> Head:
        """The newest block."""
        ...

    def close(self) -> None:
        """Lets go of everything. Nothing is lost."""
        ...
