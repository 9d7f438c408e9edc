"""What is asked of a cube, as kinds of questions, and the levels that know all questions of these kinds.

Of each axis a question tells nothing apart, one value from the others, or sets of values. Where sets are asked about,
all sets are expected; where single values are, exactly the combinations of axes that were asked.
Proof: docs/proofs/strategies.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.strategies.axes import Axis, best_precisions, is_cheaper_as_root

MAX_SHAPES = 256
"""Of combinations of axes whose own optimum is computed; for more of them, all combinations are expected."""
CLOSE_ENOUGH = 1.0005
MAX_STEPS = 2_000


class Kind(IntEnum):
    """What a question asks of one axis."""

    WHOLE = 0
    SINGLE = 1
    """One value, or each value in a group of its own."""
    SETS = 2
    """Sets of values; ranges of an ordered axis."""


Shape = tuple[Kind, ...]
"""Of a question: a kind for each axis."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The shapes of all questions so far, or of those that are expected."""

    axes: tuple[Axis, ...]
    shapes: frozenset[Shape] = frozenset()

    def add_shapes(self, shapes: Iterable[Shape]) -> Workload:
        """Returns the workload with these shapes, too."""
        joined = self.shapes.union(shapes)
        return self if joined == self.shapes else Workload(self.axes, joined)

    @property
    def is_full(self) -> bool:
        """Whether there is no other kind of question."""
        return all(wide or axis.size == 1 for wide, axis in zip(self.in_sets, self.axes, strict=True))

    @property
    def seen(self) -> tuple[bool, ...]:
        """Which axes are asked about."""
        return tuple(any(shape[axis] for shape in self.shapes) for axis in range(len(self.axes)))

    @property
    def in_sets(self) -> tuple[bool, ...]:
        """Of which axes sets are asked. With them, both values of an axis of two."""
        sets = [any(shape[axis] is Kind.SETS for shape in self.shapes) for axis in range(len(self.axes))]
        if not any(sets):
            return tuple(sets)
        small = [seen and axis.size == 2 for seen, axis in zip(self.seen, self.axes, strict=True)]
        return tuple(asked or two for asked, two in zip(sets, small, strict=True))

    @property
    def single_shapes(self) -> frozenset[Shape]:
        """The combinations of the other axes, of which single values are asked."""
        return _without_sets(self.shapes, self.in_sets)

    def covers(self, other: Workload) -> bool:
        """Whether a look for this workload knows all questions of another one."""
        sets = self.in_sets
        if any(narrow and not wide for narrow, wide in zip(other.in_sets, sets, strict=True)):
            return False
        return _without_sets(other.shapes, sets) <= _without_sets(self.shapes, sets)


def _without_sets(shapes: Iterable[Shape], sets: Sequence[bool]) -> frozenset[Shape]:
    """Returns what shapes ask of the axes of which no sets are asked."""
    return frozenset(
        tuple(Kind.WHOLE if wide else kind for kind, wide in zip(shape, sets, strict=True)) for shape in shapes
    )


def find_shape(axes: Sequence[Axis], query: LinearQuery) -> Shape:
    """Returns what a query asks of each axis."""
    sizes = [axis.size for axis in axes]
    cells = query.dense_weights.reshape(sizes)
    read = cells != 0
    lines = [read.any(axis=tuple(other for other in range(len(sizes)) if other != axis)) for axis in range(len(sizes))]
    counts = [int(line.sum()) for line in lines]
    if query.max_weight == 1 and min(run.weight for run in query.runs) == 1 and int(read.sum()) == prod(counts):
        kinds = (
            Kind.WHOLE if count == size else Kind.SINGLE if count == 1 else Kind.SETS
            for count, size in zip(counts, sizes, strict=True)
        )
        return tuple(kinds)
    return tuple(
        Kind.SETS if size > 1 and bool((cells != cells.take([0], axis=axis)).any()) else Kind.WHOLE
        for axis, size in enumerate(sizes)
    )


def shapes_of_sets(axes: Sequence[Axis], wide: Sequence[bool]) -> frozenset[Shape]:
    """Returns the shape of all sets of values of some axes, if there are any."""
    shape = tuple(Kind.SETS if asked and axis.size > 1 else Kind.WHOLE for axis, asked in zip(axes, wide, strict=False))
    return frozenset([shape] if any(shape) else [])


def shapes_of_values(axes: Sequence[Axis]) -> frozenset[Shape]:
    """Returns the shapes of single values of any combination of axes."""
    kinds = [(Kind.WHOLE, Kind.SINGLE) if axis.size > 1 else (Kind.WHOLE,) for axis in axes]
    return frozenset(product(*kinds))


def root_axes(workload: Workload) -> tuple[bool, ...]:
    """Returns which axes are looked at by their square root: those of which ranges are asked, unless sets of values
    cost no more."""
    sets = workload.in_sets
    return tuple(wide and is_cheaper_as_root(axis) for axis, wide in zip(workload.axes, sets, strict=True))


@lru_cache(maxsize=256)
def workload_levels(workload: Workload) -> Vector:
    """Returns the squared levels, one per set of the seen axes that have no root: at precision 1 every question of the
    workload has the variance 1 at most."""
    roots, sets = root_axes(workload), workload.in_sets
    squares = np.ones(1)
    free = [axis for axis, seen in enumerate(workload.seen) if seen and not roots[axis]]
    single = [axis for axis in free if not sets[axis]]
    shapes = frozenset(tuple(shape[axis] for axis in single) for shape in workload.single_shapes)
    sizes = tuple(workload.axes[axis].size for axis in single)
    of_singles = best_levels(sizes, shapes)
    for axis in free:
        if sets[axis]:
            squares = np.outer(best_precisions(workload.axes[axis].size), squares).reshape(-1)
        else:
            squares = np.outer(np.ones(2), squares).reshape(-1)
    picks = np.zeros(len(squares), dtype=np.int64)
    for place, axis in enumerate(free):
        if not sets[axis]:
            picks |= (np.arange(len(squares)) >> place & 1) << single.index(axis)
    levels: Vector = squares * of_singles[picks]
    return levels


@lru_cache(maxsize=256)
def best_levels(sizes: tuple[int, ...], shapes: frozenset[Shape]) -> Vector:
    """Returns the squared levels p_S of least price that give single values of these combinations the variance 1.

    The price is sum c_S p_S, the variance of a combination sum N_S / p_S over its sets of axes. With weights l of the
    combinations, the sum over S of sqrt(c_S (N^T l)_S), squared, is at most the least price. Its maximum is found by
    multiplying weights with its gradient, which is Titterington's rule for optimal designs.
    """
    sets = range(1 << len(sizes))
    parts = np.array([[1 / size, 1 - 1 / size] for size in sizes]).reshape(-1, 2)
    shares = np.array([prod(parts[axis, kept >> axis & 1] for axis in range(len(sizes))) for kept in sets])
    if len(shapes) > MAX_SHAPES or len(shapes) == 1 << len(sizes):  # of all combinations: a product
        every = [(float(size), size / (size + 1)) for size in sizes]
        return np.array([prod(own[kept >> axis & 1] for axis, own in enumerate(every)) for kept in sets])
    tables = [{Kind.WHOLE: (float(size), 0.0), Kind.SINGLE: (1 / size, 1 - 1 / size)} for size in sizes]
    norms = np.array(
        [[prod(tables[axis][kind][kept >> axis & 1] for axis, kind in enumerate(shape)) for kept in sets]
         for shape in sorted(shapes)]
    )  # fmt: skip
    weights = np.full(len(norms), 1 / len(norms))
    for _ in range(MAX_STEPS):
        mixed = weights @ norms
        inverse = np.sqrt(np.divide(shares, mixed, out=np.zeros(len(mixed)), where=mixed > 0))
        gradient = norms @ inverse / float(np.sqrt(shares * mixed).sum())
        if gradient.max() < CLOSE_ENOUGH:
            break
        weights *= gradient
        weights /= weights.sum()
    inverse /= float((norms @ inverse).max())
    levels: Vector = np.divide(1, inverse, out=np.zeros(len(inverse)), where=inverse > 0)
    return levels
