"""Linear combinations: their meaning against plain Python, and one digest per meaning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.groups import column_groups, group_labels
from noisebank.queries.query import Function, Query, Question
from noisebank.queries.sql import parse_question

Row = dict[str, int | None]
N = 7
COLUMNS = {
    "a": Column("a", Kind.INTEGER, low=-1, high=2, bins=(1,), nullable=True),
    "b": Column("b", Kind.BOOLEAN, nullable=True),
    "f": Column("f", Kind.BOOLEAN),
    "n": Column("n", Kind.NUMBER, Fraction(1, 2), -1, 2, bins=(0,)),
}
DOMAINS: dict[str, tuple[int | None, ...]] = {
    "a": (-1, 0, 1, 2, None),
    "b": (0, 1, None),
    "f": (0, 1),
    "n": (-1, 0, 1, 2),
}
ROWS: list[Row] = [dict(zip(DOMAINS, row, strict=True)) for row in product(*DOMAINS.values())]


def policy(neighbours: Neighbours) -> Policy:
    return Policy("t", Path("/t"), neighbours, N, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6))


REPLACE, ADD = policy(Neighbours.REPLACE_ONE), policy(Neighbours.ADD_REMOVE)


# -- conditions: spellings, and what they mean in Python ------------------------------------------


def over(row: Row, name: str, bound: int) -> bool:
    value = row[name]
    return value is not None and value > bound


CONDITIONS: list[tuple[tuple[str, ...], Callable[[Row], bool]]] = [
    (("f", "f = TRUE", "NOT NOT f", "f IS TRUE", "(f)"), lambda r: r["f"] == 1),
    (("NOT f", "f = FALSE", "f <> TRUE"), lambda r: r["f"] == 0),
    (("a > 0", "0 < a", "NOT a <= 0", "a IN (1, 2)", "a BETWEEN 0.5 AND 9"), lambda r: over(r, "a", 0)),
    (("a <= 0", "a = 0 OR a = -1", "NOT a > 0"), lambda r: r["a"] in (-1, 0)),
    (("a IS NULL", "NOT a IS NOT NULL"), lambda r: r["a"] is None),
    (("b", "b IS TRUE", "NOT b = FALSE"), lambda r: r["b"] == 1),
    (("b IS NOT TRUE", "b IS NULL OR NOT b"), lambda r: r["b"] != 1),
    (("n >= 0.5", "n > 0.25", "NOT n < 0.5", "n IN (0.5, 1)"), lambda r: over(r, "n", 0)),
    (("a > 0 OR f", "NOT (a <= 0 AND NOT f)", "f OR a >= 1"), lambda r: over(r, "a", 0) or r["f"] == 1),
    (("f AND b", "b AND f", "NOT (NOT b OR NOT f)"), lambda r: r["f"] == 1 and r["b"] == 1),
    (("f OR NOT f", "TRUE", "n >= -0.5", "n < 100"), lambda r: True),
]  # fmt: skip
TRUE_PLACE = len(CONDITIONS) - 1


# -- terms: an aggregate under a condition, and what one row adds ---------------------------------


@dataclass(frozen=True)
class Term:
    """`coefficient * aggregate`, where the aggregate is taken over the rows that meet a condition."""

    coefficient: Fraction
    aggregate: str
    condition: int

    def adds(self, row: Row) -> Fraction:
        if not CONDITIONS[self.condition][1](row):
            return Fraction(0)
        amount = {
            "COUNT(*)": Fraction(1),
            "COUNT(a)": Fraction(row["a"] is not None),
            "SUM(a)": Fraction(row["a"] or 0),
            "SUM(n)": Fraction(row["n"] or 0, 2),
            "SUM(n * n)": Fraction((row["n"] or 0) ** 2, 4),
            "AVG(n)": Fraction(row["n"] or 0, 2 * N),
            "AVG(f)": Fraction(row["f"] or 0, N),
        }[self.aggregate]
        return self.coefficient * amount


@dataclass(frozen=True)
class Linear:
    """A sum of terms and a constant."""

    terms: tuple[Term, ...]
    constant: Fraction

    def adds(self, row: Row) -> Fraction:
        return sum((term.adds(row) for term in self.terms), Fraction(0))

    @property
    def meaning(self) -> tuple[Fraction, ...]:
        return tuple(self.adds(row) for row in ROWS)


coefficients = st.builds(Fraction, st.integers(-6, 6).filter(bool), st.sampled_from([1, 1, 2, 3, 4]))
places = st.integers(0, TRUE_PLACE)


def term_of(aggregates: list[str]) -> st.SearchStrategy[Term]:
    return st.builds(
        lambda c, g, p: Term(c, g, TRUE_PLACE if g.startswith("AVG") else p),
        coefficients, st.sampled_from(aggregates), places,
    )  # fmt: skip


def linear(aggregates: list[str], size: int = 4) -> st.SearchStrategy[Linear]:
    return st.builds(
        Linear,
        st.lists(term_of(aggregates), min_size=1, max_size=size).map(tuple),
        st.sampled_from([Fraction(0), Fraction(5), Fraction(-1, 4)]),
    )


COUNTS = ["COUNT(*)", "COUNT(a)"]
ALL = [*COUNTS, "SUM(a)", "SUM(n)", "SUM(n * n)", "AVG(n)", "AVG(f)"]


# -- spelling ---------------------------------------------------------------------------------------


def number(value: Fraction) -> str:
    """A constant that SQL divides out exactly."""
    top = str(abs(value.numerator))
    return top if value.denominator == 1 else f"{top} / {value.denominator}"


class Speller:
    """Writes one combination in one of many ways."""

    def __init__(self, draw: Callable[[st.SearchStrategy], object] | None = None) -> None:
        self.draw = draw

    def pick(self, *choices):
        return self.draw(st.sampled_from(choices)) if self.draw else choices[0]

    def aggregate(self, term: Term) -> str:
        if term.aggregate.startswith("AVG"):
            return term.aggregate
        condition = self.pick(*CONDITIONS[term.condition][0])
        if term.aggregate == "COUNT(*)":
            return self.pick(
                f"COUNT_IF({condition})", f"COUNT(*) FILTER (WHERE {condition})", f"count_if(({condition}))"
            )
        return f"{term.aggregate} FILTER (WHERE {condition})"

    def term(self, term: Term) -> tuple[str, str]:
        """Sign and text."""
        text, value = self.aggregate(term), number(term.coefficient)
        shape = self.pick("front", "back", "nested", "divided")
        if shape == "back":
            text = f"({text}) * ({value})"
        elif shape == "nested":
            text = f"-(-({value}) * ({text}))"
        elif shape == "divided":
            top, bottom = abs(term.coefficient.numerator), term.coefficient.denominator
            text = f"{top} * {text} / {bottom}"
        else:
            text = f"({value}) * {text}"
        return ("-" if term.coefficient < 0 else "+"), text

    def whole(self, given: Linear) -> str:
        parts = [part for term in given.terms for part in self.split(term)]
        if self.draw:
            parts = self.draw(st.permutations(parts))
        text = "0"
        for term in parts:
            sign, written = self.term(term)
            text = f"{text} {sign} {written}" if self.pick(True, False) else f"({text}) {sign} ({written})"
        if given.constant:
            sign = "-" if given.constant < 0 else "+"
            text = f"{text} {sign} {number(given.constant)}"
        factor = self.pick(1, 1, 3, 10)
        return text if factor == 1 else f"({factor} * ({text})) / {factor}"

    def split(self, term: Term) -> list[Term]:
        """A term, or two that add up to it: by coefficient, or by a condition and its complement."""
        how = self.pick("whole", "coefficient", "both ways", "cancelled")
        if how == "coefficient":
            part = Fraction(1, 3)
            return [Term(c, term.aggregate, term.condition) for c in (term.coefficient - part, part) if c]
        if how == "both ways" and term.condition == TRUE_PLACE and not term.aggregate.startswith("AVG"):
            return [Term(term.coefficient, term.aggregate, place) for place in (0, 1)]  # f, NOT f
        if how == "cancelled":
            extra = Term(Fraction(7), "COUNT(*)", 2)
            return [term, extra, Term(Fraction(-7), "COUNT(*)", 2)]
        return [term]


def question(text: str, of: Policy = REPLACE, rest: str = "") -> Question:
    return parse_question(f"SELECT {text} FROM t {rest}", of)


def answered(text: str, of: Policy = REPLACE, rest: str = "") -> Question | None:
    """The question, or None where it is refused because the answer is public."""
    try:
        return question(text, of, rest)
    except UnsupportedQuery as error:
        assert "cancels out" in str(error)
    except BadQuery as error:
        assert "public" in str(error)
    return None


def row_of(query: Query, row: Row) -> int:
    """What the canonical form says that a row adds, in steps; by brute force over its predicates."""
    total = 0
    for part in query.parts:
        value = 1 if part.column is None else row[part.column]
        value = 0 if value is None else value * value if part.function is Function.SQUARES else value
        held = [weight for weight, predicate in part.weights if predicate.holds_for(row)]
        assert len(held) <= 1
        total += sum(held) * value
    return total


def meaning(asked: Question) -> tuple[Fraction, ...]:
    return tuple(row_of(asked.query, row) * asked.unit for row in ROWS)


# -- meaning ------------------------------------------------------------------------------------------


@settings(max_examples=70)
@given(linear(ALL), st.data())
def test_a_combination_means_what_it_says(given_, data):
    asked = answered(Speller(data.draw).whole(given_))
    if asked is None:
        assert len(set(given_.meaning)) == 1  # whatever the rows are, with N of them
        return
    assert meaning(asked) == given_.meaning
    assert asked.offset == given_.constant
    table = data.draw(st.lists(st.sampled_from(ROWS), max_size=5))
    total = sum(row_of(asked.query, row) for row in table) * asked.unit + asked.offset
    assert total == sum((given_.adds(row) for row in table), given_.constant)


@settings(max_examples=50)
@given(linear(ALL), st.data())
def test_every_spelling_has_one_digest_unit_and_offset(given_, data):
    plain = answered(Speller().whole(given_))
    assume(plain is not None)
    other = answered(Speller(data.draw).whole(given_))
    assert other is not None
    assert (other.query.digest, other.unit, other.offset) == (plain.query.digest, plain.unit, plain.offset)


def ratio(one: tuple[Fraction, ...], two: tuple[Fraction, ...]) -> Fraction | None:
    """c with one = c * two everywhere, c not 0."""
    place = next((place for place, value in enumerate(two) if value), None)
    if place is None or not one[place]:
        return None
    found = one[place] / two[place]
    return found if all(x == found * y for x, y in zip(one, two, strict=True)) else None


@settings(max_examples=90)
@given(linear(COUNTS, 3), linear(COUNTS, 3))
def test_counts_have_one_digest_iff_they_are_proportional(first, second):
    one, two = answered(Speller().whole(first), ADD), answered(Speller().whole(second), ADD)
    assume(one is not None and two is not None)
    found = ratio(first.meaning, second.meaning)
    if found is not None and found < 0:
        return  # test_a_multiple_is_the_same_query
    assert (one.query == two.query) == (found is not None)
    if found is not None:
        assert one.unit == found * two.unit


@settings(max_examples=90)
@given(linear(ALL, 3), linear(ALL, 3))
def test_different_meanings_never_share_a_digest(first, second):
    one, two = answered(Speller().whole(first)), answered(Speller().whole(second))
    assume(one is not None and two is not None)
    if one.query == two.query:
        assert ratio(first.meaning, second.meaning) == one.unit / two.unit


@settings(max_examples=50)
@given(linear(ALL, 3), term_of(ALL))
def test_one_more_term_changes_the_digest_unless_it_is_a_multiple(given_, term):
    longer = Linear((*given_.terms, term), given_.constant)
    one, two = answered(Speller().whole(given_)), answered(Speller().whole(longer))
    assume(one is not None and two is not None)
    if ratio(given_.meaning, longer.meaning) is None:
        assert one.query != two.query


@settings(max_examples=40)
@given(linear(ALL, 3), st.builds(Fraction, st.integers(1, 9), st.integers(1, 9)), st.data())
def test_a_positive_multiple_is_the_same_query(given_, factor, data):
    one = answered(Speller().whole(given_))
    assume(one is not None)
    scaled = Linear(tuple(Term(factor * t.coefficient, t.aggregate, t.condition) for t in given_.terms), Fraction(0))
    two = answered(Speller(data.draw).whole(scaled))
    assert two is not None and two.query == one.query and two.unit == factor * one.unit


@settings(max_examples=40)
@given(linear(ALL, 3))
def test_a_multiple_is_the_same_query(given_):
    """Also a negative one: x - y and y - x are one number with two signs, and are paid for once."""
    one = answered(Speller().whole(given_))
    assume(one is not None)
    negative = Linear(tuple(Term(-2 * t.coefficient, t.aggregate, t.condition) for t in given_.terms), Fraction(0))
    two = answered(Speller().whole(negative))
    assert two is not None and two.query == one.query and two.unit == -2 * one.unit


# -- WHERE, FILTER, AVG, GROUP BY ------------------------------------------------------------------------


@settings(max_examples=40)
@given(linear([*COUNTS, "SUM(a)", "SUM(n)", "SUM(n * n)"], 3), places)
def test_where_is_a_filter_on_everything(given_, place):
    where = CONDITIONS[place][0][-1]
    outside = answered(Speller().whole(given_), ADD, f"WHERE {where}")
    inside = []
    for term in given_.terms:
        condition = f"({CONDITIONS[term.condition][0][0]}) AND ({where})"
        value = f"({'-' if term.coefficient < 0 else ''}{number(term.coefficient)})"
        inside.append(f"{value} * {term.aggregate} FILTER (WHERE {condition})")
    constant = f" {'-' if given_.constant < 0 else '+'} {number(given_.constant)}"
    other = answered(" + ".join(inside) + constant, ADD)
    if outside is None or other is None:
        assert outside is other
        return
    assert (outside.query.digest, outside.unit, outside.offset) == (other.query.digest, other.unit, other.offset)


@pytest.mark.parametrize(
    ("average", "total"),
    [
        ("AVG(n)", "SUM(n) / 7"),
        ("AVG(f)", "COUNT_IF(f) / 7"),
        ("AVG(n > 0 AND f)", "COUNT_IF(f AND n > 0) / 7"),
        ("3 * AVG(n) - AVG(f)", "(3 * SUM(n) - COUNT_IF(f)) / 7"),
        ("7 * AVG(n) + SUM(a)", "SUM(n) + SUM(a)"),
        ("AVG(n) / 2 + 1", "SUM(n) * 0.5 / 7 + 1"),
    ],
)
def test_averages_that_are_linear_are_sums(average, total):
    one, two = question(average), question(total)
    assert (one.query.digest, one.unit, one.offset) == (two.query.digest, two.unit, two.offset)


@settings(max_examples=40)
@given(linear([*COUNTS, "SUM(a)", "SUM(n)"], 3), st.permutations(["a", "b", "f", "n"]), st.integers(1, 4), st.data())
def test_groups_are_the_same_statistic_on_each_part(given_, names, size, data):
    by = names[:size]
    asked = answered(Speller().whole(given_), ADD, f"GROUP BY {', '.join(by)}")
    plain = answered(Speller().whole(given_), ADD)
    assume(asked is not None and plain is not None)
    again = answered(Speller(data.draw).whole(given_), ADD, f"GROUP BY {', '.join(sorted(by, reverse=True))}")
    assert again is not None and (again.query.digest, again.unit, again.offset) == (
        asked.query.digest, asked.unit, asked.offset,
    )  # fmt: skip
    assert asked.query.digest != plain.query.digest
    assert [part.canonical_form for part in asked.query.parts] == [part.canonical_form for part in plain.query.parts]
    assert asked.query.by == tuple(sorted(by))
    assert len(group_labels(asked.query, ADD)) == len(list(product(*(column_groups(COLUMNS[name]) for name in by))))


def test_the_generator_reaches_what_it_should():
    """Guards the tests above: spellings differ, conditions mean what Python says, mixed signs and cancellations occur."""  # noqa: E501
    for spellings, rule in CONDITIONS:
        for spelling in spellings:
            weights = question(f"SUM(n * n) + 2 * SUM(n * n) FILTER (WHERE {spelling})", ADD).query.parts[0].weights
            held = [any(weight != 1 and p.holds_for(row) for weight, p in weights) for row in ROWS]
            everywhere = len(weights) == 1
            assert everywhere or held == [rule(row) for row in ROWS], spelling
    assert ratio((Fraction(1), Fraction(0)), (Fraction(2), Fraction(0))) == Fraction(1, 2)
    assert ratio((Fraction(1), Fraction(1)), (Fraction(2), Fraction(0))) is None
    assert answered("COUNT_IF(f) - COUNT_IF(NOT NOT f) + 3") is None
    assert answered("COUNT_IF(f) + COUNT_IF(NOT f)") is None  # N rows, publicly
