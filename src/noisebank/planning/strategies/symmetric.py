"""`SymmetricRows`: the rows of several axes whose values are all asked alike, together.

A sum over sets B of axes of h_B times (the identity on B, ones on all others). Such matrices commute: each multiplies
what only a set S of axes together tells, beyond all smaller sets, with one number, its *level*. Sets of axes are bits,
the first axis the lowest. Proof: docs/proofs/strategies.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np

from noisebank.planning.linear import Vector
from noisebank.planning.strategies.axes import Whole

Values = TypeVar("Values", Whole, Vector)
LEVEL_BITS = 48
"""Of the scale of rows that are rounded from levels: far below what anybody could measure."""
LEAST_LEVEL = 2.0**-32
"""Of the largest level."""


class SymmetricRows:
    """See `AxisRows`. One coefficient per set of axes, whole numbers; a level of 0 is not measured."""

    def __init__(self, sizes: Sequence[int], coefficients: Sequence[int], scale: int) -> None:
        self.sizes, self.coefficients, self.scale = tuple(sizes), tuple(coefficients), scale
        self.row_count = prod(self.sizes)

    @cached_property
    def squares(self) -> Whole:
        """See `AxisRows`. A column has the sum of all h_B in places that differ in no axis of B."""
        square = 0
        for differing in range(len(self.coefficients)):
            places = prod(size - 1 for axis, size in enumerate(self.sizes) if differing >> axis & 1)
            square += places * sum(h for kept, h in enumerate(self.coefficients) if not kept & differing) ** 2
        return np.full(self.row_count, square, dtype=object)

    @cached_property
    def levels(self) -> Vector:
        """The level of each set of axes, over the scale. What rounding has left of 0 is 0."""
        levels = np.array(self.coefficients, dtype=object)
        for axis, size in enumerate(self.sizes):
            halves = levels.reshape(-1, 2, 1 << axis)
            halves[:, 0] = halves[:, 1] + size * halves[:, 0]
        exact = np.array([level / self.scale for level in levels.tolist()])
        exact[np.abs(exact) < LEAST_LEVEL * float(np.abs(exact).max())] = 0.0
        return exact

    @cached_property
    def is_singular(self) -> bool:
        """Whether something is not measured."""
        return not self.levels.all()

    def multiply(self, values: Whole) -> Whole:
        """See `AxisRows`."""
        return _apply(values, self.sizes, self.coefficients)

    multiply_transposed = multiply

    def combine(self, values: Vector) -> Vector:
        """See `AxisRows`."""
        return self.apply_levels(values, self.levels)

    def solve_transposed(self, weights: Vector) -> Vector:
        """See `AxisRows`. What is not measured is left out."""
        inverse = np.divide(1, self.levels, out=np.zeros(len(self.levels)), where=self.levels != 0)
        return self.apply_levels(weights, inverse)

    def apply_levels(self, values: Vector, levels: Vector) -> Vector:
        """Returns values times the matrix with these levels, along the last axis."""
        return _apply(values, self.sizes, levels_to_coefficients(self.sizes, levels).tolist())


def rows_from_levels(sizes: Sequence[int], levels: Vector) -> SymmetricRows:
    """Returns rows with these levels, rounded."""
    scale = 1 << LEVEL_BITS
    coefficients = [round(h * scale) for h in levels_to_coefficients(sizes, levels).tolist()]
    return SymmetricRows(sizes, coefficients, scale)


def levels_to_coefficients(sizes: Sequence[int], levels: Vector) -> Vector:
    """Returns the h_B of a matrix with these levels. 0 for sets of which no larger one has a level."""
    coefficients = levels.astype(np.float64)
    for axis, size in enumerate(sizes):
        halves = coefficients.reshape(-1, 2, 1 << axis)
        halves[:, 0] = (halves[:, 0] - halves[:, 1]) / size
    return coefficients


def _apply(values: Values, sizes: tuple[int, ...], coefficients: Sequence[int] | Sequence[float]) -> Values:
    """Returns values times the matrix with these coefficients: totals over all but a set of axes, times its
    coefficient, are added to those of larger sets."""
    front, count = values.shape[:-1], len(sizes)
    if not count:
        scaled: Values = values * coefficients[0]
        return scaled
    totals = {len(coefficients) - 1: values.reshape(*front, *sizes)}
    for kept in range(len(coefficients) - 2, -1, -1):
        axis = (~kept & kept + 1).bit_length() - 1  # the first that is not kept
        totals[kept] = totals[kept | 1 << axis].sum(axis=len(front) + axis, keepdims=True)
    sums = {kept: coefficients[kept] * total for kept, total in totals.items()}
    for kept in range(len(coefficients) - 1):
        axis = (~kept & kept + 1).bit_length() - 1
        sums[kept | 1 << axis] = sums[kept | 1 << axis] + sums.pop(kept)
    result: Values = sums[len(coefficients) - 1].reshape(values.shape)
    return result
