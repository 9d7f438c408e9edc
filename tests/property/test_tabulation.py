"""A cube's cells say what a scan says, for every query that is a sum over cells; all others are scans."""

from __future__ import annotations

import csv
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from noisebank.core.entropy import workload_rng
from noisebank.core.errors import BadQuery, Tampered, UnsupportedQuery
from noisebank.engines.cells import COUNT_KEY, Tabulation
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.duckdb_engine import DuckDBEngine, duckdb_header
from noisebank.policy.model import Column, Kind, Neighbours, Policy
from noisebank.queries.cells import Cube, NotCellAligned, partition_domain, policy_cubes
from noisebank.queries.sql import parse_question

HUGE = 2**31 - 1
COLUMNS = {
    "town": Column("town", Kind.TEXT, keys=("north", "south", "west"), nullable=True),
    "job": Column("job", Kind.TEXT, keys=("baker", "smith")),
    "ill": Column("ill", Kind.BOOLEAN, nullable=True),
    "old": Column("old", Kind.BOOLEAN),
    "age": Column("age", Kind.INTEGER, low=0, high=100, bins=(18, 40, 65)),
    "visits": Column("visits", Kind.INTEGER, low=-3, high=3, bins=(-1, 0, 2), nullable=True),
    "debt": Column("debt", Kind.NUMBER, Fraction(1, 100), -HUGE, 0),
    "who": Column("who", Kind.TEXT),
}
CUBES = (("town", "ill"), ("visits", "job", "town"), ("age",), ("old", "ill", "age", "job"))


def policy(source: Path, unit: str) -> Policy:
    return Policy(
        "t", source, Neighbours.ADD_REMOVE, 5_000, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6),
        unit=unit, max_rows=1 if unit == "row" else 2, cubes=CUBES,
    )  # fmt: skip


TOWNS, JOBS, TRUTHS = (
    ["north", "south", "west", "mars", ""],
    ["baker", "smith", "nurse", ""],
    ["true", "false", "", "maybe"],
)
AGES = ["0", "17", "18", "39", "40", "64", "65", "100", "200", "-5", "", "x"]
VISITS = ["-4", "-3", "-2", "-1", "0", "1", "2", "3", "", "nan"]
DEBTS = ["0", "-0.01", "-21474836.47", "-1e30", "5", "", "inf"]


def rows(count: int, seed: int) -> list[list[str]]:
    pick = workload_rng(seed)
    lists = [TOWNS, JOBS, TRUTHS, TRUTHS, AGES, VISITS, DEBTS, list("abcd")]
    return [[pick.choice(options) for options in lists] for _ in range(count)]


tests = st.sampled_from([
    "town = 'north'", "town <> 'north'", "town IN ('south', 'west')", "town IS NULL", "ill",
    "NOT ill", "ill IS NULL", "old", "NOT old", "age >= 18", "age BETWEEN 18 AND 39", "age < 65", "job = 'baker'",
    "job <> 'smith'", "visits < 0", "visits IS NULL", "visits >= 2", "visits BETWEEN -1 AND 1",
])  # fmt: skip
conditions = st.recursive(
    tests, lambda inner: st.builds(lambda a, b, j: f"({a} {j} {b})", inner, inner, st.sampled_from(["AND", "OR"]))
)
aggregates = st.sampled_from([
    "COUNT(*)", "SUM(debt)", "SUM(age)", "SUM(visits)", "SUM(age * age)", "SUM(debt * debt)",
    "2 * COUNT_IF(ill) - 3 * SUM(debt) + SUM(visits)", "1000 * COUNT_IF(age < 18) - COUNT_IF(old)",
])  # fmt: skip
groupings = st.sampled_from(["", "", "town", "age", "ill, town", "visits, job", "age, job, ill, old"])


def engine_over(found: list[Any], unit: str, folder: str) -> tuple[Policy, DuckDBEngine]:
    path = Path(folder) / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([list(COLUMNS), *found])
    rules = policy(path, unit)
    return rules, DuckDBEngine(rules, duckdb_header(path), "key")


@pytest.fixture(scope="module", params=[("row", 0), ("row", 30), ("who", 30), ("row", 2_000)], ids=str)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    unit, count = request.param
    rules, engine = engine_over(rows(count, count), unit, str(tmp_path_factory.mktemp("cubes")))
    return (
        rules,
        engine,
        [Tabulation.from_bytes(cube, engine.tabulate(cube).to_bytes()) for cube in policy_cubes(rules)],
    )


@given(aggregate=aggregates, condition=conditions, by=groupings)
@settings(deadline=None, max_examples=60)
def test_cells_say_what_a_scan_says(opened: Any, aggregate: str, condition: str, by: str):
    rules, engine, tables = opened
    try:
        query = parse_question(
            f"SELECT {aggregate} FROM t WHERE {condition}" + (f" GROUP BY {by}" if by else ""), rules
        ).query
    except (BadQuery, UnsupportedQuery):  # about nobody, or everything cancels out
        reject()
    needed = set(query.by).union(*(p.column_names() for part in query.parts for _, p in part.weights))
    able = [table for table in tables if needed <= set(table.cube.columns)]
    if able:
        scan = engine.statistics(query) if by else (engine.statistic(query),)
        assert {table.statistics(query, rules) for table in able} == {scan}
    for table in tables:
        if table not in able and set(query.by) <= set(table.cube.columns):
            with pytest.raises(NotCellAligned):
                table.statistics(query, rules)


def test_every_row_lies_in_one_cell(opened: Any):
    rules, engine, tables = opened
    for table in tables:
        assert int(table.totals[COUNT_KEY].sum()) == engine.statistic(
            parse_question("SELECT COUNT(*) FROM t", rules).query
        )


class Scanned(Exception):
    pass


class Blind:
    """An engine that must not be asked."""

    def statistic(self, query: object) -> int:
        raise Scanned

    statistics = statistic


@pytest.mark.parametrize(
    ("condition", "cells"),
    [
        ("age >= 18", True), ("age >= 19", False), ("age > 17 AND ill", True), ("town = 'north' AND NOT ill", True),
        ("town = 'north' AND age < 18", False), ("visits = 0", False), ("debt < 0", False),
        ("visits BETWEEN 0 AND 1", True),
    ],
)  # fmt: skip
def test_what_cuts_through_cells_is_scanned(tmp_path: Path, condition: str, cells: bool):
    rules, engine = engine_over([["north", "baker", "true", "true", "20", "1", "-5", "a"]], "row", str(tmp_path))
    packed = [engine.tabulate(cube).to_bytes() for cube in policy_cubes(rules)]
    cubed = CubedEngine(rules, Blind(), packed.__getitem__)  # type: ignore[arg-type]
    query = parse_question(f"SELECT COUNT(*) FROM t WHERE {condition}", rules).query
    if cells:
        assert cubed.statistic(query) == engine.statistic(query)
    else:
        with pytest.raises(Scanned):
            cubed.statistic(query)


def test_the_smallest_cube_answers(tmp_path: Path):
    rules, engine = engine_over([], "row", str(tmp_path))
    loaded: list[int] = []

    def load(number: int) -> bytes:
        loaded.append(number)
        return engine.tabulate(policy_cubes(rules)[number]).to_bytes()

    cubed = CubedEngine(rules, Blind(), load)  # type: ignore[arg-type]
    assert not loaded  # nothing is opened before it is needed
    for _ in range(2):
        cubed.statistic(parse_question("SELECT COUNT(*) FROM t WHERE ill", rules).query)
    assert [policy_cubes(rules)[number].columns for number in loaded] == [("town", "ill")]


def test_saturation_is_the_same(tmp_path: Path):
    found = [["north", "baker", "true", "true", "99", "3", "-1e9", str(number)] for number in range(60)]
    rules, engine = engine_over(found, "row", str(tmp_path))
    rules = replace(rules, row_cap=10)
    engine = DuckDBEngine(rules, duckdb_header(rules.source), "key")
    (cube,) = (cube for cube in policy_cubes(rules) if cube.columns == ("age",))
    for sql in ("SELECT COUNT(*) FROM t", "SELECT SUM(debt) FROM t", "SELECT SUM(debt * debt) FROM t WHERE age > 17"):
        query = parse_question(sql, rules).query
        assert engine.tabulate(cube).statistics(query, rules) == (engine.statistic(query),)


@pytest.mark.parametrize("change", [lambda body: b"", lambda body: body[:-30], lambda body: b"PK\x03\x04" + body[9:]])
def test_a_damaged_cube_is_no_cube(tmp_path: Path, change: Any):
    rules, engine = engine_over([], "row", str(tmp_path))
    cube = policy_cubes(rules)[0]
    with pytest.raises(Tampered):
        Tabulation.from_bytes(cube, change(engine.tabulate(cube).to_bytes()))
    with pytest.raises(Tampered, match="shape"):
        Tabulation.from_bytes(policy_cubes(rules)[1], engine.tabulate(cube).to_bytes())


def test_masks_broadcast_to_the_shape(tmp_path: Path):
    rules = policy(tmp_path, "row")
    cube = Cube.for_columns(("town", "ill"), COLUMNS)
    assert cube.shape == (5, 3) and cube.cell_count == 15
    mask = np.broadcast_to(
        cube.cell_mask(parse_question("SELECT COUNT(*) FROM t WHERE town = 'south'", rules).query.where), cube.shape
    )
    assert mask.sum() == 3 and mask[1].all()


def test_the_policy_counts_pieces_as_the_cube_does():
    for name, column in COLUMNS.items():
        if name in ("who", "debt"):
            assert column.piece_count == 0
        else:
            assert column.piece_count == len(partition_domain(column))


@pytest.mark.parametrize(
    "column",
    [
        Column("x", Kind.INTEGER, low=-2, high=13, bins=tuple(range(-1, 14))),
        Column("x", Kind.INTEGER, low=-2, high=13, bins=(1, 4, 7, 10, 13), nullable=True),
        Column("x", Kind.NUMBER, Fraction(1, 4), low=-8, high=11, bins=(-4, 0, 4, 8), nullable=True),
        Column("x", Kind.NUMBER, Fraction(3), low=0, high=9, bins=tuple(range(1, 10))),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_many_bins_of_one_width_are_found_by_division(
    tmp_path: Path, column: Column, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cells as by comparing with every edge, whatever is in the table."""
    values = [None, float("nan"), float("inf"), -float("inf"), 1e300, -0.0]
    values += [number / 8 for number in range(-40, 320)]
    source = tmp_path / f"t.{kind}"
    if kind == "csv":
        source.write_text("x\n" + "\n".join("" if value is None else str(value) for value in values) + "\n")
    else:
        pyarrow.parquet.write_table(pyarrow.table({"x": pyarrow.array(values, pyarrow.float64())}), source)
    few = Policy(
        "t", source, Neighbours.ADD_REMOVE, 5_000, MappingProxyType({"x": column}), Fraction(1), Fraction(1, 10**6),
        cubes=(("x",),),
    )  # fmt: skip
    cube = policy_cubes(few)[0]
    cells = []
    for least in (10**9, 2):
        monkeypatch.setattr("noisebank.engines.fields.MIN_EVEN_BINS", least)
        cells.append(DuckDBEngine(few, duckdb_header(source), "key").tabulate(cube).cell_totals(*COUNT_KEY).tolist())
    assert cells[0] == cells[1] and sum(cells[0]) == len(values)
