"""`CubeState`: every paid measurement in an account's cubes, what it has cost, and the estimates that follow.

It is rebuilt from the vault's sealed measurements in the ledger's order, so a restart loses nothing. The estimates
themselves are `CubePosterior`'s (planning).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from noisebank.core.caches import BoundedCache
from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import ZERO_PRECISION, GridValue, Precision
from noisebank.ledger.protocol import Reservation
from noisebank.planning.expected_shapes import expected_shapes
from noisebank.planning.inference import CubePosterior, QueryMeasurement, QueryTarget
from noisebank.planning.linear import QUERY_BYTES, Vector, query_size
from noisebank.planning.look_buyer import LookPlan
from noisebank.planning.look_posterior import MeasuredLook
from noisebank.planning.losses import Spending
from noisebank.planning.serving import (
    ALONE,
    ChargeLimits,
    CubeQuery,
    GroupQuery,
    LookQuery,
    StatisticKey,
    cube_statistic,
    find_cube_query,
    query_charges,
)
from noisebank.policy.model import Policy
from noisebank.queries.cells import policy_cubes
from noisebank.queries.query import Query

QUERY_CACHE_BYTES = 32 << 20
"""Of the cache of the latest queries, as queries over cells."""


@dataclass(frozen=True, slots=True)
class RequiredMeasurement:
    """What must be measured for a request, over all of its groups, and the look that is earned, if any."""

    fresh_precision: Precision
    charges: tuple[CellRun, ...]
    look: LookPlan | None


@dataclass(slots=True)
class CubeSpending:
    """What a cube's measurements have told, over all of its statistics, and what the ledger has charged for them."""

    losses: Spending
    charged: Precision = ZERO_PRECISION
    """The sum of the first run's shares: where pairs of cells are charged, of all cells alike."""
    measurement_count: int = 0


class CubeState:
    """The cubes of one version of an account. Safe for many threads; who plans and pays must hold the cube's turn."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._cubes = policy_cubes(policy)
        self._cube_queries: BoundedCache[bytes, tuple[CubeQuery | None]] = BoundedCache(QUERY_CACHE_BYTES, _cached_size)
        self._posteriors: dict[tuple[int, StatisticKey], CubePosterior] = {}
        self._spending: dict[int, CubeSpending] = {}
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

    def plan_measurement(
        self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction, paid_count: int, room: Precision,
        limits: ChargeLimits = ALONE, is_first: bool = True,
    ) -> RequiredMeasurement:  # fmt: skip
        """Returns the least that must be measured so that every group reaches the target.

        `paid_count` is the number of measurements that the ledger has charged to this cube: where it has more than
        are known here, or where another one of the same group comes first, nothing is inferred about what they tell.
        """
        with self._access:
            posterior = self._posterior_of(cube_query)
            parts = self._target_parts(cube_query, target, sensitivity)
            fresh = max((posterior.required_precision(*part)[1] for part in parts), default=ZERO_PRECISION)
            if limits.same_query is not None:
                known = dict(self._target_parts(cube_query, limits.same_query.target, sensitivity))
                rest = [part[1] - known[part[0]] for part in parts if part[1] > known[part[0]]]
                fresh = min(fresh, max(rest, default=ZERO_PRECISION))
            if not fresh:
                return RequiredMeasurement(ZERO_PRECISION, (), None)
            spending = self._spending_of(cube_query)
            complete = spending.measurement_count == paid_count
            charges = query_charges(
                cube_query, fresh, posterior.losses, spending.losses.spent,
                spending.charged if complete and is_first else None, limits.max_runs,
            )  # fmt: skip
            look = posterior.propose_look(parts, float(room)) if complete else None
            return RequiredMeasurement(fresh, charges, look)

    def charge_look(self, cube_query: CubeQuery, plan: LookPlan) -> tuple[CellRun, ...]:
        """Returns what the ledger is asked to charge for a look."""
        with self._access:
            spending = self._spending_of(cube_query)
            return plan.charge(spending.losses.spent, spending.charged)

    def learn_values(
        self, cube_query: CubeQuery, reservation: Reservation, target: Precision, sensitivity: Fraction,
        measured: Iterable[GridValue],
    ) -> None:  # fmt: skip
        """Adds a measurement of all groups."""
        fresh = reservation.fresh_precision
        with self._access:
            posterior = self._posterior_of(cube_query)
            for group, value in zip(cube_query.groups, measured, strict=True):
                if group:
                    exact = float(value.exact / (group.factor * cube_query.cell_sensitivity))
                    group_target = cube_query.group_target(group, target, sensitivity)
                    posterior.restore_measurement(QueryMeasurement(group.query, exact, fresh), group_target)
            posterior.note_asked(self._target_parts(cube_query, target, sensitivity))
            posterior.note_spent(cube_query.group_queries, fresh, reservation.runs)
            self._note_charged(cube_query, reservation)

    def learn_look(self, cube_query: CubeQuery, reservation: Reservation, look: LookQuery, values: Vector) -> None:
        """Adds a look."""
        with self._access:
            posterior = self._posterior_of(cube_query)
            measured = look.find_look(self.policy)
            posterior.add_look(MeasuredLook(measured, values), reservation.runs)
            self._note_charged(cube_query, reservation)

    def note_asked(self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction) -> None:
        """Notes a question that is answered without an estimate."""
        with self._access:
            self._posterior_of(cube_query).note_asked(self._target_parts(cube_query, target, sensitivity))

    def estimate_groups(
        self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction
    ) -> list[tuple[Fraction, Fraction]]:
        """Returns the estimate of each group in steps, and its variance in squared steps."""
        with self._access:
            posterior = self._posterior_of(cube_query)
            posterior.note_asked(self._target_parts(cube_query, target, sensitivity))
            return [_estimate_group(posterior, cube_query, group) for group in cube_query.groups]

    def running_variances(self, cube_query: CubeQuery) -> list[Fraction]:
        """Returns the variances of the running sums over the groups, in squared steps."""
        with self._access:
            parts = [(group.query, group.factor) if group else None for group in cube_query.groups]
            return [
                Fraction(variance) * cube_query.cell_sensitivity**2
                for variance in self._posterior_of(cube_query).running_variances(parts)
            ]

    def count_measurements(self, cube_query: CubeQuery) -> tuple[int, bool]:
        """Returns how many measurements an answer is inferred from, and whether there was a look."""
        posterior = self._posterior_of(cube_query)
        return len(posterior.measurements), bool(posterior.looks)

    def _target_parts(self, cube_query: CubeQuery, target: Precision, sensitivity: Fraction) -> list[QueryTarget]:
        """Returns each group's query with the precision that it needs."""
        return [
            (group.query, cube_query.group_target(group, target, sensitivity)) for group in cube_query.groups if group
        ]

    def _note_charged(self, cube_query: CubeQuery, reservation: Reservation) -> None:
        spending = self._spending_of(cube_query)
        share = -(-reservation.fresh_precision.units * reservation.runs[0].weight // WHOLE_WEIGHT)
        spending.charged += Precision(share)
        spending.measurement_count += 1

    def _posterior_of(self, cube_query: CubeQuery) -> CubePosterior:
        key = cube_query.cube_index, cube_query.statistic_key
        with self._access:
            if key not in self._posteriors:
                statistic = cube_statistic(self.policy, cube_query.cube, cube_query.statistic_key)
                spending = self._spending_of(cube_query)
                expected = expected_shapes(self.policy, cube_query.cube, cube_query.statistic_key)
                self._posteriors[key] = CubePosterior(
                    statistic, bool(self.policy.first_look), spending.losses, expected=expected
                )
            return self._posteriors[key]

    def _spending_of(self, cube_query: CubeQuery) -> CubeSpending:
        if cube_query.cube_index not in self._spending:
            statistic = cube_statistic(self.policy, cube_query.cube, cube_query.statistic_key)
            self._spending[cube_query.cube_index] = CubeSpending(Spending(statistic.losses.zeros()))
        return self._spending[cube_query.cube_index]


def read_values(numerators: Sequence[int], shift: int, divisor: Fraction) -> Vector:
    """Returns sealed numbers as floats, in the cells' unit."""
    return np.array([float(Fraction(numerator, 1 << shift) / divisor) for numerator in numerators])


def _estimate_group(
    posterior: CubePosterior, cube_query: CubeQuery, group: GroupQuery | None
) -> tuple[Fraction, Fraction]:
    if group is None:
        return Fraction(0), Fraction(0)
    estimate = posterior.estimate_part(group.query)
    scale = group.factor * cube_query.cell_sensitivity
    return Fraction(estimate.value) * scale, Fraction(estimate.variance) * scale * scale


def _cached_size(digest: bytes, cached: tuple[CubeQuery | None]) -> int:
    groups = () if cached[0] is None else cached[0].groups
    return QUERY_BYTES + sum(query_size(group.query) if group else 8 for group in groups)
