"""The first look at a cube: one measurement of nodes of all sizes, which later answers build on.

An ordered axis is measured as a binary tree: its cells, pairs, fours, up to the whole axis. An unordered one is
measured cell by cell, and as a whole if there are other axes (for queries over those only). Every cell lies in one
node of each level, so the price in each cell is the sum over the levels. Depends on the cube's public shape alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from math import prod, sqrt

import numpy as np

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import Precision
from noisebank.planning.haar import backward, crop, eigenvalues, forward, pad, padded, sparse
from noisebank.planning.linear import LinearQuery, Vector

DECAY = 0.9
"""Each level of a tree gets this much less than what is best for random ranges if nothing is measured later: wide
ranges that are paid for later fill in what the large nodes leave open. Best of five rules at 256 to 131,072 cells."""
WHOLE_AXIS = Fraction(4, 5)
"""The share of an unordered axis as a whole, for each 1 that its cells get."""
STEPS = 2**30
Level = tuple[int, ...]
"""Nodes of 2^l neighbouring cells, one l per axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One attribute of a cube: its bins or keys."""

    size: int
    ordered: bool

    def shares(self, alone: bool) -> tuple[Fraction, ...]:
        """Returns the share of each level in the price, which add up to 1; level l has nodes of 2^l cells."""
        depth = padded(self.size).bit_length() - 1
        if not depth or (alone and not self.ordered):
            return (Fraction(1),)
        weights = _tree(depth) if self.ordered else [Fraction(1), *([Fraction(0)] * (depth - 1)), WHOLE_AXIS]
        return tuple(weight / sum(weights) for weight in weights)


def _tree(depth: int) -> list[Fraction]:
    """Returns the shares of a tree's levels, cells first.

    A random range has coefficients of mean square C_m 2^m in the splits of 2^m cells, C_m = 1/6 - 2^(m - depth)/8,
    and of 2^depth/6 in the whole. With u_m = (precision of a coefficient) / 2^m the price is the sum of all u and
    the mean variance the sum of C/u, so u = sqrt C is best; the levels follow, 2 u_(l+1) - u_l.
    Proof: docs/proofs/inference.md.
    """
    best = [sqrt(1 / 6 - 2.0 ** (split - depth) / 8) for split in range(1, depth + 1)]
    shares = [2 * best[0], *(2 * high - low for low, high in pairwise(best)), sqrt(1 / 6) - best[-1]]
    return [Fraction(round(STEPS * share * DECAY**level)) for level, share in enumerate(shares)]


@dataclass(frozen=True)
class Prefix:
    """A first look that costs `precision` in every cell, times the factor of the account's neighbours."""

    axes: tuple[Axis, ...]
    precision: Precision
    factor: int = 1
    """The factor of the account's neighbours: `linear.replace_factor`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def cells(self) -> int:
        """Number of cells of the cube."""
        return prod(self.shape)

    @cached_property
    def levels(self) -> dict[Level, Precision]:
        """The precision of the nodes of each level; together at most `precision` per cell.

        A node's noise has the variance 1 / its precision, for statistics that one person changes by at most 1.
        """
        levels = product(*([level for level, share in enumerate(shares) if share] for shares in self._shares))
        return {level: Precision.floor(self.precision.exact * self._share(level)) for level in levels}

    @property
    def cost(self) -> Precision:
        """The price in every cell."""
        return Precision(self.precision.units * self.factor)

    @property
    def charges(self) -> tuple[CellRun, ...]:
        """One run over all cells: each is charged the whole price."""
        return (CellRun(0, self.cells, self.factor * WHOLE_WEIGHT),)

    @cached_property
    def strength(self) -> Vector:
        """The precision of each Haar coefficient, in the flattened padded basis. All are positive."""
        products = np.array(float(self.precision))
        for axis, shares in zip(self.axes, self._shares, strict=True):
            values = eigenvalues(tuple(float(share) for share in shares), padded(axis.size))
            products = np.multiply.outer(products, values)
        return products.reshape(-1)

    @cached_property
    def _shares(self) -> tuple[tuple[Fraction, ...], ...]:
        return tuple(axis.shares(alone=len(self.axes) == 1) for axis in self.axes)

    def _share(self, level: Level) -> Fraction:
        return prod((shares[at] for shares, at in zip(self._shares, level, strict=True)), start=Fraction(1))

    def variance(self, query: LinearQuery) -> float:
        """Returns the variance of the query's estimate from this first look alone."""
        indices, values = sparse(query, self.shape)
        return float(np.sum(values * values / self.strength[indices]))

    def nodes(self, values: Vector, level: Level) -> Vector:
        """Returns the sums of cell values that a level measures, in the order of its nodes."""
        sums = pad(values, self.shape)
        for axis, step in enumerate(level):
            parts = sums.shape[axis] >> step
            sums = sums.reshape(*sums.shape[:axis], parts, 1 << step, *sums.shape[axis + 1 :]).sum(axis=axis + 1)
        return sums

    def look(self, measured: Mapping[Level, Vector]) -> FirstLook:
        """Returns the best unbiased estimate of all cells from the measured nodes.

        Requires: for every level an array as from `node_sums`; nodes outside the cube may be 0.
        """
        pooled = np.zeros(tuple(padded(size) for size in self.shape))
        for level, precision in self.levels.items():
            wide = measured[level]
            for axis, step in enumerate(level):
                wide = np.repeat(wide, 1 << step, axis=axis)
            pooled += float(precision) * wide
        for axis in range(len(self.axes)):
            pooled = forward(pooled, axis)
        pooled /= self.strength.reshape(pooled.shape)
        for axis in range(len(self.axes)):
            pooled = backward(pooled, axis)
        return FirstLook(self, crop(pooled, self.shape))


@dataclass(frozen=True)
class FirstLook:
    """A first look that was measured: the estimates of all cells from it."""

    prefix: Prefix
    mean: Vector
    """The best estimate of each cell."""

    def coefficients(self, query: LinearQuery) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Vector]:
        """Returns the query in coordinates whose errors are independent and of variance 1: indices and values."""
        indices, values = sparse(query, self.prefix.shape)
        return indices, values / np.sqrt(self.prefix.strength[indices])
