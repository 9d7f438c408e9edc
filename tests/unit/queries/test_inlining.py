"""CTEs and subqueries are written as one SELECT, and stop before they grow beyond all use."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from noisebank.core.errors import UnsupportedQuery
from noisebank.policy.file import read_policy
from noisebank.queries import inlining
from noisebank.queries.inlining import inline_subqueries
from noisebank.queries.selects import parse_select_list
from support.banks import write_people

FIRST = "WITH a0 AS (SELECT age AS v FROM people)"
GROUPED = "WITH a0 AS (SELECT town, COUNT(*) AS v FROM people GROUP BY town)"


def chain(first: str, step: str, levels: int, last: str) -> str:
    """CTEs, each of which reads the one before."""
    middle = "".join(f", a{level + 1} AS (SELECT {step} FROM a{level})" for level in range(levels))
    return f"{first}{middle} SELECT {last} FROM a{levels}"


BILLIONS = [
    chain(FIRST, "v + v AS v", 30, "SUM(v)"),
    chain(FIRST, "ABS(v) - ABS(v - 1) AS v", 30, "SUM(v)"),
    chain(FIRST, "CASE WHEN v > 5 THEN v ELSE v + 1 END AS v", 20, "SUM(v)"),
    chain(GROUPED, "town, v + v AS v", 30, "town, v"),
    chain(GROUPED, "*, *", 30, "town"),
]


@pytest.mark.parametrize("sql", BILLIONS)
def test_a_chain_that_doubles_is_refused_before_it_has_grown(sql: str, tmp_path: Path) -> None:
    """A thousand characters took all memory and minutes, for a free quote."""
    copied: list[int] = []
    count = inlining._Growth.add

    def add(growth: inlining._Growth, terms: int) -> None:
        copied.append(terms)
        count(growth, terms)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(UnsupportedQuery, match="use each of them less often"):
        patch.setattr(inlining._Growth, "add", add)
        parse_select_list(sql, read_policy(write_people(tmp_path)))
    assert sum(copied) <= 3 * inlining.MAX_TERMS_WRITTEN, "the last step is counted before it is taken"


def test_a_long_chain_that_does_not_grow_is_read() -> None:
    sql = chain("WITH a0 AS (SELECT * FROM people)", "*", 40, "COUNT(*)")
    statement = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(statement, exp.Select)
    assert inline_subqueries(statement).sql(
        dialect="duckdb"
    ) == 'SELECT COUNT(*) AS "count_star()" FROM people'.replace("count_star()", "COUNT(*)")
