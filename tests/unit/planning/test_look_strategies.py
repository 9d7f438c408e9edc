"""Strategies: prices, whole-numbered rows, completions, and least squares on exactly what was measured."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import Precision
from noisebank.planning.linear import query_from_weights, range_query
from noisebank.planning.strategies.axes import Axis as CubeAxis
from noisebank.planning.strategies.axes import AxisRows, SquareRootRows, price_of
from noisebank.planning.strategies.kronecker import find_strategy
from noisebank.planning.strategies.looks import find_missing, look_from_json
from research.benches.histories import Desk

ONE = Precision(10**18)


def set_rows(size: int) -> AxisRows:
    """The rows that know all sets of so many values."""
    return find_strategy((CubeAxis(size, False),), (True,)).symmetric


def matrix(rows: AxisRows, size: int) -> np.ndarray:
    columns = [rows.multiply(unit) for unit in np.eye(size, dtype=np.int64).astype(object)]
    return np.array(columns, dtype=object).T.astype(float)


@pytest.mark.parametrize(("size", "price"), [(2, 4 / 3), (3, 1.8), (4, 2.25), (5, 2.5714), (6, 2.9610)])
def test_sets_of_values_cost_the_optimum(size: int, price: float) -> None:
    rows = set_rows(size)
    assert price_of(rows) == pytest.approx(price, rel=1e-4)
    worst = 0.0
    for bits in range(1, 2**size):
        halved = rows.solve_transposed(np.array([float(bits >> place & 1) for place in range(size)]))
        worst = max(worst, float(halved @ halved))
    assert worst == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 200])
@pytest.mark.parametrize("kind", [set_rows, SquareRootRows])
def test_rows_are_what_they_say(kind: Callable[[int], AxisRows], size: int) -> None:
    rows, generator = kind(size), np.random.default_rng(size)
    dense = matrix(rows, size)
    assert (dense * dense).sum(axis=0) == pytest.approx(rows.squares.astype(float))
    weights = generator.standard_normal((3, size))
    assert rows.solve_transposed(weights) @ dense == pytest.approx(
        rows.scale * weights, rel=1e-9, abs=1e-6 * rows.scale
    )
    values = np.array([int(value) for value in generator.integers(-(2**40), 2**40, size)], dtype=object)
    assert rows.multiply_transposed(values).astype(float) == pytest.approx(dense.T @ values.astype(float), rel=1e-9)
    assert rows.combine(values.astype(float)) * rows.scale == pytest.approx(dense.T @ values.astype(float), rel=1e-6)


def test_ranges_over_1024_values_cost_16_and_every_value_the_same() -> None:
    rows, generator = SquareRootRows(1024), np.random.default_rng(0)
    assert 15.9 < price_of(rows) < 16.1
    assert max(rows.squares) / min(rows.squares) < 1.0001
    for _ in range(100):
        low, high = sorted(generator.choice(1025, 2, replace=False).tolist())
        halved = rows.solve_transposed((np.arange(1024) >= low) * (np.arange(1024) < high) * 1.0)
        assert float(halved @ halved) < 1.005


@pytest.mark.parametrize("axes", [((3, False), (4, False)), ((7, True), (3, False)), ((12, True),)])
def test_a_completion_adds_what_is_missing_and_is_charged_by_its_columns(axes: tuple[tuple[int, bool], ...]) -> None:
    strategy = find_strategy(tuple(CubeAxis(*axis) for axis in axes), (True,) * len(axes))
    size, generator = strategy.part_count, np.random.default_rng(1)
    paid = (generator.random((4, size)) < 0.5).astype(float)
    paid[:, 0] = 1
    halved = strategy.halve(paid) * 0.7
    information, mixes = np.linalg.eigh(halved @ halved.T)
    missing = find_missing(strategy, ONE, (mixes.T @ halved) / np.sqrt(information)[:, None], information)
    look = missing.round_rows()
    rows = look.rows_over_cells()
    exact = np.array([look.sum_rows(unit) for unit in np.eye(size, dtype=np.int64).astype(object)], dtype=object).T
    assert rows == pytest.approx(exact.astype(float) / look.scale, abs=1e-9)
    squares = (exact * exact).sum(axis=0)  # whole numbers
    for charge, square in zip(look.charges, squares, strict=True):
        assert charge * look.scale**2 >= square * WHOLE_WEIGHT
    assert look.charges.astype(float) / WHOLE_WEIGHT == pytest.approx((rows * rows).sum(axis=0), rel=1e-6)
    assert missing.estimated_charges == pytest.approx(look.charges.astype(float) / WHOLE_WEIGHT, rel=1e-4)
    whole = np.linalg.inv(strategy.halve(np.eye(size)) @ strategy.halve(np.eye(size)).T)
    after = rows.T @ rows + 0.49 * paid.T @ paid
    least = np.linalg.eigvals(np.linalg.solve(whole, after)).real.min()
    assert least == pytest.approx(1, abs=1e-4)
    again = look_from_json(look.to_json(), strategy.axes)
    assert (again.charges == look.charges).all() and again.precision == look.precision


def test_stated_variances_are_those_of_least_squares_for_200_shapes() -> None:
    """On exactly the measured rows, with and without looks, "none of them" like any other cell."""
    generator, looked = np.random.default_rng(2), 0
    for number in range(200):
        axes = tuple(
            CubeAxis(int(generator.integers(1, 6)), bool(generator.integers(2))) for _ in range(1 + number % 3)
        )
        size = prod(axis.size for axis in axes)
        expected = (True,) * len(axes) if number % 2 else ()
        desk = Desk(axes, expected=expected, exact=True, seed=number)
        for _ in range(6):
            weights = (generator.random(size) < 0.5).astype(np.int64)
            weights[generator.integers(size)] = 1
            desk.ask(query_from_weights(weights)[0], Precision(int(10 ** generator.uniform(15, 17))))
        looked += desk.look_count > 0
        assert desk.information is not None
        covariance = np.linalg.pinv(desk.information, rcond=1e-10, hermitian=True)
        asked = [entry.query for entry in desk.knowledge.measurements][:3]
        for query in (*asked, query_from_weights([1] * size)[0]):
            weights = query.dense_weights
            if np.linalg.norm(desk.information @ covariance @ weights - weights) > 1e-6:
                continue  # not determined
            known = desk.knowledge.latest.infer(query)
            assert known is not None and known.variance == pytest.approx(
                float(weights @ covariance @ weights), rel=1e-6
            )
    assert looked > 50


def test_a_workload_that_is_too_large_for_a_look_leaves_looks_to_be_earned() -> None:
    """2^18 cells are more than a look may have. Questions about one axis earn one at that axis."""
    desk = Desk((CubeAxis(1024, True), CubeAxis(256, True)), expected=(True, True))
    for start in range(1, 400, 9):
        desk.ask(range_query(1024 * 256, 256 * start, 256 * 1024), Precision(10**16))
    assert desk.look_count == 1 and desk.knowledge.looks[0].look.strategy.seen == (True, False)
