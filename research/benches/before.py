"""`run_before`: the same research command on an earlier commit, in a work tree of its own, for one run of both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadRequest

REPOSITORY = Path(__file__).resolve().parents[2]


def run_before(commit: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Returns what `python -m research ARGUMENTS --json` says in that commit, run by this Python.

    The commit's own sources are read, with the packages that are installed here.
    """
    with tempfile.TemporaryDirectory() as folder:
        tree = str(Path(folder) / "tree")
        try:
            _run(["git", "-C", str(REPOSITORY), "worktree", "add", "--quiet", "--detach", tree, commit])
        except subprocess.CalledProcessError as error:
            raise BadRequest("before", commit, f"is no commit here: {error.stderr.strip()}") from None
        try:
            environment = {**os.environ, "PYTHONPATH": f"{tree}/src{os.pathsep}{tree}"}
            command = [sys.executable, "-m", "research", *arguments, "--json"]
            found: dict[str, Any] = json.loads(_run(command, tree, environment))
            return found
        finally:
            _run(["git", "-C", str(REPOSITORY), "worktree", "remove", "--force", tree])


def _run(command: Sequence[str], folder: str | None = None, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=3600
    ).stdout
