"""`LookStrategy`: the rows of a cube, as the Kronecker product of the rows of its axes. Prices and variances multiply.

Axes on which no question tells values apart are added up, and cost nothing. Ordered axes of which ranges are asked have
a square root each; all others have `SymmetricRows` together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod, sqrt
from typing import Any, TypeVar

import numpy as np

from noisebank.planning.linear import Vector
from noisebank.planning.strategies.axes import (
    SCALE_BITS,
    Axis,
    AxisRows,
    Whole,
    find_root,
    is_cheaper_as_root,
    price_of,
    product_coefficients,
)
from noisebank.planning.strategies.symmetric import SymmetricRows, rows_from_levels
from noisebank.planning.strategies.workloads import Workload, root_axes, workload_levels

ENOUGH = 1 + 2.0**-20
"""Times the levels: what a look tells reaches its aim also by the planner's own margin for rounding."""
LEAST_LOST = 2.0**-36
"""Of the length of a query: less is rounding."""
Values = TypeVar("Values", Whole, Vector)


class LookStrategy:
    """A square matrix H of whole numbers over the *parts* of a cube: cells that differ in seen axes only."""

    def __init__(
        self, axes: tuple[Axis, ...], seen: Sequence[bool], roots: Sequence[bool], symmetric: SymmetricRows
    ) -> None:
        self.axes, self.seen, self.roots, self.symmetric = axes, tuple(seen), tuple(roots), symmetric
        self.shape = tuple(axis.size for axis in axes)
        self._hidden = tuple(index for index, is_seen in enumerate(seen) if not is_seen)
        self._part_shape = tuple(axis.size for axis, is_seen in zip(axes, seen, strict=True) if is_seen)
        kinds = [root for root, is_seen in zip(roots, seen, strict=True) if is_seen]
        self._places = tuple(place for place, root in enumerate(kinds) if not root)
        """Of the symmetric axes, among the seen ones."""
        roots_seen = {place: find_root(self._part_shape[place]) for place, root in enumerate(kinds) if root}
        self._blocks: list[tuple[tuple[int, ...], AxisRows]] = [(self._places, symmetric)] if self._places else []
        self._blocks += [((place,), rows) for place, rows in roots_seen.items()]
        self.cell_count, self.part_count = prod(self.shape), prod(self._part_shape)
        self.scale = symmetric.scale * prod(rows.scale for rows in roots_seen.values())
        self.price = price_of(symmetric) * prod(price_of(rows) for rows in roots_seen.values())
        """The largest charge of a cell at precision 1, at which every expected question has the variance 1 at most."""
        squares: Whole = np.full(1, symmetric.squares[0], dtype=object)
        for place, size in enumerate(self._part_shape):
            own = roots_seen[place].squares if place in roots_seen else np.ones(size, dtype=object)
            squares = np.multiply.outer(squares, own)
        self.squares: Whole = squares.reshape(-1)

    def multiply(self, parts: Whole) -> Whole:
        """Returns H x for values of the parts, exactly; several at once along the first axes."""
        return self._along_axes(parts, "multiply")

    def multiply_transposed(self, rows: Whole) -> Whole:
        """Returns H^T v, exactly; several at once along the first axes."""
        return self._along_axes(rows, "multiply_transposed")

    def combine(self, values: Vector) -> Vector:
        """Returns H^T v / scale, by floats."""
        combined: Vector = self._along_axes(values, "combine")
        return combined

    def halve(self, weights: Vector) -> Vector:
        """Returns u = scale * H^-T w for weights w of the parts: |u|^2 is the variance at precision 1, and two
        questions have the covariance of their dot product. What is not measured is left out."""
        halved: Vector = self._along_axes(weights, "solve_transposed")
        return halved

    def drop_measured(self, weights: Vector) -> Vector:
        """Returns the part of weights that is not measured."""
        return self.along_symmetric(weights, (self.symmetric.levels == 0).astype(np.float64))

    def along_symmetric(self, values: Vector, levels: Vector) -> Vector:
        """Returns values of the parts times the symmetric matrix with these levels."""
        applied: Vector = self._along_block(
            values, self._places, lambda folded: self.symmetric.apply_levels(folded, levels)
        )
        return applied

    def weights_of_parts(self, weights: Vector) -> Vector | None:
        """Returns the weights of the parts for weights of the cells; None if cells of one part differ."""
        if not self._hidden:
            return weights
        cells = weights.reshape(self.shape)
        first = cells[tuple(slice(0, 1) if axis in self._hidden else slice(None) for axis in range(cells.ndim))]
        return first.reshape(-1) if bool((cells == first).all()) else None

    def known_weights(self, weights: Vector) -> Vector | None:
        """The same; None as well if the rows do not tell all of it."""
        parts = self.weights_of_parts(weights)
        if parts is None or not self.symmetric.is_singular:
            return parts
        lost = self.drop_measured(parts)
        return parts if float(np.linalg.norm(lost)) <= LEAST_LOST * float(np.linalg.norm(parts)) else None

    def add_parts(self, cells: Whole) -> Whole:
        """Returns the totals of the parts."""
        totals: Whole = cells.reshape(self.shape).sum(axis=self._hidden) if self._hidden else cells
        return np.asarray(totals, dtype=object).reshape(-1)

    def spread_parts(self, values: Values) -> Values:
        """Returns for each cell the value of its part."""
        return self.spread_over(values, (True,) * len(self.axes))

    def spread_over(self, values: Values, seen: Sequence[bool]) -> Values:
        """Returns for each part of a strategy that sees more axes the value of its part here; several at once along
        the first axes."""
        front: list[int] = list(values.shape[:-1])
        sizes = [size if is_seen else 1 for size, is_seen in zip(self.shape, self.seen, strict=True)]
        wider = [size if is_seen else 1 for size, is_seen in zip(self.shape, seen, strict=True)]
        return np.broadcast_to(values.reshape(front + sizes), front + wider).reshape([*front, prod(wider)])

    def levels_among(self, seen: Sequence[bool]) -> Vector:
        """Returns the symmetric levels, one per set of the axes of a strategy that sees more of them; such a strategy
        adds up over the others, which multiplies a level by the root of their sizes."""
        own = [axis for axis, root in enumerate(self.roots) if self.seen[axis] and not root]
        wider = [axis for axis, root in enumerate(self.roots) if seen[axis] and not root]
        levels, index = np.zeros(1 << len(wider)), np.arange(1 << len(wider))
        inside, picks = np.ones(len(index), dtype=bool), np.zeros(len(index), dtype=np.int64)
        for place, axis in enumerate(wider):
            if axis in own:
                picks |= (index >> place & 1) << own.index(axis)
            else:
                inside &= (index >> place & 1) == 0
        added = prod(self.shape[axis] for axis in wider if axis not in own)
        levels[inside] = self.symmetric.levels[picks[inside]] * sqrt(added)
        return levels

    def to_json(self) -> dict[str, Any]:
        """Returns all that the rows follow from."""
        fields: dict[str, Any] = {"seen": list(self.seen)}
        usual = find_strategy(self.axes, self.seen)
        if (self.roots, self.symmetric.coefficients) != (usual.roots, usual.symmetric.coefficients):
            fields |= {"roots": list(self.roots), "coefficients": list(self.symmetric.coefficients)}
            fields["scale"] = self.symmetric.scale
        return fields

    def _along_axes(self, values: Values, method: str) -> Values:
        for places, rows in self._blocks:
            values = self._along_block(values, places, getattr(rows, method))
        return values

    def _along_block(self, values: Any, places: tuple[int, ...], apply: Any) -> Any:
        """Returns values of the parts after applying a function along some axes, which it sees as one."""
        if len(places) == len(self._part_shape):
            return apply(values)  # one block of all axes: as they lie in memory
        front = values.shape[:-1]
        axes = tuple(len(front) + place for place in places)
        last = tuple(range(len(front) + len(self._part_shape) - len(axes), len(front) + len(self._part_shape)))
        folded = np.moveaxis(values.reshape(*front, *self._part_shape), axes, last)
        size = prod(self._part_shape[place] for place in places)
        applied = apply(folded.reshape(*folded.shape[: folded.ndim - len(axes)], size)).reshape(folded.shape)
        return np.moveaxis(applied, last, axes).reshape(*front, self.part_count)


@lru_cache(maxsize=64)
def find_strategy(axes: tuple[Axis, ...], seen: tuple[bool, ...]) -> LookStrategy:
    """Returns the strategy for questions about sets and ranges of the values of the `seen` axes."""
    roots = tuple(is_seen and is_cheaper_as_root(axis) for axis, is_seen in zip(axes, seen, strict=True))
    free = symmetric_sizes(axes, seen, roots)
    coefficients = [prod(pair) for pair in product(*map(product_coefficients, reversed(free)))]
    symmetric = SymmetricRows(free, coefficients, 1 << SCALE_BITS * len(free))
    return LookStrategy(axes, seen, roots, symmetric)


@lru_cache(maxsize=64)
def strategy_for(workload: Workload) -> LookStrategy:
    """Returns the strategy for all questions of a workload."""
    if all(wide or not seen for wide, seen in zip(workload.in_sets, workload.seen, strict=True)):
        return find_strategy(workload.axes, workload.seen)
    return strategy_of_levels(
        workload.axes, workload.seen, root_axes(workload), ENOUGH * np.sqrt(workload_levels(workload))
    )


def strategy_of_levels(
    axes: tuple[Axis, ...], seen: Sequence[bool], roots: Sequence[bool], levels: Vector
) -> LookStrategy:
    """Returns the strategy with these symmetric levels."""
    return LookStrategy(axes, seen, roots, rows_from_levels(symmetric_sizes(axes, seen, roots), levels))


def symmetric_sizes(axes: Sequence[Axis], seen: Sequence[bool], roots: Sequence[bool]) -> list[int]:
    """Returns the sizes of the seen axes that have no square root."""
    return [axis.size for axis, is_seen, root in zip(axes, seen, roots, strict=True) if is_seen and not root]


def strategy_from_json(fields: Mapping[str, Any], axes: tuple[Axis, ...]) -> LookStrategy:
    """Returns the strategy of a look that was sealed. Records without coefficients are about sets and ranges."""
    seen = tuple(bool(is_seen) for is_seen in fields["seen"])
    if "coefficients" not in fields:
        return find_strategy(axes, seen)
    roots = [bool(root) for root in fields["roots"]]
    coefficients = [int(h) for h in fields["coefficients"]]
    symmetric = SymmetricRows(symmetric_sizes(axes, seen, roots), coefficients, int(fields["scale"]))
    return LookStrategy(axes, seen, roots, symmetric)
