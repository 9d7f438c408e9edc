"""Inference in cubes: what a query over the cells of a cube costs, given all earlier measurements there.

P1's idea with Gaussian noise: with v the variance of the best linear unbiased estimate so far, a target variance s
is free if v <= s, and else takes one measurement of variance 1/(1/s - 1/v). In precisions that is one
subtraction, as in `reuse`; with identical queries only it *is* reuse. Public shapes, queries and precisions
decide everything: no measured value ever changes a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import prod

import numpy as np

from noisebank.core.caches import BoundedCache
from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.coarse import PiecewisePosterior
from noisebank.planning.dual import FirstLookPosterior
from noisebank.planning.linear import LinearQuery, Vector, merge_charges, query_size, replace_factor
from noisebank.planning.posterior import CovariancePosterior, LinearEstimate, Posterior
from noisebank.planning.prefix import Axis, TreeEstimate, TreeMeasurement

MAX_DENSE_CELLS = 4096
"""Cells up to which `CovariancePosterior` is used; beyond, `PiecewisePosterior`, then `FirstLookPosterior`."""
MAX_PIECES = 2048
"""Half as many: without a first look every query goes through all measured directions."""
PRECISION_MARGIN = Fraction(1, 2**30)
"""Share of an inferred precision that is not relied on: far above the rounding of a posterior (tested: 1e-12)."""
ANSWERED_CACHE_BYTES = 8 << 20
"""For the precisions of free answers, per statistic of a cube."""
MIN_FRESH_SHARE = Fraction(1, 2**20)
"""Of the target: no smaller measurement is made, for it would be all noise."""


class FirstLookTiming(Enum):
    """When a first look is bought: at opening, once it pays, or never."""

    OPENING = "opening"
    PROFIT = "profit"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class FirstLookRule:
    """Whether and when the first look is bought, and for how much."""

    timing: FirstLookTiming = FirstLookTiming.PROFIT
    budget_share: Fraction = Fraction(1, 4)
    """Its price, as a share of the budget."""
    patience: Fraction = Fraction(1, 2)
    """Bought once it would have saved this much of its price in some cell. So an account never spends more than
    1 + 1/patience times what plain reuse would have spent, whatever is asked."""


@dataclass(frozen=True, slots=True)
class CubeStatistic:
    """Counts, or the clipped sums of one column, over a cube; one person changes a cell by at most 1 unit."""

    axes: tuple[Axis, ...]
    replace_one: bool = False
    one_sign: bool = True
    """Counts, and sums of a column whose bounds do not straddle 0."""

    def neighbour_factor(self, query: LinearQuery) -> int:
        """Returns the factor on squared weights that this kind of neighbours costs."""
        return replace_factor(query, self.one_sign) if self.replace_one else 1

    @property
    def first_look_factor(self) -> int:
        """The factor of a first look: all of its weights have one sign."""
        return (2 if self.one_sign else 4) if self.replace_one else 1

    def plan_first_look(self, budget: Precision, share: Fraction) -> TreeMeasurement:
        """Returns the first look that costs this share of the budget."""
        factor = self.first_look_factor
        return TreeMeasurement(self.axes, Precision.floor(budget.exact * share / factor), factor)


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """What one query costs. If there is a first look to buy: buy it, add it, and plan again."""

    query: LinearQuery
    target: Precision
    known_precision: Precision
    """Before the measurement."""
    fresh_precision: Precision
    """Of the measurement to make; zero if the known precision suffices."""
    claimed_precision: Precision
    """The sum over all measurements of this very query, this one included: what the contract is asked for."""
    charges: tuple[CellRun, ...]
    """What the measurement charges each cell, in at most 16 runs."""
    first_look: TreeMeasurement | None = None

    @property
    def reached_precision(self) -> Precision:
        """After the measurement; at least the target."""
        return self.known_precision + self.fresh_precision


@dataclass(frozen=True, slots=True)
class QueryMeasurement:
    """One paid measurement of a query."""

    query: LinearQuery
    value: float
    precision: Precision


class CubePosterior:
    """Everything measured of one statistic of a cube, and what follows from it. Not safe for several threads."""

    def __init__(self, statistic: CubeStatistic, budget: Precision, rule: FirstLookRule | None = None) -> None:
        self.statistic = statistic
        self.first_look: TreeEstimate | None = None
        self.measurements: list[QueryMeasurement] = []
        self._rule = FirstLookRule() if rule is None else rule
        self._offer: TreeMeasurement | None = statistic.plan_first_look(budget, self._rule.budget_share)
        if self._rule.timing is FirstLookTiming.NEVER or self._offer is None or not self._offer.precision:
            self._offer = None
        self._cell_count = prod(axis.size for axis in statistic.axes)
        dense = self._cell_count <= MAX_DENSE_CELLS
        self._posterior: Posterior = (
            CovariancePosterior(self._cell_count)
            if dense
            else PiecewisePosterior(self._cell_count, min(MAX_DENSE_CELLS, MAX_PIECES))
        )
        self._reached_precisions: dict[LinearQuery, Precision] = {}
        self._answered_precisions: BoundedCache[LinearQuery, Precision] = BoundedCache(
            ANSWERED_CACHE_BYTES, lambda query, reached: query_size(query)
        )
        """The same for free answers, as many as fit. A restart forgets them too."""
        self._paid_precisions: dict[LinearQuery, Precision] = {}
        self._left_out: set[LinearQuery] = set()
        """Measured, but too near to others for the posterior, or one too many: reused for the same query only."""
        self._missed_so_far = np.zeros(self._cell_count)
        self._last_inferred: tuple[LinearQuery, LinearEstimate | None] | None = None

    def plan_query(self, query: LinearQuery, target: Precision) -> InferencePlan:
        """Returns the cheapest way to know the query with the target precision.

        Requires: target > 0. Guarantees: known_precision is at most the true one; known + fresh >= target; fresh is
        at most what plain reuse would pay (target - the best precision that this query was ever answered with).
        Proof: docs/proofs/inference.md.
        """
        if not target:
            raise ValueError("a request wants some precision")
        recorded = max(
            self._reached_precisions.get(query, ZERO_PRECISION), self._answered_precisions.get(query) or ZERO_PRECISION
        )
        known = max(recorded, self.known_precision(query))
        direct = self._paid_precisions.get(query, ZERO_PRECISION)
        if known >= target:
            return InferencePlan(query, target, known, ZERO_PRECISION, direct, ())
        least = Precision.ceil(target.exact * MIN_FRESH_SHARE)
        fresh = min(target - recorded, max(target - known, least))
        charges = merge_charges(query.cell_charges(self.statistic.neighbour_factor(query)))
        first = self._offer if self._is_profitable(query, charges, fresh) else None
        return InferencePlan(query, target, known, fresh, direct + fresh, charges, first)

    def known_precision(self, query: LinearQuery) -> Precision:
        """Returns a precision that the query is surely known with: the posterior's, less a margin for rounding."""
        inferred = self._infer_cached(query)
        if inferred is None:
            return ZERO_PRECISION
        return Precision.floor(
            (1 - PRECISION_MARGIN) * query.max_weight * query.max_weight / Fraction(inferred.variance)
        )

    def add_measurement(self, plan: InferencePlan, value: float) -> None:
        """Adds the value that was measured for a plan."""
        if not plan.fresh_precision:
            raise ValueError("this plan asks for no measurement")
        self.restore_measurement(QueryMeasurement(plan.query, value, plan.fresh_precision), plan.reached_precision)

    def restore_measurement(self, measurement: QueryMeasurement, reached_precision: Precision) -> None:
        """Adds a recorded measurement, after which the query was known with `reached_precision`, when rebuilding."""
        query = measurement.query
        if self._offer is not None:
            charges = merge_charges(query.cell_charges(self.statistic.neighbour_factor(query)))
            self._missed_so_far += self._missed_savings(self._offer, query, charges, measurement.precision)
        self._paid_precisions[query] = self._paid_precisions.get(query, ZERO_PRECISION) + measurement.precision
        self._record_reached(query, reached_precision)
        self.measurements.append(measurement)
        self._observe_measurement(measurement)

    def add_first_look(self, first_look: TreeEstimate) -> None:
        """Adds the first look; earlier measurements stay in use."""
        self.first_look, self._offer, self._last_inferred = first_look, None, None
        self._left_out.clear()
        self._posterior = (
            CovariancePosterior(self._cell_count, first_look)
            if self._cell_count <= MAX_DENSE_CELLS
            else FirstLookPosterior(first_look)
        )
        for measurement in self.measurements:
            self._observe_measurement(measurement)

    @property
    def first_look_offer(self) -> TreeMeasurement | None:
        """The first look that could be bought; None if it was bought or declined, or if there is none."""
        return self._offer

    def decline_first_look(self) -> None:
        """Gives up the first look for good."""
        self._offer = None

    def estimate_planned(self, plan: InferencePlan) -> LinearEstimate:
        """Returns the estimate for a plan whose measurement, if any, was added."""
        if not plan.fresh_precision and plan.known_precision > (
            self._answered_precisions.get(plan.query) or ZERO_PRECISION
        ):
            self._answered_precisions.put(plan.query, plan.known_precision)
        return self._best_estimate(plan.query)

    def running_variances(self, parts: Sequence[tuple[LinearQuery, Fraction] | None]) -> list[float]:
        """Returns the variances of the running sums of estimates, each a query times a factor: first, first two, ...

        Guarantees: exact for what the posterior answers, at least the truth where a part is reused plainly (standard
        deviations add up at most, however errors are related).
        """
        shared, alone = np.zeros(1), 0.0
        variances = []
        for part in parts:
            if part is not None:
                query, factor = part
                errors = None if query in self._left_out else self._posterior.error_vector(query)
                if errors is None:
                    alone += abs(float(factor)) * self._best_estimate(query).stddev
                else:
                    shared = shared + float(factor) * errors
            variances.append((float(np.linalg.norm(shared)) + alone) ** 2)
        return variances

    def _best_estimate(self, query: LinearQuery) -> LinearEstimate:
        """Returns the posterior's estimate, or that from measurements of this very query where it is better."""
        inferred = self._infer_cached(query)
        if inferred is not None and query not in self._left_out:
            return inferred
        own = self._estimate_directly(query)
        return own if inferred is None or own.variance <= inferred.variance else inferred

    def _infer_cached(self, query: LinearQuery) -> LinearEstimate | None:
        """Returns the posterior's estimate. Cached until something is added: a plan and its answer ask for the same."""
        if self._last_inferred is None or self._last_inferred[0] != query:
            self._last_inferred = (query, self._posterior.infer(query))
        return self._last_inferred[1]

    def _observe_measurement(self, measurement: QueryMeasurement) -> None:
        self._last_inferred = None
        if not self._posterior.observe(measurement.query, measurement.value, measurement.precision):
            self._left_out.add(measurement.query)

    def _record_reached(self, query: LinearQuery, reached_precision: Precision) -> None:
        """Notes a precision that was reached. It never shrinks: no rounding may charge for it again."""
        self._reached_precisions[query] = max(self._reached_precisions.get(query, ZERO_PRECISION), reached_precision)

    def _estimate_directly(self, query: LinearQuery) -> LinearEstimate:
        """Returns the estimate from measurements of this very query alone."""
        own = [measurement for measurement in self.measurements if measurement.query == query]
        total = sum(float(measurement.precision) for measurement in own)
        if not total:
            raise ValueError("nothing that was measured determines this query")
        mean = sum(float(measurement.precision) * measurement.value for measurement in own) / total
        return LinearEstimate(mean, query.max_weight * query.max_weight / total)

    def _missed_savings(
        self, offer: TreeMeasurement, query: LinearQuery, charges: tuple[CellRun, ...], fresh_precision: Precision
    ) -> Vector:
        """Returns what the first look would have saved on a measurement, per cell."""
        savings = np.zeros(self._cell_count)
        saved = min(float(fresh_precision), query.max_weight * query.max_weight / offer.query_variance(query))
        for start, stop, weight in charges:
            savings[start:stop] = saved * weight / WHOLE_WEIGHT
        return savings

    def _is_profitable(self, query: LinearQuery, charges: tuple[CellRun, ...], fresh_precision: Precision) -> bool:
        offer = self._offer
        if offer is None or self._rule.timing is FirstLookTiming.OPENING:
            return offer is not None
        missed = float((self._missed_so_far + self._missed_savings(offer, query, charges, fresh_precision)).max())
        return missed >= float(self._rule.patience * offer.precision.exact * offer.factor)
