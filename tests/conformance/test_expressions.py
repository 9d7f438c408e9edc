"""Row expressions: every engine works out what plain Python does, no row adds more than the price says, and groups of
expressions are what their labels say."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from conformance.expressions import Expression, ExpressionDraw
from conformance.reference import Condition, Steps, counted
from conformance.stores import Store
from conformance.tables import Drawn
from support.internals import (
    BadQuery,
    Question,
    SqlEngine,
    UnsupportedQuery,
    group_labels,
    group_order,
    parse_question,
    row_range,
)

SEEDS = {"csv": 4, "parquet": 20, "duckdb": 3, "postgresql": 10, "spark": 3, "spark csv": 1, "spark table": 1}
KEY = "secret'key"
ROWS = 100_000
LEAST_ANSWERED, MAX_ROUNDS = 4, 40


class Trial:
    """One random table in one engine, and random expressions over it."""

    def __init__(self, store: Store, seed: int) -> None:
        self.drawn = Drawn(seed, store.only_text, store.unreadable)
        if store.only_text:
            self.drawn.rows = [{name: value or None for name, value in row.items()} for row in self.drawn.rows]
        self.policy = replace(self.drawn.policy, row_cap=ROWS)  # nothing saturates
        self.engine: SqlEngine = store.engine(self.policy, self.drawn.types, self.drawn.rows, KEY)
        self.rows = counted(self.policy, self.drawn.rows, KEY)
        self.draw = ExpressionDraw(self.drawn, Random(seed))
        self.answered = 0

    def ask(self, sql: str) -> Question | None:
        """The question, unless the policy alone says that it cannot be answered."""
        try:
            return parse_question(sql, self.policy)
        except (BadQuery, UnsupportedQuery):
            return None

    def run(self, rounds: int) -> None:
        """Some rounds of questions, and more until enough of them could be asked: the policy refuses many."""
        for number in range(MAX_ROUNDS):
            if number >= rounds and self.answered > LEAST_ANSWERED:
                break
            expression, condition = self.draw.number(), self.draw.condition()
            self.sums(expression, condition)
            self.counts(condition)
            self.groups()

    def sums(self, expression: Expression, condition: Condition) -> None:
        def added(row: Steps) -> Fraction:
            return (expression.value(row) or Fraction(0)) if condition.holds(row) else Fraction(0)

        sql = f"SELECT SUM({expression.sql}) FROM t WHERE {condition.sql}"
        self.check(sql, self.ask(sql), added)
        filtered = f"SELECT SUM({expression.sql}) FILTER (WHERE {condition.sql}) FROM t"
        self.check(filtered, self.ask(filtered), added)

    def counts(self, condition: Condition) -> None:
        sql = f"SELECT COUNT(*) FROM t WHERE {condition.sql}"
        self.check(sql, self.ask(sql), lambda row: Fraction(bool(condition.holds(row))))

    def check(self, sql: str, question: Question | None, added) -> None:
        if question is None:
            return
        self.answered += 1
        total = self.engine.statistic(question.query) * question.unit + question.offset
        assert total == sum(map(added, self.rows)), (sql, self.engine._query_sql(question.query))
        low, high = (end * question.unit for end in row_range(question.query, self.policy))
        for row in self.rows:
            assert min(low, high) <= added(row) <= max(low, high), (sql, row)

    def groups(self) -> None:
        key, condition = self.draw.key(), self.draw.condition(1)
        sql = f"SELECT {key.sql}, COUNT(*) FROM t WHERE {condition.sql} GROUP BY {key.sql}"
        question = self.ask(sql)
        if question is None:
            return
        self.answered += 1
        values = self.engine.statistics(question.query)
        shown = [values[place] for place in group_order(question.query, self.policy)]
        labels = group_labels(question.query, self.policy)
        result = {label: value for (label,), value in zip(labels, shown, strict=True)}
        expected: dict[str, int] = {}
        for row in self.rows:
            label = key.label(row)
            if condition.holds(row) and label is not None:
                name = label if isinstance(label, str) else str(label)
                expected[name] = expected.get(name, 0) + 1
        assert {label: value for label, value in result.items() if value} == expected, sql


def test_every_engine_works_out_the_same_numbers(store: Store) -> None:
    for seed in range(SEEDS[store.kind]):
        trial = Trial(store, 1000 + seed)
        trial.run(2 if store.kind.startswith("spark") else 4)
        assert trial.answered > LEAST_ANSWERED, seed


def test_products_of_columns_are_exact_at_their_ends(store: Store) -> None:
    """The largest numbers that a policy can have: 2^31 steps each."""
    from conformance.tables import policy_of
    from support.internals import Column, Kind

    columns = [
        Column("x", Kind.INTEGER, low=-(2**31) + 1, high=2**30),
        Column("y", Kind.INTEGER, low=0, high=2**31 - 1),
    ]
    policy = policy_of(columns, row_cap=ROWS)
    rows = [{"x": x, "y": y} for x, y in ((-(2**31) + 1, 2**31 - 1), (2**30, 2**31 - 1), (-(2**63), 2**63 - 1), (7, 3))]
    if store.only_text:
        rows = [{name: str(value) for name, value in row.items()} for row in rows]
    engine = store.engine(policy, {"x": "bigint", "y": "bigint"}, rows, KEY)
    question = parse_question("SELECT SUM(x * y) FROM t WHERE x * y <> 21", policy)
    worst = (2**31 - 1) ** 2
    assert engine.statistic(question.query) == -worst + 2**30 * (2**31 - 1) - worst


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SUM(x / 0)", "divides by zero"), ("SUM(x / y)", "division by a column"), ("SUM(SUM(x))", "inside of a row"),
        ("SUM(MOD(x, 0))", "divides by zero"), ("SUM(x * x * x * x * x)", "multiply at most"),
        ("SUM(x * x * x)", "numbers this large"), ("SUM(random())", "row function"), ("SUM(SQRT(x))", "row function"),
        ("SUM(CAST(x / 3 AS INT))", "write ROUND"), ("SUM(x + 'a')", "not a number"),
        ("SUM(CLAMP(x, 5))", "CLAMP takes"),
        ("SUM(CLAMP(x, 9, 5))", "CLAMP takes"), ("SUM(FLOOR(x / 2))", "more than 10000 values"),
        ("SUM(CASE WHEN x > 1 THEN 1 ELSE 'a' END)", "of one type"), ("SUM(x > 1)", "CAST"),
    ],
)  # fmt: skip
def test_what_could_fail_on_a_value_is_refused_before(sql: str, message: str) -> None:
    from conformance.tables import policy_of
    from support.internals import Column, Kind

    policy = policy_of([Column("x", Kind.INTEGER, low=0, high=2**30), Column("y", Kind.INTEGER, low=0, high=9)])
    with pytest.raises((BadQuery, UnsupportedQuery), match=message):
        parse_question(f"SELECT {sql} FROM t", policy)
