"""`CubeState`: every paid measurement in an account's cubes, and the estimates that follow from all of them.

It is rebuilt from the vault's sealed measurements in the ledger's order, so a restart loses nothing. The estimates
themselves are `CubePosterior`'s (planning).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.caches import BoundedCache
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.planning.inference import CubePosterior, FirstLookRule, FirstLookTiming, InferencePlan
from noisebank.planning.linear import QUERY_BYTES, merge_charges, query_size
from noisebank.planning.posterior import LinearEstimate
from noisebank.planning.prefix import TreeMeasurement
from noisebank.planning.serving import COUNT_KEY, CubeQuery, GroupQuery, StatisticKey, cube_statistic, find_cube_query
from noisebank.policy.model import FirstLookAt, Policy
from noisebank.queries.cells import policy_cubes
from noisebank.queries.query import Query

MAX_FIRST_LOOK_CELLS = 2**17
"""A first look at more cells would fill the vault with noise."""
QUERY_CACHE_BYTES = 32 << 20
"""Of the cache of the latest queries, as queries over cells."""
SealedLevels = list[Any]
"""A first look as it is sealed: for each level its sizes, the shift of its grid, and one numerator per node."""


@dataclass(frozen=True, slots=True)
class RequiredMeasurement:
    """What must be measured for a request, over all of its groups, and the first look that would pay, if any."""

    fresh_precision: Precision
    first_look: TreeMeasurement | None


class CubeState:
    """The cubes of one version of an account. Safe for many threads; who plans and pays must hold the cube's turn."""

    def __init__(self, policy: Policy, budget: Precision) -> None:
        self.policy, self._budget = policy, budget
        self._cubes = policy_cubes(policy)
        self._cube_queries: BoundedCache[bytes, tuple[CubeQuery | None]] = BoundedCache(QUERY_CACHE_BYTES, _cached_size)
        self._posteriors: dict[tuple[int, StatisticKey], CubePosterior] = {}
        self._access = threading.RLock()

    def find_cube_query(self, query: Query) -> CubeQuery | None:
        """Returns the query over a cube's cells; None if no cube can answer it."""
        if not self._cubes:
            return None
        cached = self._cube_queries.get(query.digest)
        if cached is None:
            cached = (find_cube_query(query, self.policy),)
            self._cube_queries.put(query.digest, cached)
        return cached[0]

    def plan_measurement(self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction) -> RequiredMeasurement:
        """Returns the least that must be measured so that every group reaches the target."""
        with self._access:
            posterior = self._posterior_of(cube_query)
            plans = [
                posterior.plan_query(group.query, cube_query.group_target(group, target, sensitivity))
                for group in cube_query.groups
                if group
            ]
        return RequiredMeasurement(
            max((plan.fresh_precision for plan in plans), default=ZERO_PRECISION),
            next((plan.first_look for plan in plans if plan.first_look is not None), None),
        )

    def offered_look(self, cube_query: CubeQuery) -> TreeMeasurement | None:
        """Returns the first look that could be bought; None if it was bought, or if there is none."""
        with self._access:
            return self._posterior_of(cube_query).first_look_offer

    def paid_look(self, cube_query: CubeQuery, precision: Precision) -> TreeMeasurement:
        """Returns the first look that was paid for with this precision."""
        statistic = self._posterior_of(cube_query).statistic
        return TreeMeasurement(statistic.axes, precision, statistic.first_look_factor)

    def learn_values(self, cube_query: CubeQuery, fresh_precision: Precision, measured: Iterable[GridValue]) -> None:
        """Adds a measurement of all groups."""
        with self._access:
            posterior = self._posterior_of(cube_query)
            for group, value in zip(cube_query.groups, measured, strict=True):
                if group:
                    known = posterior.known_precision(group.query)
                    charges = merge_charges(group.query.cell_charges(posterior.statistic.neighbour_factor(group.query)))
                    plan = InferencePlan(
                        group.query, known + fresh_precision, known, fresh_precision, fresh_precision, charges
                    )
                    posterior.add_measurement(plan, float(value.exact / (group.factor * cube_query.cell_sensitivity)))

    def learn_look(self, cube_query: CubeQuery, precision: Precision, levels: SealedLevels) -> None:
        """Adds a first look."""
        with self._access:
            tree = self.paid_look(cube_query, precision)
            measured = {}
            for sizes, shift, numerators in levels:
                level = tuple(sizes)
                shape = tree.node_sums(np.zeros(tree.shape), level).shape
                values = [float(Fraction(numerator, cube_query.cell_sensitivity << shift)) for numerator in numerators]
                measured[level] = np.array(values).reshape(shape)
            self._posterior_of(cube_query).add_first_look(tree.estimate_cells(measured))

    def estimate_groups(
        self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction
    ) -> list[tuple[Fraction, Fraction]]:
        """Returns the estimate of each group in steps, and its variance in squared steps."""
        with self._access:
            return [self._estimate_group(cube_query, group, target, sensitivity) for group in cube_query.groups]

    def running_variances(self, cube_query: CubeQuery) -> list[Fraction]:
        """Returns the variances of the running sums over the groups, in squared steps."""
        with self._access:
            parts = [(group.query, group.factor) if group else None for group in cube_query.groups]
            return [
                Fraction(variance) * cube_query.cell_sensitivity**2
                for variance in self._posterior_of(cube_query).running_variances(parts)
            ]

    def count_measurements(self, cube_query: CubeQuery) -> tuple[int, bool]:
        """Returns how many measurements an answer is inferred from, and whether there was a first look."""
        posterior = self._posterior_of(cube_query)
        return len(posterior.measurements), posterior.first_look is not None

    def _estimate_group(
        self, cube_query: CubeQuery, group: GroupQuery | None, target: Precision, sensitivity: Fraction
    ) -> tuple[Fraction, Fraction]:
        if group is None:
            return Fraction(0), Fraction(0)
        posterior = self._posterior_of(cube_query)
        group_target = cube_query.group_target(group, target, sensitivity)
        known = posterior.known_precision(group.query)
        estimate: LinearEstimate = posterior.estimate_planned(
            InferencePlan(group.query, group_target, known, ZERO_PRECISION, ZERO_PRECISION, ())
        )
        scale = group.factor * cube_query.cell_sensitivity
        return Fraction(estimate.value) * scale, Fraction(estimate.variance) * scale * scale

    def _posterior_of(self, cube_query: CubeQuery) -> CubePosterior:
        key = cube_query.cube_index, cube_query.statistic_key
        with self._access:
            if key not in self._posteriors:
                statistic = cube_statistic(self.policy, cube_query.cube, cube_query.statistic_key)
                never = cube_query.cube.cell_count > MAX_FIRST_LOOK_CELLS or not self.policy.first_look
                opening = self.policy.first_look_at is FirstLookAt.OPENING and cube_query.statistic_key == COUNT_KEY
                when = (
                    FirstLookTiming.NEVER if never else FirstLookTiming.OPENING if opening else FirstLookTiming.PROFIT
                )
                rule = FirstLookRule(when, self.policy.first_look or Fraction(1, 4))
                self._posteriors[key] = CubePosterior(statistic, self._budget, rule)
            return self._posteriors[key]


def _cached_size(digest: bytes, cached: tuple[CubeQuery | None]) -> int:
    groups = () if cached[0] is None else cached[0].groups
    return QUERY_BYTES + sum(query_size(group.query) if group else 8 for group in groups)


def sum_nodes(tree: TreeMeasurement, cells: NDArray[np.object_]) -> Mapping[tuple[int, ...], NDArray[np.object_]]:
    """Returns the exact sums that a first look measures, by level: whole numbers, however large."""
    sums = {}
    for level in tree.level_precisions:
        wide = np.zeros(tree.node_sums(np.zeros(tree.shape), (0,) * len(level)).shape, dtype=object)
        wide[tuple(slice(size) for size in tree.shape)] = cells
        for axis, step in enumerate(level):
            parts = wide.shape[axis] >> step
            wide = wide.reshape(*wide.shape[:axis], parts, 1 << step, *wide.shape[axis + 1 :]).sum(axis=axis + 1)
        sums[level] = wide
    return sums
