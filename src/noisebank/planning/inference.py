"""Inference in cubes: what a query over the cells of a cube costs, given all earlier measurements there.

P1's idea with Gaussian noise: with v the variance of the best linear unbiased estimate so far, a target variance s
is free if v <= s, and else takes one measurement of variance 1/(1/s - 1/v). In precisions that is one
subtraction, as in `reuse`; with identical queries only it *is* reuse. A look at all that is asked about is bought as
soon as what it adds costs no more than plain answers would have cost so far. Public shapes, queries and precisions
decide everything: no measured value ever changes a price. Proof: docs/proofs/inference.md, docs/proofs/strategies.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod

import numpy as np

from noisebank.core.caches import BoundedCache
from noisebank.core.records import CellRun
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning.linear import MAX_RUNS, LinearQuery, merge_charges, query_size
from noisebank.planning.look_buyer import LookBuyer, LookPlan
from noisebank.planning.look_posterior import LookPosterior, MeasuredLook
from noisebank.planning.losses import (
    MAX_PAIR_CELLS,
    BoundLosses,
    CellLosses,
    Losses,
    PairLosses,
    Spending,
    loss_of_runs,
)
from noisebank.planning.piecewise_posterior import PiecewisePosterior
from noisebank.planning.posterior import CovariancePosterior, LinearEstimate, Posterior
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.workloads import Shape

MAX_DENSE_CELLS = 4096
"""Cells up to which `CovariancePosterior` is used before a look; beyond, `PiecewisePosterior`."""
MAX_PIECES = 2048
"""Half as many: without a first look every query goes through all measured directions."""
PRECISION_MARGIN = Fraction(1, 2**30)
"""Share of an inferred precision that is not relied on: far above the rounding of a posterior (tested: 1e-10)."""
ANSWERED_CACHE_BYTES = 8 << 20
"""For the precisions of free answers, per statistic of a cube."""
MIN_FRESH_SHARE = Fraction(1, 2**20)
"""Of the target: no smaller measurement is made, for it would be all noise."""
QueryTarget = tuple[LinearQuery, Precision]


@dataclass(frozen=True, slots=True)
class CubeStatistic:
    """Counts, or the clipped sums of one column, over a cube; one person changes a cell by at most 1 unit."""

    axes: tuple[Axis, ...]
    replace_one: bool = False
    values: tuple[Fraction, ...] = (Fraction(1),)
    """The extremes of what one person adds to a cell, in units of the largest."""

    @property
    def cell_count(self) -> int:
        """Number of cells."""
        return prod(axis.size for axis in self.axes)

    @property
    def losses(self) -> Losses:
        """What measurements cause, for this kind of neighbours."""
        if not self.replace_one:
            return CellLosses(self.cell_count)
        if self.cell_count <= MAX_PAIR_CELLS:
            return PairLosses(self.cell_count, self.values)
        return BoundLosses(self.cell_count, self.values)


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """What one query costs. If there is a look to buy: buy it, add it, and plan again."""

    query: LinearQuery
    target: Precision
    known_precision: Precision
    """Before the measurement."""
    fresh_precision: Precision
    """Of the measurement to make; zero if the known precision suffices."""
    charges: tuple[CellRun, ...]
    """What the measurement charges each cell where people come and go, in at most 16 runs."""
    look: LookPlan | None = None

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

    def __init__(
        self, statistic: CubeStatistic, looks: bool = True, cube: Spending | None = None, max_runs: int = MAX_RUNS,
        expected: frozenset[Shape] = frozenset(),
    ) -> None:  # fmt: skip
        self.statistic, self.losses = statistic, statistic.losses
        self.measurements: list[QueryMeasurement] = []
        self.looks: list[MeasuredLook] = []
        self._may_look = looks
        self.buyer = LookBuyer(statistic.axes, self.losses, cube, max_runs, expected)
        self._posteriors: list[Posterior] = [self._empty_posterior()]
        self._reached_precisions: dict[LinearQuery, Precision] = {}
        self._answered_precisions: BoundedCache[LinearQuery, Precision] = BoundedCache(
            ANSWERED_CACHE_BYTES, lambda query, reached: query_size(query)
        )
        """The same for free answers, as many as fit. A restart forgets them too."""
        self._left_out: set[LinearQuery] = set()
        """Measured, but too near to others for the posterior, or one too many: reused for the same query only."""
        self._last_inferred: tuple[LinearQuery, LinearEstimate | None] | None = None

    def plan_query(self, query: LinearQuery, target: Precision, room: float = inf) -> InferencePlan:
        """Returns the cheapest way to know the query with the target precision.

        Requires: target > 0. Guarantees: known_precision is at most the true one; known + fresh >= target; fresh is
        at most what plain reuse would pay (target - the best precision that this query was ever answered with). A
        look is proposed only if it raises the largest charge by at most `room`.
        """
        known, fresh = self.required_precision(query, target)
        if not fresh:
            return InferencePlan(query, target, known, ZERO_PRECISION, ())
        look = self.propose_look([(query, target)], room)
        return InferencePlan(query, target, known, fresh, merge_charges(query.cell_charges()), look)

    def required_precision(self, query: LinearQuery, target: Precision) -> tuple[Precision, Precision]:
        """Returns the precision that is known, and the least that must be measured."""
        if not target:
            raise ValueError("a request wants some precision")
        recorded = self._recorded_precision(query)
        known = max(recorded, self.known_precision(query))
        if known >= target:
            return known, ZERO_PRECISION
        least = Precision.ceil(target.exact * MIN_FRESH_SHARE)
        return known, min(target - recorded, max(target - known, least))

    def propose_look(self, parts: Sequence[QueryTarget], room: float = inf) -> LookPlan | None:
        """Returns the look that is earned by what was asked so far and these questions; None if there is none."""
        return self.buyer.propose(parts, self, room) if self._may_look else None

    def note_asked(self, parts: Sequence[QueryTarget]) -> None:
        """Notes questions that are answered now: what plain answers would have cost earns the next look."""
        self.buyer.note_asked(parts)

    def note_spent(self, queries: Sequence[LinearQuery], fresh: Precision, runs: Sequence[CellRun]) -> None:
        """Notes what a measurement has told, and what it was charged."""
        if isinstance(self.losses, PairLosses):
            loss = self.losses.zeros()
            for query in queries:
                loss += self.losses.of_query(query, fresh)
        else:
            loss = loss_of_runs(runs, fresh, self.losses.zeros())
        self.buyer.note_spent(loss)

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
        self.restore_measurement(QueryMeasurement(plan.query, value, plan.fresh_precision), plan.target)
        self.note_spent([plan.query], plan.fresh_precision, plan.charges)

    def restore_measurement(self, measurement: QueryMeasurement, target: Precision) -> None:
        """Adds a measurement that was paid so that the query is known with `target`, now or when rebuilding.

        The target is noted as reached where no more than the margin for rounding is missing: asking again is free, to
        the unit, also after a restart, which forgets free answers.
        """
        query = measurement.query
        known = max(self._recorded_precision(query), self.known_precision(query))
        reached_precision = known + measurement.precision
        if reached_precision.exact >= target.exact * (1 - 2 * PRECISION_MARGIN):
            reached_precision = max(reached_precision, target)
        self._record_reached(query, reached_precision)
        self.measurements.append(measurement)
        self._last_inferred = None
        self._observe_measurement(measurement)

    def add_look(self, measured: MeasuredLook, runs: Sequence[CellRun]) -> None:
        """Adds a look and what it was charged; earlier measurements stay in use."""
        if isinstance(self.losses, PairLosses):
            self.buyer.note_look(self.losses.of_look(measured.look))
        else:
            self.buyer.note_look(loss_of_runs(runs, measured.look.precision, self.losses.zeros()))
        self.looks.append(measured)
        roots = measured.look.strategy.roots
        posterior = LookPosterior([look for look in self.looks if look.look.strategy.roots == roots])
        missed = [look for look in self.looks if look.look.strategy.roots != roots and not posterior.observe_look(look)]
        others = [LookPosterior([look]) for look in missed]
        self._posteriors, self._last_inferred = [posterior, *others], None
        self._left_out.clear()
        for measurement in self.measurements:
            self._observe_measurement(measurement)

    @property
    def latest(self) -> Posterior:
        """The posterior that takes in all that it can."""
        return self._posteriors[0]

    def estimate_planned(self, plan: InferencePlan) -> LinearEstimate:
        """Returns the estimate for a plan whose measurement, if any, was added."""
        self.note_asked([(plan.query, plan.target)])
        return self.estimate_part(plan.query) if not plan.fresh_precision else self._best_estimate(plan.query)

    def estimate_part(self, query: LinearQuery) -> LinearEstimate:
        """Returns the estimate of a query that is known well enough, and notes how well: it never costs again."""
        known = self.known_precision(query)
        if known > (self._answered_precisions.get(query) or ZERO_PRECISION):
            self._answered_precisions.put(query, known)
        return self._best_estimate(query)

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
                errors = None if query in self._left_out else self.latest.error_vector(query)
                if errors is None:
                    alone += abs(float(factor)) * self._best_estimate(query).stddev
                else:
                    shared = shared + float(factor) * errors
            variances.append((float(np.linalg.norm(shared)) + alone) ** 2)
        return variances

    def _empty_posterior(self) -> Posterior:
        cells = self.statistic.cell_count
        if cells <= MAX_DENSE_CELLS:
            return CovariancePosterior(cells)
        return PiecewisePosterior(cells, min(MAX_DENSE_CELLS, MAX_PIECES))

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
            estimates = [estimate for known in self._posteriors if (estimate := known.infer(query)) is not None]
            self._last_inferred = (query, min(estimates, key=lambda estimate: estimate.variance, default=None))
        return self._last_inferred[1]

    def _observe_measurement(self, measurement: QueryMeasurement) -> None:
        if not self.latest.observe(measurement.query, measurement.value, measurement.precision):
            self._left_out.add(measurement.query)

    def _recorded_precision(self, query: LinearQuery) -> Precision:
        """Returns the best precision that the query was ever answered with, as far as that is kept."""
        answered = self._answered_precisions.get(query) or ZERO_PRECISION
        return max(self._reached_precisions.get(query, ZERO_PRECISION), answered)

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
