"""`LookStrategy`: the rows of a cube, as the Kronecker product of the rows of its axes. Prices and variances multiply.

Axes on which no question tells values apart are added up, and cost nothing.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.strategies.axes import Axis, Whole, find_rows, price_of

Values = TypeVar("Values", Whole, Vector)


class LookStrategy:
    """A square matrix H of whole numbers over the *parts* of a cube: cells that differ in seen axes only."""

    def __init__(self, axes: tuple[Axis, ...], seen: tuple[bool, ...]) -> None:
        self.axes, self.seen = axes, seen
        self.shape = tuple(axis.size for axis in axes)
        self._hidden = tuple(index for index, is_seen in enumerate(seen) if not is_seen)
        self._part_shape = tuple(axis.size for axis, is_seen in zip(axes, seen, strict=True) if is_seen)
        self._rows = [find_rows(axis) for axis, is_seen in zip(axes, seen, strict=True) if is_seen]
        self.cell_count, self.part_count = prod(self.shape), prod(self._part_shape)
        self.scale = prod(rows.scale for rows in self._rows)
        self.price = prod(price_of(rows) for rows in self._rows)
        """The largest charge of a cell at precision 1, at which every expected question has the variance 1 at most."""
        squares: Whole = np.ones(1, dtype=object)
        for rows in self._rows:
            squares = np.multiply.outer(squares, rows.squares)
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
        questions have the covariance of their dot product."""
        halved: Vector = self._along_axes(weights, "solve_transposed")
        return halved

    def part_weights(self, query: LinearQuery) -> Vector | None:
        """Returns the weights of the parts; None if the query tells cells of one part apart."""
        return self.weights_of_parts(query.dense_weights)

    def weights_of_parts(self, weights: Vector) -> Vector | None:
        """The same for weights of the cells."""
        if not self._hidden:
            return weights
        cells = weights.reshape(self.shape)
        first = cells[tuple(slice(0, 1) if axis in self._hidden else slice(None) for axis in range(cells.ndim))]
        return first.reshape(-1) if bool((cells == first).all()) else None

    def add_parts(self, cells: Whole) -> Whole:
        """Returns the totals of the parts."""
        totals: Whole = cells.reshape(self.shape).sum(axis=self._hidden) if self._hidden else cells
        return np.asarray(totals, dtype=object).reshape(-1)

    def spread_parts(self, values: Values) -> Values:
        """Returns for each cell the value of its part."""
        sizes = [size if is_seen else 1 for size, is_seen in zip(self.shape, self.seen, strict=True)]
        return np.broadcast_to(values.reshape(sizes), self.shape).reshape(-1)

    def _along_axes(self, values: Values, method: str) -> Values:
        front = values.shape[:-1]
        folded: Any = values.reshape(*front, *self._part_shape)
        for index, rows in enumerate(self._rows):
            axis = len(front) + index
            folded = np.moveaxis(getattr(rows, method)(np.moveaxis(folded, axis, -1)), -1, axis)
        joined: Values = folded.reshape(*front, self.part_count)
        return joined


@lru_cache(maxsize=64)
def find_strategy(axes: tuple[Axis, ...], seen: tuple[bool, ...]) -> LookStrategy:
    """Returns the strategy for questions that tell values of the `seen` axes apart."""
    return LookStrategy(axes, seen)


def seen_axes(shape: tuple[int, ...], query: LinearQuery) -> tuple[bool, ...]:
    """Returns which axes a query tells values of apart."""
    cells = query.dense_weights.reshape(shape)
    return tuple(size > 1 and bool((cells != cells.take([0], axis=axis)).any()) for axis, size in enumerate(shape))
