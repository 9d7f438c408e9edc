"""Pieces of cells against a list with one number a cell, and against the contract's tree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.ledger.chunks import CellCharges

CELLS = 32
additions = st.lists(
    st.tuples(st.integers(0, CELLS - 1), st.integers(1, CELLS), st.integers(0, 2**70)).filter(lambda a: a[0] < a[1]),
    max_size=40,
)


def listed(added: list[tuple[int, int, int]]) -> list[int]:
    cells = [0] * CELLS
    for start, stop, amount in added:
        for cell in range(start, stop):
            cells[cell] += amount
    return cells


@given(additions)
@settings(max_examples=300)
def test_every_cell_and_the_largest_are_those_of_a_plain_list(added: list[tuple[int, int, int]]):
    pieces = CellCharges()
    for place, (start, stop, amount) in enumerate(added, 1):
        pieces.add(start, stop, amount)
        cells = listed(added[:place])
        assert pieces.largest == max(cells)
        assert [pieces.charge_at(cell) for cell in range(CELLS)] == cells
    assert pieces.charge_at(CELLS) == pieces.charge_at(2**20) == 0, "nobody charged what lies beyond"


@given(additions, additions)
def test_the_order_of_additions_does_not_matter(some: list[tuple[int, int, int]], more: list[tuple[int, int, int]]):
    one, other = CellCharges(), CellCharges()
    for addition in some + more:
        one.add(*addition)
    for addition in (some + more)[::-1]:
        other.add(*addition)
    assert [one.charge_at(cell) for cell in range(CELLS)] == [other.charge_at(cell) for cell in range(CELLS)]
    assert one.largest == other.largest


@given(additions, additions)
def test_a_copy_goes_its_own_way(some: list[tuple[int, int, int]], more: list[tuple[int, int, int]]):
    first = CellCharges()
    for addition in some:
        first.add(*addition)
    copy = first.copy()
    for addition in more:
        copy.add(*addition)
    assert [first.charge_at(cell) for cell in range(CELLS)] == listed(some)
    assert [copy.charge_at(cell) for cell in range(CELLS)] == listed(some + more)
    assert (first.largest, copy.largest) == (max(listed(some)), max(listed(some + more)))


def test_nothing_was_charged_at_first():
    pieces = CellCharges()
    assert (pieces.largest, pieces.charge_at(0), pieces.charge_at(2**20 - 1)) == (0, 0, 0)


def test_the_ends_are_half_open():
    pieces = CellCharges()
    pieces.add(3, 5, 7)
    assert [pieces.charge_at(cell) for cell in range(2, 7)] == [0, 7, 7, 0, 0]
    pieces.add(5, 6, 9)
    pieces.add(0, 3, 1)
    assert [pieces.charge_at(cell) for cell in range(7)] == [1, 1, 1, 7, 7, 9, 0]
    assert pieces.largest == 9


def test_many_pieces_in_the_largest_cube():
    pieces = CellCharges()
    for place in range(0, 2**20, 997):
        pieces.add(place, 2**20, 1)
    assert pieces.largest == pieces.charge_at(2**20 - 1) == len(range(0, 2**20, 997))
    assert pieces.charge_at(996) == 1 and pieces.charge_at(997) == 2
