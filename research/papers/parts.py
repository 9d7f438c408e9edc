"""Runs the command of every row of the every-part tables, as the pages print it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from research.papers.atlas import DOCUMENTS, Part, read_document
from research.papers.exhibit import Found

ROOT = Path(__file__).parents[2]
CHEAP = ("noisebank ",)
"""Commands of a second or two begin so."""
LONGEST = 900.0
"""Seconds until a command counts as hanging."""


def list_parts(name: str = "all") -> list[tuple[str, Part]]:
    """Every part, with its document's name."""
    chosen = DOCUMENTS if name == "all" else (name,)
    return [(one.upper(), part) for one in chosen for part in read_document(one).parts]


def list_commands(name: str = "all", cheap: bool = False) -> tuple[str, ...]:
    """Their commands, each once; only those that take a second or two if `cheap`."""
    commands = dict.fromkeys(part.see for _, part in list_parts(name))
    return tuple(one for one in commands if not cheap or one.startswith(CHEAP))


def run_commands(commands: tuple[str, ...], moved: Callable[[int, int], None]) -> Iterator[Found]:
    """Each command's exit code, seconds, and the end of what it said."""
    with tempfile.TemporaryDirectory(prefix="noisebank-parts-") as room:
        folder = Path(room)
        environment = _prepare(folder)
        for done, command in enumerate(commands, 1):
            yield run_command(command, folder, environment)
            moved(done, len(commands))


def run_command(command: str, folder: Path, environment: dict[str, str]) -> Found:
    """One of them: `noisebank` in the prepared folder, anything else at the root of the repository."""
    words = shlex.split(command)
    if words[:4] == ["python", "-m", "research", "reproduce"] and "--quick" in words and words[4] not in _WITHOUT_OUT:
        words += ["--out", str(folder / "out")]
    began = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=folder if words[0] == "noisebank" else ROOT, env=environment, capture_output=True, text=True,
            timeout=LONGEST, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        code, said = done.returncode, (done.stdout + done.stderr)[-500:]
    except FileNotFoundError as error:
        code, said = 127, str(error)
    except subprocess.TimeoutExpired:
        code, said = 124, f"no end after {LONGEST:g} s"
    return {
        "command": command,
        "code": code,
        "seconds": round(time.monotonic() - began, 1),
        "said": said if code else "",
    }


_WITHOUT_OUT = ("table2", "opu", "ldp", "chained", "bayes", "fedsgd", "crowd")


def _prepare(folder: Path) -> dict[str, str]:
    """The tutorial's table, policy and open bank, and `noisebank` and `python` as this process has them."""
    sys.path.insert(0, str(ROOT))
    from tools.docsite.recipes import make_environment, prepare_folder

    prepare_folder(folder)
    paths = os.pathsep.join(str(ROOT / part) for part in ("src", "tests", "."))
    return {**make_environment(folder), "PYTHONPATH": paths}
