"""A process that has collected all tests and forks for each run: see `forking`."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.mutants.forking import ANSWERS
from tools.mutants.recording import BROWSER, IGNORED


class Server:
    """For one clone. What it cannot do it answers with None."""

    def __init__(self, tree: Path, python: str, environment: dict[str, str], marks: str, folder: Path) -> None:
        self._scratch = folder / "forks"
        self._scratch.mkdir()
        # No compiled files: they are told apart by size and second, and a mistake may be neither longer nor later.
        reading, writing = os.pipe()
        command = [
            python, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:xdist",
            "-p", "tools.mutants.forking", "-m", marks,
            *(f"--ignore={path.rstrip('/')}" for path in [*IGNORED, BROWSER]), "tests", "src",
        ]  # fmt: skip
        with (folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=tree,
                env=environment
                | {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self._scratch), ANSWERS: str(writing)},
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing], text=True, start_new_session=True,
            )  # fmt: skip
        os.close(writing)
        self._answers = os.fdopen(reading)
        self._tree = tree

    def wait_ready(self) -> int:
        """How many tests it has collected; 0 if it could not."""
        return int((self._read() or {"tests": 0})["tests"])

    def run(
        self, targets: list[str], without: set[str], patience: float, file: str = "", original: bytes = b""
    ) -> dict[str, Any] | None:
        """Runs tests; with `file`, which has a mistake in it now, on code that has it, too."""
        request = {
            "targets": targets, "without": sorted(without), "patience": patience, "scratch": str(self._scratch),
            "file": str((self._tree / file).resolve()) if file else "", "original": original.decode(),
        }  # fmt: skip
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return None
        answer = self._read()
        return answer if answer and answer["count"] and answer["code"] in (0, 1, None) else None

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._answers.close()

    def _read(self) -> dict[str, Any] | None:
        line = self._answers.readline()
        answer: dict[str, Any] | None = json.loads(line) if line else None
        return answer


def is_in_body(source: bytes, start: int) -> bool:
    """Whether a place is in the body of a function, which is compiled to code of its own."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0], node.body[-1]
            assert last.end_lineno is not None and last.end_col_offset is not None
            begin, end = starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
            if begin <= start <= end:
                return True
    return False
