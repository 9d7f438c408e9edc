"""`LinearQuery`: a linear query over the cells of a cube, as runs of whole weights in one canonical form.

Weights are whole numbers without a common factor, the first one positive: a statistic, its multiples
and its negative are one query, as in `queries.weights`. Precision (Delta^2/sigma^2) does not change
with the factor, so prices, records and charges belong to the canonical query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from math import gcd, lcm

import numpy as np
from numpy.typing import NDArray

from noisebank.core.records import WHOLE_WEIGHT, CellRun

Vector = NDArray[np.float64]

MAX_CELL_WEIGHT = 2**31
"""So that sums of weights over a million cells are exact in a float."""
MAX_RUNS = 16
"""Per reservation: the contract's limit."""
QUERY_BYTES, RUN_BYTES = 1_200, 240
"""Memory of a query, and of each of its runs."""


@dataclass(frozen=True)
class LinearQuery:
    """A canonical linear query. Make one with `make_linear_query`, `range_query` or `query_from_weights`."""

    cell_count: int
    runs: tuple[CellRun, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("a query needs a cell with a weight")
        free = 0
        for run in self.runs:
            if not (free <= run.start < run.stop <= self.cell_count and run.weight):
                raise ValueError(f"runs are sorted, disjoint, inside {self.cell_count} cells and have weights: {run}")
            free = run.stop
        if self.max_weight > MAX_CELL_WEIGHT:
            raise ValueError(f"weights go up to 2^31, not {self.max_weight}")

    @cached_property
    def max_weight(self) -> int:
        """The largest absolute weight: the query's sensitivity if one person changes one cell by one."""
        return max(abs(run.weight) for run in self.runs)

    @cached_property
    def key(self) -> bytes:
        """Names the query in tables of everything that was ever asked."""
        return blake2b(self.run_arrays[0].tobytes() + self.run_arrays[1].tobytes() + self.run_arrays[2].tobytes(),
                       digest_size=16).digest()  # fmt: skip

    @cached_property
    def support(self) -> tuple[int, int]:
        """First cell with a weight, and one past the last."""
        return self.runs[0].start, self.runs[-1].stop

    @cached_property
    def run_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Starts, stops and weights of the runs, as arrays."""
        table = np.array(self.runs, dtype=np.int64)
        return table[:, 0], table[:, 1], table[:, 2]

    @property
    def support_weights(self) -> Vector:
        """One weight per cell of the support."""
        starts, stops, weights = self.run_arrays
        ends = np.stack((starts, stops), 1).reshape(-1)
        steps = np.stack((weights, np.zeros_like(weights)), 1).reshape(-1)[:-1]
        return np.repeat(steps.astype(np.float64), np.diff(ends))

    @property
    def dense_weights(self) -> Vector:
        """One weight per cell."""
        low, high = self.support
        weights = np.zeros(self.cell_count)
        weights[low:high] = self.support_weights
        return weights

    def dot(self, values: Vector) -> float:
        """Returns the value of the query for a vector of cells."""
        low, high = self.support
        return float(self.support_weights @ values[low:high])

    def cell_charges(self, factor: int = 1) -> tuple[CellRun, ...]:
        """Returns what a measurement charges each cell, for a fresh precision of 1: (weight / max_weight)^2 * factor.

        Guarantees: exact for add/remove neighbours but for rounding up to 2^-32. `factor` is 1 there;
        `losses` says what it is for replace-one. Proof: docs/proofs/inference.md.
        """
        charges: list[CellRun] = []
        for start, stop, weight in self.runs:
            charged = -(-weight * weight * factor * WHOLE_WEIGHT // (self.max_weight * self.max_weight))
            if charges and charges[-1].stop == start and charges[-1].weight == charged:
                start = charges.pop().start
            charges.append(CellRun(start, stop, charged))
        return tuple(charges)


def query_size(query: LinearQuery) -> int:
    """Returns the bytes that a query takes at most, with its cached properties."""
    return QUERY_BYTES + RUN_BYTES * len(query.runs)


def make_linear_query(cell_count: int, runs: Iterable[tuple[int, int, Fraction | int]]) -> tuple[LinearQuery, Fraction]:
    """Returns the canonical query of weighted runs, and the factor that turns it back into them.

    >>> query, factor = make_linear_query(9, [(4, 6, -2), (6, 7, -4)])
    >>> [tuple(run) for run in query.runs], factor
    ([(4, 6, 1), (6, 7, 2)], Fraction(-2, 1))
    """
    weighted = sorted((start, stop, Fraction(weight)) for start, stop, weight in runs if weight)
    if not weighted:
        raise ValueError("a query needs a cell with a weight")
    shared = lcm(*(weight.denominator for _, _, weight in weighted))
    whole = [(start, stop, int(weight * shared)) for start, stop, weight in weighted]
    divisor = gcd(*(weight for _, _, weight in whole)) * (1 if whole[0][2] > 0 else -1)
    joined: list[CellRun] = []
    for start, stop, weight in whole:
        weight //= divisor
        if joined and joined[-1].stop == start and joined[-1].weight == weight:
            start = joined.pop().start
        joined.append(CellRun(start, stop, weight))
    return LinearQuery(cell_count, tuple(joined)), Fraction(divisor, shared)


def range_query(cell_count: int, start: int, stop: int) -> LinearQuery:
    """Returns the query that adds up cells [start, stop)."""
    return LinearQuery(cell_count, (CellRun(start, stop, 1),))


def query_from_weights(weights: Sequence[int] | NDArray[np.int64]) -> tuple[LinearQuery, Fraction]:
    """Returns the canonical query with these weights, one per cell, and its factor."""
    values = np.asarray(weights, dtype=np.int64)
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return make_linear_query(len(values), ((start, stop, int(values[start])) for start, stop in pairwise(edges)))


def merge_charges(charges: Sequence[CellRun], max_runs: int = MAX_RUNS) -> tuple[CellRun, ...]:
    """Returns at most `max_runs` charges that cover the given ones with at least their weights.

    Requires: sorted and disjoint charges. Guarantees: no cell is charged less (over-charging is sound, under-charging
    never happens). The gaps that would waste most are kept; for equal weights no other choice wastes less.
    """
    if len(charges) <= max_runs:
        return tuple(charges)
    wastes = [(right.start - left.stop) * max(left.weight, right.weight) for left, right in pairwise(charges)]
    gaps = sorted(sorted(range(len(wastes)), key=wastes.__getitem__)[len(charges) - max_runs :])
    ends = [-1, *gaps, len(charges) - 1]
    groups = [charges[low + 1 : high + 1] for low, high in pairwise(ends)]
    return tuple(CellRun(group[0].start, group[-1].stop, max(charge.weight for charge in group)) for group in groups)
