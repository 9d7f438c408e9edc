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
from noisebank.core.units import NOTHING, GridValue, Precision
from noisebank.planning.inference import FirstLookRule, InferencePlan, Knowledge, When
from noisebank.planning.linear import GROUP_BYTES, enclosing, query_size
from noisebank.planning.posterior import Inferred
from noisebank.planning.prefix import Prefix
from noisebank.planning.serving import COUNTS, Linear, Served, Total, serve, statistic_of
from noisebank.policy.model import FirstLookAt, Policy
from noisebank.queries.cells import cubes_of
from noisebank.queries.query import Query

MOST_LOOKED_AT = 2**17
"""A first look at more cells would fill the vault with noise."""
SERVED_BYTES = 32 << 20
"""Of the cache of the latest queries, as queries over cells."""
Levels = list[Any]
"""A first look as it is sealed: for each level its sizes, the shift of its grid, and one numerator per node."""


@dataclass(frozen=True, slots=True)
class Needed:
    """What must be measured for a request, over all of its groups, and the first look that would pay, if any."""

    fresh: Precision
    first: Prefix | None


class Known:
    """The cubes of one version of an account. Safe for many threads; who plans and pays must hold the cube's turn."""

    def __init__(self, policy: Policy, budget: Precision) -> None:
        self.policy, self._budget = policy, budget
        self._cubes = cubes_of(policy)
        self._served: BoundedCache[bytes, tuple[Served | None]] = BoundedCache(SERVED_BYTES, _served_size)
        self._knowledge: dict[tuple[int, Total], Knowledge] = {}
        self._access = threading.RLock()

    def serving(self, query: Query) -> Served | None:
        """Returns the query over a cube's cells; None if no cube can answer it."""
        if not self._cubes:
            return None
        cached = self._served.get(query.digest)
        if cached is None:
            cached = (serve(query, self.policy),)
            self._served.put(query.digest, cached)
        return cached[0]

    def needed(self, served: Served, wanted: Precision, moves: Fraction) -> Needed:
        """Returns the least that must be measured so that every group reaches the target."""
        with self._access:
            posterior = self._of(served)
            plans = [
                posterior.plan(group.query, served.wanted(group, wanted, moves)) for group in served.groups if group
            ]
        return Needed(
            max((plan.fresh for plan in plans), default=NOTHING),
            next((plan.first for plan in plans if plan.first is not None), None),
        )

    def offer(self, served: Served) -> Prefix | None:
        """Returns the first look that could be bought; None if it was bought, or if there is none."""
        with self._access:
            return self._of(served).offer

    def prefix(self, served: Served, precision: Precision) -> Prefix:
        """Returns the first look that was paid for with this precision."""
        statistic = self._of(served).statistic
        return Prefix(statistic.axes, precision, statistic.largest_factor)

    def learn(self, served: Served, fresh: Precision, measured: Iterable[GridValue]) -> None:
        """Adds a measurement of all groups."""
        with self._access:
            posterior = self._of(served)
            for group, value in zip(served.groups, measured, strict=True):
                if group:
                    known = posterior.known(group.query)
                    charges = enclosing(group.query.charges(posterior.statistic.factor(group.query)))
                    plan = InferencePlan(group.query, known + fresh, known, fresh, fresh, charges)
                    posterior.learn(plan, float(value.exact / (group.factor * served.reach)))

    def learn_look(self, served: Served, precision: Precision, levels: Levels) -> None:
        """Adds a first look."""
        with self._access:
            tree = self.prefix(served, precision)
            measured = {}
            for sizes, shift, numerators in levels:
                level = tuple(sizes)
                shape = tree.nodes(np.zeros(tree.shape), level).shape
                values = [float(Fraction(numerator, served.reach << shift)) for numerator in numerators]
                measured[level] = np.array(values).reshape(shape)
            self._of(served).learn_first(tree.look(measured))

    def answer(self, served: Served, wanted: Precision, moves: Fraction) -> list[tuple[Fraction, Fraction]]:
        """Returns the estimate of each group in steps, and its variance in squared steps."""
        with self._access:
            return [self._answer(served, group, wanted, moves) for group in served.groups]

    def running(self, served: Served) -> list[Fraction]:
        """Returns the variances of the running sums over the groups, in squared steps."""
        with self._access:
            parts = [(group.query, group.factor) if group else None for group in served.groups]
            return [Fraction(variance) * served.reach**2 for variance in self._of(served).running(parts)]

    def measurements(self, served: Served) -> tuple[int, bool]:
        """Returns how many measurements an answer is inferred from, and whether there was a first look."""
        posterior = self._of(served)
        return len(posterior.measured), posterior.look is not None

    def _answer(
        self, served: Served, group: Linear | None, wanted: Precision, moves: Fraction
    ) -> tuple[Fraction, Fraction]:
        if group is None:
            return Fraction(0), Fraction(0)
        posterior = self._of(served)
        group_target = served.wanted(group, wanted, moves)
        known = posterior.known(group.query)
        estimate: Inferred = posterior.answer(InferencePlan(group.query, group_target, known, NOTHING, NOTHING, ()))
        scale = group.factor * served.reach
        return Fraction(estimate.value) * scale, Fraction(estimate.variance) * scale * scale

    def _of(self, served: Served) -> Knowledge:
        key = served.place, served.total
        with self._access:
            if key not in self._knowledge:
                statistic = statistic_of(self.policy, served.cube, served.total)
                never = served.cube.cells > MOST_LOOKED_AT or not self.policy.first_look
                opening = self.policy.first_look_at is FirstLookAt.OPENING and served.total == COUNTS
                when = When.NEVER if never else When.OPENING if opening else When.PROFIT
                rule = FirstLookRule(when, self.policy.first_look or Fraction(1, 4))
                self._knowledge[key] = Knowledge(statistic, self._budget, rule)
            return self._knowledge[key]


def _served_size(digest: bytes, known: tuple[Served | None]) -> int:
    groups = () if known[0] is None else known[0].groups
    return GROUP_BYTES + sum(query_size(group.query) if group else 8 for group in groups)


def nodes_of(prefix: Prefix, cells: NDArray[np.object_]) -> Mapping[tuple[int, ...], NDArray[np.object_]]:
    """Returns the exact sums that a first look measures, by level: whole numbers, however large."""
    sums = {}
    for level in prefix.levels:
        wide = np.zeros(prefix.nodes(np.zeros(prefix.shape), (0,) * len(level)).shape, dtype=object)
        wide[tuple(slice(size) for size in prefix.shape)] = cells
        for axis, step in enumerate(level):
            parts = wide.shape[axis] >> step
            wide = wide.reshape(*wide.shape[:axis], parts, 1 << step, *wide.shape[axis + 1 :]).sum(axis=axis + 1)
        sums[level] = wide
    return sums
