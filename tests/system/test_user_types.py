"""What a user's type checker and `help` see: every option, and a `Result` that is never Any."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from noisebank import Account
from noisebank.core.asks import AccuracyOptions
from support.internals import AsyncAccount, RemoteAccount
from support.paths import ROOT

SCRIPT = """
import noisebank


def main(bank: noisebank.Bank) -> float:
    local = bank.account("people").ask("SELECT count(*) FROM people", epsilon="0.5", delta="1e-6")
    with noisebank.connect("http://127.0.0.1:8410", "nbk_x") as client:
        remote = client.account("people").ask("SELECT count(*) FROM people", within=5)
        reveal_type(local)
        reveal_type(remote)
        print(remote.valeu)
        return local.value
"""


CONFIG = """
[mypy]
follow_imports = silent
[mypy-sqlglot.*,numpy.*,duckdb.*,fastapi.*,starlette.*,pydantic.*,httpx.*,flint.*,coincurve.*,eth.*,web3.*,pandas.*,pyarrow.*,matplotlib.*,psycopg.*]
follow_imports = skip
ignore_missing_imports = True
"""
"""Types of other packages are not what this is about, and take most of the time."""


@pytest.mark.parametrize("kind", [Account, RemoteAccount, AsyncAccount])
@pytest.mark.parametrize("verb", ["ask", "quote"])
def test_help_shows_every_option(kind: type, verb: str) -> None:
    parameters = inspect.signature(getattr(kind, verb)).parameters
    assert set(AccuracyOptions.__annotations__) <= set(parameters)
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def test_mypy_finds_a_misspelt_field_of_a_result(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    script, config = tmp_path / "script.py", tmp_path / "mypy.ini"
    script.write_text(SCRIPT)
    config.write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(config), str(script)],
        capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT / "src"), "PATH": ""},
    )  # fmt: skip
    assert done.stdout.count('Revealed type is "noisebank.core.result.Result"') == 2, done.stdout + done.stderr
    assert '"Result" has no attribute "valeu"' in done.stdout
    assert done.stdout.count("error:") == 1
