"""The planner: what is known is never overstated, what is paid never exceeds plain reuse, accuracy is reached."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.records import WHOLE_WEIGHT, CellRun
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.planning import inference
from noisebank.planning.inference import CubePosterior, CubeStatistic
from noisebank.planning.linear import (
    LinearQuery,
    make_linear_query,
    merge_charges,
    query_from_weights,
    range_query,
)
from noisebank.planning.losses import PairLosses, plain_share
from noisebank.planning.strategies.axes import Axis
from noisebank.planning.strategies.looks import Look
from research.reuse.table2 import SIGMAS, TYPES
from support.inference import Exact, noisy_look, random_query, whole_look


def charged(charges: tuple[CellRun, ...], fresh: Precision, cells: int) -> np.ndarray:
    """What the contract adds to each cell, in units."""
    found = np.zeros(cells, dtype=object)
    for start, stop, weight in charges:
        found[start:stop] += (fresh.units * weight + WHOLE_WEIGHT - 1) // WHOLE_WEIGHT
    return found


class Desk:
    """An account with an unlimited budget: buys what the planner says, and adds up the cells."""

    def __init__(self, axes: tuple[Axis, ...], looks: bool, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.knowledge = CubePosterior(CubeStatistic(axes), looks)
        self.size = int(np.prod([axis.size for axis in axes]))
        self.cells = self.generator.poisson(100, self.size).astype(float)
        self.spent = np.zeros(self.size, dtype=object)
        self.looked = np.zeros(self.size, dtype=object)

    def ask(self, query: LinearQuery, wanted: Precision) -> inference.InferencePlan:
        plan = self.knowledge.plan_query(query, wanted)
        if plan.look is not None:
            self.buy(plan.look.look, plan.look.runs)
            plan = self.knowledge.plan_query(query, wanted)
        if plan.fresh_precision:
            noise = float(self.generator.standard_normal()) * query.max_weight / float(plan.fresh_precision) ** 0.5
            self.knowledge.add_measurement(plan, query.dot(self.cells) + noise)
            self.spent = self.spent + charged(plan.charges, plan.fresh_precision, self.size)
        self.knowledge.note_asked([(query, wanted)])
        return plan

    def buy(self, look: Look, runs: tuple[CellRun, ...]) -> None:
        self.knowledge.add_look(noisy_look(look, self.cells, self.generator), runs)
        self.looked = self.looked + charged(runs, look.precision, self.size)


def per_type(asked: list[tuple[LinearQuery, Precision]], size: int) -> np.ndarray:
    """What plain reuse charges each cell."""
    best: dict[LinearQuery, Precision] = {}
    spent = np.zeros(size, dtype=object)
    for query, wanted in asked:
        before = best.get(query, ZERO_PRECISION)
        if wanted > before:
            spent = spent + charged(query.cell_charges(), wanted - before, size)
            best[query] = wanted
    return spent


workloads = st.tuples(
    st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 12), st.sampled_from([(13,), (16,), (4, 3)])
)


def workload(seed: int, count: int, distinct: int, shape: tuple[int, ...]) -> list[tuple[LinearQuery, Precision]]:
    generator = np.random.default_rng(seed)
    size = int(np.prod(shape))
    pool = [random_query(generator, size, int(generator.integers(3))) for _ in range(distinct)]
    return [(pool[generator.integers(distinct)], Precision(int(10 ** generator.uniform(13, 16)))) for _ in range(count)]


@settings(max_examples=60, deadline=None)
@given(given_workload=workloads, looks=st.booleans())
def test_never_more_is_spent_than_by_plain_reuse_and_never_twice_with_looks(given_workload, looks) -> None:
    asked = workload(*given_workload)
    desk = Desk(tuple(Axis(size, size > 4) for size in given_workload[3]), looks)
    for place, (query, wanted) in enumerate(asked, 1):
        desk.ask(query, wanted)
        plain = per_type(asked[:place], desk.size)
        assert all(desk.spent <= plain)
        assert max(desk.spent + desk.looked) <= 2 * max(plain) + 100


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
def test_on_repeats_of_unrelated_queries_it_is_plain_reuse_to_the_last_unit(seed, count) -> None:
    generator = np.random.default_rng(seed)
    pool = [range_query(12, low, high) for low, high in pairwise((0, 1, 4, 6, 12))]
    asked = [(pool[generator.integers(4)], Precision(int(10 ** generator.uniform(13, 16)))) for _ in range(count)]
    desk = Desk((Axis(12, True),), False)
    best: dict[LinearQuery, Precision] = {}
    for query, wanted in asked:
        plan = desk.ask(query, wanted)
        before = best.get(query, ZERO_PRECISION)
        assert plan.fresh_precision.units == max(0, wanted.units - before.units)
        best[query] = max(before, wanted)
    assert all(desk.spent == per_type(asked, 12))


def test_table_2_of_the_reuse_paper_comes_out_of_inference() -> None:
    desk = Desk((Axis(3, False),), False)
    total, cumulative = ZERO_PRECISION, []
    for kind, sigma in zip(TYPES, SIGMAS, strict=True):
        plan = desk.ask(range_query(3, kind - 1, kind), Precision.floor(1 / Fraction(sigma) ** 2))
        total += plan.fresh_precision
        cumulative.append(round(float(total), 6))
    assert cumulative == [
        1, 1.111111, 1.361111, 1.361111, 1.5, 4.5, 4.5, 4.5, 4.694444, 16.694444, 17.25, 17.25, 17.444444
    ]  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(given_workload=workloads)
def test_the_wanted_accuracy_is_reached_for_hardly_more_than_the_least(given_workload) -> None:
    seed, count, distinct, shape = given_workload
    asked = workload(seed, min(count, 25), distinct, shape)
    axes = tuple(Axis(size, False) for size in shape)
    desk = Desk(axes, False)
    exact = Exact(shape)
    look = whole_look(axes, Precision(10**15))
    desk.buy(look, (CellRun(0, desk.size, 1),))
    exact.add_look(look)
    for query, wanted in asked:
        plan = desk.ask(query, wanted)
        known = query.max_weight**2 / exact.variance(query)
        assert float(plan.known_precision) <= known * (1 + 1e-12)
        assert float(plan.fresh_precision) <= max(float(wanted) - known * (1 - 2e-9), 1e-6 * float(wanted)) + 1e-17
        if plan.fresh_precision:
            exact.add(query, plan.fresh_precision)
        assert query.max_weight**2 / exact.variance(query) >= float(wanted) * (1 - 1e-15)
        answer = desk.knowledge.estimate_planned(plan)
        assert answer.variance == pytest.approx(exact.variance(query), rel=1e-9)


def test_no_measured_value_changes_a_price() -> None:
    desks = [Desk((Axis(16, True),), True, seed) for seed in (1, 2)]
    for query, wanted in workload(3, 60, 12, (16,)):
        first, second = (desk.ask(query, wanted) for desk in desks)
        assert first == second


def test_knowledge_is_rebuilt_from_records() -> None:
    desk = Desk((Axis(16, True),), True)
    reached = []
    for query, wanted in workload(7, 80, 30, (16,)):
        plan = desk.ask(query, wanted)
        if plan.fresh_precision:
            reached.append(plan.reached_precision)
    assert desk.knowledge.looks
    again = CubePosterior(CubeStatistic((Axis(16, True),)))
    for measured, known in zip(desk.knowledge.measurements, reached, strict=True):
        again.restore_measurement(measured, known)
    for look in desk.knowledge.looks:
        again.add_look(look, (CellRun(0, 16, 1),))
    for query, wanted in workload(8, 30, 20, (16,)):
        first, second = desk.knowledge.required_precision(query, wanted), again.required_precision(query, wanted)
        assert first[1].units == pytest.approx(second[1].units, rel=1e-6, abs=1e6)


def test_a_repeat_stays_free_whatever_is_learned_in_between() -> None:
    desk = Desk((Axis(16, True),), True)
    asked = workload(5, 40, 12, (16,))
    for place, (query, wanted) in enumerate(asked):
        desk.ask(query, wanted)
        for earlier, reached in asked[: place + 1]:
            assert not desk.knowledge.plan_query(earlier, reached).fresh_precision


def test_a_look_is_bought_for_ranges_and_not_for_few_queries() -> None:
    generator = np.random.default_rng(6)
    wanted = Precision(4 * 10**14)
    few, many = Desk((Axis(64, True),), True), Desk((Axis(64, True),), True)
    pool = [random_query(generator, 64, 0) for _ in range(5)]
    for _ in range(300):
        few.ask(pool[generator.integers(5)], wanted)
        many.ask(random_query(generator, 64, 0), wanted)
    assert not few.knowledge.looks and len(many.knowledge.looks) == 1
    assert all(not many.ask(random_query(generator, 64, 0), wanted).fresh_precision for _ in range(100))


def test_a_large_cube_infers_before_its_first_look_and_takes_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MAX_DENSE_CELLS", 8)
    desk = Desk((Axis(16, True),), False)
    query, wanted = range_query(16, 2, 9), Precision(10**15)
    assert desk.ask(query, wanted).fresh_precision == wanted
    assert not desk.ask(query, wanted).fresh_precision
    better = desk.ask(query, Precision(3 * 10**15))
    assert better.fresh_precision == Precision(2 * 10**15) and better.reached_precision >= Precision(3 * 10**15)
    answer = desk.knowledge.estimate_planned(better)
    assert answer.variance == pytest.approx(1 / 3e-3)
    desk.ask(range_query(16, 9, 12), wanted)
    whole = desk.ask(range_query(16, 2, 12), Precision(10**14))
    assert not whole.fresh_precision  # the sum of the two
    assert desk.knowledge.estimate_planned(whole).variance == pytest.approx(1 / 3e-3 + 1 / 1e-3)
    desk.buy(whole_look((Axis(16, True),), Precision(10**15)), (CellRun(0, 16, 1),))
    again = desk.knowledge.estimate_planned(better)
    assert again.variance < answer.variance  # what was paid before counts on
    assert desk.knowledge.known_precision(query).units > 3 * 10**15 * 0.999


def test_a_large_cube_with_too_many_pieces_reuses_plainly_and_never_promises_more(monkeypatch) -> None:
    monkeypatch.setattr(inference, "MAX_DENSE_CELLS", 4)
    generator = np.random.default_rng(8)
    desk = Desk((Axis(32, True),), False)
    for _ in range(60):
        query = random_query(generator, 32, int(generator.integers(0, 2)))
        wanted = Precision(int(10 ** generator.uniform(14, 16)))
        plan = desk.ask(query, wanted)
        answer = desk.knowledge.estimate_planned(plan)
        assert answer.variance <= query.max_weight**2 / float(wanted) * (1 + 1e-6)
        assert not desk.knowledge.plan_query(query, wanted).fresh_precision
    desk.buy(whole_look((Axis(32, True),), Precision(10**15)), (CellRun(0, 32, 1),))
    assert not desk.knowledge._left_out


def test_running_sums_bound_what_is_reused_plainly() -> None:
    """A part that the posterior does not hold is added with all of its standard deviation."""
    desk = Desk((Axis(2, False),), False)
    whole = range_query(2, 0, 2)
    near = query_from_weights([2**30 + 1, 2**30])[0]
    desk.ask(whole, Precision(10**18))
    desk.ask(near, Precision(10**18))
    found = desk.knowledge.running_variances(
        [(whole, Fraction(3)), None, (near, Fraction(-1, near.max_weight)), (whole, Fraction(-3))]
    )
    assert found == pytest.approx([9.0, 9.0, 16.0, 1.0])


def test_a_query_too_near_to_others_is_reused_plainly() -> None:
    desk = Desk((Axis(2, False),), False)
    desk.ask(range_query(2, 0, 2), Precision(10**15))
    near = query_from_weights([2**30 + 1, 2**30])[0]
    for wanted, fresh in ((10**15, 10**15), (10**15, 0), (4 * 10**15, 3 * 10**15)):
        plan = desk.ask(near, Precision(wanted))
        assert plan.fresh_precision.units == fresh
        assert desk.knowledge.estimate_planned(plan).variance == pytest.approx(near.max_weight**2 / wanted * 1e18)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(-4, 6), min_size=5, max_size=5).filter(any), min_size=1, max_size=6),
    precisions=st.lists(st.integers(10**12, 10**18), min_size=6, max_size=6),
    sign=st.booleans(),
)
def test_charges_cover_every_neighbour(rows, precisions, sign) -> None:
    """Against all neighbours: exact for add/remove, enough for replace-one; values lie in [-1, 1] or [0, 1]."""
    queries = [query_from_weights([abs(weight) for weight in row] if sign else row)[0] for row in rows]
    fresh = [Precision(units) for units in precisions[: len(queries)]]
    matrix = sum(
        float(p) / query.max_weight**2 * np.outer(query.dense_weights, query.dense_weights)
        for query, p in zip(queries, fresh, strict=True)
    )
    added = sum(charged(query.cell_charges(), p, 5) for query, p in zip(queries, fresh, strict=True))
    for cell in range(5):
        assert matrix[cell, cell] <= added[cell] / 1e18 * (1 + 1e-12)
        assert added[cell] / 1e18 <= matrix[cell, cell] * (1 + 1e-9) + sum(precisions) * 2.0**-32 / 1e18 + 1e-17
    values = (Fraction(0), Fraction(1)) if sign else (Fraction(-1), Fraction(1))
    pairs = PairLosses(5, values)
    replaced = sum(pairs.of_query(query, p) for query, p in zip(queries, fresh, strict=True)).max()
    alone = sum(float(p) * float(plain_share([query], values)) for query, p in zip(queries, fresh, strict=True))
    assert replaced <= alone * (1 + 1e-12)
    unit = np.eye(5)
    for left, entered in product(range(5), repeat=2):
        for a, b in product((float(values[0]), 0.5, 1.0), repeat=2):
            change = b * unit[entered] - a * unit[left]
            assert change @ matrix @ change <= replaced * (1 + 1e-12)


def close_gaps(runs: list[CellRun]) -> list[CellRun]:
    """Sixteen runs at most: the smallest gap is closed as long as there are more. Runs charge alike."""
    while len(runs) > 16:
        gaps = [right.start - left.stop for left, right in pairwise(runs)]
        place = gaps.index(min(gaps))
        runs[place : place + 2] = [CellRun(runs[place].start, runs[place + 1].stop, runs[place].weight)]
    return runs


@settings(max_examples=100, deadline=None)
@given(weights=st.lists(st.integers(-3, 3), min_size=40, max_size=90).filter(any))
def test_many_runs_become_sixteen_that_charge_no_cell_less(weights) -> None:
    query = query_from_weights(weights)[0]
    full, few = query.cell_charges(), merge_charges(query.cell_charges())
    assert len(few) == min(len(full), 16) and all(low.stop <= high.start for low, high in pairwise(few))
    fresh = Precision(10**18)
    assert all(charged(few, fresh, query.cell_count) >= charged(full, fresh, query.cell_count))
    if len({charge.weight for charge in full}) == 1:  # then it is as good as closing the smallest gaps one by one
        closed = close_gaps([CellRun(*charge) for charge in full])
        assert sum(run.stop - run.start for run in closed) == sum(charge.stop - charge.start for charge in few)


def test_canonical_queries() -> None:
    query, factor = make_linear_query(9, [(6, 7, Fraction(-1, 2)), (4, 6, Fraction(-1, 4))])
    assert query == LinearQuery(9, (CellRun(4, 6, 1), CellRun(6, 7, 2))) and factor == Fraction(-1, 4)
    assert query.cell_charges() == (CellRun(4, 6, WHOLE_WEIGHT // 4), CellRun(6, 7, WHOLE_WEIGHT))
    tax, factor = query_from_weights([2, 2, 2, 1, 1, 1, 0, 0, 0])  # P1, equation 6
    assert (
        factor == 1
        and tax.max_weight == 2
        and tax.cell_charges() == (CellRun(0, 3, WHOLE_WEIGHT), CellRun(3, 6, WHOLE_WEIGHT // 4))
    )
    signed = query_from_weights([1, -1, 1])[0]
    assert signed.cell_charges() == (CellRun(0, 3, WHOLE_WEIGHT),)
    for bad in ((), (CellRun(0, 0, 1),), (CellRun(3, 5, 0),), (CellRun(2, 10, 1),), (CellRun(0, 1, 2**31 + 1),)):
        with pytest.raises(ValueError):
            LinearQuery(9, bad)
    with pytest.raises(ValueError):
        make_linear_query(9, [])


def test_misuse_is_refused() -> None:
    desk = Desk((Axis(4, False),), False)
    query = range_query(4, 0, 1)
    with pytest.raises(ValueError, match="some precision"):
        desk.knowledge.plan_query(query, ZERO_PRECISION)
    desk.ask(query, Precision(10**15))
    free = desk.knowledge.plan_query(query, Precision(10**15))
    with pytest.raises(ValueError, match="no measurement"):
        desk.knowledge.add_measurement(free, 1.0)
    unknown = desk.knowledge.plan_query(range_query(4, 1, 2), Precision(10**15))
    with pytest.raises(ValueError, match="determines"):
        desk.knowledge.estimate_planned(unknown)
