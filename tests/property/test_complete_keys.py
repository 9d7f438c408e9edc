"""Complete columns and codes: a row with another value changes no cell and no number; sensitivity allows for it."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadQuery, UnsupportedQuery
from noisebank.engines.cells import COUNT_KEY
from noisebank.engines.duckdb_engine import DuckDBEngine, duckdb_header
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.cells import Cube, partition_domain
from noisebank.queries.groups import column_labels
from noisebank.queries.query import Function
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.queries.sql import parse_question

COLUMNS = {
    "sex": Column("sex", Kind.TEXT, keys=("f", "m"), complete=True),
    "ward": Column("ward", Kind.INTEGER, keys=(-1, 3, 4), complete=True, nullable=True),
    "job": Column("job", Kind.INTEGER, keys=(10, 20)),
    "pay": Column("pay", Kind.INTEGER, low=100, high=110),
    "who": Column("who", Kind.TEXT),
}
CUBE = Cube.for_columns(("sex", "ward", "job"), COLUMNS)
QUESTIONS = (
    "COUNT(*) FROM t", "SUM(pay) FROM t", "COUNT(*) FROM t WHERE sex = 'f'", "COUNT(*) FROM t WHERE ward IS NULL",
    "SUM(pay) FROM t WHERE ward >= 3", "COUNT(*) FROM t WHERE job <> 10", "SUM(pay) FROM t GROUP BY sex",
    "2 * COUNT_IF(sex = 'f') + COUNT_IF(sex = 'm') FROM t", "COUNT(*) FROM t GROUP BY ward, job",
)  # fmt: skip
NOWHERE = [("x", "3", "10"), ("", "3", "10"), ("F", "-1", "20"), ("f", "5", "10"), ("m", "2.4", "10")]
rows = st.tuples(
    st.sampled_from(["f", "m"]), st.sampled_from(["-1", "3", "3.4", "4", "", "word"]),
    st.sampled_from(["10", "20", "20.0", "15", "", "1e9"]), st.sampled_from(["100", "105", "110", "999"]),
    st.sampled_from("ab"),
)  # fmt: skip
strange = st.tuples(st.sampled_from(NOWHERE), rows).map(lambda pair: (*pair[0], *pair[1][3:]))


def policy_of(neighbours: Neighbours, max_rows: int | None) -> Policy:
    return Policy(
        "t", Path("t.csv"), neighbours, 1_000, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6),
        unit="row" if max_rows is None else "who", max_rows=max_rows or 1,
    )  # fmt: skip


def engine_over(table: list[tuple[str, ...]], policy: Policy, folder: str) -> DuckDBEngine:
    path = Path(folder) / f"{len(list(Path(folder).iterdir()))}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(COLUMNS), *table])
    return DuckDBEngine(replace(policy, source=path), duckdb_header(path), "key")


def numbers(engine: DuckDBEngine, policy: Policy) -> list[tuple[int, ...]]:
    queries = [parse_question(f"SELECT {sql}", policy).query for sql in QUESTIONS]
    return [engine.statistics(query) if query.by else (engine.statistic(query),) for query in queries]


policies = st.builds(policy_of, st.sampled_from(list(Neighbours)), st.sampled_from([None, 1, 2]))


@settings(max_examples=40, deadline=None)
@given(policies, st.lists(rows, max_size=8), strange, st.integers(0, 8))
def test_a_row_with_another_value_counts_nowhere(policy, table, other, at):
    """Even where a person's rows are capped: it takes no place of another row."""
    with TemporaryDirectory() as folder:
        without = engine_over(table, policy, folder)
        with_it = engine_over([*table[:at], other, *table[at:]], policy, folder)
        assert numbers(without, policy) == numbers(with_it, policy)
        cells = [engine.tabulate(CUBE) for engine in (without, with_it)]
        assert cells[0].cell_totals(*COUNT_KEY).tolist() == cells[1].cell_totals(*COUNT_KEY).tolist()
        assert cells[0].cell_totals(Function.SUM, "pay").tolist() == cells[1].cell_totals(Function.SUM, "pay").tolist()
        inspected = with_it.inspect()
        assert inspected.uncounted == 1 and inspected.rows == len(table) + 1
        assert without.inspect().uncounted == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(rows, max_size=12))
def test_cells_are_counted_as_by_hand(table):
    policy = policy_of(Neighbours.ADD_REMOVE, None)
    by_hand: dict[tuple[int, ...], int] = {}
    for sex, ward, job, _, _ in table:
        cell = (
            "fm".index(sex),
            {"-1": 0, "3": 1, "3.4": 1, "4": 2}.get(ward, 3),  # 3 is missing: there is no cell for none of them
            {"10": 0, "20": 1, "20.0": 1}.get(job, 2),
        )
        by_hand[cell] = by_hand.get(cell, 0) + 1
    with TemporaryDirectory() as folder:
        totals = engine_over(table, policy, folder).tabulate(CUBE).cell_totals(*COUNT_KEY)
    assert totals.shape == CUBE.shape == (2, 4, 3)
    assert {cell: int(totals[cell]) for cell in product(*map(range, CUBE.shape)) if totals[cell]} == by_hand


@settings(max_examples=60, deadline=None)
@given(policies, st.lists(rows, max_size=5), rows, strange)
def test_sensitivity_allows_for_rows_that_count_nowhere(policy, table, row, other):
    """Neighbours of which one has a row that counts nowhere, instead of another row."""
    with TemporaryDirectory() as folder:
        person = "z" if policy.unit == "who" else row[4]
        here = numbers(engine_over([*table, (*row[:4], person)], policy, folder), policy)
        there = numbers(engine_over([*table, (*other[:4], person)], policy, folder), policy)
    for sql, a, b in zip(QUESTIONS, here, there, strict=True):
        change = sum((x - y) ** 2 for x, y in zip(a, b, strict=True))
        assert change <= l2_sensitivity(parse_question(f"SELECT {sql}", policy).query, policy) ** 2, sql


def test_the_claim_without_them_would_be_too_small():
    policy = policy_of(Neighbours.REPLACE_ONE, None)
    open_columns = {**COLUMNS, "sex": Column("sex", Kind.TEXT, keys=("f", "m"))}
    open_columns["ward"] = Column("ward", Kind.INTEGER, keys=(-1, 3, 4), nullable=True)
    sums = parse_question("SELECT SUM(pay) FROM t", policy).query
    assert l2_sensitivity(sums, policy) == 110
    public = Policy("t", Path("t.csv"), Neighbours.REPLACE_ONE, 9, MappingProxyType(open_columns), Fraction(1),
                    Fraction(1, 10**6))  # fmt: skip
    assert l2_sensitivity(sums, public) == 10 and public.public_rows == 9 and policy.public_rows is None


def test_pieces_and_labels():
    assert [len(partition_domain(column)) for column in COLUMNS.values() if column.piece_count] == [2, 4, 3]
    assert all(len(partition_domain(c)) == c.piece_count for c in COLUMNS.values() if c.piece_count)
    assert column_labels(COLUMNS["ward"]) == ("-1", "3", "4")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sex <> 'f'", "sex = 'm'"), ("ward > 3", "ward = 4"), ("ward >= 3", "ward <> -1"),
        ("ward BETWEEN -5 AND 3.5", "ward IN (-1, 3)"), ("NOT (ward < 4)", "ward = 4"),
        ("job IN (10)", "NOT job <> 10"),
    ],
)  # fmt: skip
def test_conditions_on_codes(one, other):
    policy = policy_of(Neighbours.ADD_REMOVE, None)
    digests = {parse_question(f"SELECT COUNT(*) FROM t WHERE {text}", policy).query.digest for text in (one, other)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("sql", "error", "words"),
    [
        ("COUNT(*) FROM t WHERE job = 11", BadQuery, "declared are 10, 20"),
        ("COUNT(*) FROM t WHERE job = 10.5", BadQuery, "declared are 10, 20"),
        ("COUNT(*) FROM t WHERE job = '10'", BadQuery, "whole numbers"),
        ("COUNT(*) FROM t WHERE job > 10", UnsupportedQuery, "may not be all that there is"),
        ("SUM(job) FROM t", BadQuery, "is codes"),
    ],
)
def test_what_codes_are_not(sql, error, words):
    with pytest.raises(error, match=words):
        parse_question(f"SELECT {sql}", policy_of(Neighbours.ADD_REMOVE, None))
