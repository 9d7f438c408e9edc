"""Groups: what GROUP BY answers, by the policy alone."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.groups import MAX_GROUPS, check_groups, column_groups, column_labels, group_count, group_labels
from noisebank.queries.sql import parse_question

COLUMNS = {
    column.name: column
    for column in (
        Column("age", Kind.INTEGER, low=0, high=120, bins=(20, 40, 120)),
        Column("pay", Kind.NUMBER, Fraction(1, 2), -4, 10, bins=(0, 3), nullable=True),
        Column("city", Kind.TEXT, keys=("x", "y", "z"), nullable=True),
        Column("ill", Kind.BOOLEAN, nullable=True),
        Column("plain", Kind.INTEGER, low=0, high=9),
        Column("free", Kind.INTEGER, bins=()),
        Column("note", Kind.TEXT),
    )
}


def policy(columns=COLUMNS, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Policy:
    return Policy("t", Path("/t"), neighbours, 100, MappingProxyType(dict(columns)), Fraction(1), Fraction(1, 10**6))


def grouped(sql: str):
    return parse_question(sql, policy()).query


@st.composite
def binned(draw) -> Column:
    low = draw(st.integers(-20, 20))
    high = low + draw(st.integers(1, 15))
    edges = draw(st.sets(st.integers(low + 1, high), min_size=1))
    step = draw(st.sampled_from([Fraction(1), Fraction(1, 100), Fraction(5)]))
    return Column("x", Kind.NUMBER, step, low, high, bins=tuple(sorted(edges)), nullable=draw(st.booleans()))


@settings(max_examples=150)
@given(binned())
def test_bins_are_a_partition_of_the_bounds(column):
    parts = column_groups(column)
    assert len(parts) == len(column_labels(column)) == len(column.bins) + 1
    for value in range(column.bounds[0], column.bounds[1] + 1):
        place = sum(value >= edge for edge in column.bins)
        assert [number for number, part in enumerate(parts) if value in part] == [place]
    assert not any(None in part for part in parts)


@settings(max_examples=100)
@given(binned())
def test_labels_of_small_bins_tell_them_apart(column):
    assert len(set(column_labels(column))) == len(column.bins) + 1


@pytest.mark.parametrize(
    "column",
    [
        Column("x", Kind.INTEGER, low=0, high=2_000_000, bins=(1_000_000, 1_000_001, 1_000_002)),
        Column("x", Kind.NUMBER, Fraction(1, 1000), 0, 2_000_000, bins=(1_234_561, 1_234_562, 1_234_563)),
    ],
)
def test_labels_tell_groups_apart(column):
    labels = column_labels(column)
    assert len(set(labels)) == len(labels) == 4


def test_labels_say_what_the_bins_are():
    assert column_labels(COLUMNS["age"]) == ("[0, 20)", "[20, 40)", "[40, 120)", "120")
    assert column_labels(COLUMNS["pay"]) == ("[-2, 0)", "[0, 1.5)", "[1.5, 5]")
    assert column_labels(COLUMNS["city"]) == ("x", "y", "z")
    assert column_labels(COLUMNS["ill"]) == ("false", "true")


def test_none_of_the_keys_and_missing_values_are_in_no_group():
    parts = column_groups(COLUMNS["city"])
    assert [any(value in part for part in parts) for value in (0, 1, 2, 3, None)] == [True] * 3 + [False] * 2
    assert not any(None in part for part in column_groups(COLUMNS["ill"]))


@pytest.mark.parametrize("name", ["plain", "free", "note"])
def test_a_column_without_keys_or_bins_has_no_groups(name):
    with pytest.raises(BadQuery, match=f"{name} has no declared keys or bins"):
        column_groups(COLUMNS[name])


@pytest.mark.parametrize("name", ["free", "note"])
def test_what_has_no_bounds_or_keys_cannot_be_grouped_by(name):
    with pytest.raises(BadQuery, match=name):
        grouped(f"SELECT COUNT(*) FROM t GROUP BY {name}")


def test_the_order_of_columns_makes_no_difference():
    spellings = ["ill, city, age", "age, ill, city", "CITY, age, t.ill", '"city", "ill", "age"']
    found = [grouped(f"SELECT COUNT(*) FROM t GROUP BY {by}") for by in spellings]
    assert len({query.digest for query in found}) == 1
    assert {query.by for query in found} == {("age", "city", "ill")}
    assert len({group_labels(query, policy()) for query in found}) == 1


def test_keys_may_be_selected_or_not():
    spellings = [
        "SELECT COUNT(*) FROM t GROUP BY city, ill",
        "SELECT city, ill, COUNT(*) FROM t GROUP BY city, ill",
        "SELECT ill AS i, COUNT(*) AS n, city FROM t GROUP BY city, ill",
    ]
    assert len({grouped(sql).digest for sql in spellings}) == 1


def test_different_groups_are_different_queries():
    texts = ["", " GROUP BY city", " GROUP BY ill", " GROUP BY age", " GROUP BY city, ill", " GROUP BY city, ill, age"]
    assert len({grouped(f"SELECT COUNT(*) FROM t{text}").digest for text in texts}) == len(texts)


def test_all_combinations_in_one_order():
    query = grouped("SELECT SUM(pay) FROM t GROUP BY ill, city")
    labels = group_labels(query, policy())
    assert group_count(query, policy()) == len(labels) == 6
    assert labels == tuple((city, ill) for city in ("x", "y", "z") for ill in ("false", "true"))


def test_a_query_without_groups_is_one_number():
    query = grouped("SELECT COUNT(*) FROM t")
    assert group_count(query, policy()) == 1
    assert group_labels(query, policy()) == ((),)


def keyed(*sizes: int) -> Policy:
    columns = {
        f"c{place}": Column(f"c{place}", Kind.TEXT, keys=tuple(f"{number:05}" for number in range(size)))
        for place, size in enumerate(sizes)
    }
    return policy(columns)


def test_there_is_a_limit_to_the_number_of_groups():
    check_groups(("c0", "c1"), keyed(100, MAX_GROUPS // 100))
    with pytest.raises(UnsupportedQuery, match="10000 groups"):
        check_groups(("c0", "c1"), keyed(100, MAX_GROUPS // 100 + 1))
    with pytest.raises(UnsupportedQuery, match="groups"):
        parse_question("SELECT AVG(c0 = '00001') FROM t GROUP BY c1, c0", keyed(101, 100))


@pytest.mark.parametrize("by", ["city, city", "city, CITY", "city, t.city", "city, ill, city"])
def test_a_column_twice_is_refused(by):
    with pytest.raises(BadQuery, match="twice"):
        grouped(f"SELECT COUNT(*) FROM t GROUP BY {by}")


@pytest.mark.parametrize("by", ["1", "ALL", "CUBE (city)", "ROLLUP (city)", "GROUPING SETS ((city), ())", "()"])
def test_other_ways_to_group_are_refused(by):
    with pytest.raises((UnsupportedQuery, BadQuery)):
        grouped(f"SELECT COUNT(*) FROM t GROUP BY {by}")
