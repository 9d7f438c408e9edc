"""Values that cross the boundary of a ledger: claims and reservations, seals, account states, views.

The boundary itself is `chain.Ledger`. Amounts are `Precision`; digests and ids are 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from noisebank.core.records import Case, CellRun
from noisebank.core.units import NOTHING, Precision


class Role(Enum):
    """The roles whose keys sign."""

    OWNER = "owner"
    CURATOR = "curator"
    SEALER = "sealer"
    """Signs the embedded chain's blocks; the first curator's key, also after the curator has changed."""


class Unit(Enum):
    """What an account's budget is counted in; the values are the contract's. Both are additive and never mixed."""

    PRECISION = 1
    EPSILON = 2
    """Pure epsilon: local differential privacy, without a trusted bank."""


THE_OWNER = bytes(32)
"""The owner as an analyst: has no view of its own, its limit is the account's budget."""
MOST_RUNS = 16
"""Of one group; the contract's limit."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What the owner fixes when opening an account."""

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
    """What earlier versions of the table have spent."""
    paused: bool = False
    cubes: tuple[int, ...] = ()
    """Cells of cube 1, 2, ..."""

    @property
    def left(self) -> Precision:
        """The precision that may still be spent."""
        return self.budget - self.spent


@dataclass(frozen=True, slots=True)
class Claim:
    """A request for a reservation. `category` is the public byte, `target` the precision of the answer."""

    account: bytes
    id: bytes
    query: bytes
    analyst: bytes
    about: int
    wanted: Precision
    limit: Precision
    cube: int = 0
    runs: tuple[CellRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Seal:
    """What is published for a reservation: the salted digest of its sealed answer."""

    id: bytes
    answer: bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The contract's durable decision on a claim: from here on the fresh precision is spent."""

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
    """What the account has spent, including this."""
    block: int
    time: int
    cost: Precision = NOTHING
    """What the account paid for it: in a cube, by how much the charge of the largest cell rose."""
    used: Precision = NOTHING
    """What the analyst has learned, including this."""
    cube: int = 0
    runs: tuple[CellRun, ...] = ()
    version: int = 1
    answer: bytes | None = None
    """The published digest, once there is one."""
    published_in: int | None = None

    @property
    def whole_cube(self) -> bool:
        """Whether it may be a first look: those charge all cells of their cube alike."""
        return len(self.runs) == 1 and self.runs[0].start == 0

    @property
    def finished(self) -> bool:
        """Whether nothing more has to be done for it. A REPEAT has the answer of the record that it repeats."""
        return self.answer is not None or self.case is Case.REPEAT

    def published(self, answer: bytes, block: int) -> Reservation:
        """Returns a copy with its answer's digest. Not `dataclasses.replace`, which takes three times as long."""
        return Reservation(
            self.account, self.id, self.query, self.analyst, self.about, self.case, self.wanted,
            self.fresh, self.reused, self.spent, self.block, self.time, self.cost, self.used,
            self.cube, self.runs, self.version, answer, block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block. Whoever keeps a copy of it can tell whether the history was cut or rewritten."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class View:
    """What one analyst may learn (`limit`), and has learned so far (`used`)."""

    limit: Precision = NOTHING
    used: Precision = NOTHING
