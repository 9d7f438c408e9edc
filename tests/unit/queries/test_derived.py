"""What a SELECT is made of: items, their parts as plain queries, and what is refused before anything is paid."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadPolicy, BadQuery, Misuse, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.derived import Derivation
from noisebank.queries.selects import MAX_RESULTS, check_named_queries, parse_select_aggregates, parse_select_list
from noisebank.queries.sql import parse_question

COLUMNS = {
    column.name: column
    for column in (
        Column("age", Kind.INTEGER, low=0, high=120, bins=(20, 40, 60)),
        Column("pay", Kind.NUMBER, Fraction(1, 2), 0, 20),
        Column("tip", Kind.NUMBER, Fraction(1, 4), -8, 8, bins=(0,), nullable=True),
        Column("ill", Kind.BOOLEAN),
        Column("old", Kind.BOOLEAN, nullable=True),
        Column("city", Kind.TEXT, keys=("x", "y")),
        Column("Odd Name", Kind.INTEGER, low=0, high=9, bins=(5,)),
    )
}
ROWS = 100


def policy(neighbours: Neighbours, unit: str = "row", max_rows: int = 1) -> Policy:
    return Policy(
        "t", Path("/t"), neighbours, ROWS, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6), unit, max_rows
    )


REPLACE, ADD = policy(Neighbours.REPLACE_ONE), policy(Neighbours.ADD_REMOVE)
PEOPLE = policy(Neighbours.REPLACE_ONE, "city", 3)
RULES = {"replace-one": REPLACE, "add-remove": ADD, "people": PEOPLE}


def the_item(sql: str, of: Policy = REPLACE):
    (found,) = parse_select_aggregates(f"SELECT {sql}", of)
    return found


SHAPES = [
    # what is asked, of which policies, how it is made, its parts
    ("AVG(pay) FROM t WHERE ill", RULES, Derivation.RATIO,
     ["SUM(pay) FROM t WHERE ill", "COUNT(*) FROM t WHERE ill"]),
    ("AVG(tip) FROM t", RULES, Derivation.RATIO, ["SUM(tip) FROM t", "COUNT(tip) FROM t"]),
    ("AVG(pay) FROM t", ["add-remove", "people"], Derivation.RATIO, ["SUM(pay) FROM t", "COUNT(*) FROM t"]),
    ("AVG(ill) FROM t WHERE age > 3", RULES, Derivation.RATIO,
     ["COUNT(*) FROM t WHERE ill AND age > 3", "COUNT(*) FROM t WHERE age > 3"]),
    ("AVG(old) FROM t WHERE age > 3", RULES, Derivation.RATIO,
     ["COUNT(*) FROM t WHERE old AND age > 3", "COUNT(old) FROM t WHERE age > 3"]),
    ("AVG(tip > 1 OR ill) FROM t WHERE age > 3", RULES, Derivation.RATIO,
     ["COUNT_IF(tip > 1 OR ill) FROM t WHERE age > 3", "COUNT_IF(tip IS NOT NULL OR ill) FROM t WHERE age > 3"]),
    ("AVG(pay) FROM t GROUP BY city, ill", RULES, Derivation.RATIO,
     ["SUM(pay) FROM t GROUP BY ill, city", "COUNT(*) FROM t GROUP BY city, ill"]),
    ("VARIANCE(pay) FROM t", ["replace-one"], Derivation.VARIANCE, ["SUM(pay * pay) FROM t", "SUM(pay) FROM t"]),
    ("VAR_POP(pay) FROM t", ["add-remove", "people"], Derivation.VARIANCE,
     ["SUM(pay * pay) FROM t", "SUM(pay) FROM t", "COUNT(*) FROM t"]),
    ("STDDEV(tip) FROM t", RULES, Derivation.STDDEV,
     ["SUM(tip * tip) FROM t", "SUM(tip) FROM t", "COUNT(tip) FROM t"]),
    ("STDDEV_POP(pay) FROM t WHERE ill", RULES, Derivation.STDDEV,
     ["SUM(pay * pay) FROM t WHERE ill", "SUM(pay) FROM t WHERE ill", "COUNT(*) FROM t WHERE ill"]),
    ("VARIANCE(pay) FROM t GROUP BY city", RULES, Derivation.VARIANCE,
     ["SUM(pay * pay) FROM t GROUP BY city", "SUM(pay) FROM t GROUP BY city", "COUNT(*) FROM t GROUP BY city"]),
    ("MEDIAN(age) FROM t WHERE ill", RULES, Derivation.QUANTILE, ["COUNT(*) FROM t WHERE ill GROUP BY age"]),
    ("QUANTILE(age, 0.9) FROM t", RULES, Derivation.QUANTILE, ["COUNT(*) FROM t GROUP BY age"]),
    ("MIN(tip) FROM t", RULES, Derivation.MINIMUM, ["COUNT(*) FROM t GROUP BY tip"]),
    ("MAX(age) FROM t", RULES, Derivation.MAXIMUM, ["COUNT(*) FROM t GROUP BY age"]),
    ("MODE(city) FROM t WHERE NOT ill", RULES, Derivation.MODE, ["COUNT(*) FROM t WHERE NOT ill GROUP BY city"]),
    ("COUNT_IF(ill) - 3 FROM t", RULES, Derivation.LINEAR, ["COUNT_IF(ill) - 3 FROM t"]),
    ("AVG(pay) FROM t", ["replace-one"], Derivation.LINEAR, ["AVG(pay) FROM t"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "of", "how", "parts"), [(sql, of, how, parts) for sql, names, how, parts in SHAPES for of in names]
)
def test_what_results_are_made_of(sql, of, how, parts):
    found = the_item(sql, RULES[of])
    assert found.derivation is how
    wanted = [parse_question(f"SELECT {part}", RULES[of]) for part in parts]
    assert [q.query.digest for q in found.questions] == [q.query.digest for q in wanted]
    assert [(q.unit, q.offset) for q in found.questions] == [(q.unit, q.offset) for q in wanted]
    for question in found.questions:  # what the ledger's openings will parse again
        assert parse_question(question.sql, RULES[of]).query == question.query


@pytest.mark.parametrize(
    ("sql", "rank"),
    [("MEDIAN(age)", "1/2"), ("QUANTILE(age, 0.25)", "1/4"), ("QUANTILE(age, 0)", 0), ("QUANTILE(age, 1)", 1),
     ("QUANTILE_CONT(age, 0.1)", "1/10"), ("QUANTILE_DISC(age, 0.1)", "1/10"),
     ("PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age)", "1/10"),
     ("PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age ASC)", "1/10"),
     ("PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY age DESC)", "9/10"),
     ("PERCENTILE_CONT('0.1') WITHIN GROUP (ORDER BY age)", "1/10"),
     ("PERCENTILE_CONT('0.1') WITHIN GROUP (ORDER BY age DESC)", "9/10")],
)  # fmt: skip
def test_ranks(sql, rank):
    assert the_item(f"{sql} FROM t").rank == Fraction(rank)


@pytest.mark.parametrize("rank", ["'x'", "'nan'", "age", "1.5", "-0.1"])
@pytest.mark.parametrize("order", ["age", "age DESC"])
def test_bad_ranks_within_groups_are_refused(rank, order):
    with pytest.raises(Misuse):
        parse_select_aggregates(f"SELECT PERCENTILE_CONT({rank}) WITHIN GROUP (ORDER BY {order}) FROM t", REPLACE)
    with pytest.raises(Misuse, match="several columns"):
        parse_select_aggregates("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, pay) FROM t", REPLACE)


@pytest.mark.parametrize("rank", ["1.5", "-0.5", "'x'", "age", "0.2 + 0.3", "[0.1, 0.2]", "NULL", "1e999", "TRUE"])
def test_bad_ranks_are_refused(rank):
    with pytest.raises(Misuse):
        parse_select_aggregates(f"SELECT QUANTILE(age, {rank}) FROM t", REPLACE)


def test_the_public_number_of_rows_is_not_asked_for():
    assert the_item("VARIANCE(pay) FROM t").public_rows == ROWS
    for sql, of in (
        ("VARIANCE(pay) FROM t", ADD),
        ("VARIANCE(tip) FROM t", REPLACE),
        ("STDDEV(pay) FROM t WHERE ill", REPLACE),
    ):
        assert the_item(sql, of).public_rows is None and len(the_item(sql, of).questions) == 3


def test_names_of_results():
    found = parse_select_list("SELECT AVG(pay) AS mean, COUNT_IF(ill), sum(age) FROM t WHERE age > 3", REPLACE).items
    assert [item.name for item in found] == ["mean", "COUNT_IF(ill)", "SUM(age)"]


def test_keys_are_no_results():
    found = parse_select_list("SELECT city, AVG(pay) AS mean, ill, COUNT(*) AS n FROM t GROUP BY ill, city", REPLACE)
    assert [item.name for item in found.items] == ["mean", "n"] and found.by == ("city", "ill")
    assert [each.derivation for each in found.aggregates] == [Derivation.RATIO, Derivation.LINEAR]


def test_there_is_a_limit_to_the_number_of_results():
    def several(count: int) -> str:
        return "SELECT " + ", ".join(f"COUNT_IF(age > {n})" for n in range(count)) + " FROM t"

    assert len(parse_select_aggregates(several(MAX_RESULTS), REPLACE)) == MAX_RESULTS
    with pytest.raises(UnsupportedQuery, match="results"):
        parse_select_aggregates(several(MAX_RESULTS + 1), REPLACE)


def test_names_with_spaces_survive_the_rewriting():
    for sql in (
        'AVG("Odd Name") FROM t WHERE ill',
        'VARIANCE(t."odd name") FROM t',
        'MEDIAN(s."Odd Name") FROM t AS s',
    ):
        assert any("Odd Name" in question.query.column_names() for question in the_item(sql).questions)


TRICKY = [
    "city = 'x'' OR TRUE --'",
    "ill /* OR TRUE */ AND age > 3 -- OR TRUE",
    "NOT (ill OR age BETWEEN 3 AND 5) AND old IS NOT TRUE",
    "ill AND (age > 3 OR NOT old) OR tip IS NULL",
    "NOT old = FALSE AND -(-3) < age",
    "age IN (1, 2.0, 3e0) OR ill <> TRUE",
]
leaves = st.sampled_from([
    "ill", "old", "age > 3", "7 >= age", "tip IS NULL", "tip <> 0.25", "city = 'x'", "city <> 'y'", "old IS NOT TRUE",
    "age BETWEEN 5 AND 9", "city IN ('x', 'y')", "TRUE", "pay = 3.5",
])  # fmt: skip
conditions = st.recursive(
    leaves,
    lambda deeper: st.one_of(
        st.builds("({} AND {})".format, deeper, deeper),
        st.builds("{} OR {}".format, deeper, deeper),
        st.builds("NOT {}".format, deeper),
        st.builds("({})".format, deeper),
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(conditions, st.booleans())
def test_the_rewriting_keeps_the_meaning(condition, grouped):
    """SQL goes through a writer and a second parser on its way to the parts."""
    rest = f"FROM t WHERE {condition}" + (" GROUP BY city" if grouped else "")
    try:
        total, count = parse_question(f"SELECT SUM(pay) {rest}", ADD), parse_question(f"SELECT COUNT(*) {rest}", ADD)
    except BadQuery:
        assume(False)
    found = the_item(f"AVG(pay) {rest}", ADD)
    assert [question.query for question in found.questions] == [total.query, count.query]


@settings(max_examples=40)
@given(conditions)
def test_a_condition_in_avg_keeps_its_meaning(condition):
    found = None
    try:
        top = parse_question(f"SELECT COUNT_IF({condition}) FROM t WHERE pay > 1", ADD)
        found = the_item(f"AVG({condition}) FROM t WHERE pay > 1", ADD)
    except (BadQuery, UnsupportedQuery):
        assume(False)
    known = parse_question(f"SELECT COUNT_IF({condition}) + COUNT_IF(NOT ({condition})) FROM t WHERE pay > 1", ADD)
    assert [question.query for question in found.questions] == [top.query, known.query]


@pytest.mark.parametrize("condition", TRICKY)
def test_comments_quotes_and_signs_survive_the_rewriting(condition):
    try:
        direct = parse_question(f"SELECT SUM(pay) FROM t WHERE {condition}\n", REPLACE)
    except Misuse as error:
        with pytest.raises(type(error)):
            parse_select_aggregates(f"SELECT AVG(pay) FROM t WHERE {condition}\n", REPLACE)
        return
    assert the_item(f"AVG(pay) FROM t WHERE {condition}\n").questions[0].query == direct.query


REFUSED = [
    ("AVG(DISTINCT pay) FROM t WHERE ill", "DISTINCT"),
    ("MEDIAN(DISTINCT age) FROM t", "expression"),
    ("VARIANCE(ill) FROM t", "numbers"),
    ("STDDEV(city) FROM t", "text"),
    ("MEDIAN(pay) FROM t", "bins"),
    ("MIN(pay) FROM t", "bins"),
    ("MODE(pay) FROM t", "bins"),
    ("MAX(age) FROM t GROUP BY age", "GROUP BY"),
    ("AVG(salary) FROM t WHERE ill", "salary"),
    ("MEDIAN(salary) FROM t", "salary"),
    ("AVG(city) FROM t WHERE ill", "text"),
    ("AVG(pay) FROM t GROUP BY 1", "GROUP BY"),
    ("AVG(pay), COUNT(*) FROM t GROUP BY city, 1", "GROUP BY"),
    ("MEDIAN(age) FROM t GROUP BY 1", "GROUP BY"),
    ("AVG(pay) OVER () FROM t", "OVER"),
    ("AVG(pay), * FROM t", "SELECT"),
    ("AVG(pay), age FROM t", "SELECT"),
    ("AVG(pay) FROM t WHERE ill AND NOT ill", "no row"),
    ("AVG(pay), 5 FROM t WHERE ill", "constant"),
    ("city, ill FROM t GROUP BY city, ill", "aggregate"),
    ("AVG(pay) FROM other WHERE ill", "other"),
]


@pytest.mark.parametrize(("sql", "word"), REFUSED)
def test_refused_by_name(sql, word):
    for of in (REPLACE, PEOPLE):
        with pytest.raises(Misuse, match=word):
            parse_select_aggregates(f"SELECT {sql}", of)


@pytest.mark.parametrize("sql", ["MEDIAN(city)", "MIN(ill)", "MAX(city)", "QUANTILE(ill, 0.5)", "MAX(old)"])
def test_ranks_need_numbers(sql):
    """Text and truth have no order here: refused before anything is paid, not when the answer is looked at."""
    with pytest.raises(Misuse):
        parse_select_aggregates(f"SELECT {sql} FROM t", REPLACE)


@pytest.mark.parametrize("column", ["pay", "nonsense", "ill"])
@pytest.mark.parametrize("results", ["AVG(age)", "COUNT(*), SUM(age)", "VARIANCE(age)", "COUNT(*)"])
def test_columns_that_are_no_keys(column, results):
    with pytest.raises(Misuse, match=column):
        parse_select_aggregates(f"SELECT {column}, {results} FROM t GROUP BY city", REPLACE)


@pytest.mark.parametrize("sql", ["AVG(pay)", "VARIANCE(pay)", "AVG(ill)"])
@pytest.mark.parametrize("where", ["TRUE", "age >= 0", "ill OR NOT ill"])
def test_a_condition_that_always_holds(sql, where):
    plain, longer = the_item(f"{sql} FROM t"), the_item(f"{sql} FROM t WHERE {where}")
    assert plain.derivation is longer.derivation
    assert [q.query for q in plain.questions] == [q.query for q in longer.questions]


def test_a_condition_that_is_never_unknown_needs_no_count():
    """tip may be missing, but `tip IS NULL` is always true or false: its frequency is a count over public rows."""
    found = the_item("AVG(tip IS NULL) FROM t")
    assert found.questions[0].query == parse_question("SELECT COUNT_IF(tip IS NULL) FROM t", REPLACE).query


@pytest.mark.parametrize("sql", ["MAX(age, 3)", "MIN(age, 3)", "MAX(age, tip)", "MEDIAN(age, 3)", "MODE(city, ill)"])
def test_second_arguments_are_refused(sql):
    """In DuckDB these are the three largest values, or the larger of two columns: something else."""
    with pytest.raises(Misuse):
        parse_select_aggregates(f"SELECT {sql} FROM t", REPLACE)


@pytest.mark.parametrize(
    "sql", ["VARIANCE(pay)", "STDDEV(pay)", "MEDIAN(age)", "QUANTILE(age, 0.1)", "MIN(age)", "MODE(city)"]
)
def test_filter_goes_with_everything_but_avg(sql):
    """As docs/reference/sql.md says."""
    for plain, filtered in (
        (f"{sql} FROM t WHERE ill", f"{sql} FILTER (WHERE ill) FROM t"),
        (f"{sql} FROM t WHERE ill AND (age > 3 OR old)", f"{sql} FILTER (WHERE age > 3 OR old) FROM t WHERE ill"),
        (f"{sql} FROM t WHERE ill OR old", f"{sql} FILTER (WHERE TRUE) FROM t WHERE ill OR old"),
        (f"{sql} FROM t", f"{sql} FILTER (WHERE age >= 0) FROM t WHERE TRUE"),
        (f"{sql} FROM t WHERE (ill OR old) AND tip > 0", f"{sql} FILTER (WHERE tip > 0) FROM t WHERE ill OR old"),
    ):
        one, two = the_item(plain), the_item(filtered)
        assert one.derivation is two.derivation
        assert [q.query for q in one.questions] == [q.query for q in two.questions], filtered


@pytest.mark.parametrize(
    "sql", ["AVG({}) FROM t WHERE ill", "VARIANCE({}) FROM t", "MEDIAN({}) FROM t", "MAX({}) FROM t"]
)
def test_parentheses_make_no_difference(sql):
    plain, other = the_item(sql.format("age")), the_item(sql.format("(age)"))
    assert [q.query for q in plain.questions] == [q.query for q in other.questions]


@pytest.mark.parametrize("depth", [20, 100, 1000, 6000])
@pytest.mark.parametrize("shape", ["AVG(pay) FROM t WHERE {open}ill{close}", "{open}AVG(pay){close} FROM t WHERE ill",
                                   "AVG({open}ill{close}) FROM t WHERE age > 3"])  # fmt: skip
def test_deep_nesting_is_refused_not_a_crash(depth, shape):
    sql = shape.format(open="(" * depth, close=")" * depth)
    try:
        assert the_item(sql).derivation is Derivation.RATIO
    except Misuse:
        assert depth > 20


def test_named_queries_are_checked_all_at_once() -> None:
    good, bad = {"one": "SELECT AVG(age) FROM t"}, {"two": "SELECT COUNT(*) FROM other", "three": "nonsense"}
    check_named_queries(replace(REPLACE, queries=good))
    with pytest.raises(BadPolicy) as refused:
        check_named_queries(replace(REPLACE, queries=good | bad))
    # A parsed policy has no lines.
    assert {(wrong.line, wrong.where) for wrong in refused.value.mistakes} == {(0, "queries.two"), (0, "queries.three")}
