"""Sensitivity understated: brute force over neighbours of small tables, in the engine's own integers.

Tables hold what tables hold: missing and ragged fields, NaN, infinities, huge numbers, words where
numbers belong. The exact difference between neighbours must never pass what the policy claims.
Nothing statistical: one larger difference is a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import MappingProxyType

from assurance.planting import plant_bug
from assurance.report import Finding
from noisebank import Policy
from support.internals import (
    BadQuery,
    Column,
    DuckDBEngine,
    Field,
    Function,
    Kind,
    Neighbours,
    Query,
    duckdb_header,
    l2_sensitivity,
    open_connection,
    parse_question,
    quote_name,
    quote_text,
    saturation_limit,
    workload_rng,
)

HEADER = ("who", "amount", "flag", "town", "day", "note")
BOUNDS = ((-6, 10), (100, 110), (-20, -4), (0, 7))
"""In steps of one half."""
QUESTIONS = (
    "SELECT SUM(amount) FROM t",
    "SELECT SUM(amount) FROM t WHERE town = 'a'",
    "SELECT SUM(amount) FROM t WHERE flag OR town <> 'b'",
    "SELECT COUNT(*) FROM t WHERE flag",
    "SELECT COUNT(*) FROM t WHERE amount > {middle} AND town = 'b'",
    "SELECT COUNT(amount) FROM t WHERE NOT flag",
    "SELECT SUM(amount) FROM t WHERE amount < {middle}",
    "SELECT SUM(CLAMP(amount, 1, 4)) FROM t WHERE town <> 'a'",
    "SELECT SUM(CASE WHEN flag THEN amount * amount WHEN town = 'a' THEN -amount END) FROM t",
    "SELECT SUM(GREATEST(ABS(amount - {middle}), flag::int)) FROM t",
    "SELECT SUM(CLAMP(DATE '2026-12-31' - day, -3, 30)) FROM t",
    "SELECT COUNT(*) FROM t WHERE EXTRACT(dow FROM day) = 0 OR amount * 10 > EXTRACT(day FROM day)",
)
ROW_KEY = "00" * 32

Row = tuple[str, ...]
Claim = Callable[[Query, Policy], int]


def queries_of(policy: Policy) -> list[Query]:
    """The questions as queries."""
    middle = sum(policy.columns["amount"].bounds) / 4
    queries = []
    for sql in QUESTIONS:
        with suppress(BadQuery):  # by this policy nobody can change it
            queries.append(parse_question(sql.format(middle=middle), policy).query)
    return queries


def policy_of(
    bounds: tuple[int, int],
    nullable: bool,
    relation: Neighbours,
    max_rows: int | None,
    row_cap: int = 1_000,
    complete: bool = False,
) -> Policy:
    """A policy over the table `t`; `max_rows` None means that a person is a row."""
    columns = {
        "who": Column("who", Kind.TEXT),
        "amount": Column("amount", Kind.NUMBER, Fraction(1, 2), *bounds, nullable=nullable),
        "flag": Column("flag", Kind.BOOLEAN, nullable=nullable),
        "town": Column("town", Kind.TEXT, keys=("a", "b"), nullable=nullable, complete=complete),
        "day": Column("day", Kind.DATE, low=20_450, high=20_800, nullable=nullable),
    }
    return Policy(
        name="t",
        source=Path("unset.csv"),
        neighbours=relation,
        row_cap=row_cap,
        columns=MappingProxyType(columns),
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        unit="row" if max_rows is None else "who",
        max_rows=max_rows or 1,
    )


# -- tables ----------------------------------------------------------------------------------------


def row(random: Random, bounds: tuple[int, int], who: str, wild: bool = True) -> Row:
    """One line's fields; a ragged line has fewer."""
    low, high = (Fraction(bound, 2) for bound in bounds)
    tame = [f"{float(low)}", f"{float(high)}", f"{float(random.randint(*bounds)) / 2}"]
    odd = [
        "",
        "NaN",
        "-nan",
        "inf",
        "-inf",
        "1e400",
        "-1e400",
        "1e300",
        "-99999999999",
        "0",
        "word",
        " 3 ",
        '"4"',
        "5 6",
    ]
    amount = random.choice(tame * 4 + odd) if wild else random.choice(tame)
    flag = random.choice(["true", "false"] * 3 + (["", "maybe", "1", "T"] if wild else []))
    town = random.choice(["a", "b"] * 3 + (["", "elsewhere", '"a"', "A", "'a'"] if wild else []))
    days = ["2026-12-31", "2026-01-04", "2026-11-18"] * 2
    day = random.choice(days + (["", "0001-01-01", "9999-12-31", "2026-02-30", "infinity"] if wild else []))
    note = random.choice(["", '"x, ""y"""', '"two\nlines"', "|", ";"])
    fields = (who, amount, flag, town, day, note)
    return fields[: random.choice([6, 6, 6, 6, 5, 4, 3, 2, 1])] if wild else fields


@dataclass
class Table:
    """People and their rows."""

    people: list[tuple[Row, ...]]

    def write(self, path: Path, random: Random | None = None) -> None:
        """As CSV; with a generator, in an order of its own."""
        lines = [",".join(fields) for rows in self.people for fields in rows]
        if random is not None:
            random.shuffle(lines)
        path.write_text("\n".join([",".join(HEADER), *lines]) + "\n")


def table_of(random: Random, policy: Policy, wild: bool = True) -> Table:
    """Up to six people, with a row each or with up to two rows more than count."""
    most = 1 if policy.unit == "row" else policy.max_rows + 2
    count = random.randrange(1, 7)
    return Table([person(random, policy, str(number), most, wild) for number in range(count)])


def person(random: Random, policy: Policy, who: str, most: int, wild: bool = True) -> tuple[Row, ...]:
    """The rows of one person; half of them have all their rows alike, at a bound: the extreme neighbours."""
    bounds = policy.columns["amount"].bounds
    rows = [row(random, bounds, who, wild) for _ in range(random.randint(1, most))]
    if random.random() < 0.5:
        extreme = (
            who,
            str(float(Fraction(random.choice(bounds), 2))),
            random.choice(["true", "false"]),
            "a",
            "2026-12-31",
            "",
        )
        rows = [extreme for _ in rows]
    return tuple(rows)


def neighbours_of(random: Random, policy: Policy, table: Table) -> Iterator[Table]:
    """Everybody taken away once, or everybody replaced once by somebody else."""
    most = 1 if policy.unit == "row" else policy.max_rows + 2
    for place in range(len(table.people)):
        others = table.people[:place] + table.people[place + 1 :]
        if policy.neighbours is Neighbours.ADD_REMOVE:
            yield Table(others)
        else:
            who = random.choice([str(place), "new"])
            yield Table([*others, person(random, policy, who, most)])


# -- the audit -------------------------------------------------------------------------------------


@dataclass
class Audit:
    """Counts and the worst ratio of difference and claim."""

    folder: Path
    claim: Claim = l2_sensitivity
    engine_policy: Callable[[Policy], Policy] = lambda policy: policy
    pairs: int = 0
    worst: Fraction = Fraction(0)
    tight: int = 0
    unsaturated: int = 0
    shuffled_apart: int = 0
    parquet_apart: int = 0
    files: int = 0
    connection: object = field(default_factory=open_connection)

    def engine(self, policy: Policy, table: Table, random: Random | None = None) -> DuckDBEngine:
        """An engine over the table, each in a file of its own."""
        self.files += 1
        path = self.folder / f"{self.files}.csv"
        table.write(path, random)
        return self._open(policy, path)

    def _open(self, policy: Policy, path: Path) -> DuckDBEngine:
        engine = DuckDBEngine(replace(self.engine_policy(policy), source=path), duckdb_header(path), ROW_KEY)
        engine._connection = self.connection  # type: ignore[assignment]
        return engine

    def table(self, random: Random, policy: Policy) -> None:
        """One table, all its neighbours, all questions."""
        table = table_of(random, policy)
        queries = queries_of(policy)
        here = self._statistics(self.engine(policy, table), queries, policy)
        if here != self._statistics(self.engine(policy, table, random), queries, policy):
            self.shuffled_apart += 1
        for neighbour in neighbours_of(random, policy, table):
            there = self._statistics(self.engine(policy, neighbour), queries, policy)
            for query, a, b in zip(queries, here, there, strict=True):
                ratio = Fraction(abs(a - b), self.claim(query, policy))
                self.pairs += 1
                self.tight += ratio == 1
                self.worst = max(self.worst, ratio)

    def _statistics(self, engine: DuckDBEngine, queries: list[Query], policy: Policy) -> list[int]:
        found = [engine.statistic(query) for query in queries]
        self.unsaturated += sum(abs(v) > saturation_limit(q, policy) for q, v in zip(queries, found, strict=True))
        return found

    def parquet(self, random: Random, policy: Policy, typed: bool) -> None:
        """The same table as Parquet, as texts or (where all are clean) with types of its own."""
        table = table_of(random, policy, wild=not typed)
        engine = self.engine(policy, table)
        path = self.folder / f"{self.files}.parquet"
        kinds = {"amount": "DOUBLE", "flag": "BOOLEAN"} if typed else {}
        columns = ", ".join(
            f"{quote_name(name)}::{kinds.get(name, 'VARCHAR')} AS {quote_name(name)}" for name in HEADER
        )
        source = engine._table_sql()
        self.connection.execute(  # type: ignore[attr-defined]
            f"COPY (SELECT {columns} FROM {source}) TO {quote_text(str(path))} (FORMAT parquet)"
        )
        other = self._open(policy, path)
        queries = queries_of(policy)
        self.parquet_apart += sum(engine.statistic(query) != other.statistic(query) for query in queries)


def policies() -> list[Policy]:
    """Every combination of bounds, missing values, relation and privacy unit; some with a complete column."""
    found = [
        policy_of(bounds, nullable, relation, max_rows)
        for bounds in BOUNDS
        for nullable in (False, True)
        for relation in Neighbours
        for max_rows in (None, 1, 3)
    ]
    complete = [
        policy_of(bounds, nullable, relation, max_rows, complete=True)
        for bounds, nullable in ((BOUNDS[1], False), (BOUNDS[2], True))
        for relation in Neighbours
        for max_rows in (None, 3)
    ]
    return [*found, *complete, policy_of((0, 7), True, Neighbours.ADD_REMOVE, None, row_cap=2)]


# -- planted bugs ----------------------------------------------------------------------------------


def unclipped(field: Field) -> str:
    """Values as they are."""
    number = f"TRY_CAST(round({field.name} * 2.0) AS BIGINT)"
    return f"coalesce({number}, {'NULL' if field.column.nullable else field.column.bounds[0]})"


def null_as_zero(field: Field, step: Callable[[Field], str] = Field.step_sql) -> str:
    """A missing value where none may be is 0 instead of a value of the column."""
    return f"CASE WHEN {field.missing_test} THEN 0 ELSE {step(field)} END"


def _is_sum(query: Query) -> bool:
    return query.is_simple and query.function is Function.SUM and query.column == "amount"


def width(query: Query, policy: Policy) -> int:
    """u - l for every sum."""
    if not _is_sum(query) or policy.neighbours is Neighbours.ADD_REMOVE:
        return l2_sensitivity(query, policy)
    low, high = policy.columns["amount"].bounds
    return high - low


def width_times_rows(query: Query, policy: Policy) -> int:
    """k(u - l) for sums of people with several rows."""
    if not _is_sum(query) or query.where.column_names():
        return l2_sensitivity(query, policy)
    low, high = policy.columns["amount"].bounds
    return policy.max_rows * (high - low)


@dataclass(frozen=True)
class Plant:
    """A bug in the engine or in the claim, and a policy under which it matters."""

    policy: Policy
    step: Callable[[Field], str] | None = None
    claim: Claim = l2_sensitivity
    engine_policy: Callable[[Policy], Policy] = lambda policy: policy

    def planted(self) -> AbstractContextManager[object]:
        return plant_bug(Field, "step_sql", self.step) if self.step else nullcontext()


REPLACE, ADD = Neighbours.REPLACE_ONE, Neighbours.ADD_REMOVE
PLANTS = {
    "clipping removed": Plant(policy_of((0, 7), False, ADD, None), step=unclipped),
    "k forgotten": Plant(policy_of((-6, 10), False, ADD, 1), engine_policy=lambda p: replace(p, max_rows=10**6)),
    "nulls counted as 0 where none may be": Plant(policy_of((100, 110), False, REPLACE, None), step=null_as_zero),
    "u - l for sums with a predicate": Plant(policy_of((100, 110), False, REPLACE, None), claim=width),
    "k(u - l) for people with several rows": Plant(policy_of((100, 110), False, REPLACE, 3), claim=width_times_rows),
}


# -- the row ---------------------------------------------------------------------------------------


def sensitivity_audit(share: float) -> Finding:
    """20 tables for each of 49 policies at full share, all people as neighbours, twelve questions each."""
    rounds = max(1, round(20 * share))
    with TemporaryDirectory() as folder:
        audit = Audit(Path(folder))
        for number, policy in enumerate(policies()):
            if share < 0.05 and number % 3:
                continue
            for again in range(rounds):
                audit.table(workload_rng(1_000 * number + again), policy)
            audit.parquet(workload_rng(number), policy, typed=False)
            if policy.unit == "row":
                audit.parquet(workload_rng(number), policy, typed=True)
        planted = {
            f"{bug} ({float(ratio):.3g})": ratio > 1
            for bug, plant in PLANTS.items()
            for ratio in [_worst(Path(folder) / f"{number}", plant) for number in [list(PLANTS).index(bug)]]
        }
    return Finding(
        row="sensitivity understated",
        tried=f"{audit.pairs:,} pairs of neighbours and questions, {audit.files:,} tables",
        figure=f"largest difference / claim {float(audit.worst):g}, reached {audit.tight:,} times; "
        f"{audit.unsaturated} beyond row cap x bound; {audit.shuffled_apart} changed by row order; "
        f"{audit.parquet_apart} that differ between CSV and Parquet",
        violations=(audit.worst > 1) + audit.unsaturated + audit.shuffled_apart + audit.parquet_apart,
        planted=planted,
        note="exact integers from the engine; not statistical",
    )


def _worst(folder: Path, plant: Plant) -> Fraction:
    """The largest ratio found with a bug planted; stops when it is caught."""
    folder.mkdir()
    audit = Audit(folder, plant.claim, plant.engine_policy)
    with plant.planted():
        for seed in range(60):
            audit.table(workload_rng(seed), plant.policy)
            if audit.worst > 1:
                break
    return audit.worst
