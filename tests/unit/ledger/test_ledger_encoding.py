"""The curator's calls: rows of claims and runs."""

from __future__ import annotations

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
)
from noisebank.ledger.protocol import MAX_RUNS

ACCOUNT = word(1)


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
