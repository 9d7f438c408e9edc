"""`python -m research data`: real only with the known checksum, made up only with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from research.__main__ import main
from research.papers.datasets import DATASETS


def listed(**environment: str | None) -> dict[str, Any]:
    """What the command says, by table."""
    outcome = CliRunner().invoke(main, ["data", "--json"], env=environment)
    assert outcome.exit_code == 0, outcome.output
    return {row["name"]: row for row in json.loads(outcome.output)["datasets"]}


def test_every_table_has_a_reason_and_a_source_or_a_stand_in() -> None:
    rows = listed(NOISEBANK_DATA=None)
    assert list(rows) == [one.name for one in DATASETS]
    for row in rows.values():
        assert row["why"] and row["used for"], row
        assert row["state"] in ("real", "unverified", "made up", "absent")
        assert (row["state"] == "made up") == bool(row["made up"])
        assert (row["state"] in ("real", "unverified")) == bool(row["source"])
    assert {paper for row in rows.values() for paper in row["papers"]} == {
        "P0",
        "P1",
        "P2",
        "P3",
        "P4.3",
        "P4.4",
        "P4.5",
    }


def test_a_file_with_another_checksum_is_not_called_real(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_text("39, State-gov\n")
    rows = listed(NOISEBANK_DATA=str(tmp_path))
    adult = rows["UCI Adult"]
    assert adult["state"] == "unverified" and adult["sha256"] != adult["expected sha256"]
    assert rows["net-trace"]["state"] == "made up" and rows["net-trace"]["sha256"] is None


def test_a_file_with_the_known_checksum_is_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hashlib import sha256

    from research.papers import datasets

    content = b"5\n" * 10
    one = datasets.Dataset("t", ("P0",), "a test", "t.csv", sha256(content).hexdigest(), stand_in="x", why="y")
    monkeypatch.setattr(datasets, "DATASETS", (one,))
    (tmp_path / "t.csv").write_bytes(content)
    assert listed(NOISEBANK_DATA=str(tmp_path))["t"]["state"] == "real"
    (tmp_path / "t.csv").write_bytes(content + b"6\n")
    assert listed(NOISEBANK_DATA=str(tmp_path))["t"]["state"] == "unverified"


def test_the_terminal_says_it_too() -> None:
    outcome = CliRunner().invoke(main, ["data"], env={"NOISEBANK_DATA": None})
    assert outcome.exit_code == 0
    for one in DATASETS:
        assert one.name in outcome.output
