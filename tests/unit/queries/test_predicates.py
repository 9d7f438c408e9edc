from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Column, Kind
from noisebank.queries.predicates import FALSE, MAX_NODES, MAX_PATHS, TRUE, Predicate, PredicateBuilder
from noisebank.queries.values import ValueSet, column_domain, make_value_set

COLUMNS = {
    "a": Column("a", Kind.INTEGER, low=0, high=2),
    "b": Column("b", Kind.BOOLEAN, nullable=True),
    "c": Column("c", Kind.TEXT, keys=("x",)),
}
ROWS = [dict(zip("abc", row, strict=True)) for row in product((0, 1, 2), (0, 1, None), (0, 1))]


def everywhere(predicate: Predicate) -> tuple[bool, ...]:
    return tuple(predicate.holds_for(row) for row in ROWS)


@st.composite
def built(draw, diagrams: PredicateBuilder, depth: int = 4) -> tuple[Predicate, tuple[bool, ...]]:
    """A predicate and, computed beside it, its truth table."""
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from("abc"))
        items = draw(st.sets(st.integers(-1, 3)))
        null = draw(st.booleans())
        values = ValueSet(make_value_set(items).ranges, null)
        table = tuple((row[name] in items) if row[name] is not None else null for row in ROWS)
        return diagrams.in_values(name, values), table
    left, left_table = draw(built(diagrams, depth - 1))
    right, right_table = draw(built(diagrams, depth - 1))
    if draw(st.booleans()):
        return diagrams.conjunction(left, right), tuple(a and b for a, b in zip(left_table, right_table, strict=True))
    return diagrams.disjunction(left, right), tuple(a or b for a, b in zip(left_table, right_table, strict=True))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equivalent_iff_same_canonical_form(data):
    first, first_table = data.draw(built(PredicateBuilder(COLUMNS)))
    second, second_table = data.draw(built(PredicateBuilder(COLUMNS)))  # another parse: nothing shared
    assert everywhere(first) == first_table
    assert everywhere(second) == second_table
    assert (first.canonical_form == second.canonical_form) == (first_table == second_table)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_within_one_parse_equivalent_means_identical(data):
    diagrams = PredicateBuilder(COLUMNS)
    first, first_table = data.draw(built(diagrams))
    second, second_table = data.draw(built(diagrams))
    assert (first is second) == (first_table == second_table)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_depends_on_its_columns_only(data):
    predicate, table = data.draw(built(PredicateBuilder(COLUMNS)))
    used = predicate.column_names()
    for name in COLUMNS:
        other = [key for key in COLUMNS if key != name]
        groups: dict[tuple[object, ...], set[bool]] = {}
        for row, value in zip(ROWS, table, strict=True):
            groups.setdefault(tuple(row[key] for key in other), set()).add(value)
        assert (name in used) == any(len(values) == 2 for values in groups.values())


def test_leaves():
    diagrams = PredicateBuilder(COLUMNS)
    assert diagrams.in_values("a", column_domain(COLUMNS["a"])) is TRUE
    assert diagrams.in_values("a", make_value_set([7])) is FALSE
    assert diagrams.in_values("b", make_value_set([0, 1])) is not TRUE  # the missing value is left
    assert (TRUE.canonical_form, FALSE.canonical_form) == ([True], [False])
    assert TRUE.column_names() == frozenset()
    assert TRUE.holds_for({})
    assert not FALSE.holds_for({})


def test_order_of_columns_and_terms_makes_no_difference():
    one, two = PredicateBuilder(COLUMNS), PredicateBuilder(COLUMNS)
    first = one.conjunction(one.in_values("c", make_value_set([0])), one.in_values("a", make_value_set([1])))
    second = two.conjunction(two.in_values("a", make_value_set([1])), two.in_values("c", make_value_set([0])))
    assert first.canonical_form == second.canonical_form
    assert [node.column for node in first.nodes] == ["c", "a"]
    assert str(first.canonical_form) in repr(first)


def parity(size: int) -> Predicate:
    """Few nodes, but as many ways to be true as half of all rows."""
    names = [f"x{i:02}" for i in range(size)]
    diagrams = PredicateBuilder({name: Column(name, Kind.BOOLEAN) for name in names})
    odd, even = FALSE, TRUE
    for name in names:
        one, zero = diagrams.in_values(name, make_value_set([1])), diagrams.in_values(name, make_value_set([0]))
        odd, even = (
            diagrams.disjunction(diagrams.conjunction(one, even), diagrams.conjunction(zero, odd)),
            diagrams.disjunction(diagrams.conjunction(one, odd), diagrams.conjunction(zero, even)),
        )
    return odd


def test_shared_parts_are_written_once():
    odd = parity(10)
    assert len(odd.nodes) == 2 * 10 - 1
    assert odd.path_count == 2**9
    assert odd.holds_for(dict.fromkeys(odd.column_names(), 0) | {"x03": 1})
    assert not odd.holds_for(dict.fromkeys(odd.column_names(), 1))


def test_too_many_ways_to_be_true_are_refused():
    assert MAX_PATHS < 2**11
    with pytest.raises(UnsupportedQuery, match="complex"):
        parity(12)


def test_too_complex_a_condition_is_refused():
    # x_i AND y_i joined by OR, all x asked before all y: the diagram doubles with every pair
    names = [f"{side}{i:02}" for side in "xy" for i in range(14)]
    diagrams = PredicateBuilder({name: Column(name, Kind.BOOLEAN) for name in names})
    found: Predicate = FALSE
    with pytest.raises(UnsupportedQuery, match="complex") as caught:
        for i in range(14):
            pair = diagrams.conjunction(
                diagrams.in_values(f"x{i:02}", make_value_set([1])), diagrams.in_values(f"y{i:02}", make_value_set([1]))
            )
            found = diagrams.disjunction(found, pair)
    assert "simpler" in caught.value.advice
    assert len(found.nodes) < MAX_NODES
