from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.core.errors import BadQuery
from noisebank.policy.model import Column, Kind
from noisebank.queries.values import ValueSet, column_domain, make_value_set

SPAN = range(-4, 9)
DOMAIN = ValueSet(((-4, 8),), True)

plain_sets = st.sets(st.sampled_from(SPAN))
nulls = st.booleans()


def make(items: set[int], null: bool) -> ValueSet:
    return ValueSet(make_value_set(items).ranges, null)


def members(values: ValueSet) -> tuple[set[int], bool]:
    return {item for item in range(-20, 30) if item in values}, None in values


def is_normal(values: ValueSet) -> bool:
    gaps = zip(values.ranges, values.ranges[1:], strict=False)
    return all(a <= b for a, b in values.ranges) and all(b + 1 < c for (_, b), (c, _) in gaps)


@given(plain_sets, nulls)
def test_holds_exactly_its_members(items, null):
    values = make(items, null)
    assert members(values) == (items, null)
    assert bool(values) == (bool(items) or null)
    assert is_normal(values)


@given(plain_sets, nulls, plain_sets, nulls)
def test_set_algebra(a, a_null, b, b_null):
    left, right = make(a, a_null), make(b, b_null)
    for found, items, null in (
        (left | right, a | b, a_null or b_null),
        (left & right, a & b, a_null and b_null),
        (left.complement_in(DOMAIN), set(SPAN) - a, not a_null),
        (left.complement_in(right), b - a, b_null and not a_null),
    ):
        assert members(found) == (items, null)
        assert is_normal(found)


@given(plain_sets, nulls, plain_sets, nulls)
def test_equal_sets_are_equal_values(a, a_null, b, b_null):
    left, right = make(a, a_null), make(b, b_null)
    same = (a, a_null) == (b, b_null)
    assert (left == right) is same
    assert (left.to_json() == right.to_json()) is same


def test_adjacent_runs_are_joined():
    assert make_value_set([5, 3, 4, 9, 3]).ranges == ((3, 5), (9, 9))
    assert (make_value_set([1, 2]) | make_value_set([3])).ranges == ((1, 3),)


def test_canonical_text():
    assert ValueSet(((1, 3), (7, 7)), True).to_json() == [[1, 3], [7, 7], "null"]
    assert ValueSet((), True).to_json() == ["null"]
    assert ValueSet(()).to_json() == []


def test_order_is_by_first_value_and_missing_last():
    parts = [ValueSet((), True), make_value_set([4]), make_value_set([1, 9])]
    assert sorted(parts, key=ValueSet.sort_key) == [parts[2], parts[1], parts[0]]


@pytest.mark.parametrize("nullable", [False, True])
def test_domains(nullable):
    for column, runs in (
        (Column("b", Kind.BOOLEAN, nullable=nullable), ((0, 1),)),
        (Column("t", Kind.TEXT, keys=("x", "y"), nullable=nullable), ((0, 2),)),
        (Column("n", Kind.NUMBER, Fraction(1, 2), -3, 7, nullable=nullable), ((-3, 7),)),
    ):
        assert column_domain(column) == ValueSet(runs, nullable)


@pytest.mark.parametrize(
    ("column", "advice"),
    [(Column("n", Kind.INTEGER), "add bounds to the policy"), (Column("t", Kind.TEXT), "add keys to the policy")],
)
def test_a_column_without_a_domain_cannot_be_used(column, advice):
    with pytest.raises(BadQuery, match=advice):
        column_domain(column)
