"""The curator's calls: rows of claims and runs, and runs that are merged when there are too many."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_history import claim, seal, word
from noisebank.core.records import CellRun
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.encoding import (
    MAX_GROUP_PARTS,
    encode_publish,
    encode_publish_many,
    encode_reserve,
    encode_reserve_many,
    merge_runs,
)
from noisebank.ledger.protocol import MAX_RUNS

ACCOUNT = word(1)
CELLS = 60


@st.composite
def disjoint_runs(draw: st.DrawFn) -> tuple[CellRun, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, CELLS), max_size=40)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return tuple(CellRun(start, stop, draw(st.integers(1, 2**33))) for start, stop in pairs)


def weights(runs: tuple[CellRun, ...]) -> list[int]:
    found = [0] * CELLS
    for run in runs:
        for cell in range(run.start, run.stop):
            found[cell] = run.weight
    return found


@given(disjoint_runs(), st.integers(1, MAX_GROUP_PARTS))
def test_merged_runs_charge_every_cell_at_least_as_much(runs: tuple[CellRun, ...], most: int):
    found = merge_runs(runs, most)
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
    runs = (CellRun(0, 10), CellRun(20, 30), CellRun(31, 40), CellRun(50, 60))
    assert merge_runs(runs, 3) == (CellRun(0, 10), CellRun(20, 40), CellRun(50, 60))
    uneven = (CellRun(0, 10, 100), CellRun(11, 20, 1), CellRun(22, 30, 1))
    assert merge_runs(uneven, 2) == (CellRun(0, 10, 100), CellRun(11, 30, 1))


def test_groups_become_rows_with_an_end_each():
    group = [claim(ACCOUNT, 1, 5, cube=1, runs=(CellRun(0, 1), CellRun(2, 3, 7))), claim(ACCOUNT, 2, 6)]
    alone = [claim(ACCOUNT, 3, 7, cube=2, runs=(CellRun(4, 5),))]
    name, said = budget_ledger().decode_call(encode_reserve_many([group, alone]))
    assert (name, said["account"]) == ("reserve_many", ACCOUNT)
    assert [(row[0], row[4], row[5], row[7], row[8]) for row in said["claims"]] == [
        (word(1), 1, 5, 2, False),
        (word(2), 0, 6, 0, True),
        (word(3), 2, 7, 1, True),
    ]
    assert said["runs"] == ((0, 1, 2**32), (2, 3, 7), (4, 5, 2**32))
    name, said = budget_ledger().decode_call(encode_publish_many(ACCOUNT, [[seal(1), seal(2)], [seal(3, 5)]]))
    assert said["seals"] == ((word(1), word(77), False), (word(2), word(77), True), (word(3), word(5), True))


def test_one_group_is_a_call_of_its_own():
    group = [claim(ACCOUNT, 1, 5), claim(ACCOUNT, 2, 6)]
    name, said = budget_ledger().decode_call(encode_reserve(group))
    many, also = budget_ledger().decode_call(encode_reserve_many([group]))
    assert (name, many) == ("reserve", "reserve_many") and said == also
    assert budget_ledger().decode_call(encode_publish(ACCOUNT, [seal(1)]))[0] == "publish"


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6))
def test_the_ends_are_where_the_groups_end(sizes: list[int]):
    """Also when one and the same claim is in several groups, or twice in one."""
    same = claim(ACCOUNT, 1, 5)
    _, said = budget_ledger().decode_call(encode_reserve_many([[same] * size for size in sizes]))
    assert [row[8] for row in said["claims"]] == [n == size - 1 for size in sizes for n in range(size)]


def test_a_group_has_one_account():
    with pytest.raises(ValueError):
        encode_reserve([claim(ACCOUNT, 1, 5), claim(word(2), 2, 5)])


def test_limits_are_the_contracts():
    assert MAX_RUNS == MAX_GROUP_PARTS == 16
