"""Which tests execute a line, as `tools/mutate-src --record` has seen it on some commit.

A recording stays useful while the sources go on: a line is looked for where it was on the recorded commit.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

from tools.mutants.lines import FOLDER

BROWSER = "tests/browser/"
"""Its driver keeps an event loop running: these tests run apart, and the pages are served by another process anyway."""
NEAR = ("tests/unit/", "tests/property/", "src/")
"""Tests of parts, which are quick; the others are of the whole."""
IGNORED = {
    "tests/research/": "holds the experiments, not the product",
    "tests/contract/test_halmos.py": "looks at the contract's source",
    "tests/assurance/test_runner.py": "looks at the files themselves, not at what they do",
    "tests/unit/tools/": "tests of tools",
    "tests/system/test_helpers.py": "tests of the tests' own helpers",
    "tests/system/test_crowd_processes.py": "ten processes with deadlines",
    "tests/system/test_learning_flower.py": "needs Flower",
}
"""Tests that are never chosen, and why."""


class Recording:
    """What `recorder.py` has written into a folder. Without one, nothing is known."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.commit = (folder / "commit").read_text().strip() if (folder / "commit").exists() else ""
        self.seconds: dict[str, float] = {}
        """CPU time of every test that passed."""
        self.starters: set[str] = set()
        """Tests that start other processes, of which some are not seen."""
        self._lines: dict[str, dict[str, int]] = {}
        self._new_names = _list_renames(root, self.commit) if self.commit else {}
        self._old_names = {new: old for old, new in self._new_names.items()}
        started = []
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                started += [record] if "started_by" in record else []
                if "test" in record:
                    self._add_record(record)
        self._add_processes(started)
        files = {test.partition("::")[0] for test in self.seconds}
        self.files = {file for file in files if (root / file).exists()}

    def find_tests(self, file: str, line: int) -> list[str]:
        """Those that execute this line of this file as it is now."""
        source = (self.root / file).read_text()
        lines = list_telling_lines(source, line)
        if self.commit:
            lines = _move_lines(lines, source, _read_at(self.root, self.commit, self._old_names.get(file, file)))
        mask = sum(1 << number for number in lines)
        executed = self._lines.get(file, {})
        return [test for test in executed if executed[test] & mask and test.partition("::")[0] in self.files]

    def _add_record(self, record: dict[str, object]) -> None:
        test = self._find_name(str(record["test"]))
        if record["failed"]:
            return
        self.seconds[test] = float(str(record["seconds"]))
        if record["starts"]:
            self.starters.add(test)
        self._add_lines([test], record["lines"])

    def _add_processes(self, records: list[dict[str, object]]) -> None:
        """What was started by a fixture counts for all tests of the file, which may share it."""
        by_file: dict[str, list[str]] = {}
        for test in self.seconds:
            by_file.setdefault(test.partition("::")[0], []).append(test)
        for record in records:
            test = self._find_name(str(record["started_by"]))
            tests = by_file.get(test.partition("::")[0], []) if record["phase"] == "setup" else [test]
            self._add_lines([each for each in tests if each in self.seconds], record["lines"])

    def _add_lines(self, tests: list[str], lines: object) -> None:
        assert isinstance(lines, dict)
        for file, executed in lines.items():
            name = self._new_names.get(f"src/{file}", f"src/{file}")
            by_test = self._lines.setdefault(name, {})
            for test in tests:
                by_test[test] = by_test.get(test, 0) | int(executed, 16)

    def _find_name(self, test: str) -> str:
        """The name of now."""
        path = test.partition("::")[0]
        return test.replace(path, self._new_names.get(path, path), 1)


def _list_renames(root: Path, commit: str) -> dict[str, str]:
    """New names of files by old ones."""
    words = ["git", "diff", "--name-status", "-M", "--diff-filter=R", commit, "HEAD"]
    output = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in output.splitlines()]
    return {old: new for _, old, new in rows}


@cache
def _read_at(root: Path, commit: str, file: str) -> str:
    return subprocess.run(["git", "show", f"{commit}:{file}"], cwd=root, capture_output=True, text=True).stdout


def _move_lines(lines: set[int], source: str, recorded: str) -> set[int]:
    """The same lines in the recorded source; of one that is new, the place where it was put."""
    if source == recorded:
        return lines
    moved: set[int] = set()
    for _, first, last, start, stop in SequenceMatcher(
        None, source.splitlines(), recorded.splitlines(), autojunk=False
    ).get_opcodes():
        same = last - first == stop - start
        for number in lines:
            if first < number <= last:
                moved |= {start + number - first} if same else set(range(start, stop + 1))
    return moved


def list_telling_lines(source: str, line: int) -> set[int]:
    """Lines whose execution tells that a change of this line matters: those of its statement (its head, if it has a
    body), the body of the function whose head it is in, or of all functions if it runs when the module is imported.
    """
    statement, function, bodies = None, None, set[int]()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or node.end_lineno is None:
            continue
        first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))])
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function:
            bodies |= _list_body(node)
        if first <= line <= node.end_lineno:  # children come after their parents
            statement = node
            if is_function and line in _list_body(node):
                function = node
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return _list_body(statement)
    if statement is None or function is None:
        return bodies
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body and line < body[0].lineno else statement.end_lineno or line
    return set(range(statement.lineno, last + 1))


def _list_body(function: ast.stmt) -> set[int]:
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function.end_lineno is not None
    return set(range(function.body[0].lineno, function.end_lineno + 1))


def record_tests(tree: Path, python: str, environment: dict[str, str], marks: str, folder: Path, jobs: int) -> None:
    """Runs all tests that may be chosen once, in a clone of the commit, and keeps what they execute."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=True).stdout
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "commit").write_text(commit)
    command = [
        python, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal", "-p", "no:cacheprovider",
        "-p", "no:schemathesis", "-p", "tools.mutants.recorder", "-m", marks,
        *(f"--ignore={path.rstrip('/')}" for path in [*IGNORED, BROWSER]),
    ]  # fmt: skip
    paths = f"{environment['PYTHONPATH']}{os.pathsep}{tree / 'tools' / 'mutants' / 'site'}"
    recorded = environment | {FOLDER: str(folder.resolve()), "PYTHONPATH": paths}
    for part in (
        NEAR,
        ["tests", *(f"--ignore={path.rstrip('/')}" for path in NEAR)],
    ):  # a recording of the first serves
        subprocess.run([*command, *part], cwd=tree, env=recorded)
