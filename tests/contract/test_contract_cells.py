"""Cubes against brute force: the tree of the contract, and the merging of runs before they get there."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.real import CURATOR, OWNER, PLENTY, THE_OWNER, WHOLE, Real, Row, word
from support.internals import MAX_GROUP_PARTS, CellRun, merge_charges

RUNS = 10_000
SIZES = (1, 64, 1024)
CLAIMS, RUNS_OF_A_CLAIM = 8, 2
"""A call brings 8 claims with up to 2 runs each: 16 runs."""


def share(fresh: int, weight: int) -> int:
    return -(-fresh * weight // WHOLE)


def some_run(random: Random, start: int, cells: int) -> tuple[int, int, int]:
    """From `start` or later; mostly of the whole weight."""
    start = random.randrange(start, cells)
    stop = random.choice([start + 1, cells, random.randint(start + 1, cells)])
    return start, stop, random.choice([WHOLE, WHOLE, random.randrange(1, 4 * WHOLE)])


def some_runs(random: Random, cells: int) -> tuple[tuple[int, int, int], ...]:
    first = some_run(random, 0, cells)
    if first[1] == cells or random.random() < 0.5:
        return (first,)
    return first, some_run(random, first[1], cells)


def test_spend_is_base_and_maxima_over_ten_thousand_runs():
    """Three cubes, three versions. The brute force keeps every cell in a list."""
    random, real = Random(20), Real()
    account = real.open(budget=PLENTY, cubes=SIZES)
    base, done, asked = 0, 0, 0
    for version in (1, 2, 3):
        cells = [[0] * size for size in SIZES]
        while done < RUNS * version // 3:
            rows: list[Row] = []
            runs: list[tuple[int, int, int]] = []
            for part in range(CLAIMS):
                cube, asked = random.randrange(len(SIZES)), asked + 1
                own, fresh = some_runs(random, SIZES[cube]), random.randrange(1, 10**18)
                rows.append(
                    (word(asked), word(asked), THE_OWNER, 1, cube + 1, fresh, PLENTY, len(own), part == CLAIMS - 1)
                )
                runs += own
                for start, stop, weight in own:
                    cells[cube][start:stop] = [cell + share(fresh, weight) for cell in cells[cube][start:stop]]
            done += len(runs)
            _, logged = real.call(CURATOR, "reserve", account, tuple(rows), tuple(runs))
            spent = base + sum(max(column) for column in cells)
            assert real.view("money", account)[1] == logged[-1][1]["spent"] == spent
        for cube, column in enumerate(cells):
            assert real.view("largest_cell", account, cube + 1) == (max(column),)
            assert [real.view("cell", account, cube + 1, place)[0] for place in range(SIZES[cube])] == column
        base = spent
        real.call(OWNER, "open_version", account, word(1), word(2))
    assert done >= RUNS
    assert real.view("money", account) == (PLENTY, base, asked)


@pytest.mark.parametrize("cells", [1, 2, 4, 8, 16, 32, 64])
def test_every_cell_and_every_rise_equals_brute_force(cells: int):
    random = Random(cells)
    for _ in range(6):
        real = Real()
        account = real.open(budget=PLENTY, cubes=[cells])
        column = [0] * cells
        for id in range(1, 41):
            own, fresh = some_runs(random, cells), random.choice([1, 2, 7, random.randrange(1, 1000)])
            before = max(column)
            for start, stop, weight in own:
                column[start:stop] = [cell + share(fresh, weight) for cell in column[start:stop]]
            # The price is exactly the rise of the largest cell: one unit less is refused elsewhere.
            real.reserve(account, id, id, fresh, limit=max(column) - before, cube=1, runs=own)
            assert real.view("largest_cell", account, 1) == (max(column),)
            assert [real.view("cell", account, 1, place)[0] for place in range(cells)] == column


@pytest.mark.parametrize("cells", [1, 2, 4, 8, 16])
def test_every_single_run_equals_brute_force(cells: int):
    """All runs there are, each on top of all before it."""
    real = Real()
    account = real.open(budget=PLENTY, cubes=[cells])
    column = [0] * cells
    spans = [(start, stop) for start in range(cells) for stop in range(start + 1, cells + 1)]
    Random(cells).shuffle(spans)
    for id, (start, stop) in enumerate(spans, 1):
        real.reserve(account, id, id, id, cube=1, runs=[(start, stop, WHOLE)])
        column[start:stop] = [cell + id for cell in column[start:stop]]
        assert [real.view("cell", account, 1, place)[0] for place in range(cells)] == column
        assert real.view("money", account)[1] == max(column)


def test_largest_tree_equals_brute_force_at_its_edges():
    random, cells = Random(9), 2**20
    real = Real()
    account = real.open(budget=PLENTY, cubes=[cells])
    edges = sorted({0, 1, 2, cells // 2 - 1, cells // 2, cells // 2 + 1, cells - 2, cells - 1, 77_777, 1_000_003})
    charged = dict.fromkeys(edges, 0)
    for id in range(1, 61):
        start, last = sorted(random.choices(edges, k=2))
        real.reserve(account, id, id, id, cube=1, runs=[(start, last + 1, WHOLE)])
        for place in edges:
            charged[place] += id if start <= place <= last else 0
    assert {place: real.view("cell", account, 1, place)[0] for place in edges} == charged
    # All runs start and end at these cells, so that the largest is one of them.
    assert real.view("largest_cell", account, 1) == (max(charged.values()),)


# -- merging --------------------------------------------------------------------------------------

CELLS = 256


@st.composite
def sorted_runs(draw: st.DrawFn) -> tuple[CellRun, ...]:
    cuts = draw(st.lists(st.integers(0, CELLS), unique=True, min_size=2, max_size=2 * 60).map(sorted))
    weights = st.sampled_from([1, WHOLE // 2, WHOLE, WHOLE, 5 * WHOLE])
    return tuple(CellRun(low, high, draw(weights)) for low, high in zip(cuts[::2], cuts[1::2], strict=False))


def column_of(runs: tuple[CellRun, ...], fresh: int) -> list[int]:
    column = [0] * CELLS
    for run in runs:
        for place in range(run.start, run.stop):
            column[place] += share(fresh, run.weight)
    return column


@given(runs=sorted_runs(), most=st.sampled_from([1, 2, 5, MAX_GROUP_PARTS]))
def test_merged_runs_are_few_sorted_disjoint_and_never_charge_less(runs: tuple[CellRun, ...], most: int):
    found = merge_charges(runs, most)
    assert len(found) == min(len(runs), most)
    assert all(run.start < run.stop for run in found)
    assert all(low.stop <= high.start for low, high in pairwise(found))
    assert all(charged >= due for charged, due in zip(column_of(found, 1000), column_of(runs, 1000), strict=True))
    if len(runs) <= most:
        assert found == runs
    if runs:
        assert (found[0].start, found[-1].stop) == (runs[0].start, runs[-1].stop)


@settings(max_examples=40)
@given(runs=sorted_runs())
def test_contract_takes_merged_runs_and_charges_every_cell_at_least_its_due(runs: tuple[CellRun, ...]):
    if not runs:
        return
    real = Real()
    account = real.open(budget=PLENTY, cubes=[CELLS])
    own = tuple((run.start, run.stop, run.weight) for run in merge_charges(runs))
    real.reserve(account, 1, 1, 1000, cube=1, runs=own)
    column = [real.view("cell", account, 1, place)[0] for place in range(CELLS)]
    assert column == column_of(merge_charges(runs), 1000)
    assert all(charged >= due for charged, due in zip(column, column_of(runs, 1000), strict=True))  # type: ignore[operator]
    assert real.view("money", account)[1] == max(column) >= max(column_of(runs, 1000))  # type: ignore[type-var]


def test_seventeen_runs_become_sixteen_by_closing_the_cheapest_gap():
    runs = [CellRun(10 * place, 10 * place + 5) for place in range(17)]
    runs[8] = CellRun(80, 88)
    found = merge_charges(runs)
    assert len(found) == 16
    assert [run for run in found if run not in runs] == [CellRun(80, 95)]
