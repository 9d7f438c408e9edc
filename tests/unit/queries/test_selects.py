"""What a SELECT is made of: clauses on the released table, subqueries written as one SELECT, suggestions."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from noisebank.core.errors import BadQuery, Misuse, UnsupportedQuery
from noisebank.policy.file import parse_policy
from noisebank.queries.result_expressions import Condition, Key, Number, Operation, OrderTerm, Released, Total
from noisebank.queries.selects import SelectList, parse_select_list
from noisebank.queries.sql import parse_question

TEXT = """
name = "t"
source = "t.csv"
neighbours = "add-remove"
row_cap = 1000
unit = "person"
max_rows = 3
[budget]
epsilon = 8
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
bins = [20, 40, 60]
[columns.pay]
type = "integer"
bounds = [0, 1000]
[columns.ill]
type = "boolean"
[columns.city]
type = "text"
keys = ["x", "y"]
[columns.person]
type = "text"
"""
POLICY = parse_policy(TEXT, Path())
PUBLIC = parse_policy(
    re.sub(r"(?m)^(row_cap|unit|max_rows) .*\n", "", TEXT).replace('"add-remove"', '"replace-one"\nrows = 100'), Path()
)


def parse(sql: str) -> SelectList:
    return parse_select_list(sql, POLICY)


def shape(select: SelectList) -> tuple[Any, ...]:
    """Everything but the texts of the questions."""
    aggregates = [each.identity for each in select.aggregates]
    columns = [(column.name, column.key, column.expression) for column in select.columns]
    return aggregates, columns, select.having, select.order, select.offset, select.limit, select.grouping_sets


def test_a_word_that_names_no_query_is_told_which_there_are() -> None:
    with pytest.raises(BadQuery, match="names no query over60: it names none"):
        parse("over60")
    named = parse_policy(TEXT + '[queries]\nover_60 = "SELECT COUNT(*) FROM t"\n', Path())
    with pytest.raises(BadQuery, match="names no query over60: its queries are over_60"):
        parse_select_list(" over60 ", named)


def test_what_is_linear_is_one_question_and_the_rest_is_arithmetic() -> None:
    select = parse("SELECT 2 * COUNT(*) - 3 AS a, SUM(pay) / COUNT(*) AS b, COUNT(*) AS c FROM t WHERE ill")
    assert [column.expression for column in select.items] == [
        Released(0),
        Operation("/", (Released(1), Released(2))),
        Released(2),
    ]
    assert [aggregate.questions[0].unit for aggregate in select.aggregates] == [2, 1, 1]


def test_an_aggregate_that_is_written_twice_is_measured_once() -> None:
    select = parse("SELECT AVG(pay) / 12 AS a, AVG(pay) AS b FROM t HAVING AVG((pay)) > 3 ORDER BY AVG(pay)")
    assert len(select.aggregates) == 1 and select.order == (OrderTerm(Released(0)),)


def test_clauses_change_nothing_that_is_measured() -> None:
    plain = parse("SELECT city, COUNT(*) AS n FROM t WHERE ill GROUP BY city")
    for clauses in (
        "HAVING n > 5", "ORDER BY n DESC", "LIMIT 1", "ORDER BY 2 LIMIT 1 OFFSET 1", "HAVING city = 'x' ORDER BY city",
        "FETCH FIRST 1 ROWS ONLY", "HAVING COUNT(*) BETWEEN 1 AND 9 OR NOT n IS NULL",
    ):  # fmt: skip
        longer = parse(f"SELECT city, COUNT(*) AS n FROM t WHERE ill GROUP BY city {clauses}")
        assert [each.identity for each in longer.aggregates] == [each.identity for each in plain.aggregates]
        assert longer.columns == plain.columns


def test_a_plain_question_keeps_its_own_text_and_others_have_plain_ones() -> None:
    """The ledger's openings parse it again."""
    for sql in ("SELECT  count( * ) FROM t", "select city, sum(pay) from t group by city"):
        assert parse(sql).aggregates[0].questions[0].sql == sql
    for sql in (
        "SELECT city AS c, COUNT(*) FROM t GROUP BY 1 ORDER BY 2", "SELECT COUNT(*) FROM t LIMIT 1",
        "WITH a AS (SELECT * FROM t WHERE ill) SELECT COUNT(*) FROM a", "SELECT COUNT(*) + AVG(pay) FROM t",
    ):  # fmt: skip
        for aggregate in parse(sql).aggregates:
            for question in aggregate.questions:
                assert parse_question(question.sql, POLICY).query == question.query


SAME = [
    ("SELECT city, COUNT(*) FROM t GROUP BY 1", "SELECT city, COUNT(*) FROM t GROUP BY city"),
    ("SELECT city AS c, COUNT(*) FROM t GROUP BY c", "SELECT city AS c, COUNT(*) FROM t GROUP BY city"),
    ("SELECT city, COUNT(*) FROM t GROUP BY ALL", "SELECT city, COUNT(*) FROM t GROUP BY city"),
    ("SELECT TOP 2 city, COUNT(*) FROM t GROUP BY city", "SELECT city, COUNT(*) FROM t GROUP BY city LIMIT 2"),
    ("SELECT TOP (2) city, COUNT(*) FROM t GROUP BY city;", "SELECT city, COUNT(*) FROM t GROUP BY city LIMIT 2"),
    ("SELECT COUNT(*) AS n FROM (SELECT * FROM t WHERE ill) s WHERE age > 3 OR age < 2",
     "SELECT COUNT(*) AS n FROM t WHERE ill AND (age > 3 OR age < 2)"),
    ("SELECT s.c, AVG(s.p) AS m FROM (SELECT u.city AS c, u.pay AS p FROM t u WHERE u.ill) s GROUP BY s.c ORDER BY m",
     "SELECT city AS c, AVG(pay) AS m FROM t WHERE ill GROUP BY city ORDER BY m"),
    ("WITH a AS (SELECT city, pay FROM t), b AS (SELECT pay AS q, city FROM a WHERE pay > 5) "
     "SELECT city, SUM(q) AS s FROM b GROUP BY city", "SELECT city, SUM(pay) AS s FROM t WHERE pay > 5 GROUP BY city"),
    ("WITH g AS (SELECT city, COUNT(*) AS n FROM t GROUP BY city) SELECT city, 100 * n / SUM(n) OVER () AS s FROM g "
     "ORDER BY n DESC LIMIT 1",
     "SELECT city, 100 * COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM t GROUP BY city ORDER BY COUNT(*) DESC LIMIT 1"),
    ("SELECT g.* FROM (SELECT city, COUNT(*) AS n FROM t GROUP BY city) g ORDER BY -n, city",
     "SELECT city, COUNT(*) AS n FROM t GROUP BY city ORDER BY -COUNT(*), city"),
    ("SELECT city, COUNT(*) AS n FROM t GROUP BY city ORDER BY n / 2 + 1",
     "SELECT city, COUNT(*) AS n FROM t GROUP BY city ORDER BY COUNT(*) / 2 + 1"),
    ("SELECT * FROM (SELECT city, COUNT(*) AS n FROM t GROUP BY city) g WHERE n > 5",
     "SELECT city, COUNT(*) AS n FROM t GROUP BY city HAVING COUNT(*) > 5"),
    ("WITH t AS (SELECT * FROM t WHERE ill) SELECT SUM(pay) AS s FROM t", "SELECT SUM(pay) AS s FROM t WHERE ill"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), SAME)
def test_spellings_that_mean_the_same(one: str, two: str) -> None:
    assert shape(parse(one)) == shape(parse(two))


def test_names_are_those_that_are_written() -> None:
    select = parse("SELECT AVG(x) / 2, g, g AS h FROM (SELECT pay AS x, city AS g FROM t) s GROUP BY g")
    assert [column.name for column in select.columns] == ["AVG(x) / 2", "g", "h"]
    assert parse("SELECT sum(pay), city FROM t GROUP BY ill, city").columns[0].name == "ill"


def test_sets_of_cube_and_rollup() -> None:
    def sets(group: str) -> tuple[tuple[str, ...], ...]:
        return parse(f"SELECT city, ill, COUNT(*) FROM t GROUP BY {group}").grouping_sets

    both, city, ill, nothing = ("city", "ill"), ("city",), ("ill",), ()
    assert sets("CUBE (city, ill)") == (both, city, ill, nothing)
    assert sets("ROLLUP (city, ill)") == (both, city, nothing)
    assert sets("GROUPING SETS ((city), ill, ())") == (city, ill, nothing)
    assert sets("city, ROLLUP (ill)") == (both, city)
    assert sets("city, ill") == ()


def test_totals_and_conditions() -> None:
    select = parse("SELECT city, ill, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY city) AS s FROM t GROUP BY city, ill")
    assert select.items[0].expression == Operation("/", (Released(0), Total(Released(0), ("city",))))
    having = parse("SELECT city, COUNT(*) AS n FROM t GROUP BY city HAVING n >= 2.5").having
    assert having == Condition(">=", (Released(0), Number(Fraction(5, 2))))
    order = parse("SELECT city, age, COUNT(*) FROM t GROUP BY city, age ORDER BY age DESC, city NULLS FIRST").order
    assert order == (OrderTerm(Key("age"), True), OrderTerm(Key("city", True), False, True))


def test_a_public_number_of_rows_is_no_question() -> None:
    select = parse_select_list("SELECT COUNT(*) AS n, 100.0 * COUNT_IF(ill) / COUNT(*) AS p FROM t", PUBLIC)
    assert select.items[0].expression == Number(Fraction(100)) and select.items[1].expression == Released(0)
    assert len(select.aggregates) == 1 and select.aggregates[0].questions[0].unit == 1
    with pytest.raises(BadQuery, match="the number of rows is public"):
        parse_select_list("SELECT COUNT(*) FROM t", PUBLIC)
    filtered = parse_select_list("SELECT COUNT(*) FILTER (WHERE ill) / COUNT(*) AS p FROM t", PUBLIC)
    assert filtered.aggregates[0].questions[0].unit == Fraction(1, 100)


REFUSED = [
    ("SELECT AVG(n) FROM (SELECT person, COUNT(*) AS n FROM t GROUP BY person) s", "one number for each person",
     "SELECT COUNT(*) AS n FROM t"),
    ("SELECT COUNT(*) FROM (SELECT person FROM t GROUP BY person HAVING COUNT(*) > 2) s", "one number for each person",
     "SELECT COUNT(*) FROM t"),
    ("SELECT COUNT(DISTINCT person) FROM t WHERE city = 'x'", "DISTINCT", "SELECT COUNT(*) FROM t WHERE city = 'x'"),
    ("SELECT a.city, COUNT(*) FROM t a JOIN u b ON a.person = b.person GROUP BY 1", "JOIN",
     "SELECT city, COUNT(*) FROM t GROUP BY city"),
    ("SELECT person, SUM(pay) FROM t GROUP BY person", "person", "SELECT SUM(pay) FROM t"),
    ("SELECT * FROM t WHERE pay > 900", "single rows", "SELECT COUNT(*) FROM t WHERE pay > 900"),
    ("SELECT person, pay FROM t ORDER BY pay DESC LIMIT 10", "single values", "SELECT AVG(pay) FROM t"),
    ("SELECT city, COUNT(*) FROM t WHERE city = 'X' GROUP BY city ORDER BY 2", "no declared key",
     "SELECT city, COUNT(*) FROM t WHERE city = 'x' GROUP BY city ORDER BY 2"),
    ("SELECT city, MEDIAN(pay) FROM t GROUP BY city", r"bins = \[100, 200, .* under \[columns.pay\]",
     "SELECT city, AVG(pay) FROM t GROUP BY city"),
    ("SELECT pay, COUNT(*) FROM t GROUP BY pay", r"bins = \[",
     "SELECT FLOOR(pay / 50) * 50 AS pay_from, COUNT(*) FROM t GROUP BY 1"),
    ("SELECT COUNT(*) FROM t WHERE wage > 5 AND age > 60", "wage", "SELECT COUNT(*) FROM t WHERE age > 60"),
    ("SELECT citi, COUNT(*) AS n FROM t WHERE ages > 60 AND NOT il GROUP BY citi ORDER BY n DESC LIMIT 1", "citi",
     "SELECT city, COUNT(*) AS n FROM t WHERE age > 60 AND NOT ill GROUP BY city ORDER BY n DESC LIMIT 1"),
    ("SELECT AVG(Age) FROM tt WHERE CITTY = 'X'", "there is no table tt",
     "SELECT AVG(Age) FROM t WHERE city = 'x'"),
    ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY city) FROM t", "PERCENTILE_CONT needs numbers",
     "SELECT COUNT(*) FROM t"),
    ("SELECT COUNT(*) FROM t GROUP BY city HAVING city BETWEEN 'a' AND 'b'", "compare a key with one of its values",
     "SELECT city, COUNT(*) FROM t GROUP BY city"),
    ("SELECT SUM(SUM(pay)) OVER (ORDER BY SUM(pay)) FROM t GROUP BY city", "OVER",
     "SELECT city, SUM(pay) FROM t GROUP BY city"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "words", "nearest"), REFUSED)
def test_what_is_refused_names_the_nearest_question(sql: str, words: str, nearest: str) -> None:
    with pytest.raises(Misuse, match=words) as refusal:
        parse(sql)
    assert refusal.value.nearest == nearest
    assert str(refusal.value).endswith(f"Instead, ask: {nearest}")
    assert parse(nearest).aggregates


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM t GROUP BY 0", "SELECT COUNT(*) FROM t ORDER BY 2", "SELECT COUNT(*) FROM t LIMIT -1",
        "SELECT COUNT(*) FROM t LIMIT 1 + 1", "SELECT COUNT(*) FROM (SELECT * FROM t LIMIT 5) s",
        "SELECT COUNT(*) FROM (SELECT city FROM t) s WHERE ill", "SELECT COUNT(*) FROM (SELECT * FROM t) s WHERE u.ill",
        "WITH RECURSIVE a AS (SELECT * FROM a) SELECT COUNT(*) FROM a",
        "SELECT COUNT(*) FROM (SELECT DISTINCT city FROM t)",
        "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM t) SELECT COUNT(*) FROM a", "SELECT SUM(5) OVER () FROM t",
        "SELECT COUNT(*) FROM t HAVING city = 'x'", "SELECT city, COUNT(*) FROM t GROUP BY city HAVING city > 'x'",
        "SELECT SUM(AVG(pay)) OVER () FROM t", "SELECT NTILE(4) OVER (ORDER BY COUNT(*)) FROM t GROUP BY city",
        "SELECT MAX(n) FROM (SELECT city, COUNT(*) AS n FROM t GROUP BY city) s", "SELECT ROUND(COUNT(*), 99) FROM t",
        "WITH a AS (SELECT 1) SELECT COUNT(*) FROM a", "SELECT REGR_SLOPE(pay, ) FROM t",
        "SELECT city, SUM(COUNT(*)) OVER w FROM t GROUP BY city", "SELECT COUNT(*)::text FROM t",
        "SELECT city || 'a', COUNT(*) FROM t GROUP BY city",
    ],
)  # fmt: skip
def test_refused_before_anything_is_paid(sql: str) -> None:
    with pytest.raises((BadQuery, UnsupportedQuery)):
        parse(sql)
