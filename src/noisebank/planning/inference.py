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
from noisebank.core.units import NOTHING, Precision
from noisebank.planning.coarse import Coarse
from noisebank.planning.dual import Dual
from noisebank.planning.linear import LinearQuery, Vector, enclosing, query_size, replace_factor
from noisebank.planning.posterior import Covariance, Inferred, Posterior
from noisebank.planning.prefix import Axis, FirstLook, Prefix

MOST_DENSE = 4096
"""Cells up to which `CovariancePosterior` is used; beyond, `PiecewisePosterior`, then `FirstLookPosterior`."""
MOST_PIECES = 2048
"""Half as many: without a first look every query goes through all measured directions."""
DOUBT = Fraction(1, 2**30)
"""Share of an inferred precision that is not relied on: far above the rounding of a posterior (tested: 1e-12)."""
ANSWERED_BYTES = 8 << 20
"""For the precisions of free answers, per statistic of a cube."""
LEAST_FRESH = Fraction(1, 2**20)
"""Of the target: no smaller measurement is made, for it would be all noise."""


class When(Enum):
    """When a first look is bought: at opening, once it pays, or never."""

    OPENING = "opening"
    PROFIT = "profit"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class FirstLookRule:
    """Whether and when the first look is bought, and for how much."""

    when: When = When.PROFIT
    share: Fraction = Fraction(1, 4)
    """Its price, as a share of the budget."""
    patience: Fraction = Fraction(1, 2)
    """Bought once it would have saved this much of its price in some cell. So an account never spends more than
    1 + 1/patience times what plain reuse would have spent, whatever is asked."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """Counts, or the clipped sums of one column, over a cube; one person changes a cell by at most 1 unit."""

    axes: tuple[Axis, ...]
    replace_one: bool = False
    one_sign: bool = True
    """Counts, and sums of a column whose bounds do not straddle 0."""

    def factor(self, query: LinearQuery) -> int:
        """Returns the factor on squared weights that this kind of neighbours costs."""
        return replace_factor(query, self.one_sign) if self.replace_one else 1

    @property
    def largest_factor(self) -> int:
        """The factor of a first look: all of its weights have one sign."""
        return (2 if self.one_sign else 4) if self.replace_one else 1

    def first_look(self, budget: Precision, share: Fraction) -> Prefix:
        """Returns the first look that costs this share of the budget."""
        factor = self.largest_factor
        return Prefix(self.axes, Precision.floor(budget.exact * share / factor), factor)


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """What one query costs. If there is a first look to buy: buy it, add it, and plan again."""

    query: LinearQuery
    wanted: Precision
    known: Precision
    """Before the measurement."""
    fresh: Precision
    """Of the measurement to make; zero if the known precision suffices."""
    claimed: Precision
    """The sum over all measurements of this very query, this one included: what the contract is asked for."""
    charges: tuple[CellRun, ...]
    """What the measurement charges each cell, in at most 16 runs."""
    first: Prefix | None = None

    @property
    def reached(self) -> Precision:
        """After the measurement; at least the target."""
        return self.known + self.fresh


@dataclass(frozen=True, slots=True)
class Measured:
    """One paid measurement of a query."""

    query: LinearQuery
    value: float
    precision: Precision


class Knowledge:
    """Everything measured of one statistic of a cube, and what follows from it. Not safe for several threads."""

    def __init__(self, statistic: Statistic, budget: Precision, rule: FirstLookRule | None = None) -> None:
        self.statistic = statistic
        self.look: FirstLook | None = None
        self.measured: list[Measured] = []
        self._rule = FirstLookRule() if rule is None else rule
        self._offer: Prefix | None = statistic.first_look(budget, self._rule.share)
        if self._rule.when is When.NEVER or self._offer is None or not self._offer.precision:
            self._offer = None
        self._cells = prod(axis.size for axis in statistic.axes)
        dense = self._cells <= MOST_DENSE
        self._posterior: Posterior = (
            Covariance(self._cells) if dense else Coarse(self._cells, min(MOST_DENSE, MOST_PIECES))
        )
        self._reached: dict[LinearQuery, Precision] = {}
        self._answered: BoundedCache[LinearQuery, Precision] = BoundedCache(
            ANSWERED_BYTES, lambda query, reached: query_size(query)
        )
        """The same for free answers, as many as fit. A restart forgets them too."""
        self._direct: dict[LinearQuery, Precision] = {}
        self._apart: set[LinearQuery] = set()
        """Measured, but too near to others for the posterior, or one too many: reused for the same query only."""
        self._missed = np.zeros(self._cells)
        self._last: tuple[LinearQuery, Inferred | None] | None = None

    def plan(self, query: LinearQuery, wanted: Precision) -> InferencePlan:
        """Returns the cheapest way to know the query with the target precision.

        Requires: target > 0. Guarantees: known_precision is at most the true one; known + fresh >= target; fresh is
        at most what plain reuse would pay (target - the best precision that this query was ever answered with).
        Proof: docs/proofs/inference.md.
        """
        if not wanted:
            raise ValueError("a request wants some precision")
        recorded = max(self._reached.get(query, NOTHING), self._answered.get(query) or NOTHING)
        known = max(recorded, self.known(query))
        direct = self._direct.get(query, NOTHING)
        if known >= wanted:
            return InferencePlan(query, wanted, known, NOTHING, direct, ())
        least = Precision.ceil(wanted.exact * LEAST_FRESH)
        fresh = min(wanted - recorded, max(wanted - known, least))
        charges = enclosing(query.charges(self.statistic.factor(query)))
        first = self._offer if self._profits(query, charges, fresh) else None
        return InferencePlan(query, wanted, known, fresh, direct + fresh, charges, first)

    def known(self, query: LinearQuery) -> Precision:
        """Returns a precision that the query is surely known with: the posterior's, less a margin for rounding."""
        inferred = self._infer(query)
        if inferred is None:
            return NOTHING
        return Precision.floor((1 - DOUBT) * query.peak * query.peak / Fraction(inferred.variance))

    def learn(self, plan: InferencePlan, value: float) -> None:
        """Adds the value that was measured for a plan."""
        if not plan.fresh:
            raise ValueError("this plan asks for no measurement")
        self.recall(Measured(plan.query, value, plan.fresh), plan.reached)

    def recall(self, measured: Measured, reached: Precision) -> None:
        """Adds a recorded measurement, after which the query was known with `reached_precision`, when rebuilding."""
        query = measured.query
        if self._offer is not None:
            charges = enclosing(query.charges(self.statistic.factor(query)))
            self._missed += self._missing(self._offer, query, charges, measured.precision)
        self._direct[query] = self._direct.get(query, NOTHING) + measured.precision
        self._note(query, reached)
        self.measured.append(measured)
        self._observe(measured)

    def learn_first(self, look: FirstLook) -> None:
        """Adds the first look; earlier measurements stay in use."""
        self.look, self._offer, self._last = look, None, None
        self._apart.clear()
        self._posterior = Covariance(self._cells, look) if self._cells <= MOST_DENSE else Dual(look)
        for measurement in self.measured:
            self._observe(measurement)

    @property
    def offer(self) -> Prefix | None:
        """The first look that could be bought; None if it was bought or declined, or if there is none."""
        return self._offer

    def decline_first(self) -> None:
        """Gives up the first look for good."""
        self._offer = None

    def answer(self, plan: InferencePlan) -> Inferred:
        """Returns the estimate for a plan whose measurement, if any, was added."""
        if not plan.fresh and plan.known > (self._answered.get(plan.query) or NOTHING):
            self._answered.put(plan.query, plan.known)
        return self._best(plan.query)

    def running(self, parts: Sequence[tuple[LinearQuery, Fraction] | None]) -> list[float]:
        """Returns the variances of the running sums of estimates, each a query times a factor: first, first two, ...

        Guarantees: exact for what the posterior answers, at least the truth where a part is reused plainly (standard
        deviations add up at most, however errors are related).
        """
        shared, alone = np.zeros(1), 0.0
        variances = []
        for part in parts:
            if part is not None:
                query, factor = part
                errors = None if query in self._apart else self._posterior.errors(query)
                if errors is None:
                    alone += abs(float(factor)) * self._best(query).stddev
                else:
                    shared = shared + float(factor) * errors
            variances.append((float(np.linalg.norm(shared)) + alone) ** 2)
        return variances

    def _best(self, query: LinearQuery) -> Inferred:
        """Returns the posterior's estimate, or that from measurements of this very query where it is better."""
        inferred = self._infer(query)
        if inferred is not None and query not in self._apart:
            return inferred
        own = self._plainly(query)
        return own if inferred is None or own.variance <= inferred.variance else inferred

    def _infer(self, query: LinearQuery) -> Inferred | None:
        """Returns the posterior's estimate. Cached until something is added: a plan and its answer ask for the same."""
        if self._last is None or self._last[0] != query:
            self._last = (query, self._posterior.infer(query))
        return self._last[1]

    def _observe(self, known: Measured) -> None:
        self._last = None
        if not self._posterior.observe(known.query, known.value, known.precision):
            self._apart.add(known.query)

    def _note(self, query: LinearQuery, reached: Precision) -> None:
        """Notes a precision that was reached. It never shrinks: no rounding may charge for it again."""
        self._reached[query] = max(self._reached.get(query, NOTHING), reached)

    def _plainly(self, query: LinearQuery) -> Inferred:
        """Returns the estimate from measurements of this very query alone."""
        own = [measurement for measurement in self.measured if measurement.query == query]
        total = sum(float(measurement.precision) for measurement in own)
        if not total:
            raise ValueError("nothing that was measured determines this query")
        mean = sum(float(measurement.precision) * measurement.value for measurement in own) / total
        return Inferred(mean, query.peak * query.peak / total)

    def _missing(self, offer: Prefix, query: LinearQuery, charges: tuple[CellRun, ...], fresh: Precision) -> Vector:
        """Returns what the first look would have saved on a measurement, per cell."""
        savings = np.zeros(self._cells)
        saved = min(float(fresh), query.peak * query.peak / offer.variance(query))
        for start, stop, weight in charges:
            savings[start:stop] = saved * weight / WHOLE_WEIGHT
        return savings

    def _profits(self, query: LinearQuery, charges: tuple[CellRun, ...], fresh: Precision) -> bool:
        offer = self._offer
        if offer is None or self._rule.when is When.OPENING:
            return offer is not None
        missed = float((self._missed + self._missing(offer, query, charges, fresh)).max())
        return missed >= float(self._rule.patience * offer.precision.exact * offer.factor)
