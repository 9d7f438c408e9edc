"""Exact posteriors to compare with, in ball arithmetic, and workloads over cells."""

from __future__ import annotations

from itertools import product

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from noisebank import Precision
from support.internals import (
    Axis,
    LinearQuery,
    TreeEstimate,
    TreeMeasurement,
    pad_cells,
    padded_size,
    query_from_weights,
    range_query,
)


def random_query(generator: np.random.Generator, cells: int, kind: int) -> LinearQuery:
    """A range, a set of cells, or whole weights from -3 to 4."""
    if kind == 0:
        low, high = sorted(generator.choice(cells + 1, 2, replace=False).tolist())
        return range_query(cells, low, high)
    weights = generator.integers(0, 2, cells) if kind == 1 else generator.integers(-3, 5, cells)
    weights[generator.integers(cells)] = 1
    return query_from_weights(weights)[0]


def noisy_look(prefix: TreeMeasurement, cells: np.ndarray, generator: np.random.Generator) -> TreeEstimate:
    """A first look at these cells."""
    measured = {}
    for level, precision in prefix.level_precisions.items():
        nodes = prefix.node_sums(cells, level)
        measured[level] = nodes + generator.standard_normal(nodes.shape) / np.sqrt(float(precision))
    return prefix.estimate_cells(measured)


class Exact:
    """The information of all measurements, as rationals; padding counts as unknown, as in `TreeMeasurement`."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = int(np.prod([padded_size(size) for size in shape]))
        self.places = np.flatnonzero(pad_cells(np.ones(int(np.prod(shape))), shape).reshape(-1))
        self.information = fmpq_mat(self.size, self.size)

    def row(self, query: LinearQuery) -> fmpq_mat:
        weights = [0] * self.size
        for place, weight in zip(self.places.tolist(), query.dense_weights.tolist(), strict=True):
            weights[place] = int(weight)
        return fmpq_mat(1, self.size, weights)

    def add_look(self, prefix: TreeMeasurement) -> None:
        sides = [padded_size(size) for size in self.shape]
        cells = list(product(*(range(side) for side in sides)))
        for level, precision in prefix.level_precisions.items():
            exact = fmpq(precision.units, 10**18)
            homes = [tuple(at >> step for at, step in zip(cell, level, strict=True)) for cell in cells]
            for i, home in enumerate(homes):
                for j, other in enumerate(homes):
                    if home == other:
                        self.information[i, j] += exact

    def add(self, query: LinearQuery, precision: Precision) -> None:
        row = self.row(query)
        share = fmpq(precision.units, 10**18 * query.max_weight * query.max_weight)
        self.information += row.transpose() * row * share

    def variance(self, query: LinearQuery, bits: int = 400) -> float:
        """q^T J^-1 q, for a full information matrix."""
        from flint import ctx

        before, ctx.prec = ctx.prec, bits
        try:
            row = arb_mat(self.row(query))
            found = row * arb_mat(self.information).solve(row.transpose())
            ball: arb = found[0, 0]
            return float(ball.mid())
        finally:
            ctx.prec = before


AXES: dict[str, tuple[Axis, ...]] = {
    "tree": (Axis(32, True),),
    "ragged tree": (Axis(21, True),),
    "cells": (Axis(24, False),),
    "two axes": (Axis(6, True), Axis(3, False)),
    "one cell": (Axis(1, True),),
}
