"""The curator's calls: rows of claims and runs, and runs that are merged when there are too many."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_history import claim, seal, word
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.encoding import (
    MOST_PARTS,
    merged,
    publish_call,
    publish_many_call,
    reserve_call,
    reserve_many_call,
)
from noisebank.ledger.protocol import MOST_RUNS, Run

ACCOUNT = word(1)
CELLS = 60


@st.composite
def disjoint_runs(draw: st.DrawFn) -> tuple[Run, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, CELLS), max_size=40)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return tuple(Run(start, stop, draw(st.integers(1, 2**33))) for start, stop in pairs)


def weights(runs: tuple[Run, ...]) -> list[int]:
    found = [0] * CELLS
    for run in runs:
        for cell in range(run.start, run.stop):
            found[cell] = run.weight
    return found


@given(disjoint_runs(), st.integers(1, MOST_PARTS))
def test_merged_runs_charge_every_cell_at_least_as_much(runs: tuple[Run, ...], most: int):
    found = merged(runs, most)
    assert len(found) <= most or not runs
    assert all(low.stop <= high.start for low, high in pairwise(found))
    assert all(run.start < run.stop for run in found)
    assert all(after >= before for before, after in zip(weights(runs), weights(found), strict=True))
    if len(runs) <= most:
        assert found == runs
    if runs:
        assert (found[0].start, found[-1].stop) == (runs[0].start, runs[-1].stop)
        assert max(weights(found)) == max(weights(runs)), "never above the largest"


def test_the_cheapest_gap_is_closed_first():
    runs = (Run(0, 10), Run(20, 30), Run(31, 40), Run(50, 60))
    assert merged(runs, 3) == (Run(0, 10), Run(20, 40), Run(50, 60))
    uneven = (Run(0, 10, 100), Run(11, 20, 1), Run(22, 30, 1))
    assert merged(uneven, 2) == (Run(0, 10, 100), Run(11, 30, 1))


def test_groups_become_rows_with_an_end_each():
    group = [claim(ACCOUNT, 1, 5, cube=1, runs=(Run(0, 1), Run(2, 3, 7))), claim(ACCOUNT, 2, 6)]
    alone = [claim(ACCOUNT, 3, 7, cube=2, runs=(Run(4, 5),))]
    name, said = budget_ledger().decode_call(reserve_many_call([group, alone]))
    assert (name, said["account"]) == ("reserve_many", ACCOUNT)
    assert [(row[0], row[4], row[5], row[7], row[8]) for row in said["claims"]] == [
        (word(1), 1, 5, 2, False),
        (word(2), 0, 6, 0, True),
        (word(3), 2, 7, 1, True),
    ]
    assert said["runs"] == ((0, 1, 2**32), (2, 3, 7), (4, 5, 2**32))
    name, said = budget_ledger().decode_call(publish_many_call(ACCOUNT, [[seal(1), seal(2)], [seal(3, 5)]]))
    assert said["seals"] == ((word(1), word(77), False), (word(2), word(77), True), (word(3), word(5), True))


def test_one_group_is_a_call_of_its_own():
    group = [claim(ACCOUNT, 1, 5), claim(ACCOUNT, 2, 6)]
    name, said = budget_ledger().decode_call(reserve_call(group))
    many, also = budget_ledger().decode_call(reserve_many_call([group]))
    assert (name, many) == ("reserve", "reserve_many") and said == also
    assert budget_ledger().decode_call(publish_call(ACCOUNT, [seal(1)]))[0] == "publish"


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_the_ends_are_where_the_groups_end(sizes: list[int]):
    """Also when one and the same claim is in several groups, or twice in one."""
    same = claim(ACCOUNT, 1, 5)
    _, said = budget_ledger().decode_call(reserve_many_call([[same] * size for size in sizes]))
    assert [row[8] for row in said["claims"]] == [n == size - 1 for size in sizes for n in range(size)]


def test_a_group_has_one_account():
    with pytest.raises(ValueError):
        reserve_call([claim(ACCOUNT, 1, 5), claim(word(2), 2, 5)])


def test_limits_are_the_contracts():
    assert MOST_RUNS == MOST_PARTS == 16
