"""The benchmark of engines measures what it says: both sides answer the same question about the same file."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.benches import engine as bench_engine
from research.benches.engine import GROUPED, SCANS, bench_account, group_seconds, measure_seconds
from support.internals import group_count

ROWS = 5_000


def test_it_reports_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["bench", "engine", "--rows", str(ROWS), "--quick", "--json"])
    found = json.loads(done.output)
    assert done.exit_code == 0 and found["rows"] == ROWS
    plain = [found["ratios"][scan.name] for scan in SCANS if scan.plain]
    assert found["scan_overhead_ratio"] == max(plain) > 0 and len(found["ratios"]) == len(SCANS)
    assert found["group_by_1000_seconds"] > 0
    assert found["without_optimisers_ratios"].keys() == found["ratios"].keys()
    assert not list(tmp_path.iterdir())  # the table is gone again


def test_both_sides_answer_the_same_question(tmp_path: Path) -> None:
    """Where nothing is clipped; what is beyond its bounds makes the difference that the bank is there for."""
    file = tmp_path / "people.parquet"
    account = bench_account(file, ROWS)
    clipped = duckdb.execute(f"SELECT count(*) FROM '{file}' WHERE income NOT BETWEEN 0 AND 1000000").fetchone()
    assert clipped is not None and 0 < clipped[0] < ROWS / 50
    inside = f"(SELECT * FROM read_parquet('{file}') WHERE income BETWEEN 0 AND 1000000)"
    duckdb.execute(f"COPY (SELECT * FROM {inside}) TO '{tmp_path / 'inside.parquet'}' (FORMAT parquet)")
    (tmp_path / "inside.parquet").replace(file)
    for scan in SCANS:
        query = account.parse(f"SELECT {scan.sql}").query
        by_hand = duckdb.execute("SELECT " + scan.by_hand.format(file=f"'{file}'")).fetchall()
        # In plain SQL empty groups are missing.
        ours = account.engine.statistics(query) if query.by else (account.engine.statistic(query),)
        assert [abs(value) for value in ours if value] == [abs(row[-1]) for row in by_hand], scan.name


def test_measuring_charges_nothing_and_asking_does(tmp_path: Path) -> None:
    account = bench_account(tmp_path / "people.parquet", ROWS)
    assert measure_seconds(account, "SELECT COUNT(*) FROM people WHERE smoker") > 0
    assert account.state.spent.units == 0
    assert group_seconds(account, GROUPED, asks=2) > 0
    assert account.state.spent.units > 0
    assert group_count(account.parse(GROUPED).query, account.context.policy) == bench_engine.TOWNS == 1_000
