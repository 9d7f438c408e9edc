"""SELECT's expression: constants, units, nested signs, and what is refused by name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest

from noisebank.core.errors import BadQuery, Misuse, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.query import GROUPED_BIT, PART_OF_TABLE_BIT, SEVERAL_CODE, Function, Question
from noisebank.queries.sql import parse_question

COLUMNS = {
    column.name: column
    for column in (
        Column("age", Kind.INTEGER, low=0, high=120, bins=(20, 40)),
        Column("pay", Kind.NUMBER, Fraction(1, 2), 0, 20),
        Column("tip", Kind.NUMBER, Fraction(1, 4), -8, 8, nullable=True),
        Column("ill", Kind.BOOLEAN),
        Column("old", Kind.BOOLEAN, nullable=True),
        Column("city", Kind.TEXT, keys=("x", "y")),
        Column("free", Kind.INTEGER),
    )
}
ROWS = 100


def policy(neighbours: Neighbours) -> Policy:
    return Policy("t", Path("/t"), neighbours, ROWS, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6))


REPLACE, ADD = policy(Neighbours.REPLACE_ONE), policy(Neighbours.ADD_REMOVE)


def ask(text: str, of: Policy = ADD, rest: str = "") -> Question:
    return parse_question(f"SELECT {text} FROM t {rest}", of)


SAME = [
    ("COUNT_IF(ill)", ["COUNT(*) FILTER (WHERE ill)", "COUNT(1) FILTER (WHERE ill)", "count_if((ill))", "+1 * COUNT_IF(ill)",  # noqa: E501
                       "--COUNT_IF(ill)".replace("--", "-(-") + ")", "COUNT(*) - COUNT_IF(NOT ill)", "0.5 * COUNT_IF(ill) * 2",  # noqa: E501
                       "COUNT_IF(ill) / 1e0", "(COUNT_IF(ill) + COUNT_IF(ill)) / 2", "COUNT_IF(ill) + 3 - 3",
                       "COUNT_IF(ill AND age > 9) + COUNT_IF(ill AND age <= 9)", "1 * (1 * COUNT_IF(ill))",
                       "COUNT(ill) FILTER (WHERE ill)", "COUNT_IF(ill) + 0 * SUM(age)"]),
    ("SUM(pay)", ["SUM(pay) FILTER (WHERE TRUE)", "SUM(PAY)", "SUM((pay))", "SUM(t.pay)", "SUM(pay) + SUM(tip) - SUM(tip)",  # noqa: E501
                  "SUM(pay) FILTER (WHERE ill) + SUM(pay) FILTER (WHERE NOT ill)", "2 * SUM(pay) - SUM(pay)"]),
    ("SUM(tip)", ["SUM(tip) FILTER (WHERE tip IS NOT NULL)", "SUM(tip) FILTER (WHERE tip >= -2)"]),
    ("SUM(tip * tip)", ["SUM((tip * tip))", "SUM(tip * tip) FILTER (WHERE NOT tip IS NULL)", "SUM(TIP * TIP)"]),
    ("3 * COUNT_IF(ill) - COUNT_IF(age > 5) + 7", ["7 - COUNT_IF(age > 5) + 3 * COUNT_IF(ill)",
                                                 "-(COUNT_IF(age > 5) - 3 * COUNT_IF(ill) - 7)",
                                                 "2 * COUNT_IF(ill) + (COUNT_IF(ill) - COUNT_IF(age >= 6)) + 14 / 2"]),
    ("SUM(pay) / 2 - COUNT_IF(ill)", ["(SUM(pay) - 2 * COUNT_IF(ill)) / 2", "0.5 * SUM(pay) - COUNT_IF(ill)"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "spelling"), [(text, spelling) for text, others in SAME for spelling in others])
def test_spellings_of_one_statistic(text, spelling):
    one, two = ask(text), ask(spelling)
    assert (one.query.digest, one.unit, one.offset) == (two.query.digest, two.unit, two.offset)


UNITS = [
    ("COUNT_IF(ill)", 1, 0),
    ("-COUNT_IF(ill)", -1, 0),
    ("1000 * COUNT_IF(ill) - 50000", 1000, -50000),
    ("COUNT_IF(ill) / 3 + 1 / 3", Fraction(1, 3), Fraction(1, 3)),
    ("SUM(pay)", Fraction(1, 2), 0),
    ("SUM(pay * pay)", Fraction(1, 4), 0),
    ("SUM(tip) - SUM(pay)", Fraction(1, 4), 0),
    ("0.1 * SUM(age) + 0.1", Fraction(1, 10), Fraction(1, 10)),
    ("2.50 * COUNT_IF(ill)", Fraction(5, 2), 0),
    ("-(2 * SUM(age) + 4) / 8", Fraction(-1, 4), Fraction(-1, 2)),
]


@pytest.mark.parametrize(("text", "unit", "offset"), UNITS)
def test_units_and_constants_are_exact(text, unit, offset):
    asked = ask(text)
    (first, *_) = asked.query.parts
    assert (abs(asked.unit), asked.offset) == (abs(unit), offset)
    if asked.query.is_simple and first.weights[0][0] > 0:  # where signs are mixed, one of two is chosen
        assert asked.unit == unit


def test_averages_are_sums_over_the_public_number_of_rows():
    for text, total in (("AVG(pay)", "SUM(pay)"), ("AVG(ill)", "COUNT_IF(ill)"), ("AVG(age > 3)", "COUNT_IF(age > 3)")):
        one, two = ask(text, REPLACE), ask(total, REPLACE)
        assert one.query == two.query and one.unit * ROWS == two.unit
    mixed = ask("10 * AVG(pay) - AVG(ill) + 2", REPLACE)
    plain = ask("10 * SUM(pay) - COUNT_IF(ill)", REPLACE)
    assert mixed.query == plain.query
    assert (mixed.unit * ROWS, mixed.offset) == (plain.unit, 2)


def test_the_public_byte():
    for text, rest, about in (
        ("COUNT(*)", "", 1),
        ("COUNT_IF(ill)", "", 1 + PART_OF_TABLE_BIT),
        ("SUM(age)", "", 2),
        ("SUM(tip)", "", 2 + PART_OF_TABLE_BIT),
        ("SUM(age * age)", "", 3),
        ("SUM(age * age)", "WHERE ill", 3 + PART_OF_TABLE_BIT),
        ("SUM(age) + COUNT(*)", "", SEVERAL_CODE),
        ("SUM(age) + COUNT_IF(ill)", "", SEVERAL_CODE + PART_OF_TABLE_BIT),
        ("COUNT(*)", "GROUP BY city", 1 + GROUPED_BIT),
        ("SUM(age)", "WHERE ill GROUP BY city", 2 + GROUPED_BIT + PART_OF_TABLE_BIT),
        ("SUM(age) - COUNT(*)", "GROUP BY city, age", SEVERAL_CODE + GROUPED_BIT),
    ):
        assert ask(text, rest=rest).query.category == about < 32, text


def test_functions_and_columns_are_kept_apart():
    texts = ["COUNT_IF(ill)", "SUM(age)", "SUM(pay)", "SUM(age * age)", "SUM(age) + SUM(pay)", "SUM(age) - SUM(pay)",
             "SUM(age) + 2 * SUM(pay)", "COUNT_IF(ill) + SUM(age)", "COUNT_IF(ill) + SUM(age * age)",
             "SUM(age) FILTER (WHERE ill)", "SUM(age) FILTER (WHERE NOT ill)"]  # fmt: skip
    assert len({ask(text).query.digest for text in texts}) == len(texts)


def test_a_simple_query_says_so():
    simple = ask("3 * SUM(age) FILTER (WHERE ill)").query
    assert (simple.is_simple, simple.function, simple.column) == (True, Function.SUM, "age")
    for text in ("COUNT_IF(ill) + 2 * COUNT_IF(age > 3)", "COUNT_IF(ill) + SUM(age)"):
        several = ask(text).query
        assert not several.is_simple
        with pytest.raises(ValueError, match="several weights"):
            _ = several.where


def test_the_columns_that_are_read():
    assert ask("SUM(age) - 2 * COUNT_IF(ill OR tip > 0)").query.column_names() == {"age", "ill", "tip"}
    assert ask("COUNT(*)", rest="GROUP BY city, age").query.column_names() == {"age", "city"}
    assert ask("COUNT_IF(ill) + COUNT_IF(NOT ill)").query.column_names() == frozenset()


REFUSED = [
    ("COUNT_IF(ill) * COUNT_IF(age > 3)", "product"),
    ("COUNT_IF(ill) / COUNT(*)", "ratio"),
    ("1 / COUNT_IF(ill)", "ratio"),
    ("COUNT_IF(ill) / 0", "zero"),
    ("COUNT_IF(ill) / (2 - 2)", "zero"),
    ("COUNT_IF(ill) * 0", "cancels out"),
    ("SUM(age) - SUM(age)", "cancels out"),
    ("COUNT_IF(age < 0)", "cancels out"),
    ("5", "cancels out"),
    ("COUNT_IF(ill) % 2", "SELECT"),
    ("COUNT_IF(ill) + age", "SELECT"),
    ("COUNT_IF(ill) + 'x'", "SELECT"),
    ("COUNT_IF(ill) + NULL", "SELECT"),
    ("COUNT_IF(ill) + TRUE", "SELECT"),
    ("POWER(COUNT_IF(ill), 2)", "SELECT"),
    ("SQRT(SUM(age))", "SELECT"),
    ("ROUND(AVG(age), 1)", "SELECT"),
    ("COALESCE(SUM(age), 0)", "SELECT"),
    ("CASE WHEN COUNT_IF(ill) > 3 THEN 1 ELSE 0 END", "SELECT"),
    ("COUNT_IF(ill) > 3", "SELECT"),
    ("SUM(ill)", "boolean"),
    ("SUM(ill * ill)", "boolean"),
    ("SUM(free)", "bounds"),
    ("SUM(free * free)", "bounds"),
    ("COUNT(DISTINCT city)", "DISTINCT"),
    ("COUNT(DISTINCT city, ill)", "DISTINCT"),
    ("SUM(DISTINCT age)", "DISTINCT"),
    ("COUNT_IF(age)", "not a condition"),
    ("AVG(age) FILTER (WHERE ill)", "FILTER"),
    ("SUM(COUNT(*))", "inside of a row expression"),
    (f"{2**41} * COUNT_IF(ill) + COUNT_IF(age > 3)", "coefficient this large"),
    ("1e-300 * COUNT_IF(ill) + COUNT_IF(age > 3)", "coefficient this large"),
    ("1e999 * COUNT_IF(ill)", "ordinary size"),
    (f"{'9' * 2000} * COUNT_IF(ill)", "ordinary size"),
]


@pytest.mark.parametrize(("text", "word"), REFUSED)
def test_what_is_not_linear_is_refused_by_name(text, word):
    with pytest.raises(Misuse, match=word):
        ask(text)


@pytest.mark.parametrize("text", ["AVG(tip)", "AVG(old)", "AVG(tip > 1)", "AVG(age > 3 OR old)"])
def test_averages_over_missing_values_are_not_linear(text):
    with pytest.raises(UnsupportedQuery, match="nullable"):
        ask(text, REPLACE)


def test_what_nobody_can_change_is_public():
    for text in (
        "COUNT(*)",
        "COUNT_IF(ill) + COUNT_IF(NOT ill)",
        "3 * COUNT(age) + 4",
        "COUNT(*) FILTER (WHERE age >= 0)",
    ):
        with pytest.raises(BadQuery, match="public"):
            ask(text, REPLACE)
        assert ask(text, ADD).query == ask("COUNT(*)", ADD).query
    grouped = ask("COUNT(*)", REPLACE, "GROUP BY city")  # how many are in each group is not
    assert grouped.query.by == ("city",)


def test_a_group_does_not_make_an_average_linear():
    with pytest.raises(UnsupportedQuery, match="GROUP BY"):
        ask("AVG(age)", REPLACE, "GROUP BY city")


@pytest.mark.parametrize("depth", [10, 500, 3000])
@pytest.mark.parametrize("shape", ["({})", "-({})", "2 * ({}) / 2", "{} + COUNT_IF(ill)"])
def test_nesting_is_answered_or_refused_never_a_crash(depth, shape):
    text = "COUNT_IF(ill)"
    for _ in range(depth):
        text = shape.replace("{}", text) if len(text) < 30_000 else text
    try:
        assert ask(text).query == ask("COUNT_IF(ill)").query
    except Misuse as error:
        assert depth > 10, error
