"""Weights: sums of weighted predicates as disjoint predicates, against brute force over all rows."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.predicates import FALSE, TRUE, PredicateBuilder
from noisebank.queries.query import Function
from noisebank.queries.sql import parse_question
from noisebank.queries.values import ValueSet
from noisebank.queries.weights import MAX_WEIGHT, build_query, combine_terms

COLUMNS = {
    "a": Column("a", Kind.INTEGER, low=0, high=3, nullable=True),
    "b": Column("b", Kind.BOOLEAN),
    "k": Column("k", Kind.TEXT, keys=("x", "y")),
}
POLICY = Policy("t", Path("/t"), Neighbours.ADD_REMOVE, 100, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6))
DOMAINS = {"a": (0, 1, 2, 3, None), "b": (0, 1), "k": (0, 1, 2)}
ROWS = [dict(zip(DOMAINS, row, strict=True)) for row in product(*DOMAINS.values())]
COUNT, SUM = (Function.COUNT, None), (Function.SUM, "a")

sets = st.tuples(
    st.sampled_from(list(DOMAINS)), st.sets(st.integers(0, 3), min_size=1, max_size=3), st.booleans(), st.booleans()
)
terms = st.lists(st.tuples(st.integers(-3, 3), sets, sets), max_size=6)


def built(diagrams: PredicateBuilder, drawn):
    """Predicates of one or two columns from drawn values."""

    def among(column, values, null, negated):
        runs = tuple((v, v) for v in sorted(values) if v != 1)
        if {2, 3} <= values:  # neighbours are one run: a set of values has one form
            runs = (*(run for run in runs if run == (0, 0)), (2, 3))
        predicate = diagrams.in_values(column, ValueSet(runs, null))
        return diagrams.negation(predicate) if negated else predicate

    return [(amount, diagrams.conjunction(among(*one), among(*two))) for amount, one, two in drawn]


@settings(max_examples=50)
@given(terms)
def test_every_row_has_the_sum_of_its_terms(drawn):
    diagrams = PredicateBuilder(COLUMNS)
    found = built(diagrams, drawn)
    weights = combine_terms(diagrams, found)
    for row in ROWS:
        true = sum(amount for amount, predicate in found if predicate.holds_for(row))
        held = [weight for weight, predicate in weights if predicate.holds_for(row)]
        assert held == ([true] if true else [])


@settings(max_examples=50)
@given(terms, st.randoms(use_true_random=False))
def test_order_and_splitting_make_no_difference(drawn, random):
    diagrams = PredicateBuilder(COLUMNS)
    found = built(diagrams, drawn)
    split = [(amount - 5, predicate) for amount, predicate in found] + [(5, predicate) for _, predicate in found]
    random.shuffle(split)
    one, two = combine_terms(diagrams, found), combine_terms(diagrams, split)
    assert [(w, p.canonical_form) for w, p in one] == [(w, p.canonical_form) for w, p in two]


@settings(max_examples=40)
@given(terms)
def test_weights_rise_and_none_is_zero_or_empty(drawn):
    diagrams = PredicateBuilder(COLUMNS)
    weights = combine_terms(diagrams, built(diagrams, drawn))
    values = [weight for weight, _ in weights]
    assert values == sorted(set(values)) and 0 not in values
    assert all(predicate is not FALSE for _, predicate in weights)


def test_a_common_factor_is_taken_out():
    diagrams = PredicateBuilder(COLUMNS)
    b = diagrams.in_values("b", ValueSet(((1, 1),)))
    query, factor = build_query(diagrams, {COUNT: [(6, TRUE), (9, b)]})
    assert factor == 3
    assert [weight for weight, _ in query.parts[0].weights] == [2, 5]


def test_the_factor_is_common_to_all_functions():
    diagrams = PredicateBuilder(COLUMNS)
    query, factor = build_query(diagrams, {COUNT: [(6, TRUE)], SUM: [(4, TRUE)]})
    assert factor == 2
    assert [(part.function, part.weights[0][0]) for part in query.parts] == [(Function.COUNT, 3), (Function.SUM, 2)]


def test_all_negative_is_the_same_query_with_a_negative_factor():
    diagrams = PredicateBuilder(COLUMNS)
    b = diagrams.in_values("b", ValueSet(((1, 1),)))
    plus, up = build_query(diagrams, {COUNT: [(1, TRUE), (2, b)]})
    minus, down = build_query(diagrams, {COUNT: [(-2, TRUE), (-4, b)]})
    assert plus == minus and (up, down) == (1, -2)
    assert [weight for weight, _ in minus.parts[0].weights] == [1, 3]


def test_what_cancels_out_is_refused():
    diagrams = PredicateBuilder(COLUMNS)
    for nothing in ({}, {COUNT: []}, {COUNT: [(2, TRUE), (-2, TRUE)]}, {COUNT: [(1, FALSE)]}, {COUNT: [(0, TRUE)]}):
        with pytest.raises(UnsupportedQuery, match="cancels out"):
            build_query(diagrams, nothing)


def test_a_part_that_cancels_out_leaves_no_trace():
    diagrams = PredicateBuilder(COLUMNS)
    alone, _ = build_query(diagrams, {COUNT: [(1, TRUE)]})
    beside, _ = build_query(diagrams, {SUM: [(3, TRUE), (-3, TRUE)], COUNT: [(7, TRUE)]})
    assert alone == beside


@pytest.mark.parametrize(("weight", "allowed"), [(MAX_WEIGHT, True), (MAX_WEIGHT + 1, False), (-MAX_WEIGHT, True)])
def test_ratios_of_weights_have_a_limit(weight, allowed):
    diagrams = PredicateBuilder(COLUMNS)
    terms = {COUNT: [(weight, diagrams.in_values("b", ValueSet(((1, 1),))))], SUM: [(1, TRUE)]}
    if allowed:
        assert build_query(diagrams, terms)[1] in (1, -1)
    else:
        with pytest.raises(UnsupportedQuery, match="coefficient this large"):
            build_query(diagrams, terms)


def test_a_large_common_factor_is_no_large_weight():
    query = parse_question(f"SELECT {10**30} * COUNT(*) + {3 * 10**30} * COUNT_IF(b) FROM t", POLICY)
    assert query.unit == 10**30
    assert [weight for weight, _ in query.query.parts[0].weights] == [1, 4]


def test_overlaps_become_disjoint():
    question = parse_question("SELECT 1000 * COUNT_IF(a > 1) + 2000 * COUNT_IF(b) - 50000 FROM t", POLICY)
    (part,) = question.query.parts
    assert [weight for weight, _ in part.weights] == [1, 2, 3]
    assert (question.unit, question.offset) == (1000, -50000)
    for row in ROWS:
        both = (1 if row["a"] in (2, 3) else 0) + (2 if row["b"] else 0)
        assert sum(weight for weight, predicate in part.weights if predicate.holds_for(row)) == both


def test_distinct_weights_of_independent_columns_do_not_explode():
    """Many weights are refused by name, quickly, rather than computed for minutes."""
    wide = {name: Column(name, Kind.INTEGER, low=0, high=1000) for name in ("p", "q", "r")}
    policy = Policy(
        "t", Path("/t"), Neighbours.ADD_REMOVE, 100, MappingProxyType(wide), Fraction(1), Fraction(1, 10**6)
    )
    terms = [f"{2**i} * COUNT_IF({name} = {i + 30 * place})" for place, name in enumerate(wide) for i in range(30)]
    with pytest.raises(UnsupportedQuery):
        parse_question(f"SELECT {' + '.join(terms)} FROM t", policy)
