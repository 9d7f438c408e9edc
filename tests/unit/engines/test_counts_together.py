"""Counts of a small file that are asked for together are one statement, with the same integers as one by one."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadTable
from noisebank.engines.duckdb_engine import DuckDBEngine
from noisebank.engines.statement import is_plain_count
from support.banks import memory_account, write_people

CONDITIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "age <= {}",
                "income > -{}",
                "children < {}",
                "smoker AND age > {}",
                "town = 'north' OR age < {}",
                "NOT age = {}",
            ]
        ),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=12,
)


def _as_parquet(table: Path) -> None:
    types = "{'age': 'INTEGER', 'income': 'BIGINT', 'smoker': 'BOOLEAN', 'children': 'TINYINT'}"
    rows = f"(SELECT * FROM read_csv('{table}', types = {types}))"
    duckdb.execute(f"COPY {rows} TO '{table.with_suffix('.parquet')}' (FORMAT parquet)")


@pytest.fixture(scope="module", params=["csv", "parquet"])
def people(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DuckDBEngine:
    """With values out of bounds, and missing ones in columns that do not allow them; as text, and as whole numbers."""
    folder = tmp_path_factory.mktemp("people")
    policy = write_people(folder, neighbours="add-remove", lines=["1,2,true,north,3"])
    table = folder / "people.csv"
    if request.param == "parquet":
        policy.write_text(policy.read_text().replace("people.csv", "people.parquet"))
        _as_parquet(table)
    account = memory_account(policy)
    lines = [
        f"{7 * i % 131 or ''},{i * 37 % 900 - 200},{i % 3 > 0},{'north' if i % 2 else '?'},{i % 11 or ''}"
        for i in range(300)
    ]
    table.write_text("\n".join([table.read_text().splitlines()[0], *lines]) + "\n")  # would not be opened
    _as_parquet(table)
    assert isinstance(account.engine, DuckDBEngine)
    account.engine.parsed = account.parse  # type: ignore[attr-defined]
    return account.engine


@settings(deadline=None, max_examples=25)
@given(asked=CONDITIONS)
def test_counts_that_are_read_together_are_the_same(people: DuckDBEngine, asked: list[tuple[str, int]]) -> None:
    parse = people.parsed  # type: ignore[attr-defined]
    queries = [parse(f"SELECT count(*) FROM people WHERE {text.format(number)}").query for text, number in asked]
    queries.append(parse("SELECT count(*) FROM people").query)
    assert all(is_plain_count(query) for query in queries)
    assert people._run_counts(queries) == [people._run_counts([query])[0] for query in queries]


def test_counts_that_are_read_together_are_saturated(tmp_path: Path) -> None:
    """More rows than the policy's cap: the count stays at the cap, or one more row than that would tell."""
    lines = [f"{20 + i % 60},5,true,north,1" for i in range(900)]
    account = memory_account(write_people(tmp_path, neighbours="add-remove", lines=lines))
    with (tmp_path / "people.csv").open("a") as table:
        table.write("\n".join(lines[:400]) + "\n")  # an account would not be opened for so many
    queries = [
        account.parse(f"SELECT count(*) FROM people{where}").query for where in ("", " WHERE smoker", " WHERE age > 70")
    ]
    assert isinstance(account.engine, DuckDBEngine)
    assert account.engine._run_counts(queries) == [account.engine._run_counts([query])[0] for query in queries]
    assert account.engine._run_counts(queries)[:2] == [1_000, 1_000]


def test_counts_of_an_empty_table_are_read_together(tmp_path: Path) -> None:
    account = memory_account(write_people(tmp_path, neighbours="add-remove", lines=["30,5,true,north,1"]))
    table = tmp_path / "people.csv"
    table.write_text(table.read_text().splitlines()[0] + "\n")
    queries = [account.parse(f"SELECT count(*) FROM people{where}").query for where in ("", " WHERE smoker")]
    assert isinstance(account.engine, DuckDBEngine)
    assert account.engine._run_counts(queries) == [0, 0]


def test_only_plain_counts_are_read_together(people: DuckDBEngine) -> None:
    parse = people.parsed  # type: ignore[attr-defined]
    for text in ("sum(age)", "count(*) + 2 * count(children)", "2 * count_if(age > 3) - count_if(age > 5)"):
        assert not is_plain_count(parse(f"SELECT {text} FROM people WHERE income > 3").query)
    assert not is_plain_count(parse("SELECT town, count(*) FROM people GROUP BY town").query)


def test_what_cannot_be_read_together_is_read_alone(people: DuckDBEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, sums and groups in any order; a statement that fails costs nobody else their answer."""
    parse = people.parsed  # type: ignore[attr-defined]
    texts = ("count(*)", "sum(age)", "count_if(age > 3)", "sum(income)")
    queries = [parse(f"SELECT {text} FROM people WHERE smoker").query for text in texts]
    queries.append(parse("SELECT count(*) FROM people GROUP BY town").query)
    alone = [people.statistics(query) if query.by else (people.statistic(query),) for query in queries]
    assert people.statistics_many(queries) == alone
    real, unreadable = DuckDBEngine._run_sql, people._query_sql(queries[3])

    def fails_for_one(self: DuckDBEngine, sql: str) -> object:
        if sql == unreadable:
            raise BadTable("unreadable")
        return real(self, sql)

    monkeypatch.setattr(DuckDBEngine, "_run_sql", fails_for_one)
    *others, failed, grouped = people.statistics_many(queries)
    assert isinstance(failed, BadTable) and [*others, grouped] == [*alone[:3], alone[4]]
