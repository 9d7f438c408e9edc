"""Two tables of different people: whatever is asked, the answers of both add up to the answer of the table of all.

This is what sensitivity rests on: a person adds what their own rows add, and nothing that anybody else's rows say.
No value of one person may turn how the others are read, whoever wrote the file, in which order, in which pieces.
Nothing statistical: one sum that does not add up, and one error that depends on a value, is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from conformance.tables import policy_of
from conformance.writers import WRITERS, Rows, Writer
from noisebank import Policy
from noisebank.engines import duckdb_connection, duckdb_engine
from support.internals import (
    BadQuery,
    BadTable,
    Column,
    Cube,
    DuckDBDialect,
    Kind,
    Query,
    Source,
    SqlEngine,
    UnsupportedQuery,
    is_plain_count,
    make_engine,
    parse_question,
    read_header,
)

KEYS = ("a\tb", "negative", "positive", "é", "ω\u2028🎲")
TEXTS = (
    *KEYS, "", " ", "nan", "NULL", "a\x01\x1fb", 'a"b', "a,b", "x" * 300, "line\nfeed", "CR\r\nLF", "e\u0301", "\x7f",
)  # fmt: skip
FLOATS = (0.0, -0.0, 0.5, -0.5, 2.5, 39.0, 45.0, 1e30, -1e30, 1e-40, math.inf, -math.inf, math.nan)
DOUBLES = (*FLOATS, 1e308, -1e308, 5e-324)
INTEGERS = (0, 1, -1, 39, 45, 120, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
MANY = 1_000_000
"""More rows than any table here: nothing saturates, and nobody has rows that do not count."""
SIZES = (0, 1, 2, 3, 8, 30, 30, 120)
NUMBERS = ("x", "y", "n", "m")
KINDS = {
    "x": "double", "y": "float", "n": "integer", "m": "short", "a": "text", "c": "text", "b": "truth", "d": "day"
}  # fmt: skip
DAYS = (
    date(1, 1, 1),
    date(1969, 12, 31),
    date(2024, 2, 29),
    date(2026, 10, 25),
    date(2026, 11, 18),
    date(9999, 12, 31),
)
EXPRESSIONS = (
    "SUM(CASE WHEN x > 20 THEN x WHEN b THEN -n ELSE 7 END)",
    "SUM(CLAMP(x - n, -5, 40))",
    "SUM(n * m)",
    "COUNT(*) FILTER (WHERE ABS(x - 39) <= 2)",
    "SUM(GREATEST(y, n, 3))",
    "SUM(COALESCE(x, n, 1))",
    "COUNT(*) FILTER (WHERE x > n + m)",
    "SUM(CLAMP(DATE '2026-11-18' - d, 0, 400))",
    "SUM(FLOOR(LEAST(x, 60) / 7))",
    "COUNT(*) FILTER (WHERE EXTRACT(dow FROM d) IN (0, 6) OR d IS NULL)",
    "COUNT(NULLIF(x, 39))",
    "COUNT(*) FILTER (WHERE d >= DATE '2024-02-29' AND a LIKE '%i%')",
    "SUM(EXTRACT(day FROM d) * b::int)",
)
KEYS_OF_ROWS = (
    "CASE WHEN x > 20 THEN 'a' WHEN n > 5 OR b THEN 'b' END",
    "FLOOR(CLAMP(x, 0, 60) / 20)",
    "COALESCE(a, 'none')",
    "DATE_TRUNC('year', d)",
    "EXTRACT(dow FROM d)",
    "CASE WHEN d > DATE '2025-01-01' THEN x > 5 ELSE b END",
)
Flavour = Callable[[Random], Any]


def _pick(*values: Any) -> Flavour:
    return lambda random: random.choice(values)


REALS = [
    _pick(math.nan), _pick(None), _pick(math.nan, None), _pick(39.0), _pick(45.0), _pick(math.inf), _pick(-0.0),
    _pick(math.nan, math.nan, 7.0), _pick(math.nan, *map(float, range(40))), _pick(math.nan, 3.0, None),
    _pick(None, 2.0), _pick(-math.inf, math.inf, math.nan),
]  # fmt: skip
FLAVOURS: dict[str, list[Flavour]] = {
    "double": [*REALS, _pick(*DOUBLES, None)],
    "float": [*REALS, _pick(*FLOATS, None)],
    "integer": [_pick(None), _pick(5), _pick(45, None), _pick(*range(40)), _pick(*INTEGERS, None), _pick(2**63 - 1)],
    "short": [_pick(None), _pick(5), _pick(45, None), _pick(*range(40)), _pick(2**31 - 1, -(2**31), 0)],
    "text": [
        _pick(None), _pick("negative"), _pick("negative", None), _pick("positive"), _pick("positive", None),
        _pick("", None), _pick(*KEYS), _pick(*TEXTS, None),
    ],
    "day": [_pick(None), _pick(date(2024, 2, 29), None), _pick(*DAYS), _pick(*DAYS, None)],
    "truth": [_pick(None), _pick(True), _pick(True, None), _pick(True, False, None)],
}  # fmt: skip
"""What a column of a table is like: few values each, since it is then that statistics say most."""


@dataclass
class Tally:
    """What a run of trials found."""

    checks: int = 0
    refused: int = 0
    """Tables that no account is opened for: CSV with a stray line end."""
    wrong: list[str] = field(default_factory=list)

    def compare(self, what: str, found: Any, expected: Any) -> None:
        self.checks += 1
        if found != expected:
            self.wrong.append(what)


class Trial:
    """A policy, the rows of some people (`first`), those of others (`second`), and questions."""

    def __init__(self, seed: int, text: bool = False) -> None:
        self.random = random = Random(seed)
        self._text = text
        self._directed = seed % 3 == 0
        self.policy = self._policy()
        self.focus = random.choice(["x", "x", "y", "n", "m", "a", "a", "c", "b"])
        flavours = {name: random.choice(FLAVOURS[kind]) for name, kind in KINDS.items()}
        if self._directed:  # what statistics are worst at: one value, and some that they do not speak of
            some = random.choice([_pick(39.0, math.nan), _pick(math.nan)])
            self.first = self._rows("p", 30, flavours | {"a": _pick("negative", None), "x": some})
            self.second = self._rows("q", 1, flavours | {"a": _pick("positive"), "x": _pick(45.0)})
            return
        self.first = self._rows("p", random.choice(SIZES), flavours)
        if random.random() < 0.6:  # one person, who need not be like the others
            others = {name: random.choice([flavour, *FLAVOURS[KINDS[name]]]) for name, flavour in flavours.items()}
            self.second = self._rows("q", 1, others)
        else:
            self.second = self._rows("q", random.choice(SIZES), flavours)

    def questions(self, count: int) -> Iterator[Query]:
        """Every base statistic, with and without conditions and groups; half of them about one column alone."""
        random = self.random
        for test in ("a IS NULL", "x IS NULL", "x > 39") if self._directed else ():
            with suppress(BadQuery):  # beyond the bounds
                yield parse_question(f"SELECT COUNT(*) FROM t WHERE {test}", self.policy).query
        for sql in (
            f"SELECT {random.choice(EXPRESSIONS)} FROM t WHERE {self._condition(1)}",
            f"SELECT COUNT(*) FROM t GROUP BY {random.choice(KEYS_OF_ROWS)}",
        ):
            with suppress(BadQuery, UnsupportedQuery):  # public by the policy, or too much for it
                yield parse_question(sql, self.policy).query
        for number in range(count):
            focused = number < count // 2
            column = self.focus if focused and self.focus in NUMBERS else random.choice(NUMBERS)
            counts = "COUNT(*)" if focused else f"COUNT({random.choice(['*', column, 'a'])})"
            head = random.choice([counts, counts, f"SUM({column})", f"SUM({column} * {column})"])
            where = f" WHERE {self._test(self.focus) if focused else self._condition(2)}"
            where = where if random.random() < 0.9 else ""
            by = random.choice(["a", "b", "x"]) if not focused and random.random() < 0.3 else ""
            groups = (f"{by}, ", f" GROUP BY {by}") if by else ("", "")
            with suppress(BadQuery, UnsupportedQuery):  # no row can meet the condition
                yield parse_question(f"SELECT {groups[0]}{head} FROM t{where}{groups[1]}", self.policy).query

    def _policy(self) -> Policy:
        random = self.random

        def flip() -> bool:
            return self._directed or random.random() < 0.5

        step, edge = random.choice([Fraction(1), Fraction(1, 4), Fraction(1, 100)]), random.choice([40, 100, 2**30])
        low = random.choice([0, -7, 1])
        bins = tuple(sorted(random.sample(range(low + 1, edge + 1), 2)))
        columns = [
            Column("x", Kind.NUMBER, step, low, edge, bins=bins, nullable=flip()),
            Column("y", Kind.NUMBER, Fraction(1), low, edge, nullable=flip()),
            Column("n", Kind.INTEGER, Fraction(1), low, edge, bins=bins if flip() else (), nullable=flip()),
            Column("m", Kind.INTEGER, random.choice([Fraction(1), Fraction(10)]), low, edge, nullable=flip()),
            Column("a", Kind.TEXT, keys=KEYS, nullable=flip()),
            Column("c", Kind.TEXT, keys=("", "positive"), nullable=flip()),
            Column("b", Kind.BOOLEAN, nullable=flip()),
            Column("d", Kind.DATE, low=18_000, high=21_000, nullable=flip()),
            Column("who", Kind.TEXT),
        ]
        unit: dict[str, Any] = {"unit": "who", "max_rows": 3} if random.random() < 0.4 else {"unit": "row"}
        return policy_of(columns, row_cap=MANY, **unit)

    def _rows(self, prefix: str, size: int, flavours: dict[str, Flavour]) -> Rows:
        rows = [
            {**{name: flavour(self.random) for name, flavour in flavours.items()}, "who": f"{prefix}{number // 3}"}
            for number in range(size)
        ]
        if self._text and rows:
            self.random.choice(rows)[self.random.choice(["x", "n"])] = "no number"
            if self.random.random() < 0.3:  # Python's csv leaves it without quotes
                self.random.choice(rows)["c"] = "hello" + "\r120" * self.random.choice([1, 20])
        return rows

    def _condition(self, depth: int) -> str:
        random = self.random
        if depth and random.random() < 0.4:
            joined = f" {random.choice(['AND', 'OR'])} ".join(self._condition(depth - 1) for _ in range(2))
            return random.choice(["({})", "NOT ({})"]).format(joined)
        return self._test(random.choice(list(KINDS)))

    def _test(self, name: str) -> str:
        random = self.random
        column = self.policy.columns[name]
        if column.nullable and random.random() < 0.4:
            return f"{name} IS {random.choice(['', 'NOT '])}NULL"
        if column.kind is Kind.DATE:
            return f"d {random.choice(['<', '>=', '<>'])} DATE '{random.choice(DAYS)}'"
        if column.kind is Kind.BOOLEAN:
            return random.choice([name, f"NOT {name}"])
        if column.kind is Kind.TEXT:
            keys = random.sample(column.keys, random.randint(1, 2))
            listed = ", ".join(f"'{key}'" for key in keys)
            return f"{name} {random.choice(['', 'NOT '])}IN ({listed})"
        low, high = (bound * column.step for bound in column.bounds)
        at = random.choice([low, high, (low + high) / 2, low + 2 * column.step, Fraction(20), Fraction(42)])
        return f"{name} {random.choice(['<', '<=', '>', '>=', '=', '<>'])} {float(at)!r}"


def run(seeds: range, count: int, names: tuple[str, ...] = tuple(WRITERS), plant: str = "") -> Tally:
    """Trials over files of these writers in turn, read by DuckDB; with a planted bug, until it is caught."""
    tally = Tally()
    with PLANTS[plant]() if plant else nullcontext(), duckdb_connection.open_connection() as connection:
        connection.execute("SET threads = 1")
        for seed in seeds:
            name = names[seed % len(names)]
            with TemporaryDirectory() as folder:
                trial = Trial(seed, text=name == "Python's csv")
                compare(tally, trial, name, WRITERS[name], Path(folder), count, connection)
            if plant and tally.wrong:
                break
    return tally


def compare(
    tally: Tally, trial: Trial, name: str, write: Writer, folder: Path, count: int, connection: Any = None
) -> None:
    """One trial over files of one writer: both tables, and all rows together in any order."""
    all_rows = trial.first + trial.second
    tables = (trial.first, trial.second, trial.random.sample(all_rows, len(all_rows)))
    seed = trial.random.random()
    sources = [write(folder / f"{place}", rows, Random(seed)) for place, rows in enumerate(tables)]
    engines = [_engine(trial.policy, source, connection) for source in sources]
    told = f"{name}, {trial.policy.unit}"
    looks = [_tried(engine.inspect) for engine in engines]
    if any(_is_refusal(look) for look in looks):
        tally.refused += 1
        one, other, both = map(_is_refusal, looks)
        tally.compare(f"{told}: refused", both, one or other)
        return
    _add_up(tally, f"{told}: inspection", [_inspected(look) for look in looks])
    if not any(isinstance(look, Exception) for look in looks):
        tally.compare(f"{told}: rows", [look.rows for look in looks], [len(rows) for rows in tables])
    queries = list(trial.questions(count))
    for query in queries:
        _add_up(tally, f"{told}: {query}", [_tried(partial(_statistics, engine, query)) for engine in engines])
    counts = [query for query in queries if is_plain_count(query)]
    if counts and isinstance(engines[0], duckdb_engine.DuckDBEngine):
        together = [_tried(partial(_counted, engine, counts)) for engine in engines]
        _add_up(tally, f"{told}: counts at once", together)
    if trial.random.random() < 0.3:
        cube = Cube.for_columns(("a", "b", "x"), trial.policy.columns)
        _add_up(tally, f"{told}: cells", [_tried(partial(_cells, engine, cube)) for engine in engines])


def _add_up(tally: Tally, what: str, found: list[Any]) -> None:
    errors = {f"{type(answer).__name__}: {answer}" for answer in found if isinstance(answer, Exception)}
    if errors:
        tally.compare(f"{what}: {', '.join(sorted(errors))}", "errors", "none")
        return
    one, other, both = found
    added = tuple(a + b for a, b in zip(one, other, strict=True))
    different = [(a, b) for a, b in zip(both, added, strict=True) if a != b][:3]
    tally.compare(f"{what}: {different}", both, added)


def _is_refusal(look: Any) -> bool:
    """Whether the owner was told of a line of a CSV file. Any other error is wrong."""
    return isinstance(look, BadTable) and ", line " in str(look)


def _inspected(look: Any) -> Any:
    if isinstance(look, Exception):
        return look
    return (look.rows, *(value for part in (look.missing, look.outside, look.unkeyed) for value in part.values()))


def _statistics(engine: SqlEngine, query: Query) -> tuple[int, ...]:
    return engine.statistics(query) if query.by else (engine.statistic(query),)


def _counted(engine: duckdb_engine.DuckDBEngine, queries: list[Query]) -> tuple[int, ...]:
    return tuple(engine._run_counts(queries))


def _cells(engine: SqlEngine, cube: Cube) -> tuple[int, ...]:
    found = engine.tabulate(cube)
    totals = [found.cell_totals(*total) for total in found.totals]
    return tuple(int(value) for total in totals for value in np.ravel(total))


def _tried(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except BadTable as error:
        return error


def _engine(policy: Policy, source: Source, connection: Any) -> SqlEngine:
    engine = make_engine(replace(policy, source=source), read_header(source), "k")
    assert isinstance(engine, SqlEngine)
    if isinstance(engine, duckdb_engine.DuckDBEngine):
        engine._connection = connection  # to connect takes longer than all that is asked
    elif isinstance(engine, duckdb_engine.DuckDBTableEngine):
        engine._database._connection = connection
    return engine


# -- planted bugs ----------------------------------------------------------------------------------


@contextmanager
def switched_on(*optimisers: str) -> Iterator[None]:
    """DuckDB with these optimisers on again, and trusted all the same."""
    on = dict.fromkeys(optimisers, "planted")
    with (
        patch.dict(duckdb_connection.ALLOWED_OPTIMIZERS, on),
        patch.object(duckdb_connection, "check_version", lambda: None),
    ):
        yield


@contextmanager
def raising_casts() -> Iterator[None]:
    """A conversion that fails for NaN, once statistics have let NaN reach it."""
    plain = patch.object(DuckDBDialect, "round_double", lambda self, double: f"round({double})::BIGINT")
    with plain, switched_on("statistics_propagation"):
        yield


def unread_lines() -> AbstractContextManager[Any]:
    """CSV files whose lines nobody has looked at."""
    return patch.object(duckdb_engine, "count_csv_rows", lambda path, header, blank_rows: None)


PLANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "filters pushed into scans": lambda: switched_on(
        "filter_pushdown", "expression_rewriter"
    ),  # which strips conditions first
    "statistics of files believed": lambda: switched_on("statistics_propagation"),
    "casts pushed into CSV": lambda: switched_on("type_pushdown"),
    "a conversion that fails for NaN": raising_casts,
    "any line end ends a row": unread_lines,
}
"""What was so once. Each is caught by the comparison that passes without it."""
