"""What a measurement costs beside the bare query, and from a cube, in one run over one file.

The bank's side is the whole measure step: metadata before and after, the statement, the noise. The other side is
the same question as anybody would write it by hand for DuckDB, on the same file, without bounds and without
noise. Both take turns, so that a busy machine slows both.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from noisebank.account.account import Account
from noisebank.bank.folder import BankParts
from noisebank.bank.opening import open_account
from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.engines import duckdb_connection
from noisebank.engines.mechanism import Measurement, measure
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import OWNER_ANALYST, Reservation, Role
from noisebank.ledger.signing import Key
from noisebank.policy.file import parse_policy
from noisebank.queries.cells import policy_cubes
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.vault.sqlite_vault import SqliteVault

if TYPE_CHECKING:
    import duckdb

ROWS = 10_000_000
TOWNS = 1_000
ROUNDS = 15
CUBE = ("age", "smoker", "town")
IN_CUBE = "SELECT COUNT(*) FROM people WHERE age >= 60 AND smoker AND town <> 'town 007'"
GROUPED = "SELECT town, COUNT(*) FROM people GROUP BY town"
Moved = Callable[[int, int], None]

TABLE = """
SELECT (hash(n) % 121)::INTEGER AS age,
  CASE WHEN hash(n + 1) % 100 = 0 THEN (hash(n + 2) % 10000000)::BIGINT - 5000000
    ELSE (hash(n + 2) % 1000000)::BIGINT END AS income,
  (hash(n + 3) % 50000) / 100.0::DOUBLE AS weight,
  hash(n + 4) % 3 = 0 AS smoker,
  'town ' || lpad((hash(n + 5) % {towns})::VARCHAR, 3, '0') AS town
FROM range({rows}) AS numbers(n)
"""
"""Made-up people. One income in a hundred lies anywhere, mostly beyond its bounds."""

POLICY = """\
name = "people"
source = "people.parquet"
neighbours = "add-remove"
row_cap = {cap}
{cubes}
[budget]
epsilon = 8
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 120]
bins = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
[columns.income]
type = "integer"
bounds = [0, 1000000]
[columns.weight]
type = "number"
bounds = [0, 500]
step = 0.01
[columns.smoker]
type = "boolean"
[columns.town]
type = "text"
keys = [{towns}]
"""


@dataclass(frozen=True, slots=True)
class Scan:
    """One question, as the bank hears it and as it is written by hand. `plain`: one of those that count."""

    name: str
    sql: str
    by_hand: str
    plain: bool


SCANS = (
    Scan("count", "COUNT(*) FROM people WHERE age > 60", "count(*) FROM {file} WHERE age > 60", True),
    Scan(
        "count of two conditions",
        "COUNT(*) FROM people WHERE age BETWEEN 20 AND 60 AND smoker",
        "count(*) FROM {file} WHERE age BETWEEN 20 AND 60 AND smoker",
        True,
    ),
    Scan("sum", "SUM(income) FROM people", "sum(income) FROM {file}", True),
    Scan("sum of some", "SUM(income) FROM people WHERE age > 60", "sum(income) FROM {file} WHERE age > 60", True),
    # What costs more for a reason: rounding every value to its step, squares that cannot overflow, weights of rows.
    Scan("sum in steps", "SUM(weight) FROM people", "sum(round(weight * 100)::BIGINT) FROM {file}", False),
    Scan("squares", "SUM(income * income) FROM people", "sum(income * income) FROM {file}", False),
    Scan(
        "combination",
        "3 * COUNT_IF(smoker) - 2 * COUNT_IF(age > 50) FROM people",
        "3 * count_if(smoker) - 2 * count_if(age > 50) FROM {file}",
        False,
    ),
    Scan(
        "1,000 groups", GROUPED.removeprefix("SELECT "), "town, count(*) FROM {file} GROUP BY town ORDER BY town", False
    ),
)


def bench_engine(rows: int = ROWS, quick: bool = False, moved: Moved = lambda done, total: None) -> dict[str, Any]:
    """All figures of `python -m research bench engine`. Ratios are medians over pairs of runs."""
    import duckdb

    rounds = max(3, ROUNDS // 5) if quick else ROUNDS
    total = 3 + len(SCANS)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as room, duckdb.connect() as bare:
        file = Path(room) / "people.parquet"
        account = bench_account(file, rows)
        moved(1, total)
        optimised = optimised_account(file, rows)
        ratios, without_optimisers = {}, {}
        for done, scan in enumerate(SCANS, start=2):
            ratios[scan.name] = round(scan_ratio(account, scan, bare, file, rounds), 3)
            without_optimisers[scan.name] = round(optimiser_ratio(account, optimised, scan, rounds), 3)
            moved(done, total)
        optimised.ledger.close()
        groups = group_seconds(account, GROUPED)
        account.ledger.close()
        moved(total - 1, total)
        cubed = bench_account(file, rows, CUBE)
        cells = policy_cubes(cubed.policy())[0].cell_count
        in_cube = median(sorted(measure_seconds(cubed, IN_CUBE) for _ in range(20 * rounds)))
        cubed.ledger.close()
        moved(total, total)
    return {
        "rows": rows,
        "scan_overhead_ratio": max(ratios[scan.name] for scan in SCANS if scan.plain),
        "ratios": ratios,
        "without_optimisers_ratios": without_optimisers,
        "group_by_1000_seconds": round(groups, 3),
        "cube_measure_ms": round(in_cube * 1000, 3),
        "cells": cells,
    }


def bench_account(file: Path, rows: int, cube: tuple[str, ...] = ()) -> Account:
    """A table of so many rows, and an account for it in a bank without a disk."""
    import duckdb

    if not file.exists():
        duckdb.execute(f"COPY ({TABLE.format(rows=rows, towns=TOWNS)}) TO '{file}' (FORMAT parquet)")
    towns = ", ".join(f'"town {town:03d}"' for town in range(TOWNS))
    policy = parse_policy(
        POLICY.format(cap=2 * rows, towns=towns, cubes=f"cubes = [{list(cube)}]" if cube else ""), file.parent
    )
    return open_account(_rooms(), policy)[0]


def optimised_account(file: Path, rows: int) -> Account:
    """The same account with DuckDB's optimisers on, as in the first edition (all but one): for comparison only.

    That engine cannot be trusted with files whose statistics leave NaN out; it reads the table of the bench alone.
    """
    duckdb_connection.check_version()  # once, with the optimisers off: it would refuse what follows
    with duckdb_connection.open_connection() as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()}
    allowed = dict.fromkeys(names - {"type_pushdown"}, "first edition")
    with patch.object(duckdb_connection, "ALLOWED_OPTIMIZERS", allowed):
        account = bench_account(file, rows)
        measure_seconds(account, f"SELECT {SCANS[0].sql}")  # the connection is opened by the first statement
    return account


def optimiser_ratio(account: Account, optimised: Account, scan: Scan, rounds: int) -> float:
    """How much longer a measurement takes without optimisers: the median over pairs, taken in turns."""
    sql = f"SELECT {scan.sql}"
    pairs = [(measure_seconds(account, sql), measure_seconds(optimised, sql)) for _ in range(rounds + 1)]
    return median(without / with_them for without, with_them in pairs[1:])  # the first pair warms up


def scan_ratio(account: Account, scan: Scan, bare: duckdb.DuckDBPyConnection, file: Path, rounds: int) -> float:
    """How much longer the bank takes than the query by hand: the median over pairs, taken in turns."""
    by_hand = "SELECT " + scan.by_hand.format(file=f"read_parquet('{file}')")
    ratios = []
    for turn in range(rounds + 1):
        begun = time.perf_counter()
        bare.execute(by_hand).fetchall()
        plain = time.perf_counter() - begun
        ours = measure_seconds(account, f"SELECT {scan.sql}")
        if turn:  # the first pair warms up
            ratios.append(ours / plain)
    return median(ratios)


def measure_seconds(account: Account, sql: str) -> float:
    """How long the measure step takes. Nothing is charged and nothing is released: the noisy value is dropped."""
    query = account.parse(sql).query
    moves = l2_sensitivity(query, account.context.policy)
    id, paid = keccak(b"bench"), Precision(10**18)
    reservation = Reservation(
        account.id, id, id, OWNER_ANALYST, query.category, Case.FIRST, paid, paid, None, ZERO_PRECISION, 0, 0
    )
    begun = time.perf_counter()
    paid_query = Measurement(query, moves, reservation)
    measure(account.engine, [paid_query], SystemEntropy(), account.context.check_identity)
    return time.perf_counter() - begun


def group_seconds(account: Account, sql: str, asks: int = 3) -> float:
    """How long a grouped answer takes from ask to answer, each time fresh and finer than before; the median."""
    taken = []
    for ask in range(asks):
        begun = time.perf_counter()
        account.ask(sql, sigma=1_000 // (ask + 1))
        taken.append(time.perf_counter() - begun)
    return median(taken)


def _rooms() -> BankParts:
    entropy = SystemEntropy()
    curator, owner = Key(entropy.token()), Key(entropy.token())
    journal = Journal(":memory:")
    create_chain(journal, curator, entropy)
    return BankParts(
        EmbeddedLedger(journal, {Role.CURATOR: curator, Role.OWNER: owner}), SqliteVault(":memory:"), entropy
    )
