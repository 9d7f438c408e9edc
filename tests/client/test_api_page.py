"""The examples of docs/how-to/ask-over-http.md run, against a bank that is served."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import noisebank
from support.client import Server
from support.internals import ERROR_FIELDS
from support.paths import ROOT

PAGE = (ROOT / "docs" / "how-to" / "ask-over-http.md").read_text()
HTTP = (ROOT / "docs" / "reference" / "http.md").read_text()


def test_every_field_of_a_problem_is_on_the_page() -> None:
    for names in ERROR_FIELDS.values():
        assert all(f"`{name}`" in HTTP for name in names)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("page")) as made:
        yield made
        made.end()


def test_the_examples_run(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code
    if not (_here("pandas") and _here("pyarrow")):
        pytest.skip("the extra [client] is not installed")
    exec(code.group(1).replace("http://127.0.0.1:8410", server.url).replace("nbk_...", server.keys["maria"]), {})
    assert "% of the budget" in capsys.readouterr().out
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    shell = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert shell
    ran = subprocess.run(
        ["bash", "-euc", shell.group(1)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "URL": server.url, "KEY": server.keys["maria"]},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert '"case":"FIRST"' in ran.stdout and '"columns":["COUNT(*)"]' in ran.stdout
    assert noisebank.verify(tmp_path / "journal.ndjson").passed


def _here(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True
