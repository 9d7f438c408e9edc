"""Patterns, functions of keys, tuples, times of day and subqueries mean what they mean in PostgreSQL, NULL or not."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from conformance.server import Server
from conformance.spelled import DAY, TYPES, SpelledSql, spelled_policy, spelled_rows
from conformance.stores import Store, _write_postgres
from noisebank import NoisebankError, Policy
from support.internals import Query, SqlEngine, parse_select_list

STARTS = (20_000 * DAY, -2 * DAY, 0)
"""The first minute of three days: of today, and beside 1970."""
SELECTS = 60


@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_those_of_postgresql(seed: int, server: Server, tmp_path: Path) -> None:
    random = Random(seed)
    policy, rows = spelled_policy(STARTS[seed]), list(spelled_rows(random, STARTS[seed]))
    engine = Store("duckdb", tmp_path, server).engine(policy, TYPES, rows)
    engine.inspect()
    server.execute("DROP TABLE IF EXISTS p")
    _write_postgres(server, "p", TYPES, rows)
    grammar, found = SpelledSql(random), Counter[str]()
    with psycopg.connect(server.where, autocommit=True) as connection:
        for _ in range(SELECTS):
            sql = grammar.select()
            try:
                (aggregate,) = parse_select_list(sql, policy).aggregates
                right = connection.execute(sql.encode()).fetchall()
            except (NoisebankError, psycopg.Error) as error:
                found[type(error).__name__] += 1
                continue
            if right == [(None,)]:  # a SUM of no rows: here it is 0
                found["NULL"] += 1
                continue
            (question,) = aggregate.questions
            labels = list_labels(question.query, policy)
            numbers = {label: number * question.unit + question.offset
                       for label, number in zip(labels, measure(engine, question.query), strict=True)}  # fmt: skip
            own = {label: number for label, number in numbers.items() if number}
            assert own == as_groups(right), sql
            found["grouped" if question.query.by else "plain"] += 1
    assert found["plain"] > SELECTS / 3 and found["grouped"] > SELECTS / 30, found


def measure(engine: SqlEngine, query: Query) -> tuple[int, ...]:
    return tuple(engine.statistics(query)) if query.by else (engine.statistic(query),)


def list_labels(query: Query, policy: Policy) -> list[str]:
    """What the groups are called, in their order."""
    if not query.by:
        return [""]
    (name,) = query.by
    if name in query.labels:
        return [as_label(label) for label in query.labels[name].names]
    column = policy.columns[name]
    if column.keys:
        return [as_label(key) for key in column.keys]
    if name == "b":
        return ["false", "true"]
    assert column.low is not None and column.high is not None
    return [as_label(step) for step in range(int(column.low), int(column.high) + 1)]


def as_groups(rows: list[tuple[Any, ...]]) -> dict[str, Fraction]:
    """PostgreSQL's rows, without those of NULL and of nobody."""
    groups = {"" if len(row) == 1 else as_label(row[0]): Fraction(row[-1] or 0) for row in rows if row[0] is not None}
    return {label: number for label, number in groups.items() if number}


def as_label(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return str(Fraction(str(value)))
    except ValueError:
        return str(value)
