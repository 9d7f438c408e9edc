"""The files of the additivity suite are what they are said to be; and tables with many more rows add up as well."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow.parquet
import pytest

from conformance import additive
from conformance.additive import Trial, run
from conformance.writers import WRITERS, Rows, arrow_table, by_pyarrow
from support.internals import EngineKind, Source, Table

FILES = 60


def facts_of(name: str, folder: Path) -> Counter[str]:
    """What Parquet's metadata say of the row groups of `FILES` files."""
    facts: Counter[str] = Counter()
    for seed in range(FILES):
        trial = Trial(seed)
        path = WRITERS[name](folder / str(seed), trial.first + trial.second, Random(seed))
        assert isinstance(path, Path)
        metadata = pyarrow.parquet.read_metadata(path)
        facts["several row groups"] += metadata.num_row_groups > 1
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
            facts["groups"] += 1
            facts["of one row"] += group.num_rows == 1
            encodings = columns["a"].encodings
            facts["texts with a dictionary" if any("DICT" in each for each in encodings) else "texts without"] += 1
            statistics = columns["x"].statistics
            facts["no statistics"] += statistics is None
            facts["minimum and maximum"] += statistics is not None and statistics.has_min_max
            facts["page index"] += columns["x"].has_column_index
            facts["NaN left out"] += _leaves_nan_out(path, number, statistics)
    return facts


def _leaves_nan_out(path: Path, group: int, statistics: Any) -> bool:
    if statistics is None or not statistics.has_min_max:
        return False
    values = pyarrow.parquet.ParquetFile(path).read_row_group(group, ["x"]).column("x").to_pylist()
    has_nan = any(value is not None and value != value for value in values)
    return has_nan and statistics.min == statistics.min and statistics.max == statistics.max


def test_pyarrows_files_are_of_every_kind(tmp_path: Path) -> None:
    facts = facts_of("pyarrow", tmp_path)
    for kind in (
        "several row groups", "of one row", "texts with a dictionary", "texts without", "no statistics",
        "minimum and maximum", "page index", "NaN left out",
    ):  # fmt: skip
        assert facts[kind] >= 10, (kind, facts)


def test_polars_leaves_nan_out_of_its_statistics_too(tmp_path: Path) -> None:
    facts = facts_of("polars", tmp_path)
    for kind in ("several row groups", "no statistics", "minimum and maximum", "NaN left out"):
        assert facts[kind] >= 10, (kind, facts)


class LargeTrial(Trial):
    """Thousands of people, often sorted: row groups differ, and there is more than one in DuckDB's files and tables."""

    def _rows(self, prefix: str, size: int, flavours: dict[str, Any]) -> Rows:
        rows = super()._rows(prefix, size * 100 if size == 30 else size, flavours)
        if self.random.random() < 0.5:
            rows.sort(key=lambda row: (row["x"] is None, row["x"] != row["x"], row["x"] or 0))
        return rows


def in_duckdb(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".duckdb")
    with duckdb.connect() as connection:
        connection.register("rows", arrow_table(rows))
        connection.execute(f"ATTACH '{path}' AS made (ROW_GROUP_SIZE 2048)")
        connection.execute("CREATE TABLE made.people AS SELECT * FROM rows")
        connection.execute("CHECKPOINT made")
        sql = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('made.people')"
        groups = connection.execute(sql).fetchone()
        assert (groups is not None and groups[0] == max(1, -(-len(rows) // 2048))) or len(rows) < 2
    return Table(EngineKind.DUCKDB, ("people",), path)


def by_duckdb(path: Path, rows: Rows, random: Random) -> Source:
    path = path.with_suffix(".parquet")
    with duckdb.connect() as connection:
        connection.register("people", arrow_table(rows))
        connection.execute(f"COPY people TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    return path


@pytest.mark.parametrize("write", [in_duckdb, by_duckdb, by_pyarrow], ids=lambda write: write.__name__)
def test_large_tables_add_up(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "Trial", LargeTrial)
    monkeypatch.setattr(additive, "SIZES", (2_500, 3_000, 5_000))
    with patch.dict(additive.WRITERS, {"large": write}):
        found = run(range(5), 4, ("large",))
    assert found.wrong == []
    assert found.checks > 30


def test_a_planted_optimiser_is_caught_in_large_tables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "Trial", LargeTrial)
    monkeypatch.setattr(additive, "SIZES", (2_500, 3_000, 5_000))
    with patch.dict(additive.WRITERS, {"large": by_pyarrow}):
        assert run(range(15), 5, ("large",), "filters pushed into scans").wrong
