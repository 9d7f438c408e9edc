"""docs/reference/http.md is held to the service and to the SDK; its examples run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.openapi.utils import get_openapi

import noisebank
from noisebank.service.api import analysts as routes_owning
from noisebank.service.api import answers as routes_asking
from noisebank.service.api import learning as routes_learning
from noisebank.service.api import ledger as routes_ledger
from noisebank.service.api import public as routes_public
from noisebank.service.api import sessions as routes_sessions
from noisebank.service.api import sign_in as routes_signing_in
from support.client import Server
from support.internals import ERROR_FIELDS, ERRORS, Client, RemoteAccount, list_problems
from support.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "http.md").read_text()
ROUTERS = (
    routes_public, routes_asking, routes_ledger, routes_learning, routes_owning, routes_sessions, routes_signing_in,
)  # fmt: skip


def test_every_route_is_on_the_page_and_nothing_else() -> None:
    routes = [route for module in ROUTERS for route in module.router.routes]
    described = get_openapi(title="", version="", routes=routes)["paths"]
    real = {f"{method.upper()} {path}" for path, methods in described.items() for method in methods}
    assert set(re.findall(r"^\| `((?:GET|POST|PUT|DELETE|PATCH) /v1[^`]*)` \|", PAGE, re.MULTILINE)) == real


def test_every_problem_is_in_the_table_as_it_is() -> None:
    rows = {f"| `{row.name}` | {row.status} | {row.title} | {row.spent} | `{ERRORS[row.name].__name__}` |"
            for row in list_problems()}  # fmt: skip
    table = PAGE.split("### Problems")[1].split("## How fast")[0]
    assert {line for line in table.splitlines() if line.startswith("| `")} == rows
    for names in ERROR_FIELDS.values():
        assert all(f"`{name}`" in PAGE for name in names)


def test_every_verb_is_on_the_page() -> None:
    for kind in (Client, RemoteAccount):
        for name in vars(kind):
            if not name.startswith("_"):
                assert re.search(rf"[`, ]{name}[`,(]", PAGE), name
    assert "noisebank.connect_async" in PAGE and noisebank.connect_async is not None


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
    assert "Quote(FIRST" in capsys.readouterr().out
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    shell = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    assert shell
    ran = subprocess.run(
        ["bash", "-euc", shell.group(1)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "URL": server.url, "KEY": server.keys["maria"]},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert '"case":"FIRST"' in ran.stdout and '"kind":"answer"' in ran.stdout
    assert noisebank.verify(tmp_path / "journal.ndjson").passed


def _here(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True
