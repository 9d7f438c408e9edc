"""A table's file that is gone, or no file any more, is refused by name before anything reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from noisebank.core.errors import BadTable
from noisebank.engines.duckdb_engine import DuckDBEngine, duckdb_header
from noisebank.policy.file import read_policy
from support.banks import write_people


@pytest.fixture
def engine(tmp_path: Path) -> DuckDBEngine:
    policy = read_policy(write_people(tmp_path))
    return DuckDBEngine(policy, duckdb_header(tmp_path / "people.csv"), "k")


@pytest.mark.parametrize("instead", ["nothing", "a folder"])
def test_a_file_that_has_gone_is_missed_by_name(engine: DuckDBEngine, tmp_path: Path, instead: str) -> None:
    assert engine.inspect().rows == 20
    path = tmp_path / "people.csv"
    path.unlink()
    if instead == "a folder":
        path.mkdir()
    with pytest.raises(BadTable, match=r"there is no file .*people\.csv"):
        engine.inspect()
    with pytest.raises(BadTable, match=r"there is no file .*people\.csv"):
        duckdb_header(path)
