"""`Look`: one measurement of a whole cube; `find_missing` finds the one that adds only what is not known already.

With H the rows of a strategy and q_i the directions (in the coordinates u of `LookStrategy.halve`) that are known with
information k_i, a look at precision P needs P - min(P, k_i) along q_i. So its rows are (I - sum c_i q_i q_i^T) H, in
whole numbers: 2^20 H - V^T C, with V the rounded directions and C the rounded products c_i V_i H. Proof:
docs/proofs/strategies.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt, sqrt
from typing import Any

import numpy as np

from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import Precision
from noisebank.planning.linear import Vector
from noisebank.planning.strategies.axes import Axis, Whole
from noisebank.planning.strategies.kronecker import LookStrategy, strategy_from_json

MAX_SCALE_BITS = 36
"""Of the values that noise is added to: the sampler holds noise of 2^57 steps."""
ROW_SCALE = 2**20
FACTOR_SCALE = 2**30
MIN_LEFT_OUT = 1e-4
"""Directions of which less is known already are measured as a whole."""
MAX_WORK = 2**24
"""In cells times the square of the directions left out: what the exact charges take."""


@dataclass(frozen=True, eq=False)
class Look:
    """What is measured: each row of whole numbers with noise of the same variance."""

    strategy: LookStrategy
    precision: Precision
    directions: Whole
    """V: one row of whole numbers per direction that is known already, ROW_SCALE times as long as a unit vector."""
    factors: tuple[int, ...]
    """c: how much of each is left out, in units of 1/FACTOR_SCALE."""

    @property
    def scale(self) -> int:
        """What the rows are multiples of."""
        return ROW_SCALE * self.strategy.scale

    @property
    def dropped_bits(self) -> int:
        """How many low bits of a row's value are rounded away before noise is added."""
        return max(0, self.scale.bit_length() - MAX_SCALE_BITS)

    @property
    def noise_scale(self) -> Fraction:
        """Of the rounded values: noise of variance noise_scale^2 / precision for cells that move by 1."""
        return Fraction(self.scale, 1 << self.dropped_bits)

    @cached_property
    def left_out(self) -> Whole:
        """C: what is subtracted, as weights of the parts."""
        if not self.factors:
            return np.zeros((0, self.strategy.part_count), dtype=object)
        half, unit = FACTOR_SCALE * ROW_SCALE // 2, FACTOR_SCALE * ROW_SCALE
        scaled = self._products * np.array(self.factors, dtype=object)[:, None]
        rounded: Whole = (scaled + half) // unit
        return rounded

    @cached_property
    def _products(self) -> Whole:
        """V H."""
        return self.strategy.multiply_transposed(self.directions)

    def round_values(self, cells: Whole) -> Whole:
        """Returns the value of each row for whole totals of the cells, without its low bits."""
        half = (1 << self.dropped_bits) // 2
        rounded: Whole = (self.sum_rows(cells) + half) >> self.dropped_bits
        return rounded

    def sum_rows(self, cells: Whole) -> Whole:
        """Returns the exact value of each row, for whole totals of the cells."""
        parts = self.strategy.add_parts(cells)
        values: Whole = ROW_SCALE * self.strategy.multiply(parts)
        if self.factors:
            values = values - self.left_out.dot(parts).dot(self.directions)
        return values

    @cached_property
    def charges(self) -> Whole:
        """The charge of each part as a share of the precision, in units of 1/WHOLE_WEIGHT: from the rows, exactly.

        Rounding moves each row by one step more, at most: the length of a column by the root of the number of rows.
        """
        squares: Whole = ROW_SCALE**2 * self.strategy.squares
        if self.factors:
            mixed = self.directions.dot(self.directions.T).dot(self.left_out)
            squares = squares + ((mixed - 2 * ROW_SCALE * self._products) * self.left_out).sum(axis=0)
        if self.dropped_bits:
            squares = np.array(
                [(isqrt(int(square)) + 1 + self.rounding_slack) ** 2 for square in squares], dtype=object
            )
        charges: Whole = -(-squares * WHOLE_WEIGHT // self.scale**2)
        return charges

    @property
    def rounding_slack(self) -> int:
        """By how much rounding can lengthen what one person changes, in units of the rows."""
        return (isqrt(self.strategy.part_count) + 1) << self.dropped_bits if self.dropped_bits else 0

    @property
    def information(self) -> Vector:
        """R^T R / scale^2 over the cells, as a matrix: for cubes that are small enough."""
        rows = self.rows_over_cells()
        information: Vector = rows.T @ rows
        return information

    def rows_over_cells(self) -> Vector:
        """Returns R / scale over the cells: for cubes that are small enough."""
        size, strategy = self.strategy.part_count, self.strategy
        rows = strategy.combine(np.eye(size))
        if self.factors:
            rows -= (self.directions.T.astype(np.float64) / ROW_SCALE) @ (
                self.left_out.astype(np.float64) / strategy.scale
            )
        parts = np.asarray(strategy.spread_parts(np.arange(size, dtype=object)), dtype=np.int64)
        over_cells: Vector = rows[:, parts]
        return over_cells

    def to_json(self) -> dict[str, Any]:
        """Returns what is sealed of it: all that its rows follow from."""
        return {
            **self.strategy.to_json(),
            "precision": self.precision.units,
            "directions": self.directions.tolist(),
            "factors": list(self.factors),
            "draws": self.strategy.part_count,
        }


def look_from_json(fields: Mapping[str, Any], axes: tuple[Axis, ...]) -> Look:
    """Returns the look that was sealed."""
    strategy = strategy_from_json(fields, axes)
    directions: Whole = np.empty((len(fields["factors"]), strategy.part_count), dtype=object)
    for index, row in enumerate(fields["directions"]):
        directions[index] = [int(value) for value in row]
    return Look(strategy, Precision(fields["precision"]), directions, tuple(int(c) for c in fields["factors"]))


@dataclass(frozen=True, slots=True)
class MissingLook:
    """What a look at some precision would add to what is known."""

    strategy: LookStrategy
    precision: Precision
    directions: Vector
    """Orthonormal rows that are known in part."""
    factors: Vector
    """How much of each is left out."""

    @property
    def estimated_charges(self) -> Vector:
        """The charge of each part as a share of the precision, by floats: to see whether it could be worth it."""
        squares = self.strategy.squares.astype(np.float64) / float(self.strategy.scale) ** 2
        products = self.strategy.combine(self.directions)
        estimated: Vector = squares - (self.factors * (2 - self.factors)) @ (products * products)
        return estimated

    def round_rows(self) -> Look:
        """Returns the look that is measured."""
        rounded = np.rint(self.directions * ROW_SCALE).astype(np.int64).astype(object)
        factors = tuple(round(factor * FACTOR_SCALE) for factor in self.factors.tolist())
        return Look(self.strategy, self.precision, rounded, factors)


def find_missing(strategy: LookStrategy, precision: Precision, directions: Vector, information: Vector) -> MissingLook:
    """Returns the look after which everything is known as if it had been looked at with this precision.

    `information` is what is known along the rows of `directions`, which are orthonormal, and of nothing else.
    """
    aim = float(precision)
    factors = 1 - np.sqrt(np.clip((aim - information) / aim, 0, 1))
    most = int(sqrt(MAX_WORK / strategy.part_count))
    chosen = [index for index in np.argsort(-factors)[:most].tolist() if factors[index] > MIN_LEFT_OUT]
    left_out = directions[chosen].reshape(len(chosen), strategy.part_count)
    return MissingLook(strategy, precision, left_out, factors[chosen])
