"""Exact posteriors to compare with, in ball arithmetic, and workloads over cells."""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat

from noisebank import Precision
from support.internals import (
    Axis,
    LinearQuery,
    Look,
    MeasuredLook,
    find_strategy,
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


def whole_look(axes: tuple[Axis, ...], precision: Precision) -> Look:
    """A look at all axes, of which nothing is left out."""
    strategy = find_strategy(axes, (True,) * len(axes))
    return Look(strategy, precision, np.zeros((0, strategy.part_count), dtype=object), ())


def noisy_look(look: Look, cells: np.ndarray, generator: np.random.Generator, noise: bool = True) -> MeasuredLook:
    """A look at these cells."""
    exact = look.sum_rows(np.rint(cells).astype(np.int64).astype(object)).astype(np.float64) / look.scale
    return MeasuredLook(look, exact + noise * generator.standard_normal(len(exact)) / np.sqrt(float(look.precision)))


class Exact:
    """The information of all measurements, as rationals."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.size = int(np.prod(shape))
        self.information = fmpq_mat(self.size, self.size)

    def row(self, query: LinearQuery) -> fmpq_mat:
        return fmpq_mat(1, self.size, [int(weight) for weight in query.dense_weights])

    def add_look(self, look: Look) -> None:
        units = np.eye(self.size, dtype=np.int64).astype(object)
        columns = [look.sum_rows(unit) for unit in units]
        rows = fmpq_mat(
            len(columns[0]), self.size, [int(column[row]) for row in range(len(columns[0])) for column in columns]
        )
        share = fmpq(look.precision.units, 10**18 * look.scale**2)
        self.information += rows.transpose() * rows * share

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
