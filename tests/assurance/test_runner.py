"""The runner of `make assurance`: what it keeps, what it skips, what it calls stale, and what it refuses."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assurance.__main__ import ROWS
from assurance.exercised import Tree, plain_code
from assurance.results import Shelf, faults_of, page
from assurance.runner import Runner, Uncommitted
from support.paths import ROOT

# -- what is committed -----------------------------------------------------------------------------


def test_every_result_was_written_by_the_runner() -> None:
    kept = Shelf(ROWS).read()
    assert {row: found for row, entry in kept.rows.items() if (found := faults_of(row, entry))} == {}
    assert kept.rows.keys() <= set(ROWS)
    assert len(kept.compared["commit"]) == 40, "compared with changes that were not committed"
    assert kept.compared["digests"].keys() == kept.rows.keys()


def test_the_page_says_what_the_results_say() -> None:
    shelf = Shelf(ROWS)
    assert shelf.page.read_text() == page(shelf.read()), "write it anew: python -m assurance --page"


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_a_function_that_some_test_runs_short(row: str) -> None:
    assert callable(getattr(import_module(f"assurance.{row}"), row))
    tests = (path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    wanted = (f"assurance.{row}", row)
    assert any(wanted in _imported(path) for path in tests), "no test imports it"


def _imported(path: Path) -> set[tuple[str | None, str]]:
    text = path.read_text()
    nodes = ast.walk(ast.parse(text)) if "assurance" in text else ()
    return {(node.module, alias.name) for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}


# -- what an entry must be -------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "row": "it must not happen", "count": 1000, "tried": "1,000 tries", "figure": "0", "violations": 0,
    "planted": {"a bug": True}, "note": "", "passed": True, "died": "", "seconds": 3, "cpu_seconds": 2,
    "date": "2026-11-18 00:40", "commit": "a" * 40, "digest": "b" * 64, "loaded": [], "share": 1.0, "argv": ["good"],
}  # fmt: skip


def test_an_entry_of_the_runner_is_accepted() -> None:
    assert faults_of("good", GOOD) == []


@pytest.mark.parametrize(
    "change",
    [
        {"note": "run by hand outside `make assurance` and entered from its output"},
        {"commit": "a" * 40 + "-dirty"},
        {"commit": "d8b288b"},
        {"digest": ""},
        {"digest": None},
        {"date": "yesterday"},
        {"share": 0.5},
        {"share": 1},
        {"count": 10_000},
        {"count": 0, "tried": "many"},
        {"argv": ["good", "--share", "0.1"]},
        {"argv": []},
        {"passed": False},
        {"violations": 1},
        {"planted": {"a bug": False}},
        {"died": "killed by signal 9"},
        {"seconds": -1},
        {"comment": "looks good to me"},
        *({name: ...} for name in GOOD),
    ],
    ids=lambda change: " ".join(change),
)
def test_any_other_entry_is_refused(change: dict[str, Any]) -> None:
    changed = {name: value for name, value in (GOOD | change).items() if value is not ...}
    assert faults_of("good", changed) != []


# -- which files a row exercises -------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


@pytest.mark.parametrize(
    ("row", "files"),
    [
        ("kill9", ["tests/assurance/ask_once.py", "src/noisebank/account/recovery.py"]),
        ("kill9", ["src/noisebank/ledger/anchors.json"]),
        ("overspend", ["contracts/cell_tree.vy", "tests/support/banks.py"]),
        ("low_bits", ["src/noisebank/account/plain.py", "tests/assurance/mu_audit.py", "requirements/runtime.txt"]),
    ],
)
def test_what_a_row_imports_starts_and_reads(tree: Tree, row: str, files: list[str]) -> None:
    assert set(files) <= set(tree.files_of(row))
    assert "src/noisebank/federated/relay/host.py" not in tree.files_of(row)


def test_nothing_is_loaded_that_is_not_found(tree: Tree) -> None:
    """In a process of its own, as a row runs: what is imported, even by others, is among the files found."""
    code = "import assurance.kill9, json; from assurance.exercised import Tree; print(Tree().loaded_files('kill9'))"
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment) == "[]\n"


LAZY = """\
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from product.later import late
    from product.other import odd

def __getattr__(name):
    return name
"""


def test_a_name_of_a_module_that_loads_late_counts_as_its_home(root: Path) -> None:
    """As `support.internals` and the package `noisebank` do: what a row does not use is nothing to it."""
    rows, product = root / "tests" / "assurance", root / "src" / "product"
    (product / "other.py").write_text("")
    (root / "tests" / "inner.py").write_text(LAZY)
    (rows / "one.py").write_text("from inner import late\n")
    (rows / "two.py").write_text("from inner import odd\n")
    (rows / "any.py").write_text("import inner\n")
    (rows / "patching.py").write_text("TARGET = 'inner.odd'\n")
    homes = {"src/product/later.py", "src/product/other.py"}

    def homes_of(row: str) -> list[str]:
        return sorted(path[12:-3] for path in homes & set(Tree(root).files_of(row)))

    assert [homes_of(row) for row in ("one", "two", "any", "patching")] == [
        ["later"], ["other"], ["later", "other"], ["other"],
    ]  # fmt: skip
    before = {row: Tree(root).digest_of(row) for row in ("one", "two")}
    (root / "tests" / "inner.py").write_text(LAZY.replace("import late", "import late, later_still"))
    assert before == {row: Tree(root).digest_of(row) for row in before}, "a table with more names is no change"
    (root / "tests" / "inner.py").write_text(LAZY.replace("product.other", "product.later"))
    assert {row for row in before if before[row] != Tree(root).digest_of(row)} == {"two"}


def test_rows_are_told_apart(tree: Tree) -> None:
    """Through the tables of names, too."""
    assert "src/noisebank/bank/bank.py" in tree.files_of("kill9")
    assert "src/noisebank/bank/bank.py" not in tree.files_of("sampler_fit")
    assert "src/noisebank/vault/sqlite_vault.py" not in tree.files_of("additivity")


def test_comments_and_docstrings_are_no_change() -> None:
    plain = "def f(x):\n    return x  + 1\n\nname = '# no comment'\n"
    spoken = '"""Why."""\n\n# reasons\ndef f(x):\n    """What."""\n    return x  + 1  # one\n'
    spoken += "name = '# no comment'\n'Said.'\n"
    assert plain_code(plain) == plain_code(spoken)
    assert plain_code(plain) != plain_code(plain.replace("+ 1", "+ 2"))
    assert plain_code(plain) != plain_code(plain.replace("# no", "# a"))
    assert plain_code("def f(x=1): 'said'\n") != plain_code("def f(x=2): 'said'\n")
    odd = "name = 'a\u2028b'\n'ä'; x = 1\n"
    assert plain_code(odd) != plain_code(odd.replace("x = 1", "x = 2"))


# -- runs, on rows made for it ---------------------------------------------------------------------

ROW = """\
import os, signal, sys, time
from pathlib import Path
from assurance.report import Finding
from product import limit

def NAME(share):
    ACTION
    tried = f"{round(limit() * share):,} tries"
    return Finding("it must not happen", tried, "none", VIOLATIONS, planted={"a bug": True})
"""
ACTIONS = {
    "good": "print('half way')",
    "also_good": "from product import later",
    "bad": "pass",
    "raising": "raise RuntimeError('no such name')",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "waiting": "Path(os.environ['SIGN']).write_text('.'); signal.pause()",
    "leaving": "os.fork() or signal.pause(); os.kill(os.getpid(), signal.SIGKILL)",
    "editing": "Path('src/product/__init__.py').write_text('def limit():\\n    return 2000\\n')",
    "dynamic": "__import__('sec' + 'ret')",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work tree with a product, some rows, and the real runner."""
    own = tmp_path / "tests" / "assurance"
    own.mkdir(parents=True)
    for name in ("__init__", "report", "one_row", "exercised"):
        shutil.copy(ROOT / "tests" / "assurance" / f"{name}.py", own)
    for name, action in ACTIONS.items():
        text = ROW.replace("NAME", name).replace("ACTION", action).replace("VIOLATIONS", str(int(name == "bad")))
        (own / f"{name}.py").write_text(text)
    (tmp_path / "tests" / "secret.py").write_text("")
    product = tmp_path / "src" / "product"
    product.mkdir(parents=True)
    (product / "__init__.py").write_text("def limit():\n    return 1000\n")
    (product / "later.py").write_text("x = 1\n")
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "runtime.txt").write_text("duckdb==2.0\n")
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    (tmp_path / "results").mkdir()
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True).stdout


def commit(root: Path) -> None:
    git(root, "add", ".")
    git(root, "commit", "-q", "--allow-empty", "-m", "x")


def shelf_of(root: Path) -> Shelf:
    return Shelf(tuple(ACTIONS), root / "results", root)


def runner_of(root: Path, **options: Any) -> Runner:
    return Runner(shelf_of(root), logs=root / "logs", **options)


def states(root: Path) -> dict[str, str]:
    tree = Tree(root)
    return {row: state for row in ACTIONS if (state := shelf_of(root).state(row, tree)) != "never run"}


def test_a_row_is_kept_with_all_that_says_what_it_was(root: Path) -> None:
    runner_of(root).run(["good"])
    entry = shelf_of(root).read().rows["good"]
    assert faults_of("good", entry) == []
    assert (entry["count"], entry["commit"]) == (1000, git(root, "rev-parse", "HEAD").strip())
    assert "half way" in (root / "logs" / "good.log").read_text()
    shown = shelf_of(root).page.read_text()
    assert "| 1,000 |" in shown and "| unchanged |" in shown and "**never run**" in shown


def test_a_row_is_stale_when_what_it_exercises_has_changed(root: Path) -> None:
    runner_of(root, jobs=2).run(["good", "also_good"])
    assert states(root) == {"good": "fresh", "also_good": "fresh"}
    (root / "src/product/later.py").write_text("# better said\nx = 1\n")
    assert states(root) == {"good": "fresh", "also_good": "fresh"}
    (root / "src/product/later.py").write_text("x = 2\n")
    assert states(root) == {"good": "fresh", "also_good": "stale"}
    (root / "requirements" / "runtime.txt").write_text("duckdb==2.1\n")
    assert states(root) == {"good": "stale", "also_good": "stale"}
    assert "**stale** |" not in shelf_of(root).page.read_text(), "the page says what it was compared with"
    commit(root)
    shelf_of(root).compare()
    assert shelf_of(root).page.read_text().count("**stale** |") == 2


def test_what_was_loaded_in_a_hidden_way_counts_as_well(root: Path) -> None:
    runner_of(root).run(["dynamic"])
    assert shelf_of(root).read().rows["dynamic"]["loaded"] == ["tests/secret.py"]
    (root / "tests" / "secret.py").write_text("x = 1\n")
    assert states(root) == {"dynamic": "stale"}


def test_a_row_that_fails_or_dies_is_not_lost(root: Path) -> None:
    runner = runner_of(root, jobs=2)
    runner.run(["bad", "raising", "killed", "leaving", "good"])
    rows = shelf_of(root).read().rows
    assert [fault for row, entry in rows.items() for fault in faults_of(row, entry)] == []
    assert sorted(runner.failed) == ["bad", "killed", "leaving", "raising"]
    assert states(root) == dict.fromkeys(runner.failed, "failed") | {"good": "fresh"}
    assert "no such name" in rows["raising"]["died"]
    assert "signal 9" in rows["killed"]["died"]
    assert shelf_of(root).page.read_text().count("**FAILED**") == 4


def test_a_stopped_run_goes_on_where_it_stopped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = root / "sign"
    os.mkfifo(sign)
    monkeypatch.setenv("SIGN", str(sign))
    runner = runner_of(root)
    thread = threading.Thread(target=runner.run, args=[["good", "waiting", "also_good"]])
    thread.start()
    sign.read_text()  # until the row runs
    runner.stop()
    thread.join()
    assert states(root) == {"good": "fresh"}
    assert runner.failed == []
    runner_of(root).run(["also_good"])
    assert states(root) == {"good": "fresh", "also_good": "fresh"}


def test_nothing_is_recorded_that_belongs_to_no_commit(root: Path) -> None:
    (root / "src" / "product" / "new.py").write_text("")
    with pytest.raises(Uncommitted):
        runner_of(root).run(["good"])
    runner = runner_of(root, share=0.1)
    runner.run(["good"])
    assert (runner.failed, states(root)) == ([], {})


def test_a_row_whose_files_changed_while_it_ran_did_not_run(root: Path) -> None:
    runner_of(root).run(["editing"])
    assert "changed while it ran" in shelf_of(root).read().rows["editing"]["died"]


def test_the_command_lists_and_resumes(root: Path) -> None:
    """`python -m assurance`, as `make assurance` starts it."""
    for name in ("__main__", "runner", "results"):
        shutil.copy(ROOT / "tests" / "assurance" / f"{name}.py", root / "tests" / "assurance")
    main = root / "tests" / "assurance" / "__main__.py"
    text = main.read_text()
    start, end = text.index("ROWS = ("), text.index(")\n", text.index("ROWS = (")) + 2
    main.write_text(text[:start] + 'ROWS = ("good", "also_good", "bad")\n' + text[end:])
    (root / "docs" / "results").mkdir(parents=True)
    commit(root)

    def run(*words: str) -> tuple[int, str]:
        environment = os.environ | {"PYTHONPATH": f"{root / 'src'}:{root / 'tests'}"}
        ended = subprocess.run(
            [sys.executable, "-m", "assurance", *words], cwd=root, env=environment, text=True, capture_output=True
        )
        return ended.returncode, ended.stdout + ended.stderr

    assert run("good")[0] == 0
    code, said = run("--list")
    assert code == 0
    assert [line.split()[:3] for line in said.splitlines()[1:]] == [
        ["good", "fresh", "1,000"], ["also_good", "never", "run"], ["bad", "never", "run"],
    ]  # fmt: skip
    code, said = run()
    assert code == 1 and "already: good " in said and "1 passed, 1 failed bad" in said
    code, said = run()
    assert code == 1 and "already: good, also_good " in said
    assert "good ok" in run("--again", "good")[1]
    assert run("nosuch")[0] == 2
    assert json.loads((root / "docs/results/assurance.json").read_text())["rows"].keys() == {"good", "also_good", "bad"}
