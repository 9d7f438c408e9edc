"""Reuse of released answers (P0, Algorithm 1, corrected): what a request costs and how its answer is computed.

The account's currency makes the paper's cases a comparison and one subtraction. The paper adds
fresh noise in case 2C (here BLUR), which one analyst can average away; we interpolate between
the recorded neighbours instead (a Brownian bridge in the variance), so that any set of answers
carries no more than its best one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from noisebank.core.records import BridgePoint, Case, CellRun, Record
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.planning.look_buyer import LookPlan
from noisebank.privacy.noise import NormalLaw


@dataclass(frozen=True, slots=True)
class Plan:
    """How a request will be served. The contract decides the same from its own records."""

    case: Case
    target: Precision
    fresh_precision: Precision
    reused_record: Record | None
    cube_number: int = 0
    """On the ledger; 0 is plain reuse."""
    charges: tuple[CellRun, ...] = ()
    """What each cell of the cube pays."""
    claimed_precision: Precision | None = None
    """What the contract is asked for, if not the target: in a cube, the sum over all measurements of the query."""
    look: LookPlan | None = None
    """A look at the cube that is earned, and should be bought first."""
    is_again: bool = False
    """Whether just this was answered before in a cube: the same bits are given again."""

    @property
    def shown_case(self) -> Case:
        """What a reader sees: REPEAT for the same bits, also where the contract, which has no record of what cost
        nothing, says INFER."""
        return Case.REPEAT if self.is_again else self.case


def plan_reuse(target: Precision, records: Sequence[Record]) -> Plan:
    """Returns the case and the fresh precision of a request.

    Requires: `records` by strictly rising precision; target > 0.
    Guarantees: fresh = max(0, target - best), the least that any unbiased scheme can pay
    (Cramer-Rao; P0 Theorem 1); `reused_record` is the smallest record that reaches the target, else the best.
    """
    if not target:
        raise ValueError("a request wants some precision")
    if not records:
        return Plan(Case.FIRST, target, target, None)
    best = records[-1]
    if target > best.precision:
        return Plan(Case.REFINE, target, target - best.precision, best)
    reaching = records[bisect_left(records, target, key=lambda record: record.precision)]
    case = Case.REPEAT if reaching.precision == target else Case.BLUR
    return Plan(case, target, ZERO_PRECISION, reaching)


def refine_answer(target: Precision, measured: GridValue, best: BridgePoint) -> GridValue:
    """Returns the best unbiased combination of the best answer so far and a fresh measurement.

    Requires: `measured` has precision target - best.precision and independent noise.
    Guarantees: precision `target` (inverse variances add); the paper's optimal fraction
    r = sigma_m^2 / sigma_min^2. Rounded to the finer of the two grids.
    """
    fresh = target - best.precision
    mean = (fresh.exact * measured.exact + best.precision.exact * best.value.exact) / target.exact
    return GridValue.nearest(mean, max(measured.shift, best.value.shift))


def bridge_law(target: Precision, sensitivity: Fraction, points: Sequence[BridgePoint]) -> NormalLaw:
    """Returns the law of a blurred answer, given all answers released so far.

    Requires: `points` by strictly rising precision, the last one above `target`, none equal to it,
    and Cov(y_i, y_j) = min(s_i, s_j) around the true value, with s = Delta^2/precision.
    Guarantees: the same with the new point, so any set of answers carries exactly 1/min s.
    Proof: docs/proofs/bridge.md. The draw must be sealed before the next one for this query.
    """
    index = bisect_left(points, target, key=lambda point: point.precision)
    if index == len(points) or points[index].precision == target:
        raise ValueError("a blur needs a better point and no equal one")
    square = sensitivity * sensitivity
    better, s_better = points[index], square / points[index].precision.exact
    s_target = square / target.exact
    if index == 0:  # nothing coarser is known: the paper's rule
        return NormalLaw(better.value.exact, s_target - s_better)
    coarser = points[index - 1]
    s_coarser = square / coarser.precision.exact
    share = (s_target - s_better) / (s_coarser - s_better)
    mean = better.value.exact + share * (coarser.value.exact - better.value.exact)
    return NormalLaw(mean, share * (s_coarser - s_target))
