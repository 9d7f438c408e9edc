"""What `local report` prints is what `local estimate` reads; what a device is told is in the words of its account."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from noisebank.cli.main import main
from noisebank.federated.blockfl.krum import describe_refusals

SCHEMA = "[attributes.age]\nlow = 0\nhigh = 100\n"
"""One attribute: of several, a report at this epsilon holds some."""


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "record.json").write_text(json.dumps({"age": 41}))
    for words in (("init", tmp_path / "bank"), ("local", "enrol", "phone-7", "--epsilon", "3", *at(tmp_path))):
        assert CliRunner().invoke(main, list(map(str, words))).exit_code == 0
    return tmp_path


def at(folder: Path) -> tuple[object, ...]:
    return ("--bank", folder / "bank")


def report(folder: Path, round_: str) -> Result:
    words = ("local", "report", "phone-7", folder / "record.json", "--schema", folder / "schema.toml", "--round",
             round_, "--epsilon", "2", *at(folder))  # fmt: skip
    return CliRunner().invoke(main, list(map(str, words)))


def test_printed_reports_are_estimated_as_they_are(phone: Path) -> None:
    """A table was printed, which the next command of the guide refused."""
    first, again = report(phone, "monday"), report(phone, "monday")
    assert first.exit_code == 0 and first.stdout == again.stdout and "is left" in first.stderr
    (phone / "reports.txt").write_text(first.stdout * 20)
    words = ["local", "estimate", str(phone / "reports.txt"), "--schema", str(phone / "schema.toml"), "--json"]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    assert '"reports": 20' in found.stdout


def test_a_refused_report_speaks_of_epsilon(phone: Path) -> None:
    """It spoke of precision, which an account of pure epsilon has none of."""
    assert report(phone, "monday").exit_code == 0
    refused = report(phone, "tuesday")
    assert refused.exit_code == 1 and refused.stdout == ""
    assert "epsilon" in refused.stderr and "precision" not in refused.stderr


@pytest.mark.parametrize(("members", "byzantine"), [(6, 1), (10, 3), (0, 1)])
def test_a_poster_is_warned_of_honest_members_that_multi_krum_refuses(members: int, byzantine: int) -> None:
    words = describe_refusals(members, byzantine)
    assert f"{byzantine} of {members} submissions" in words and "everybody is honest" in words
    assert describe_refusals(members, 0) == ""
