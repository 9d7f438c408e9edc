"""The helpers of the tests themselves: patience, and processes that are left behind."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from support import internals
from support.crowd_member import Cheat
from support.internals import FolderStore, Key, ModelRegistry, Round, SortitionKey, Submission
from support.paths import SOURCES, TESTS
from support.patience import FACTOR, LONG, patience, wait_until
from support.processes import end_process, read_announcement


def run_python(code: str, **environment: str) -> str:
    environment = os.environ | {"PYTHONPATH": f"{SOURCES}:{TESTS}"} | environment
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True, timeout=patience())


def test_patience_is_never_short_and_can_be_made_longer() -> None:
    assert patience(0.1) == patience() == LONG * FACTOR and patience(1_000) == 1_000 * FACTOR
    code = "from support.patience import patience; print(patience())"
    assert float(run_python(code, NOISEBANK_PATIENCE="2.5")) == 2.5 * LONG
    assert float(run_python(code, NOISEBANK_PATIENCE="")) == LONG


def test_waiting_returns_what_came_and_names_what_did_not(monkeypatch: pytest.MonkeyPatch) -> None:
    later = iter([0, "", 7])
    assert wait_until(lambda: next(later), "a number") == 7
    monkeypatch.setattr("support.patience.patience", lambda seconds: 0.0)
    with pytest.raises(AssertionError, match="this never happened: rain"):
        wait_until(lambda: False, lambda: "rain")


def test_waiting_goes_on_while_something_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.patience.patience", lambda seconds: 0.0)
    moves, turns = iter([1, 2, 3, 4, 4, 4]), iter([False, False, False, True])
    assert wait_until(lambda: next(turns), "the end", poll=0.001, progress=lambda: next(moves))
    with pytest.raises(AssertionError, match="this never happened: the end"):
        wait_until(lambda: False, "the end", poll=0.001, progress=lambda: next(moves))


def test_a_thief_takes_a_model_that_is_stored(tmp_path: Path) -> None:
    """It once waited for ever for the model of a member that had submitted a wrong identifier first."""
    store, key = FolderStore(tmp_path), Key(b"\1" * 32)
    honest = Submission("0xhonest", store.put(b"a model"), bytes(32), 3)
    wrong, own = Submission("0xwrong", b"\2" * 32, bytes(32), 1), Submission(key.address, b"\3" * 32, bytes(32), 2)
    submissions = [wrong, own]
    registry = SimpleNamespace(read_books=lambda task: SimpleNamespace(current_round=Round(2, b"", submissions)))
    lots = SortitionKey(b"\4" * 32)
    thief = Cheat(cast(ModelRegistry, registry), store, key, lots, b"task", lambda terms, books: pytest.fail())
    assert thief.find_prey() is None
    submissions.append(honest)
    assert thief.find_prey() == b"a model"


LEAVING = """
import subprocess
from support.processes import end_leftovers, mark_processes
mark_processes()
assert end_leftovers() == []
subprocess.run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 &"])  # an orphan
child = subprocess.Popen(["sleep", "1001"], env={})
import support.processes
from support.patience import wait_until
texts = lambda: [text.partition(" ")[0] for text in support.processes.find_leftovers().values()]
wait_until(lambda: texts() == ["sleep", "sleep"], "both run what they were started for")
support.processes.FACTOR = 0  # no need to hope that they end
print([line.partition(": ")[2].strip() for line in sorted(end_leftovers())])
child.wait()
support.processes.FACTOR = 1
assert end_leftovers() == []
"""


def test_what_is_left_running_is_named_and_ended() -> None:
    assert run_python(LEAVING) in ("['sleep 1000', 'sleep 1001']\n", "['sleep 1001', 'sleep 1000']\n")


def test_a_server_that_announces_nothing_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("the port is taken")
    process = subprocess.Popen(["sh", "-c", "echo '{'; exec sleep 1000 >&-"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(AssertionError, match="the port is taken"):
        read_announcement(process, log)
    assert process.returncode is not None
    end_process(process)


def test_every_inner_name_is_there_and_used() -> None:
    """The table of `support.internals`: nothing that the product no longer has, nothing that no test imports."""
    imports = (
        node
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "support.internals"
    )
    assert {alias.name for node in imports for alias in node.names} == {*internals._HOMES, "nothing"}
    for name in internals._HOMES:
        try:
            getattr(internals, name)
        except ModuleNotFoundError as error:  # an extra that is not installed
            assert not (error.name or "noisebank").startswith("noisebank"), name
    with pytest.raises(ImportError):
        from support.internals import nothing  # noqa: F401  # type: ignore[attr-defined]
