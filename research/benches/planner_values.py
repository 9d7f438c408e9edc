"""Prices of pools of single values of combinations of columns: counts by place, by place and age, and the like.

Each question once, all to one accuracy, in random order; in prices of one question.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng
from noisebank.core.units import UNITS_PER_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights
from noisebank.planning.losses import plain_share
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.kronecker import strategy_for
from noisebank.planning.strategies.workloads import Workload, find_shape
from research.benches.histories import Desk

ONE = Precision(UNITS_PER_PRECISION)
Line = NDArray[np.int64]


@dataclass(frozen=True)
class ValuePool:
    """Questions that are products of one choice per column."""

    name: str
    axes: tuple[Axis, ...]
    questions: tuple[LinearQuery, ...]
    is_single: bool = True
    """Whether all ask for single values: then the least price is known."""


def list_pools() -> Iterator[ValuePool]:
    """The pools of the table, the first line first."""
    yield _pool_of_values("two of 4 x 4 x 3 x 3", (4, 4, 3, 3), (2,))
    yield _pool_of_values("two of 6 x 5 x 4", (6, 5, 4), (2,))
    yield _pool_of_values("two of 2 x 2 x 2 x 2 x 2 x 2", (2,) * 6, (2,))
    yield _pool_of_values("three of 3 x 3 x 2 x 2", (3, 3, 2, 2), (3,))
    yield _pool_of_values("one of 8 x 8 x 4 x 4", (8, 8, 4, 4), (1,))
    yield _pool_of_values("any of 4 x 3 x 3", (4, 3, 3), (0, 1, 2, 3))
    yield _pool_of_values("one, two of 16 (ordered) x 4", (16, 4), (1, 2), ordered=1)
    yield _pool_of_values("two of 4 x 4 x 3, not complete", (4, 4, 3), (2,), others=1)
    pairs = [_mark(6, chosen) for chosen in combinations(range(6), 2)]
    whole, fifths = np.ones(6, dtype=np.int64), [_mark(5, (value,)) for value in range(5)]
    both = list(product([*pairs, whole], [*fifths, np.ones(5, dtype=np.int64)]))[:-1]  # the last is everybody
    yield ValuePool("pairs of values of 6 x values of 5", _axes((6, 5)), _multiply(both), is_single=False)
    ranges = [_mark(16, range(low, high)) for low, high in combinations(range(17), 2)]
    fourths = [*(_mark(4, (value,)) for value in range(4)), np.ones(4, dtype=np.int64)]
    axes = Axis(16, True), Axis(4, False)
    yield ValuePool("ranges of 16 x values of 4", axes, _multiply(product(ranges, fourths)), is_single=False)


def price_values(orders: int) -> dict[str, Any]:
    """What each pool costs, where people come and go and where one takes another's place, and plain reuse beside it."""
    return {pool.name: price_pool(pool, orders) for pool in list_pools()}


def price_pool(pool: ValuePool, orders: int) -> dict[str, Any]:
    """What one pool costs."""
    found: dict[str, Any] = {"cells": prod(axis.size for axis in pool.axes), "questions": len(pool.questions)}
    if pool.is_single:
        shapes = (find_shape(pool.axes, query) for query in pool.questions)
        found["optimum"] = round(strategy_for(Workload(pool.axes).add_shapes(shapes)).price, 3)
    for name, replace_one in (("", False), ("_replace_one", True)):
        desks = [_ask_all(Desk(pool.axes, replace_one), pool.questions, order) for order in range(orders)]
        spent = [desk.spent / UNITS_PER_PRECISION for desk in desks]
        found[f"plain{name}"] = round(desks[0].plain_price, 3)
        found[f"online{name}"], found[f"online{name}_max"] = round(statistics.mean(spent), 3), round(max(spent), 3)
    return found


def _ask_all(desk: Desk, questions: Sequence[LinearQuery], order: int) -> Desk:
    for index in simulation_rng(order).permutation(len(questions)).tolist():
        if not desk.statistic.replace_one or plain_share([questions[index]], desk.statistic.values):
            desk.ask(questions[index], ONE)  # of everybody: public where one takes another's place
    return desk


def _pool_of_values(
    name: str, sizes: tuple[int, ...], counts: tuple[int, ...], ordered: int = 0, others: int = 0
) -> ValuePool:
    """Single values of every combination of so many columns. `ordered` columns come first; each column has `others`
    more values that nobody asks about."""
    chosen = []
    for count in counts:
        for columns in combinations(range(len(sizes)), count):
            lines = [
                [_mark(size + others, (value,)) for value in range(size)]
                if column in columns
                else [np.ones(size + others, dtype=np.int64)]
                for column, size in enumerate(sizes)
            ]
            chosen += list(product(*lines))
    return ValuePool(name, _axes([size + others for size in sizes], ordered), _multiply(chosen))


def _axes(sizes: Sequence[int], ordered: int = 0) -> tuple[Axis, ...]:
    return tuple(Axis(size, place < ordered) for place, size in enumerate(sizes))


def _mark(size: int, chosen: Sequence[int]) -> Line:
    line = np.zeros(size, dtype=np.int64)
    line[list(chosen)] = 1
    return line


def _multiply(products: Any) -> tuple[LinearQuery, ...]:
    """Returns the query of each product of lines."""
    queries = []
    for lines in products:
        weights = np.ones(1, dtype=np.int64)
        for line in lines:
            weights = np.kron(weights, line)
        queries.append(query_from_weights(weights)[0])
    return tuple(queries)
