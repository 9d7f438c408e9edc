"""A linear query over the cells of a cube: runs of whole weights, in one canonical form.

Weights are whole numbers without a common factor, the first one positive: a statistic, its multiples
and its negative are one query, as in `queries.weights`. Precision (Delta^2/sigma^2) does not change
with the factor, so prices, records and charges belong to the canonical query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import gcd, lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MOST_WEIGHT = 2**31
"""So that sums of weights over a million cells are exact in a float."""
WHOLE = 2**32
"""A charge of this weight is charged what is fresh: the contract's WHOLE_WEIGHT."""


MOST_RUNS = 16
"""Of one reservation: the contract's limit."""


GROUP_BYTES, RUN_BYTES = 1_200, 240
"""What a query takes in memory, and each of its runs."""


class Weighted(NamedTuple):
    """Cells [start, stop), each counted `weight` times."""

    start: int
    stop: int
    weight: int


class Charge(NamedTuple):
    """Cells [start, stop), each charged fresh * weight / 2^32, rounded up: a run of the contract."""

    start: int
    stop: int
    weight: int


@dataclass(frozen=True)
class LinearQuery:
    """A canonical linear query. Make one with `linear`, `cell_range` or `from_weights`."""

    cells: int
    runs: tuple[Weighted, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError("a query needs a cell with a weight")
        free = 0
        for run in self.runs:
            if not (free <= run.start < run.stop <= self.cells and run.weight):
                raise ValueError(f"runs are sorted, disjoint, inside {self.cells} cells and have weights: {run}")
            free = run.stop
        if self.peak > MOST_WEIGHT:
            raise ValueError(f"weights go up to 2^31, not {self.peak}")

    @cached_property
    def peak(self) -> int:
        """The largest weight: the query's sensitivity if one person moves one cell by one."""
        return max(abs(run.weight) for run in self.runs)

    @property
    def one_sign(self) -> bool:
        """Whether no two weights have different signs."""
        return all(run.weight > 0 for run in self.runs)

    @cached_property
    def support(self) -> tuple[int, int]:
        """From the first to behind the last cell that counts."""
        return self.runs[0].start, self.runs[-1].stop

    @cached_property
    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Starts, stops and weights of the runs."""
        table = np.array(self.runs, dtype=np.int64)
        return table[:, 0], table[:, 1], table[:, 2]

    @property
    def inner(self) -> Vector:
        """The weights from the first to the last cell that counts."""
        starts, stops, weights = self.columns
        ends = np.stack((starts, stops), 1).reshape(-1)
        steps = np.stack((weights, np.zeros_like(weights)), 1).reshape(-1)[:-1]
        return np.repeat(steps.astype(np.float64), np.diff(ends))

    @property
    def dense(self) -> Vector:
        """One weight a cell."""
        low, high = self.support
        weights = np.zeros(self.cells)
        weights[low:high] = self.inner
        return weights

    def dot(self, values: Vector) -> float:
        """The statistic of a vector of cells."""
        low, high = self.support
        return float(self.inner @ values[low:high])

    def charges(self, factor: int = 1) -> tuple[Charge, ...]:
        """What a measurement costs each cell, for a fresh precision of 1: (weight / peak)^2 * factor.

        Guarantees: exact for add/remove neighbours but for rounding up to 2^-32. `factor` is 1 there, and
        `replace_factor` for replace-one. Proof: docs/proofs/inference.md.
        """
        found: list[Charge] = []
        for start, stop, weight in self.runs:
            charged = -(-weight * weight * factor * WHOLE // (self.peak * self.peak))
            if found and found[-1].stop == start and found[-1].weight == charged:
                start = found.pop().start
            found.append(Charge(start, stop, charged))
        return tuple(found)


def query_size(query: LinearQuery) -> int:
    """Bytes that a query takes, at most, with what is worked out from it."""
    return GROUP_BYTES + RUN_BYTES * len(query.runs)


def linear(cells: int, runs: Iterable[tuple[int, int, Fraction | int]]) -> tuple[LinearQuery, Fraction]:
    """The canonical query and the factor that makes it the statistic that was asked for.

    >>> query, factor = linear(9, [(4, 6, -2), (6, 7, -4)])
    >>> [tuple(run) for run in query.runs], factor
    ([(4, 6, 1), (6, 7, 2)], Fraction(-2, 1))
    """
    given = sorted((start, stop, Fraction(weight)) for start, stop, weight in runs if weight)
    if not given:
        raise ValueError("a query needs a cell with a weight")
    shared = lcm(*(weight.denominator for _, _, weight in given))
    whole = [(start, stop, int(weight * shared)) for start, stop, weight in given]
    divisor = gcd(*(weight for _, _, weight in whole)) * (1 if whole[0][2] > 0 else -1)
    joined: list[Weighted] = []
    for start, stop, weight in whole:
        weight //= divisor
        if joined and joined[-1].stop == start and joined[-1].weight == weight:
            start = joined.pop().start
        joined.append(Weighted(start, stop, weight))
    return LinearQuery(cells, tuple(joined)), Fraction(divisor, shared)


def cell_range(cells: int, start: int, stop: int) -> LinearQuery:
    """How much lies in cells [start, stop)."""
    return LinearQuery(cells, (Weighted(start, stop, 1),))


def from_weights(weights: Sequence[int] | NDArray[np.int64]) -> tuple[LinearQuery, Fraction]:
    """The query with one whole weight a cell."""
    values = np.asarray(weights, dtype=np.int64)
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return linear(len(values), ((start, stop, int(values[start])) for start, stop in pairwise(edges)))


def enclosing(charges: Sequence[Charge], most: int = MOST_RUNS) -> tuple[Charge, ...]:
    """At most `most` charges that cover the given ones with at least their weights.

    Requires: sorted and disjoint charges. Guarantees: no cell is charged less. The gaps that would waste most are kept;
    for equal weights no other choice wastes less. Takes O(n log n), where `ledger.calls.merged` takes O(n^2).
    """
    if len(charges) <= most:
        return tuple(charges)
    wastes = [(right.start - left.stop) * max(left.weight, right.weight) for left, right in pairwise(charges)]
    kept = sorted(sorted(range(len(wastes)), key=wastes.__getitem__)[-(most - 1) :])
    ends = [-1, *kept, len(charges) - 1]
    groups = [charges[low + 1 : high + 1] for low, high in pairwise(ends)]
    return tuple(Charge(group[0].start, group[-1].stop, max(one.weight for one in group)) for group in groups)


def replace_factor(query: LinearQuery, one_sign: bool = True) -> int:
    """What a replace-one account pays of its squared weights: a person leaves one cell and enters another.

    Requires: `one_sign` says that a person's own contribution never changes its sign (counts do; so do
    sums of a column whose bounds do not straddle 0).
    Guarantees: the largest sum of charges is at least the exact loss max_jk (J_jj + J_kk - 2 J_jk).
    Proof: docs/proofs/inference.md.
    """
    return 2 if one_sign and query.one_sign else 4
