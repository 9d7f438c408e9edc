"""The table of docs/proofs/sensitivity.md, row by row."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest

from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.sensitivity import contribution_range, l2_sensitivity
from noisebank.queries.sql import parse_question

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOUNDS = [(0, 100), (100, 110), (-110, -100), (-3, 7), (-7, 3), (-5, 0), (0, 1)]


def policy(neighbours: Neighbours, low: int = 0, high: int = 1, rows: int = 1, nullable: bool = False) -> Policy:
    columns = {
        "x": Column("x", Kind.NUMBER, Fraction(1, 2), low, high, nullable=nullable),
        "b": Column("b", Kind.BOOLEAN),
        "id": Column("id", Kind.TEXT),
    }
    return Policy(
        "t", Path("/t"), neighbours, 5000, MappingProxyType(columns), Fraction(1), Fraction(1, 10**6),
        "row" if rows == 1 else "id", rows,
    )  # fmt: skip


def of(sql: str, *facts, **more) -> int:
    rules = policy(*facts, **more)
    return l2_sensitivity(parse_question(sql, rules).query, rules)


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_count_with_predicate(rows):
    assert of("SELECT COUNT(*) FROM t WHERE b", ADD, rows=rows) == rows
    assert of("SELECT COUNT(*) FROM t WHERE b", REPLACE, rows=rows) == rows


@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_count_of_everybody(rows):
    assert of("SELECT COUNT(*) FROM t", ADD, rows=rows) == rows
    if rows > 1:  # one row at least, `rows` at most
        assert of("SELECT COUNT(*) FROM t", REPLACE, rows=rows) == rows - 1


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_sum(low, high):
    assert of("SELECT SUM(x) FROM t", ADD, low, high) == max(abs(low), abs(high))
    assert of("SELECT SUM(x) FROM t", REPLACE, low, high) == high - low


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_sum_with_predicate_or_missing_values(low, high):
    for sql, nullable in (
        ("SELECT SUM(x) FROM t WHERE b", False),
        ("SELECT SUM(x) FROM t", True),
        ("SELECT SUM(x) FROM t WHERE b", True),
    ):
        assert of(sql, ADD, low, high, nullable=nullable) == max(abs(low), abs(high))
        assert of(sql, REPLACE, low, high, nullable=nullable) == max(high - low, abs(low), abs(high))


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_people_with_several_rows_under_add_remove(low, high):
    for sql in ("SELECT SUM(x) FROM t", "SELECT SUM(x) FROM t WHERE b"):
        assert of(sql, ADD, low, high, rows=3) == 3 * max(abs(low), abs(high))


def test_people_with_several_rows_under_replace_one():
    assert of("SELECT SUM(x) FROM t", REPLACE, 100, 110, rows=3) == 230
    assert of("SELECT SUM(x) FROM t", REPLACE, -110, -100, rows=3) == 230
    assert of("SELECT SUM(x) FROM t WHERE b", REPLACE, 100, 110, rows=3) == 330
    assert of("SELECT SUM(x) FROM t", REPLACE, -3, 7, rows=3) == 30
    assert of("SELECT SUM(x) FROM t", REPLACE, 0, 7, rows=3) == 21


def test_averages_and_frequencies_of_the_paper():
    for high, step_average in ((1_010_000, 202), (2_020_000, 404)):
        rules = policy(REPLACE, 0, high)
        question = parse_question("SELECT AVG(x) FROM t", rules)
        assert l2_sensitivity(question.query, rules) * question.unit / rules.columns["x"].step == step_average
    rules = policy(REPLACE)
    question = parse_question("SELECT AVG(b) FROM t", rules)
    assert l2_sensitivity(question.query, rules) * question.unit == Fraction(2, 10**4)


def test_count_of_present_values():
    assert of("SELECT COUNT(x) FROM t", ADD, nullable=True) == 1
    assert of("SELECT COUNT(x) FROM t", REPLACE, nullable=True) == 1


def test_contribution_of_one_person():
    rules = policy(REPLACE, -3, 7, rows=2)
    assert contribution_range(parse_question("SELECT SUM(x) FROM t", rules).query, rules) == (-6, 14)
    assert contribution_range(parse_question("SELECT COUNT(*) FROM t WHERE b", rules).query, rules) == (0, 2)


def test_sensitivity_is_a_whole_number_of_steps():
    assert of("SELECT SUM(x) FROM t", REPLACE, -3, 7) == 10
