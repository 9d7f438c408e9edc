"""Table II of the reuse paper: thirteen queries of three types, through both planners and the contract."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import AccountOpening, Claim, Role
from noisebank.ledger.signing import Key
from noisebank.planning.inference import CubePosterior, CubeStatistic
from noisebank.planning.linear import range_query
from noisebank.planning.pricing import NoiseTarget, compute_target
from noisebank.planning.reuse import plan_reuse
from noisebank.planning.strategies.axes import Axis

TYPES = (1, 2, 3, 1, 2, 1, 3, 2, 2, 1, 2, 1, 3)
SIGMAS = ("1", "3", "2", "2.5", "2", "0.5", "2", "2.5", "1.5", "0.25", "1", "0.75", "1.5")
PAPER_NAMES = {Case.FIRST: "1", Case.REPEAT: "2A", Case.REFINE: "2B", Case.BLUR: "2C"}


@dataclass(frozen=True, slots=True)
class Table2:
    """One list entry a query; precision for unit sensitivity."""

    types: tuple[int, ...]
    sigmas: tuple[str, ...]
    cases: tuple[str, ...]
    reuses: tuple[str | None, ...]
    cumulative: tuple[float, ...]
    naive: float
    inference: tuple[float, ...]
    """Spent so far by the inference planner, which knows nothing of types: each is one cell."""

    def plain(self) -> dict[str, object]:
        """For --json."""
        return {name: getattr(self, name) for name in self.__slots__}


def table2() -> Table2:
    """Plans each query, lets the contract decide it, and insists that all of them agree."""
    entropy = SystemEntropy()
    curator, owner = Key(entropy.token()), Key(entropy.token())
    journal = Journal(":memory:")
    create_chain(journal, curator, entropy)
    chain = EmbeddedLedger(journal, {Role.CURATOR: curator, Role.OWNER: owner})
    account = chain.open_account(AccountOpening(Precision(10**20), bytes(32), bytes(32), 0))
    cases, reuses, cumulative, naive = [], [], [], ZERO_PRECISION
    cells = {kind: CubePosterior(CubeStatistic((Axis(1, False),))) for kind in set(TYPES)}
    inferred, paid = [], ZERO_PRECISION
    numbers: dict[bytes, int] = {}
    for number, (kind, sigma) in enumerate(zip(TYPES, SIGMAS, strict=True), start=1):
        query, id = keccak(b"type %d" % kind), keccak(b"request %d" % number)
        wanted = compute_target(NoiseTarget(Fraction(sigma)), Fraction(1))
        planned = plan_reuse(wanted, chain.list_records(account, query))
        (decided,) = chain.reserve(Claim(account, id, query, bytes(32), 1, wanted, planned.fresh_precision))
        reused = planned.reused_record.id if planned.reused_record else None
        if (planned.case, planned.fresh_precision, reused) != (
            decided.case,
            decided.fresh_precision,
            decided.reused_id,
        ):
            raise AssertionError(f"planner and contract disagree on query {number}")
        known = cells[kind].plan_query(range_query(1, 0, 1), wanted)
        if known.fresh_precision:
            cells[kind].add_measurement(known, 0.0)
        paid += known.fresh_precision
        inferred.append(round(float(paid), 6))
        if known.fresh_precision != decided.fresh_precision:
            raise AssertionError(f"inference and contract disagree on query {number}")
        numbers[id] = number
        cases.append(PAPER_NAMES[decided.case])
        reuses.append(f"Q{numbers[decided.reused_id]}" if decided.reused_id else None)
        cumulative.append(round(float(decided.spent_after), 6))
        naive += wanted
    chain.close()
    return Table2(
        TYPES, SIGMAS, tuple(cases), tuple(reuses), tuple(cumulative), round(float(naive), 6), tuple(inferred)
    )
