"""An engine with tabulated cubes: a query that a cube can answer is a sum over its cells, any other is a scan."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from noisebank.engines.cells import Tabulation
from noisebank.engines.engine import Engine, Inspection
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube, CutsCells, cubes_of
from noisebank.queries.query import Function, Query

Loaded = Callable[[int], bytes]


class CubedEngine:
    """An `Engine` whose cubes were tabulated at opening. Nothing is loaded before the first measurement."""

    def __init__(self, policy: Policy, engine: Engine, load: Loaded) -> None:
        self._policy, self._engine, self._load = policy, engine, load
        self._cubes = cubes_of(policy)
        self._known: dict[int, Tabulation] = {}
        self._access = threading.Lock()

    def identity(self) -> str:
        """See `Engine`."""
        return self._engine.identity()

    def statistic(self, query: Query) -> int:
        """See `Engine`."""
        totals = self._from_cubes(query)
        return self._engine.statistic(query) if totals is None else totals[0]

    def statistics(self, query: Query) -> tuple[int, ...]:
        """See `Engine`."""
        totals = self._from_cubes(query)
        return self._engine.statistics(query) if totals is None else totals

    def inspect(self) -> Inspection:
        """See `Engine`."""
        return self._engine.inspect()

    def fingerprint(self, salt: bytes) -> bytes:
        """See `Engine`."""
        return self._engine.fingerprint(salt)

    def tabulate(self, cube: Cube) -> Tabulation:
        """See `Engine`."""
        return self._engine.tabulate(cube)

    def cells(self, number: int, function: Function, column: str) -> NDArray[np.object_]:
        """Returns the exact total of each cell of one of `policy_cubes`."""
        return self._tabulation(number).cells(function, column)

    def _from_cubes(self, query: Query) -> tuple[int, ...] | None:
        """Returns the statistics from the smallest cube that can answer the query; None if no cube can."""
        needed = set(query.by).union(*(p.columns() for part in query.parts for _, p in part.weights))
        for number, cube in enumerate(self._cubes):
            if needed <= set(cube.columns):
                try:
                    return self._tabulation(number).statistics(query, self._policy)
                except CutsCells:
                    continue
        return None

    def _tabulation(self, number: int) -> Tabulation:
        with self._access:
            if number not in self._known:
                self._known[number] = Tabulation.unpacked(self._cubes[number], self._load(number))
            return self._known[number]
