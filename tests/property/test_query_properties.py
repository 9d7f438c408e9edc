"""Random conditions: their meaning against DuckDB, and one digest per meaning."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadQuery
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.predicates import FALSE, Predicate
from noisebank.queries.query import Function, Query
from noisebank.queries.sql import parse_question

COLUMNS = {
    "a": Column("a", Kind.INTEGER, low=-1, high=2, nullable=True),
    "b": Column("b", Kind.BOOLEAN, nullable=True),
    "f": Column("f", Kind.BOOLEAN),
    "k": Column("k", Kind.TEXT, keys=("it's", "x  y"), nullable=True),
    "n": Column("n", Kind.NUMBER, Fraction(1, 2), -1, 2),
}
POLICY = Policy("t", Path("/t"), Neighbours.ADD_REMOVE, 100, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6))
DOMAINS: dict[str, list[int | None]] = {
    "a": [-1, 0, 1, 2, None], "b": [0, 1, None], "f": [0, 1], "k": [0, 1, 2, None], "n": [-1, 0, 1, 2]
}  # fmt: skip
ROWS = [dict(zip(DOMAINS, row, strict=True)) for row in product(*DOMAINS.values())]
NUMBERS = {"a": ["-2", "-1", "0", "0.5", "1", "2", "3"], "n": ["-0.75", "-0.5", "0", "0.25", "0.5", "1.0", "2"]}
KEYS = ["'it''s'", "'x  y'"]
FLIP = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "="}


# Conditions as nested tuples: ("and", x, y) ("or", x, y) ("not", x) or a leaf with a column.
Condition = tuple


def lists_of(values: list[str]):
    return st.lists(st.sampled_from(values), min_size=1, max_size=3).map(tuple)


def leaves_over(names: str):
    """Single comparisons of these columns."""
    kinds = [st.tuples(st.just("is"), st.sampled_from(names), st.just("NULL"))]
    for name in names:
        column = st.just(name)
        if name in NUMBERS:
            value = st.sampled_from(NUMBERS[name])
            kinds.append(st.tuples(st.just("compare"), column, st.sampled_from(list(FLIP)), value))
            kinds.append(st.tuples(st.just("in"), column, lists_of(NUMBERS[name])))
            kinds.append(st.tuples(st.just("between"), column, value, value))
        else:
            values = KEYS if name == "k" else ["TRUE", "FALSE"]
            kinds.append(st.tuples(st.just("compare"), column, st.sampled_from(["=", "<>"]), st.sampled_from(values)))
            kinds.append(st.tuples(st.just("in"), column, lists_of(values)))
        if name in "bf":
            kinds.append(st.tuples(st.just("column"), column))
            kinds.append(st.tuples(st.just("is"), column, st.sampled_from(["TRUE", "FALSE"])))
    return st.one_of(*kinds, st.tuples(st.just("constant"), st.sampled_from(["TRUE", "FALSE"])))


leaves = leaves_over("abfkn")


def combined(inner, size: int):
    return st.recursive(
        inner,
        lambda deeper: st.one_of(
            st.tuples(st.sampled_from(["and", "or"]), deeper, deeper), st.tuples(st.just("not"), deeper)
        ),
        max_leaves=size,
    )


conditions = combined(leaves, 8)
small_conditions = combined(leaves_over("ab"), 6)


def sql_of(condition: Condition, swap: bool = False) -> str:
    match condition:
        case ("and" | "or" as word, left, right):
            return f"({sql_of(left, swap)} {word.upper()} {sql_of(right, swap)})"
        case ("not", inner):
            return f"(NOT {sql_of(inner, swap)})"
        case ("compare", name, sign, value):
            return f"{value} {FLIP[sign]} {name}" if swap else f"{name} {sign} {value}"
        case ("in", name, values):
            return f"{name} IN ({', '.join(values)})"
        case ("between", name, low, high):
            return f"{name} BETWEEN {low} AND {high}"
        case ("is", name, value):
            return f"{name} IS {value}"
        case ("column", name):
            return name
        case ("constant", value):
            return value
    raise AssertionError(condition)


def spelled_otherwise(condition: Condition, draw) -> Condition:
    """Another condition with the same three-valued meaning."""
    match condition:
        case ("not", ("and" | "or" as word, left, right)) if draw(st.booleans()):  # De Morgan
            other = "or" if word == "and" else "and"
            return (other, spelled_otherwise(("not", right), draw), spelled_otherwise(("not", left), draw))
        case ("not", ("compare", name, sign, value)) if draw(st.booleans()):
            return ("compare", name, OPPOSITE[sign], value)
        case ("and" | "or" as word, left, right):
            parts = [spelled_otherwise(left, draw), spelled_otherwise(right, draw)]
            if draw(st.booleans()):
                parts.reverse()
            condition = (word, *parts)
        case ("not", inner):
            condition = ("not", spelled_otherwise(inner, draw))
        case ("in", name, values) if draw(st.booleans()):
            condition = ("compare", name, "=", values[0])
            for value in values[1:]:
                condition = ("or", ("compare", name, "=", value), condition)
        case ("between", name, low, high) if draw(st.booleans()):
            condition = ("and", ("compare", name, "<=", high), ("compare", name, ">=", low))
        case ("column", name) if draw(st.booleans()):
            condition = ("compare", name, "=", "TRUE")
    extra = draw(st.integers(0, 8))
    if extra == 0:
        return ("not", ("not", condition))
    if extra == 1:
        return ("and", condition, ("or", condition, draw(leaves)))  # absorption
    if extra == 2:
        return ("or", ("and", draw(leaves), condition), condition)
    if extra == 3:
        return ("and", ("constant", "TRUE"), condition)
    if extra == 4:
        return ("or", condition, ("constant", "FALSE"))
    return condition


@cache
def table() -> duckdb.DuckDBPyConnection:
    """Every row that the policy allows, numbered, as an analyst's engine sees it."""
    connection = duckdb.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER, a INTEGER, b BOOLEAN, f BOOLEAN, k TEXT, n DECIMAL(6, 2))")
    texts = {0: "it's", 1: "x  y", 2: "neither", None: None}
    for number, row in enumerate(ROWS):
        truth = {0: False, 1: True, None: None}
        values = [number, row["a"], truth[row["b"]], truth[row["f"]], texts[row["k"]], Decimal(row["n"]) / 2]
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", values)
    return connection


def selected(sql: str) -> set[int]:
    return {number for (number,) in table().execute(f"SELECT id FROM t WHERE {sql}").fetchall()}


def predicate_of(sql: str) -> Predicate:
    try:
        return parse_question(f"SELECT SUM(n) FROM t WHERE {sql}", POLICY).query.where
    except BadQuery as error:
        assert "no row can meet" in str(error)
        return FALSE


def digest_of(sql: str) -> bytes:
    return Query.from_predicate(Function.SUM, "n", predicate_of(sql)).digest


def holds_in(predicate: Predicate) -> set[int]:
    return {number for number, row in enumerate(ROWS) if predicate.holds_for(row)}


@settings(max_examples=100, deadline=None)
@given(conditions, st.booleans())
def test_a_predicate_means_what_the_engine_says(condition, swap):
    sql = sql_of(condition, swap)
    assert holds_in(predicate_of(sql)) == selected(sql)


@settings(max_examples=100, deadline=None)
@given(conditions, st.data())
def test_another_spelling_has_the_same_digest(condition, data):
    plain = sql_of(condition)
    other = sql_of(spelled_otherwise(condition, data.draw), swap=True)
    assert digest_of(plain) == digest_of(other)


@settings(max_examples=70, deadline=None)
@given(small_conditions, small_conditions)
def test_same_digest_iff_same_rows(first, second):
    one, two = sql_of(first), sql_of(second)
    assert (digest_of(one) == digest_of(two)) == (selected(one) == selected(two))


@settings(max_examples=40, deadline=None)
@given(conditions, conditions)
def test_large_conditions_differ_iff_their_rows_do(first, second):
    one, two = sql_of(first), sql_of(second)
    assert (digest_of(one) == digest_of(two)) == (selected(one) == selected(two))


@settings(max_examples=40, deadline=None)
@given(conditions, leaves)
def test_one_changed_term_changes_the_digest_iff_it_changes_the_rows(condition, leaf):
    for word in ("AND", "OR"):
        plain, longer = sql_of(condition), f"{sql_of(condition)} {word} {sql_of(leaf)}"
        assert (digest_of(plain) == digest_of(longer)) == (selected(plain) == selected(longer))


@settings(max_examples=40, deadline=None)
@given(conditions)
def test_a_contradiction_or_certainty_is_recognised(condition):
    sql = sql_of(condition)
    assert predicate_of(f"{sql} AND NOT {sql}") is FALSE
    rows = selected(sql)
    assert (predicate_of(sql) is FALSE) == (not rows)
    if len(rows) == len(ROWS):
        assert parse_question(f"SELECT SUM(n) FROM t WHERE {sql}", POLICY).query.is_whole_table


@settings(max_examples=40, deadline=None)
@given(conditions)
def test_count_of_a_column_is_a_count_where_it_is_present(condition):
    sql = sql_of(condition)
    if not selected(f"{sql} AND k IS NOT NULL"):
        return
    counted = parse_question(f"SELECT COUNT(k) FROM t WHERE {sql}", POLICY).query
    assert counted == parse_question(f"SELECT COUNT(*) FROM t WHERE {sql} AND k IS NOT NULL", POLICY).query
    (found,) = table().execute(f"SELECT COUNT(k) FROM t WHERE {sql}").fetchone()
    assert len(holds_in(counted.where)) == found


def test_the_generator_reaches_what_it_should():
    """Guards the tests above: the domain is complete and the engine is three-valued."""
    assert len(ROWS) == 5 * 3 * 2 * 4 * 4
    assert len(selected("b")) + len(selected("NOT b")) == len(ROWS) * 2 // 3
    assert len(selected("k <> 'x  y'")) == len(ROWS) // 2
    assert holds_in(predicate_of("k <> 'x  y'")) == selected("k <> 'x  y'")
