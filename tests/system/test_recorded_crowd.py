"""The crowd's task that the demonstration ships: the product's own verifier recomputes it, and sees a changed model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisebank.cli.main import main
from support.internals import unpack_crowd


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    unpack_crowd(tmp_path)
    return tmp_path


def verify(folder: Path) -> tuple[int, dict[str, object]]:
    words = ["learn", "verify", "--rpc", str(folder / "chain"), "--store", str(folder / "models"), "--json"]
    done = CliRunner().invoke(main, words)
    return done.exit_code, json.loads(done.stdout)


def test_the_recorded_task_verifies_from_its_folder(crowd: Path) -> None:
    code, report = verify(crowd)
    assert code == 0 and report["passed"] is True
    rounds = report["rounds"]
    assert isinstance(rounds, list) and len(rounds) == 4


def test_a_changed_model_is_seen(crowd: Path) -> None:
    path = sorted((crowd / "models").iterdir())[0]
    path.write_bytes(path.read_bytes()[:-4] + b"\1\0\0\0")
    code, report = verify(crowd)
    assert code == 1 and report["passed"] is False


def test_its_models_learn_and_cheats_are_refused(crowd: Path) -> None:
    words = ["learn", "status", "--rpc", str(crowd / "chain"), "--store", str(crowd / "models")]
    done = CliRunner().invoke(main, [*words, "--test", str(crowd / "test.npz"), "--json"])
    found = json.loads(done.stdout)
    text = json.dumps(found)
    assert done.exit_code == 0 and "missing" in text and text.count("outlier") >= 3
