"""Random SQL of every kind of row expression over random policies, and rows that are meant to break it.

Nothing here says what an answer must be. What must hold for any SQL at all: it is read or refused by name, the engine
never fails, disjoint tables add up in any order of rows, and neighbours differ by no more than the sensitivity says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pyarrow.parquet

from conformance.tables import policy_of
from noisebank import NoisebankError, Policy
from noisebank.engines import duckdb_connection
from support.internals import (
    Column,
    DuckDBEngine,
    Kind,
    Neighbours,
    Query,
    l2_sensitivity,
    make_engine,
    parse_select_list,
    read_header,
)

KEYS = ("a\tb", "it's", "north", "é", "%n_")
ZONES = ("UTC", "Europe/Zurich", "America/New_York", "Pacific/Apia", "Asia/Kathmandu", "Antarctica/Troll")
DAYS = (date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2026, 3, 29), date(2026, 10, 25), date(9999, 12, 31))
FLOATS = (0.0, -0.0, 0.5, -0.5, 2.5, 39.0, 1e30, math.inf, -math.inf, math.nan, 5e-324, 7.0, 0.29, 1.005)
INTEGERS = (0, 1, -1, 2, 5, 9, 39, 45, 100, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
CLOCKS = (
    datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime(2026, 10, 25, 0, 59, 59), datetime(2026, 3, 29, 1), datetime(2025, 6, 1, 13, 5, 59),
)  # fmt: skip
CLOCK_TYPES = (
    pyarrow.timestamp("us"), pyarrow.timestamp("ms"), pyarrow.timestamp("us", "UTC"),
    pyarrow.timestamp("us", "Asia/Kathmandu"), pyarrow.date32(), pyarrow.string(),
)  # fmt: skip
SIGNS = ("'o'", "'n'", "'%'", "'_'", "'é'", "'north'", "' '")
Rows = list[dict[str, Any]]
Claim = Callable[[Query, Policy], Fraction]


@dataclass
class Found:
    """What a run came to."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    connection: Any = field(default_factory=lambda: duckdb_connection.open_connection())


class RandomSql:
    """Texts, from a grammar: most are answered, some are refused."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def constant(self) -> str:
        return self.random.choice(["0", "1", "2", "-3", "7", "39", "0.5", "2.25", "10", "1000"])

    def number(self, depth: int = 2) -> str:
        """A number of a row."""
        pick = self.random.choice
        if depth <= 0:
            return pick(["x", "n", "m", self.constant()])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return pick(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {pick(['2', '-4', '0.5'])})", f"ABS({a})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {b} END", f"NULLIF({a}, {self.constant()})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {a} END", f"COALESCE({a}, {b})", f"SIGN({a})",
                f"GREATEST({a}, {b}, {self.constant()})", f"LEAST({a}, {b})", f"CLAMP({a}, -5, {pick(['7', '2.5'])})",
                f"FLOOR({a} / {pick(['5', '7'])})", f"ROUND({a}, {pick([0, 1, -1])})", f"MOD({a}, 7)",
                f"CAST(({self.condition(depth - 1)}) AS INT)", f"({self.day(depth - 1)} - {self.day(depth - 1)})",
                f"EXTRACT({pick(['year', 'month', 'dow', 'doy', 'week'])} FROM {self.day(depth - 1)})",
                f"EXTRACT({pick(['hour', 'minute', 'epoch'])} FROM t)", f"DATE_DIFF('month', d, {self.day(0)})",
            ]
        )  # fmt: skip

    def day(self, depth: int) -> str:
        """A date of a row."""
        pick = self.random.choice
        if depth <= 0:
            return pick(["d", f"DATE '{pick(DAYS)}'", "CAST(t AS DATE)"])
        unit = pick(["month", "year", "week", "quarter"])
        return pick([f"DATE_TRUNC('{unit}', {pick(['d', 't'])})", "(d + 40)", "COALESCE(d, DATE '2024-02-29')"])

    def text(self, depth: int = 1) -> str:
        """A text of a row."""
        pick = self.random.choice
        if depth <= 0:
            return pick(["a", "COALESCE(a, 'none')"])
        text, sign, other = self.text(depth - 1), pick(SIGNS), pick(SIGNS)
        return pick(
            [
                f"UPPER({text})", f"REPLACE({text}, {sign}, {other})", f"TRIM({text})",
                f"SPLIT_PART({text}, {sign}, {pick([1, 2, -1])})", f"LTRIM({text}, {sign})",
                f"LEFT({text}, 2)", f"RIGHT({text}, 1)", f"REVERSE({text})",
                f"{text} || {sign}", f"CONCAT({text}, {sign})", f"INITCAP({text})", f"NULLIF({text}, 'north')",
                f"CASE WHEN n > 3 THEN {text} END",
            ]
        )  # fmt: skip

    def spelled_condition(self, depth: int) -> str:
        """A condition with patterns, tuples or times of day."""
        pick = self.random.choice
        negated, text, clock = pick(["", "NOT "]), self.text(min(depth, 1)), self.clock
        number = pick(["n", "m", "1", "7", "-3"])
        return pick(
            [
                f"{text} {negated}LIKE '{pick(['%n%', 'n_rth', '%', 'é', ''])}'", f"{text} {negated}ILIKE '%N%'",
                f"{text} {negated}LIKE {pick(['ANY', 'ALL'])}(ARRAY['n%', '%s', '{pick(['é', '%n_', ''])}'])",
                f"{text} {negated}SIMILAR TO '{pick(['(n|i)%', '[a-n]+', '%', '_{5}'])}'",
                f"{text} {pick(['~', '!~', '~*', '!~*'])} '{pick(['^n', 'h$', '[a-z]+', 'o.t', '.', '^$'])}'",
                f"LENGTH({text}) {pick(['>', '<', '='])} {pick([3, 4, 5])}", f"STRPOS({text}, {pick(SIGNS)}) > 1",
                f"x {negated}BETWEEN SYMMETRIC {pick([5, 0.5, 9])} AND 1",
                f"n + 0 {negated}BETWEEN SYMMETRIC {number} AND m",
                f"(n, m) {negated}IN ((1, 2), (9, 4), (0, 0))", f"(a, n) {negated}IN (('north', 9), ('é', 1))",
                f"x {negated}IN (VALUES (0.5), (9))", "x - n <> ALL(ARRAY[1, 2])", "n = ANY(ARRAY[1, 9])",
                f"t::time {pick(['<', '<=', '>', '>=', '=', '<>'])} {clock()}",
                f"t::time {negated}IN ({clock()}, {clock()})",
                f"CAST(t AS TIME) {negated}BETWEEN {pick(['', 'SYMMETRIC '])}{clock()} AND {clock()}",
            ]
        )  # fmt: skip

    def clock(self) -> str:
        """A time of day."""
        return f"'{self.random.randrange(24):02d}:{self.random.choice([0, 30, 59]):02d}'"

    def condition(self, depth: int = 2) -> str:
        """A condition on a row."""
        pick = self.random.choice
        if self.random.random() < 0.3:
            return self.spelled_condition(depth)
        if depth > 0 and self.random.random() < 0.4:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return pick([f"({a} AND {b})", f"({a} OR {b})", f"NOT ({a})"])
        sign = pick(["<", "<=", ">", ">=", "=", "<>"])
        moment = pick(["2026-10-25 02:30", "2026-03-29 02:30", "1969-12-31 23:59:59"])
        return pick(
            [
                f"{self.number(depth - 1)} {sign} {self.number(depth - 1)}", f"x {sign} {self.constant()}", "b",
                f"{pick(['x', 'n', 'a', 'c', 'b', 'd', 't'])} IS {pick(['', 'NOT '])}NULL", f"c {sign} 7",
                f"a {pick(['', 'NOT '])}LIKE '{pick(['%n%', 'n_rth', '%', 'é'])}'", "a IN ('north', 'é')",
                f"c {pick(['', 'NOT '])}IN (2, 7)", f"{self.day(depth - 1)} {sign} DATE '{pick(DAYS)}'",
                f"t {sign} TIMESTAMP '{moment}'", f"t - TIMESTAMP '2026-01-01' {sign} INTERVAL '3 hours'",
            ]
        )  # fmt: skip

    def select(self) -> str:
        """One SELECT."""
        pick = self.random.choice
        filtered = f" FILTER (WHERE {self.condition()})" if self.random.random() < 0.25 else ""
        number = self.number()
        result = pick(
            [
                f"COUNT(*){filtered}", f"SUM({number}){filtered}", f"COUNT({number}){filtered}", f"AVG({number})",
                f"VARIANCE({self.number(1)})", f"COVAR_POP({self.number(1)}, {self.number(1)})", "CORR(x, n)",
                f"2 * SUM({number}) - 3 * COUNT_IF({self.condition(1)}) + 5", "SUM(x * x)", f"COUNT({self.text()})",
                f"SUM(LENGTH({self.text()}) * x)",
                f"COUNT(*) - (SELECT {pick(['COUNT(*)', 'SUM(n)'])} FROM p WHERE {self.condition(1)})",
            ]
        )  # fmt: skip
        where = f" WHERE {self.condition()}" if self.random.random() < 0.6 else ""
        key = pick(
            [
                "a", "b", "c", f"CASE WHEN {self.condition(1)} THEN 'p' END", "COALESCE(a, 'none')", "MOD(n, 5)",
                f"FLOOR(CLAMP({self.number(1)}, 0, 60) / 20)", "EXTRACT(hour FROM t)", "DATE_TRUNC('quarter', d)",
                "n", "m", "x", self.text(2), f"LENGTH({self.text()})",
            ]
        )  # fmt: skip
        source = f"(SELECT * FROM p WHERE {self.condition(1)}) AS q" if self.random.random() < 0.1 else "p"
        return f"SELECT {result} FROM {source}{where}{f' GROUP BY {key}' if self.random.random() < 0.4 else ''}"


def random_policy(random: Random) -> Policy:
    """Rows or people, either neighbourhood, bounds and steps of every kind, complete columns."""

    def flip() -> bool:
        return random.random() < 0.5

    low, high = random.choice([0, -7, 1, -40]), random.choice([9, 40, 2**20])
    step = random.choice([Fraction(1), Fraction(1, 4), Fraction(1, 100), Fraction(3, 7)])
    first, last = sorted(random.sample([1_700_000_000, 1_767_225_600, 1_790_000_000, 0, -(10**9)], 2))
    seconds = random.choice([1, 60, 3600])
    columns = [
        Column("x", Kind.NUMBER, step, low, high, nullable=flip()),
        Column("n", Kind.INTEGER, Fraction(1), low, high, nullable=flip()),
        Column("m", Kind.INTEGER, random.choice([Fraction(1), Fraction(10)]), -3, 30, nullable=flip()),
        Column("a", Kind.TEXT, keys=KEYS, nullable=flip(), complete=flip()),
        Column("c", Kind.INTEGER, keys=(-1, 2, 7, 100), nullable=flip(), complete=flip()),
        Column("b", Kind.BOOLEAN, nullable=flip()),
        Column("d", Kind.DATE, low=random.choice([18_000, -719_162]), high=22_000, nullable=flip()),
        Column("t", Kind.TIMESTAMP, Fraction(seconds), first // seconds, last // seconds, nullable=flip(),
               zone=random.choice(ZONES)),
        Column("who", Kind.TEXT),
    ]  # fmt: skip
    unit: dict[str, Any] = {"unit": "who", "max_rows": random.choice([1, 2, 3])} if flip() else {"unit": "row"}
    return policy_of(columns, row_cap=10**6, neighbours=random.choice(list(Neighbours)), name="p", **unit)


def random_row(random: Random, who: str) -> dict[str, Any]:
    """Somebody's row, with what breaks things."""
    values: dict[str, Any] = {
        "x": random.choice(FLOATS), "n": random.choice(INTEGERS), "m": random.choice([0, -3, 4, 30, 32_767, -32_768]),
        "a": random.choice([*KEYS, "", "NORTH"]), "c": random.choice([-1, 2, 7, 100, 3, 2**40]),
        "b": random.choice([True, False]), "d": random.choice(DAYS),
        "t": random.choice([*CLOCKS, datetime(2026, 6, 1) + timedelta(seconds=random.randrange(-(10**8), 10**7))]),
    }  # fmt: skip
    return {**{name: None if random.random() < 0.15 else value for name, value in values.items()}, "who": who}


def write_parquet(path: Path, rows: Rows, random: Random) -> None:
    """The rows, stored in some types and pieces: the same for the same seed."""
    clock = random.choice(CLOCK_TYPES)
    types = {
        "x": random.choice([pyarrow.float64(), pyarrow.float32()]), "n": pyarrow.int64(), "m": pyarrow.int16(),
        "a": pyarrow.string(), "c": pyarrow.int64(), "b": pyarrow.bool_(), "who": pyarrow.string(), "t": clock,
        "d": random.choice([pyarrow.date32(), pyarrow.date64(), pyarrow.timestamp("us"), pyarrow.string()]),
    }  # fmt: skip
    arrays = {
        name: pyarrow.array([_as_stored(row[name], kind) for row in rows], kind, from_pandas=False)
        for name, kind in types.items()
    }
    pieces, int96 = random.choice([1, 2, 7, 100]), random.random() < 0.2
    pyarrow.parquet.write_table(
        pyarrow.table(arrays), path, row_group_size=pieces, use_deprecated_int96_timestamps=int96
    )


def _as_stored(value: Any, kind: Any) -> Any:
    if value is None or not isinstance(value, date):
        return value
    if pyarrow.types.is_string(kind):
        return str(value)
    if pyarrow.types.is_date(kind):
        return value.date() if isinstance(value, datetime) else value
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if kind.unit == "ms":
        moment = moment.replace(microsecond=0)
    return moment.replace(tzinfo=UTC) if kind.tz else moment


def run_trial(seed: int, folder: Path, count: int, found: Found, claim: Claim = l2_sensitivity) -> None:
    """One policy, two disjoint tables, both together in any order, and a neighbour; and so many SELECTs."""
    random = Random(seed)
    policy = random_policy(random)
    most = 1 if policy.unit == "row" else policy.max_rows + 2
    others = [random_row(random, f"p{number // 2}") for number in range(random.choice([0, 1, 3, 12]))]
    person, another = ([random_row(random, "q")] * random.randint(1, most) for _ in range(2))
    stored = random.random()
    tables = [others, person, random.sample(others + person, len(others + person)), others + another]
    engines = []
    for number, rows in enumerate(tables):
        write_parquet(folder / f"{seed} {number}.parquet", rows, Random(stored))
        source = folder / f"{seed} {number}.parquet"
        engine = make_engine(replace(policy, source=source), read_header(source), "00" * 32)
        assert isinstance(engine, DuckDBEngine)
        engine._connection = found.connection  # to connect takes longer than all that is asked
        engine.inspect()
        engines.append(engine)
    grammar = RandomSql(random)
    for _ in range(count):
        sql = grammar.select()
        try:
            aggregates = parse_select_list(sql, policy).aggregates
        except NoisebankError as error:
            found.counts[type(error).__name__] += 1
            continue
        for query in [question.query for aggregate in aggregates for question in aggregate.questions]:
            one, other, both, neighbour = (engine.statistics(query) if query.by else (engine.statistic(query),)
                                           for engine in engines)  # fmt: skip
            found.counts["queries"] += 1
            if tuple(a + b for a, b in zip(one, other, strict=True)) != tuple(both):
                found.wrong.append(f"{seed}: does not add up: {sql}")
            near = one if policy.neighbours is Neighbours.ADD_REMOVE else neighbour
            squared = sum((a - b) ** 2 for a, b in zip(both, near, strict=True))
            found.counts["moved"] += squared > 0
            if squared > claim(query, policy) ** 2:
                found.wrong.append(f"{seed}: beyond its sensitivity: {sql}")
