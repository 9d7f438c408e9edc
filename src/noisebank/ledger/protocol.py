"""Values that cross the boundary of a ledger: claims and reservations, seals, account states, views.

The boundary itself is `chain.Ledger`. Amounts are `Precision`; digests and ids are 32 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from noisebank.core.records import Case, CellRun
from noisebank.core.units import ZERO_PRECISION, Precision


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


OWNER_ANALYST = bytes(32)
"""The owner as an analyst: has no view of its own, its limit is the account's budget."""
ID_IN_USE = "ledger: id already used"
"""The contract's reason, and ours, to refuse a reservation under an id that has one."""
MAX_RUNS = 16
"""Of one group; the contract's limit."""


@dataclass(frozen=True, slots=True)
class AccountOpening:
    """What the owner fixes when opening an account."""

    budget: Precision
    policy_digest: bytes
    data_commitment: bytes
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
    policy_digest: bytes
    data_commitment: bytes
    raise_delay: int
    unit: Unit = Unit.PRECISION
    version: int = 1
    base: Precision = ZERO_PRECISION
    """What earlier versions of the table have spent."""
    paused: bool = False
    cubes: tuple[int, ...] = ()
    """Cells of cube 1, 2, ..."""

    @property
    def remaining_budget(self) -> Precision:
        """The precision that may still be spent."""
        return self.budget - self.spent


@dataclass(frozen=True, slots=True)
class Claim:
    """A request for a reservation. `category` is the public byte, `target` the precision of the answer."""

    account: bytes
    id: bytes
    query: bytes
    analyst: bytes
    category: int
    target: Precision
    max_cost: Precision
    cube: int = 0
    runs: tuple[CellRun, ...] = ()


@dataclass(frozen=True, slots=True)
class Seal:
    """What is published for a reservation: the salted digest of its sealed answer."""

    id: bytes
    answer_digest: bytes


@dataclass(frozen=True, slots=True)
class Reservation:
    """The contract's durable decision on a claim: from here on the fresh precision is spent."""

    account: bytes
    id: bytes
    query: bytes
    analyst: bytes
    category: int
    case: Case
    target: Precision
    fresh_precision: Precision
    reused_id: bytes | None
    spent_after: Precision
    """What the account has spent, including this."""
    block: int
    time: int
    cost: Precision = ZERO_PRECISION
    """What the account paid for it: in a cube, by how much the charge of the largest cell rose."""
    used_after: Precision = ZERO_PRECISION
    """What the analyst has learned, including this."""
    cube: int = 0
    runs: tuple[CellRun, ...] = ()
    version: int = 1
    answer_digest: bytes | None = None
    """The published digest, once there is one."""
    published_block: int | None = None

    @property
    def is_whole_cube(self) -> bool:
        """Whether it may be a first look: those charge all cells of their cube alike."""
        return len(self.runs) == 1 and self.runs[0].start == 0

    @property
    def is_finished(self) -> bool:
        """Whether nothing more has to be done for it. A REPEAT has the answer of the record that it repeats."""
        return self.answer_digest is not None or self.case is Case.REPEAT

    def with_answer(self, answer_digest: bytes, block: int) -> Reservation:
        """Returns a copy with its answer's digest. Not `dataclasses.replace`, which takes three times as long."""
        return Reservation(
            self.account, self.id, self.query, self.analyst, self.category, self.case, self.target,
            self.fresh_precision, self.reused_id, self.spent_after, self.block, self.time, self.cost, self.used_after,
            self.cube, self.runs, self.version, answer_digest, block,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block. Whoever keeps a copy of it can tell whether the history was cut or rewritten."""

    number: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class View:
    """What one analyst may learn (`limit`), and has learned so far (`used`)."""

    limit: Precision = ZERO_PRECISION
    used: Precision = ZERO_PRECISION
