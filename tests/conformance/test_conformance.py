"""Any engine must pass this: same table, same question, the same exact integer as plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from conformance.reference import Condition, Row, Steps, answers, number_of, step_of, text_of, truth_of
from conformance.stores import Store
from conformance.tables import Drawn, policy_of
from support.internals import (
    TRUE,
    BadQuery,
    Column,
    Cube,
    Function,
    Kind,
    Predicate,
    Query,
    SqlEngine,
    UnsupportedQuery,
    parse_question,
)

SEEDS = {"csv": 20, "parquet": 30, "duckdb": 9, "postgresql": 36, "spark": 6, "spark csv": 3, "spark table": 1}
KEY = "secret'key"


class Suite:
    """One random table in one engine, and what it must answer."""

    def __init__(self, store: Store, seed: int) -> None:
        self.drawn = Drawn(seed, store.only_text, store.unreadable)
        if store.only_text:  # an empty field is a missing one
            self.drawn.rows = [{name: value or None for name, value in row.items()} for row in self.drawn.rows]
        self.policy, self.rows = self.drawn.policy, self.drawn.rows
        self.engine: SqlEngine = store.engine(self.policy, self.drawn.types, self.rows, KEY)

    def expect(self, query: Query, added: Callable[[Steps], int], most: int) -> None:
        wanted = answers(self.policy, self.rows, KEY, added, most, query.by)
        found = self.engine.statistics(query) if query.by else (self.engine.statistic(query),)
        assert list(found) == wanted, self.engine._query_sql(query)

    def predicate(self, condition: Condition) -> Predicate:
        """The condition in canonical form; TRUE where the parser says that it is always so."""
        query = parse_question(f"SELECT COUNT(*) FROM t WHERE {condition.sql}", self.policy).query
        return query.where

    def run(self, questions: int) -> None:
        for _ in range(questions):
            condition = self.drawn.condition()
            try:
                where = self.predicate(condition)
            except (BadQuery, UnsupportedQuery):
                continue  # by the policy no row meets it
            by = self.drawn.groups() if self.drawn._flip() else ()
            column = self.drawn.numeric()
            self.counts(condition, where, by)
            self.sums(column, condition, where, by)
        self.combinations()
        self.cube()
        self.everything()

    def counts(self, condition: Condition, where: Predicate, by: tuple[str, ...]) -> None:
        def added(row: Steps) -> int:
            return 1 if condition.holds(row) else 0

        self.expect(Query.from_predicate(Function.COUNT, None, where, by), added, 1)

    def sums(self, column: Column, condition: Condition, where: Predicate, by: tuple[str, ...]) -> None:
        most = max(map(abs, column.bounds))

        def added(row: Steps) -> int:
            return (row[column.name] or 0) if condition.holds(row) else 0

        self.expect(Query.from_predicate(Function.SUM, column.name, where, by), added, most)
        self.expect(
            Query.from_predicate(Function.SQUARES, column.name, where, by), lambda row: added(row) ** 2, most * most
        )

    def combinations(self) -> None:
        """Weights that overlap, and a column with a count, as SQL."""
        one, other, column = self.drawn.condition(1), self.drawn.condition(1), self.drawn.numeric()

        def counts(row: Steps) -> int:
            return (1000 if one.holds(row) else 0) - (3 if other.holds(row) else 0)

        def mixed(row: Steps) -> int:
            return 7 * (row[column.name] or 0) * int(column.step) - (2 if one.holds(row) else 0)

        self.combined(f"1000 * COUNT(*) FILTER (WHERE {one.sql}) - 3 * COUNT(*) FILTER (WHERE {other.sql})", counts)
        if column.step.denominator == 1:
            self.combined(f'7 * SUM("{column.name}") - 2 * COUNT(*) FILTER (WHERE {one.sql})', mixed)

    def cube(self) -> None:
        """The cells of a cube say what the engine says, group by group and all together."""
        by = self.drawn.groups()
        table = self.engine.tabulate(Cube.for_columns(by, self.policy.columns))
        column = self.drawn.numeric().name
        for function, name in ((Function.COUNT, None), (Function.SUM, column), (Function.SQUARES, column)):
            grouped, whole = Query.from_predicate(function, name, TRUE, by), Query.from_predicate(function, name, TRUE)
            assert table.statistics(grouped, self.policy) == self.engine.statistics(grouped)
            assert table.statistics(whole, self.policy) == (self.engine.statistic(whole),)

    def combined(self, sql: str, added: Callable[[Steps], int]) -> None:
        try:
            question = parse_question(f"SELECT {sql} FROM t", self.policy)
        except (BadQuery, UnsupportedQuery):
            return  # all of it cancels out
        if self.policy.row_cap < 1_000:
            return  # what a row can add at most is another test's subject: here nothing saturates
        self.expect(question.query, lambda row: int(added(row) / question.unit), 10**18)

    def everything(self) -> None:
        self.expect(Query.from_predicate(Function.COUNT, None, TRUE), lambda _: 1, 1)
        found = self.engine.inspect()
        assert found.rows == len(self.rows)
        for name, column in self.policy.columns.items():
            values = [row[name] for row in self.rows]
            number = column.kind in (Kind.INTEGER, Kind.NUMBER)
            read = number_of if number else truth_of if column.kind is Kind.BOOLEAN else text_of
            assert found.missing[name] == sum(read(value) is None for value in values), name
            if column.keys:
                unkeyed = sum(
                    read(value) is not None and step_of(column, value) == len(column.keys) for value in values
                )
                assert found.unkeyed[name] == unkeyed
            elif column.is_numeric:
                low, high = (float(bound * column.step) for bound in column.bounds)
                numbers = [number for value in values if (number := number_of(value)) is not None]
                assert found.outside[name] == sum(not low <= number <= high for number in numbers)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "block" in metafunc.fixturenames:
        metafunc.parametrize("block", range(3))


def test_every_engine_gives_the_same_integers(store: Store, block: int) -> None:
    for seed in range(block, SEEDS[store.kind], 3):
        Suite(store, seed).run(3 if store.kind.startswith("spark") else 6)


def test_the_reference_rounds_as_documented() -> None:
    half = Column("x", Kind.NUMBER, low=-10, high=10)
    assert [step_of(half, value) for value in (0.5, -0.5, 2.5, 0.49999999999999994, 99, "1e400")] == [
        1,
        -1,
        3,
        0,
        10,
        10,
    ]


@pytest.mark.parametrize("kind", ["double", "real"])
def test_rows_whose_person_is_nan_belong_to_nobody(store: Store, kind: str) -> None:
    """As one person called NaN, whoever comes without an id would take another's place."""
    if store.only_text:
        pytest.skip("texts have no NaN: 'NaN' is a name")
    rows: list[Row] = [
        {"who": who, "age": age} for who, age in ((1.0, 30), (2.0, 30), (math.nan, 90), (math.nan, 60), (None, 60))
    ]
    policy = policy_of([Column("age", Kind.INTEGER, low=0, high=100)], unit="who", max_rows=1)
    engine = store.engine(policy, {"who": kind, "age": "integer"}, rows, KEY)
    assert engine.statistic(parse_question("SELECT SUM(age) FROM t", policy).query) == 60
    assert engine.statistic(parse_question("SELECT COUNT(*) FROM t", policy).query) == 2
