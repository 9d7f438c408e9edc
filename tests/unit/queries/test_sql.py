from __future__ import annotations

import inspect
import sys
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.query import Function
from noisebank.queries.sql import MAX_NESTING, MAX_SQL_LENGTH, MAX_TERMS, parse_question

COLUMNS = {
    column.name: column
    for column in (
        Column("age", Kind.INTEGER, low=0, high=120),
        Column("pay", Kind.NUMBER, Fraction(1, 2), 0, 20),
        Column("tip", Kind.NUMBER, Fraction(1, 4), -8, 8, nullable=True),
        Column("city", Kind.TEXT, keys=("a  b", "a b", "it's", "x")),
        Column("ill", Kind.BOOLEAN),
        Column("old", Kind.BOOLEAN, nullable=True),
        Column("free", Kind.INTEGER),
        Column("note", Kind.TEXT),
        Column("Mixed Case", Kind.INTEGER, low=0, high=9),
    )
}
ROWS = 5000


def policy(neighbours: Neighbours = Neighbours.REPLACE_ONE, unit: str = "row", max_rows: int = 1) -> Policy:
    return Policy(
        "survey", Path("/t.csv"), neighbours, ROWS, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6), unit,
        max_rows,
    )  # fmt: skip


REPLACE = policy()
ADD = policy(Neighbours.ADD_REMOVE)


def ask(sql: str, of: Policy = REPLACE):
    return parse_question(sql, of)


def where(condition: str):
    return ask(f"SELECT COUNT(*) FROM survey WHERE {condition}").query


EQUIVALENT = [
    ("age > 30", ["30 < age", "age >= 31", "NOT age <= 30", "age > 30.5", "age > 30.0", "(age) > (30)",
                  "survey.age > 30", '"age" > 30', "AGE > 30", "age BETWEEN 31 AND 120", "age BETWEEN 31 AND 500",
                  "age > 30 AND TRUE", "age > 30 OR FALSE", "age > 30 OR age > 40", "age > 30 AND age > 20",
                  "NOT (age BETWEEN 0 AND 30)",
                  "age > 30 /* grown up */", "age>3e1", "NOT NOT age > 30", "age >\n\t30",
                  "age > 30 AND (ill OR NOT ill)", "(age > 30 AND ill) OR (age > 30 AND NOT ill)"]),
    ("age = 3", ["3 = age", "age == 3", "age IN (3)", "age BETWEEN 3 AND 3", "age >= 3 AND age <= 3",
                 "age IN (3, 3, 200)", "age > 2 AND age < 4", "NOT age <> 3",
                 "NOT age != 3", "age = +3", "age = -(-3)", "age = 3.0"]),
    ("age IN (1, 2, 7)", ["age = 7 OR age = 1 OR age = 2", "age IN (7, 2, 1, 1)", "age BETWEEN 1 AND 2 OR age = 7",
                          "NOT age NOT IN (1, 2, 7)", "NOT (age <> 1 AND age <> 2 AND age <> 7)"]),
    ("ill", ["ill = TRUE", "TRUE = ill", "ill IS TRUE", "ill <> FALSE", "ill IN (TRUE)", "NOT NOT ill", "(ill)",
             "ill IS NOT FALSE", "NOT ill = FALSE"]),
    ("old", ["old = TRUE", "old IS TRUE", "NOT (old = FALSE)", "old AND old IS NOT NULL", "NOT NOT old"]),
    ("NOT old", ["old = FALSE", "old IS FALSE", "old <> TRUE"]),
    ("old IS NOT TRUE", ["NOT old IS TRUE", "old IS NULL OR NOT old"]),
    ("tip IS NOT NULL", ["NOT tip IS NULL", "NOT (tip IS NULL)", "tip >= -2", "tip = 1 OR tip <> 1", "tip NOTNULL"]),
    ("tip > 0.3", ["tip >= 0.5", "tip > 0.25", "0.49 < tip", "NOT tip <= 0.4"]),
    ("city = 'x'", ["'x' = city", "city IN ('x')", "NOT city <> 'x'"]),
    ("city <> 'x'", ["NOT city = 'x'", "city NOT IN ('x')"]),
    ("city = 'it''s'", ["city IN ('it''s')"]),
    ("age = 1 AND ill", ["ill AND age = 1", "NOT (NOT ill OR age <> 1)", "(((ill))) AND ((age) = 1)"]),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "spelling"), [(a, b) for a, spellings in EQUIVALENT for b in spellings])
def test_equivalent_spellings_are_one_query(condition, spelling):
    assert where(spelling).digest == where(condition).digest
    assert where(spelling) == where(condition)


def test_different_meanings_are_different_queries():
    conditions = [condition for condition, _ in EQUIVALENT]
    conditions += [
        "age > 31",
        "age >= 30",
        "pay > 3",
        "NOT ill",
        "tip IS NULL",
        "city = 'a b'",
        "city = 'a  b'",
        "tip <> 1",
    ]
    digests = {where(condition).digest for condition in conditions}
    assert len(digests) == len(conditions)


@pytest.mark.parametrize(
    "sql",
    [
        "select count(*) from survey where age > 30",
        "SELECT COUNT(1) FROM survey WHERE age > 30",
        "SELECT COUNT(age) FROM survey WHERE age > 30",
        "SELECT COUNT(*) AS n FROM survey WHERE age > 30;",
        "SELECT (COUNT(*)) FROM SURVEY s WHERE s.age > 30",
        'SELECT COUNT(*) FROM "survey" AS t WHERE t."age" > 30',
        "FROM survey SELECT COUNT(*) WHERE age > 30",
        "SELECT COUNT(*) -- all of them\nFROM survey -- the table\nWHERE age > 30",
        "SELECT COUNT(*) /* WHERE ill */ FROM survey WHERE age > 30 -- AND ill",
        "SELECT AVG(age > 30) FROM survey",
        "SELECT AVG((30 < age)) FROM survey",
    ],
)
def test_the_rest_of_the_statement_makes_no_difference(sql):
    assert ask(sql).query == where("age > 30")


def test_a_comment_ends_with_its_line():
    with_comment = ask("SELECT SUM(age) FROM survey -- grown up\nWHERE age >= 18")
    assert with_comment.query == ask("SELECT SUM(age) FROM survey WHERE age >= 18").query
    assert with_comment.query != ask("SELECT SUM(age) FROM survey").query


def test_spaces_inside_a_text_count():
    assert where("city = 'a  b'") != where("city = 'a b'")
    assert where("city = 'a  b'").where.holds_for({"city": 0})
    assert where("city = 'a b'").where.holds_for({"city": 1})


def test_count_of_a_column_leaves_out_what_is_missing():
    assert ask("SELECT COUNT(tip) FROM survey").query == where("tip IS NOT NULL")
    assert ask("SELECT COUNT(tip) FROM survey WHERE ill").query == where("ill AND tip IS NOT NULL")


def test_the_question_keeps_its_text():
    sql = "SELECT COUNT(*)\n FROM survey WHERE city = 'a  b'"
    assert ask(f"  {sql}\n").sql == sql


def test_a_count_is_counted_in_ones():
    question = ask("SELECT COUNT(*) FROM survey WHERE ill")
    assert (question.query.function, question.query.column, question.unit) == (Function.COUNT, None, 1)
    assert question.query.category == 17


def test_average_and_sum_are_one_query():
    for name, step in (("age", Fraction(1)), ("pay", Fraction(1, 2))):
        total, mean = ask(f"SELECT SUM({name}) FROM survey"), ask(f"SELECT AVG(({name.upper()})) FROM survey")
        assert total.query == mean.query
        assert (total.query.function, total.query.column, total.query.category) == (Function.SUM, name, 2)
        assert total.unit == step
        assert mean.unit == step / ROWS


def test_frequency_and_count_are_one_query():
    count, share = ask("SELECT COUNT(*) FROM survey WHERE pay < 5"), ask("SELECT AVG(pay < 5) FROM survey")
    assert count.query == share.query
    assert (count.unit, share.unit) == (1, Fraction(1, ROWS))
    assert ask("SELECT AVG(ill) FROM survey").query == where("ill")


def test_a_condition_that_always_holds_is_no_condition():
    assert ask("SELECT SUM(age) FROM survey WHERE pay >= 0").query == ask("SELECT SUM(age) FROM survey").query
    assert ask("SELECT SUM(age) FROM survey WHERE pay >= 0").query.is_whole_table
    assert ask("SELECT AVG(age) FROM survey WHERE TRUE").query == ask("SELECT AVG(age) FROM survey").query
    assert not ask("SELECT SUM(age) FROM survey WHERE tip >= -2").query.is_whole_table


def test_counts_sums_and_columns_differ():
    texts = ["COUNT(*)", "SUM(age)", "SUM(pay)", "SUM(tip)"]
    assert len({ask(f"SELECT {text} FROM survey WHERE ill").query for text in texts}) == 4
    assert ask("SELECT SUM(age) FROM survey WHERE ill").query.category == 18
    assert where("ill") != "ill"


def test_whole_table_count_under_add_remove():
    question = ask("SELECT COUNT(*) FROM survey", ADD)
    assert question.query.is_whole_table
    assert question.query.category == 1


def test_columns_with_strange_names():
    assert where('"Mixed Case" = 3') == where('survey."mixed case" = 3')


UNSUPPORTED = [
    ("SELECT COUNT(*) FROM survey JOIN survey b ON TRUE", "JOIN"),
    ("SELECT COUNT(*) FROM survey, survey b", "JOIN"),
    ("SELECT COUNT(*) FROM survey LEFT JOIN other USING (age)", "JOIN"),
    ("SELECT COUNT(*) FROM (SELECT * FROM survey)", "a subquery"),
    ("SELECT COUNT(*) FROM survey WHERE age IN (SELECT age FROM survey)", "a subquery"),
    ("SELECT COUNT(*) FROM survey WHERE EXISTS (SELECT 1)", "a subquery"),
    ("SELECT COUNT(*) FROM survey WHERE age = (SELECT MAX(age) FROM survey)", "a subquery"),
    ("SELECT (SELECT COUNT(*) FROM survey) FROM survey", "a subquery"),
    ("SELECT COUNT(*) FROM survey WHERE age IN survey", "IN over a query"),
    ("WITH t AS (SELECT 1) SELECT COUNT(*) FROM survey", "WITH"),
    ("SELECT COUNT(*) OVER () FROM survey", "OVER"),
    ("SELECT SUM(age) OVER (ORDER BY pay) FROM survey", "OVER"),
    ("SELECT COUNT(*) FROM survey WINDOW w AS (ORDER BY age)", "WINDOW"),
    ("SELECT COUNT(*) FROM survey QUALIFY ROW_NUMBER() OVER () = 1", "QUALIFY"),
    ("SELECT COUNT(*) FROM survey HAVING COUNT(*) > 3", "HAVING"),
    ("SELECT COUNT(*) FROM survey GROUP BY ALL", "GROUP BY ALL"),
    ("SELECT COUNT(*) FROM survey GROUP BY ROLLUP (city)", "GROUP BY"),
    ("SELECT COUNT(*) FROM survey GROUP BY ALL", "GROUP BY"),
    ("SELECT COUNT(*) FROM survey ORDER BY 1", "ORDER BY"),
    ("SELECT COUNT(*) FROM survey LIMIT 1", "LIMIT"),
    ("SELECT COUNT(*) FROM survey OFFSET 1", "OFFSET"),
    ("SELECT COUNT(*) FROM survey USING SAMPLE 10", "SAMPLE"),
    ("SELECT COUNT(*) FROM survey TABLESAMPLE 10%", "SAMPLE"),
    ("SELECT COUNT(*) INTO t FROM survey", "INTO"),
    ("SELECT DISTINCT COUNT(*) FROM survey", "DISTINCT"),
    ("SELECT COUNT(DISTINCT age) FROM survey", "DISTINCT"),
    ("SELECT SUM(DISTINCT age) FROM survey", "DISTINCT"),
    ("SELECT AVG(DISTINCT age) FROM survey", "DISTINCT"),
    ("SELECT COUNT(*) FROM survey UNION SELECT 1", "UNION"),
    ("SELECT COUNT(*) FROM survey UNION ALL SELECT 1", "UNION"),
    ("SELECT COUNT(*) FROM survey INTERSECT SELECT 1", "INTERSECT"),
    ("SELECT COUNT(*) FROM survey EXCEPT SELECT 1", "EXCEPT"),
    ("SELECT COUNT(*) FROM survey t(a, b)", "column aliases"),
    ("SELECT COUNT(*), SUM(age) FROM survey", "more than one result"),
    ("SELECT MAX(age) FROM survey", "SELECT MAX(age)"),
    ("SELECT MIN(age) FROM survey", "SELECT MIN(age)"),
    ("SELECT MEDIAN(age) FROM survey", "SELECT MEDIAN(age)"),
    ("SELECT STDDEV(age) FROM survey", "SELECT STDDEV(age)"),
    ("SELECT age FROM survey", "SELECT age"),
    ("SELECT * FROM survey", "SELECT *"),
    ("SELECT COUNT(*) * COUNT(*) FROM survey WHERE ill", "a product of aggregates"),
    ("SELECT COUNT_IF(ill) - COUNT_IF(ill) FROM survey", "a combination that cancels out"),
    ("SELECT COUNT_IF(ill) / COUNT_IF(age > 3) FROM survey", "a ratio of aggregates"),
    ("SELECT AVG(age) FILTER (WHERE ill) FROM survey", "AVG with FILTER"),
    ("SELECT read_text('/etc/passwd') FROM survey", "SELECT READ_TEXT('/etc/passwd')"),
    ("SELECT COUNT(* EXCLUDE (age)) FROM survey WHERE ill", "COUNT(* EXCLUDE"),
    ("SELECT SUM(age ORDER BY pay) FROM survey", "the row function"),
    ("SELECT SUM(*) FROM survey", "the row function"),
    ("SELECT AVG(age) FROM survey WHERE ill", "AVG with WHERE"),
    ("SELECT AVG(age > 3) FROM survey WHERE ill", "AVG with WHERE"),
    ("SELECT AVG(tip) FROM survey", "AVG over the nullable column tip"),
    ("SELECT AVG(tip > 1) FROM survey", "AVG over the nullable column tip"),
    ("SELECT AVG(old) FROM survey", "AVG over the nullable column old"),
    ("SELECT AVG(ill AND old) FROM survey", "AVG over the nullable column old"),
    ("SELECT COUNT(*) FROM survey WHERE random() < 0.5", "the row function RANDOM()"),
    ("SELECT COUNT(*) FROM survey WHERE age::BLOB = '3'", "CAST(age AS BLOB)"),
    ("SELECT COUNT(*) FROM survey WHERE city > 'a b'", "an order of the text column city"),
    ("SELECT COUNT(*) FROM survey WHERE age::TIME > 3", "CAST(age AS TIME)"),
    ("SELECT COUNT(*) FROM survey WHERE age IS TRUE", "age IS TRUE"),
    ("SELECT COUNT(*) FROM survey WHERE age = ?", "the row function ?"),
    ("INSERT INTO survey VALUES (1)", "INSERT"),
    ("UPDATE survey SET age = 1", "UPDATE"),
    ("DELETE FROM survey", "DELETE"),
    ("DROP TABLE survey", "DROP"),
    ("CREATE TABLE t AS SELECT COUNT(*) FROM survey", "CREATE"),
    ("ALTER TABLE survey ADD COLUMN x INTEGER", "ALTER"),
    ("COPY survey TO 'leak.csv'", "COPY"),
    ("ATTACH 'x.db'", "ATTACH"),
    ("PRAGMA database_list", "PRAGMA"),
    ("SET threads = 1", "SET"),
    ("PIVOT survey ON age", "PIVOT"),
    ("VALUES (1)", "VALUES"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "clause"), UNSUPPORTED)
def test_what_is_not_supported_is_refused_by_name(sql, clause):
    with pytest.raises(UnsupportedQuery) as caught:
        ask(sql)
    assert caught.value.clause.startswith(clause)
    assert str(caught.value).startswith(f"{caught.value.clause} is not supported: ")
    assert caught.value.advice


@pytest.mark.parametrize("aggregate", ["AVG(age)", "AVG(age > 3)", "AVG(ill)"])
@pytest.mark.parametrize(
    "of", [ADD, policy(unit="note", max_rows=3), policy(Neighbours.ADD_REMOVE, unit="note", max_rows=3)]
)
def test_no_average_where_the_number_of_rows_is_not_public(aggregate, of):
    with pytest.raises(UnsupportedQuery, match="AVG where the number of rows is not public"):
        ask(f"SELECT {aggregate} FROM survey", of)


BAD = [
    ("", "exactly one SELECT"),
    (";", "exactly one SELECT"),
    ("-- nothing", "exactly one SELECT"),
    ("SELECT COUNT(*) FROM survey WHERE ill; SELECT 1", "exactly one SELECT"),
    ("SELECT COUNT(*) FROM survey WHERE ill; DROP TABLE survey", "exactly one SELECT"),
    ("hello", "no SELECT statement"),
    ("SELECT COUNT(* FROM survey", "not SQL"),
    ("SELECT COUNT(*) FROM survey WHERE age >", "not SQL"),
    ("SELECT COUNT(*) FROM survey WHERE city = 'open", "not SQL"),
    ("SELECT COUNT(*) FROM survey WHERE", "not SQL"),
    ("\x00\x01", "."),
    ("SELECT COUNT(*)", "FROM survey"),
    ("SELECT COUNT(*) FROM other", "no table other; this account has survey"),
    ("SELECT COUNT(*) FROM other.survey", "no table other.survey"),
    ("SELECT COUNT(*) FROM 'survey.csv'", "no table"),
    ("SELECT COUNT(*) FROM read_csv('x.csv')", "FROM survey"),
    ("SELECT COUNT(*) FROM survey WHERE other.age > 3", "other.age is no column of survey"),
    ("SELECT COUNT(*) FROM survey WHERE x.survey.age > 3", "is no column of survey"),
    ("SELECT COUNT(*) FROM survey s WHERE survey.age > 3", "survey.age is no column of s"),
    ("SELECT SUM(other.age) FROM survey", "is no column of survey"),
    ("SELECT COUNT(*) FROM survey WHERE height > 3", "no column height; declared are Mixed Case, age"),
    ("SELECT SUM(height) FROM survey", "no column height"),
    ("SELECT COUNT(height) FROM survey", "no column height"),
    ("SELECT AVG(height) FROM survey", "no column height"),
    ("SELECT COUNT(*) FROM survey WHERE rowid = 1", "no column rowid"),
    ("SELECT COUNT(*) FROM survey WHERE city = 'Paris'", "'Paris' is no declared key of city; declared are 'a  b'"),
    ("SELECT COUNT(*) FROM survey WHERE city IN ('x', 'X')", "'X' is no declared key"),
    ("SELECT COUNT(*) FROM survey WHERE city = 3", "city is text"),
    ("SELECT COUNT(*) FROM survey WHERE city = TRUE", "city is text"),
    ("SELECT COUNT(*) FROM survey WHERE age = '3'", "age is a number"),
    ("SELECT COUNT(*) FROM survey WHERE age = TRUE", "age is a number"),
    ("SELECT COUNT(*) FROM survey WHERE age = 1e999", "ordinary size"),
    ("SELECT COUNT(*) FROM survey WHERE ill = 2", "ill is boolean"),
    ("SELECT COUNT(*) FROM survey WHERE ill > FALSE", "ill is boolean"),
    ("SELECT COUNT(*) FROM survey WHERE ill = 'true'", "ill is boolean"),
    ("SELECT COUNT(*) FROM survey WHERE age", "age is integer, not a condition"),
    ("SELECT COUNT(*) FROM survey WHERE NOT city", "city is text, not a condition"),
    ("SELECT COUNT(*) FROM survey WHERE age = NULL", "IS NULL"),
    ("SELECT COUNT(*) FROM survey WHERE age IN (1, NULL)", "IS NULL"),
    ("SELECT COUNT(*) FROM survey WHERE free > 3", "free has no bounds"),
    ("SELECT SUM(free) FROM survey", "free has no bounds"),
    ("SELECT AVG(free) FROM survey", "free has no bounds"),
    ("SELECT COUNT(*) FROM survey WHERE note = 'x'", "no declared key"),
    ("SELECT SUM(city) FROM survey", "city is text, not a number"),
    ("SELECT SUM(ill) FROM survey", "ill is boolean, not a number"),
    ("SELECT AVG(city) FROM survey", "city is text"),
    ("SELECT COUNT(*) FROM survey", "the number of rows is public in this account: 5000"),
    ("SELECT COUNT(age) FROM survey", "the number of rows is public"),
    ("SELECT COUNT(*) FROM survey WHERE age >= 0", "the number of rows is public"),
    ("SELECT COUNT(*) FROM survey WHERE age > 120", "no row can meet"),
    ("SELECT SUM(age) FROM survey WHERE ill AND NOT ill", "no row can meet"),
    ("SELECT COUNT(*) FROM survey WHERE age IS NULL", "no row can meet"),
    ("SELECT COUNT(*) FROM survey WHERE age = 3.5", "no row can meet"),
    ("SELECT AVG(age >= 0) FROM survey", "holds for all rows"),
    ("SELECT AVG(age < 0) FROM survey", "holds for no rows"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), BAD)
def test_bad_queries_say_what_is_wrong(sql, message):
    with pytest.raises(BadQuery, match=message):
        ask(sql)


@pytest.mark.parametrize(
    "condition",
    ["(" * 3000 + "ill" + ")" * 3000, "NOT " * 4000 + "ill", " AND ".join(["ill"] * 2000), "-" * 9000 + "1 = age"],
)
def test_deep_nesting_is_refused_not_a_crash(condition):
    with pytest.raises((BadQuery, UnsupportedQuery)):
        where(condition)


def test_long_lists_of_terms_are_fine():
    digits = " OR ".join(f"age = {n}" for n in range(1, 100))
    assert where(digits) == where("age BETWEEN 1 AND 99")
    assert where("age IN (" + ", ".join(map(str, range(1, 120))) + ")") == where("age > 0 AND age < 120")


@pytest.mark.parametrize(
    "sql", ["x" * 1_000_000, "SELECT COUNT(*) FROM survey WHERE " + " AND ".join(["ill"] * 125_000), "(" * 1_000_000]
)
def test_a_megabyte_is_not_parsed(sql):
    with pytest.raises(BadQuery, match=f"at most {MAX_SQL_LENGTH}"):
        ask(sql)


@pytest.mark.parametrize("limit", [700, 1_000, 20_000])
def test_what_is_nested_too_deeply_does_not_depend_on_the_stack(limit):
    """Some libraries raise Python's recursion limit for everybody; the answer must not change with it."""
    fine = [  # COUNT(*) has a star of its own
        "NOT " * MAX_NESTING + "ill",
        "(" * MAX_NESTING + "ill" + ")" * MAX_NESTING,
        "ill" + " AND ill" * (MAX_TERMS - 1),
    ]
    deep = ["NOT " * 3_000 + "ill", "(" * 25 + "ill" + ")" * 25, "NOT (" * 20 + "NOT " * 5 + "ill" + ")" * 20]
    deep += ["ill" + " OR ill" * 201, "age > " + "- " * 52 + "1"]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + len(inspect.stack()))
    try:
        assert len({where(condition) for condition in fine}) == 1
        for condition in deep:
            with pytest.raises(BadQuery, match="nested too deeply"):
                where(condition)
    finally:
        sys.setrecursionlimit(before)
