"""An engine with tabulated cubes: a query that a cube can answer is a sum over its cells, any other is a scan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noisebank.core.errors import BadTable
from noisebank.engines.cells import Tabulation
from noisebank.engines.engine import Engine, Inspection
from noisebank.policy.model import Policy
from noisebank.queries.cells import Cube, NotCellAligned, has_cell_totals, policy_cubes
from noisebank.queries.query import Query

LoadCube = Callable[[int], bytes]


class CubedEngine:
    """An `Engine` whose cubes were tabulated at opening. Nothing is loaded before the first measurement."""

    def __init__(self, policy: Policy, engine: Engine, load: LoadCube) -> None:
        self._policy, self._engine, self._load = policy, engine, load
        self._cubes = policy_cubes(policy)
        self._tabulations: dict[int, Tabulation] = {}
        self._lock = threading.Lock()

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

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        """See `Engine`. What no cube can answer is read together."""
        totals = [self._from_cubes(query) for query in queries]
        scanned = [query for query, known in zip(queries, totals, strict=True) if known is None]
        rest = iter(self._engine.statistics_many(scanned) if scanned else [])
        return [next(rest) if known is None else known for known in totals]

    def inspect(self) -> Inspection:
        """See `Engine`."""
        return self._engine.inspect()

    def fingerprint(self, salt: bytes) -> bytes:
        """See `Engine`."""
        return self._engine.fingerprint(salt)

    def tabulate(self, cube: Cube) -> Tabulation:
        """See `Engine`."""
        return self._engine.tabulate(cube)

    def look(self, query: Query, cube_index: int) -> NDArray[np.object_]:
        """Returns the exact total of each cell of one of `policy_cubes`, of the query's function and column."""
        part = query.parts[0]
        return self._load_tabulation(cube_index).cell_totals(part.function, part.column or "")

    def _from_cubes(self, query: Query) -> tuple[int, ...] | None:
        """Returns the statistics from the smallest cube that can answer the query; None if no cube can."""
        if not all(has_cell_totals(part, self._policy) for part in query.parts):
            return None
        needed = set(query.by).union(*(p.column_names() for part in query.parts for _, p in part.weights))
        for number, cube in enumerate(self._cubes):
            if needed <= set(cube.columns):
                try:
                    return self._load_tabulation(number).statistics(query, self._policy)
                except NotCellAligned:
                    continue
        return None

    def _load_tabulation(self, cube_index: int) -> Tabulation:
        with self._lock:
            if cube_index not in self._tabulations:
                self._tabulations[cube_index] = Tabulation.from_bytes(self._cubes[cube_index], self._load(cube_index))
            return self._tabulations[cube_index]
