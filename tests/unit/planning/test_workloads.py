"""Looks for single values: shaped by what has been asked, grown by what is missing, exact in all they state."""

from __future__ import annotations

import json
from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import UNITS_PER_PRECISION, Precision
from noisebank.planning.linear import LinearQuery, query_from_weights
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.kronecker import find_strategy, strategy_for
from noisebank.planning.strategies.looks import look_from_json
from noisebank.planning.strategies.symmetric import SymmetricRows
from noisebank.planning.strategies.workloads import Kind, Shape, Workload, find_shape, shapes_of_sets, shapes_of_values
from research.benches.histories import Desk, Fairness, play

WHOLE, SINGLE, SETS = Kind.WHOLE, Kind.SINGLE, Kind.SETS
ONE = Precision(UNITS_PER_PRECISION)


def keyed(*sizes: int) -> tuple[Axis, ...]:
    return tuple(Axis(size, False) for size in sizes)


def product_query(sizes: tuple[int, ...], chosen: list[list[int]]) -> LinearQuery:
    cells = np.zeros(sizes, dtype=np.int64)
    cells[np.ix_(*chosen)] = 1
    return query_from_weights(cells.reshape(-1))[0]


def query_of(sizes: tuple[int, ...], shape: Shape, generator: np.random.Generator) -> LinearQuery:
    """A random question of a shape."""
    chosen = []
    for size, kind in zip(sizes, shape, strict=True):
        count = {WHOLE: size, SINGLE: 1, SETS: int(generator.integers(1, size + 1))}[kind]
        chosen.append(sorted(generator.choice(size, count, replace=False).tolist()))
    return product_query(sizes, chosen)


def pairs_of(count: int) -> frozenset[Shape]:
    """Single values of each pair of axes."""
    return frozenset(
        tuple(SINGLE if axis in pair else WHOLE for axis in range(count)) for pair in combinations(range(count), 2)
    )


def test_a_question_has_a_shape() -> None:
    axes = (*keyed(3, 2), Axis(4, True))
    assert find_shape(axes, product_query((3, 2, 4), [[1], [0, 1], [2, 3]])) == (SINGLE, WHOLE, SETS)
    assert find_shape(axes, product_query((3, 2, 4), [[0, 1, 2], [1], [3]])) == (WHOLE, SINGLE, SINGLE)
    either = np.zeros((3, 2, 4), dtype=np.int64)
    either[0], either[:, 1] = 1, 1
    assert find_shape(axes, query_from_weights(either.reshape(-1))[0]) == (SETS, SETS, WHOLE)
    weighted = np.ones((3, 2, 4), dtype=np.int64)
    weighted[0] = 2
    assert find_shape(axes, query_from_weights(weighted.reshape(-1))[0]) == (SETS, WHOLE, WHOLE)


@pytest.mark.parametrize(
    ("sizes", "shapes", "price"),
    [
        ((5,), [(SINGLE,)], 1),
        ((5,), [(SINGLE,), (WHOLE,)], 10 / 6),
        ((8, 8, 4, 4), pairs_of(4), 4.4389),  # the dual's value: no Gaussian mechanism has less
        ((2,) * 6, pairs_of(6), 4.3442),
        ((4, 6), shapes_of_values(keyed(4, 6)), 8 / 5 * 12 / 7),
    ],
)
def test_single_values_cost_the_optimum(sizes: tuple[int, ...], shapes: list[Shape], price: float) -> None:
    workload = Workload(keyed(*sizes), frozenset(shapes))
    strategy, generator = strategy_for(workload), np.random.default_rng(0)
    assert strategy.price == pytest.approx(price, rel=1e-3)
    variances = []
    for shape in shapes:
        weights = strategy.known_weights(query_of(sizes, shape, generator).dense_weights)
        assert weights is not None
        variances.append(float(np.sum(strategy.halve(weights) ** 2)))
    assert max(variances) == pytest.approx(1, rel=1e-3)


def test_sets_of_values_are_looked_at_as_before() -> None:
    axes = (*keyed(3, 2), Axis(16, True))
    asked = Workload(axes, frozenset([(SETS, WHOLE, WHOLE), (WHOLE, SINGLE, SETS)]))
    assert asked.in_sets == (True, True, True)  # both values of an axis of two
    assert strategy_for(asked) is find_strategy(axes, (True, True, True))
    assert strategy_for(asked).to_json() == {"seen": [True, True, True]}
    assert Workload(axes, shapes_of_sets(axes, (True,) * 3)).covers(asked)
    assert not Workload(axes, shapes_of_values(axes)).covers(asked)


@pytest.mark.parametrize("sizes", [(4,), (3, 2), (2, 3, 4)])
def test_symmetric_rows_are_what_they_say(sizes: tuple[int, ...]) -> None:
    generator, size = np.random.default_rng(1), prod(sizes)
    coefficients = [int(h) for h in generator.integers(-50, 500, 1 << len(sizes))]
    rows = SymmetricRows(sizes, coefficients, 100)
    dense = np.zeros((size, size))
    for kept, h in enumerate(coefficients):
        part = np.ones((1, 1))
        for axis, count in enumerate(sizes):
            part = np.kron(part, np.eye(count) if kept >> axis & 1 else np.ones((count, count)))
        dense += h * part
    values = generator.integers(-(2**30), 2**30, (2, size)).astype(object)
    assert rows.multiply(values).astype(float) == pytest.approx(values.astype(float) @ dense)
    assert (dense**2).sum(axis=0) == pytest.approx(rows.squares.astype(float))
    weights = generator.standard_normal(size)
    assert rows.solve_transposed(weights) @ dense == pytest.approx(100 * weights)
    assert sorted({round(float(level), 6) for level in rows.levels}) == pytest.approx(
        sorted({round(float(level), 6) for level in np.linalg.eigvalsh(dense / 100)}), abs=1e-5
    )


def test_all_pairs_of_values_are_answered_near_the_optimum() -> None:
    """Asked in a random order, to the same accuracy: without such looks they cost 6, the optimum is 3.16."""
    sizes, generator = (4, 4, 3, 3), np.random.default_rng(3)
    choices = {SINGLE: lambda size: [[key] for key in range(size)], WHOLE: lambda size: [list(range(size))]}
    pool = {
        product_query(sizes, list(chosen))
        for shape in pairs_of(4)
        for chosen in product(*(choices[kind](size) for size, kind in zip(sizes, shape, strict=True)))
    }
    desk, fairness = Desk(keyed(*sizes), exact=True), Fairness()
    asked = sorted(pool, key=lambda query: query.key)
    play(desk, [(asked[index], ONE) for index in generator.permutation(len(asked)).tolist()], fairness)
    assert fairness.is_fair, fairness
    optimum = strategy_for(Workload(keyed(*sizes), pairs_of(4))).price
    assert desk.spent <= 1.7 * optimum * UNITS_PER_PRECISION


def test_stated_variances_are_least_squares_when_kinds_grow() -> None:
    """Single values first, then sets and other combinations: on exactly the measured rows, also of what no look has
    measured."""
    generator, looked, kinds = np.random.default_rng(4), 0, 0
    for number in range(60):
        sizes = tuple(int(size) for size in generator.integers(2, 5, 1 + number % 3))
        axes = tuple(Axis(size, bool(generator.integers(2))) for size in sizes)
        desk = Desk(axes, exact=True, seed=number)
        asked = []
        for step in range(14):
            most = SINGLE if step < 9 else SETS
            shape = tuple(Kind(int(generator.integers(most + 1))) for _ in sizes)
            if any(shape):
                query = query_of(sizes, shape, generator)
            else:
                query = query_from_weights([1, *(generator.random(prod(sizes) - 1) < 0.5).astype(int).tolist()])[0]
            asked.append(query)
            desk.ask(query, Precision(int(10 ** generator.uniform(16, 18))))
        looked += desk.look_count > 0
        kinds += len({look.look.strategy for look in desk.knowledge.looks}) > 1
        assert desk.information is not None
        covariance = np.linalg.pinv(desk.information, rcond=1e-10, hermitian=True)
        for query in asked:
            weights = query.dense_weights
            assert np.linalg.norm(desk.information @ covariance @ weights - weights) < 1e-6
            known = desk.knowledge.latest.infer(query)
            assert known is not None and known.variance == pytest.approx(
                float(weights @ covariance @ weights), rel=1e-6
            ), (number, sizes, axes)
    assert looked > 40 and kinds > 20


@pytest.mark.parametrize(
    ("sizes", "ordered"), [((16, 4), (True, False)), ((6, 5, 4), (False,) * 3), ((2,) * 5, (False,) * 5)]
)
def test_what_no_look_has_measured_stays_unknown(sizes: tuple[int, ...], ordered: tuple[bool, ...]) -> None:
    """Many measurements that looks know in part or not at all: directions that are mixed would be stated as known."""
    generator = np.random.default_rng(7)
    axes = tuple(Axis(*axis) for axis in zip(sizes, ordered, strict=True))
    desk, asked, shapes = Desk(axes, exact=True), [], sorted(shapes_of_values(axes))
    for _ in range(60):
        asked.append(query_of(sizes, shapes[int(generator.integers(1, len(shapes)))], generator))
        desk.ask(asked[-1], Precision(int(10 ** generator.uniform(16, 18))))
    assert desk.look_count and desk.information is not None
    covariance = np.linalg.pinv(desk.information, rcond=1e-11, hermitian=True)
    for query in [*asked, *(query_of(sizes, shape, generator) for shape in shapes)]:
        weights, known = query.dense_weights, desk.knowledge.latest.infer(query)
        is_determined = np.linalg.norm(desk.information @ covariance @ weights - weights) < 1e-6
        assert (known is not None) == is_determined
        if known is not None:
            assert known.variance == pytest.approx(float(weights @ covariance @ weights), rel=1e-6)


@pytest.mark.parametrize("replace_one", [False, True])
def test_histories_of_single_values_are_fair(replace_one: bool) -> None:
    fairness, generator = Fairness(), np.random.default_rng(5)
    for seed in range(20):
        sizes = ((3, 4), (2, 2, 3), (5,), (2, 3, 2))[seed % 4]
        desk = Desk(keyed(*sizes), replace_one, exact=True, seed=seed)
        asked = []
        for step in range(30):
            most = SINGLE if step < 20 else SETS
            shape = tuple(Kind(int(generator.integers(most + 1))) for _ in sizes)
            asked.append((query_of(sizes, shape, generator), Precision(int(10 ** generator.uniform(15, 18)))))
        play(desk, asked, fairness)
    assert fairness.is_fair, fairness


def test_looks_for_values_are_read_back_and_charged_by_their_columns() -> None:
    sizes, generator = (3, 2, 4), np.random.default_rng(6)
    desk, shapes = Desk(keyed(*sizes), exact=True), sorted(pairs_of(3))
    for step in range(25):
        target = Precision(ONE.units * (1 + step))
        desk.ask(query_of(sizes, shapes[int(generator.integers(3))], generator), target)
    assert len(desk.knowledge.looks) > 2
    for measured in desk.knowledge.looks:
        look = measured.look
        fields = json.loads(json.dumps(look.to_json()))
        again = look_from_json(fields, look.strategy.axes)
        assert (again.charges == look.charges).all() and again.precision == look.precision
        units = np.eye(prod(sizes), dtype=np.int64).astype(object)
        exact = np.array([again.sum_rows(unit) for unit in units], dtype=object)
        assert np.array_equal(exact, np.array([look.sum_rows(unit) for unit in units], dtype=object))
        for charge, square in zip(look.strategy.spread_parts(look.charges), (exact * exact).sum(axis=1), strict=True):
            assert charge * look.scale**2 >= square * WHOLE_WEIGHT
