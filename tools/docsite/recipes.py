"""Runs the commands of the documentation, as a reader would type them, and writes the outputs that pages show.

Blocks marked `sh` are run, all blocks of one page in one shell; a block `toml NAME` is written to that file first. A
block `text` right after an `sh` block shows its output. Tests run every page (tests/system/test_recipes.py);

    python -m tools.docsite.recipes docs/tutorial/index.md       # runs a page and writes its outputs anew
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial"
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PORTS = re.compile(r"(127\.0\.0\.1:|--port )(\d{4})\b")
WIDTH = "90"
MARK = "=== block "


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: its language, the words after it, its text, and where that stands."""

    language: str
    words: tuple[str, ...]
    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a page: the exit code, and the output of every block that was run."""

    code: int
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"exit code {self.code} after:\n" + "\n---\n".join(self.outputs)


def list_blocks(page: str) -> list[Block]:
    """Returns all fenced blocks of a page."""
    return [
        Block(match[1], tuple(match[2].split()), match[3], match.start(3), match.end(3))
        for match in BLOCK.finditer(page)
    ]


def prepare_folder(folder: Path, with_bank: bool = True) -> None:
    """Puts the tutorial's table into a folder; with its policy and an open bank, as recipes begin."""
    subprocess.run([sys.executable, TUTORIAL / "hospital.py"], cwd=folder, check=True)
    if with_bank:
        shutil.copy(TUTORIAL / "hospital.toml", folder)
        setup = "noisebank init bank && noisebank open hospital.toml"
        subprocess.run(
            ["bash", "-euc", setup], cwd=folder, env=make_environment(folder), check=True, capture_output=True
        )


def run_page(page: str, folder: Path, skip: frozenset[str] = frozenset(), replace: dict[str, str] | None = None) -> Run:
    """Runs a page's blocks in `folder`, except those with a word in `skip`. `replace` turns addresses into others."""
    blocks, script = list_blocks(page), ["exec 2>&1"]
    for number, block in enumerate(blocks):
        if block.language == "toml" and block.words and block.words[0].endswith(".toml"):
            script.append(f"cat > {block.words[0]} <<'END OF FILE'\n{block.text}END OF FILE")
        elif block.language == "sh" and not skip & set(block.words):
            script += [f"echo '{MARK}{number}'", block.text.rstrip()]
    text = "\n".join(script)
    ports = choose_ports(text)
    text = PORTS.sub(lambda match: match[1] + ports[match[2]], text)
    for old, new in (replace or {}).items():
        text = text.replace(old, new)
    process = subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail", "-c", text], cwd=folder, env=make_environment(folder), text=True,
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        output = process.communicate()[0]
    finally:
        end_session(process.pid)
    for old, new in ports.items():
        output = output.replace(new, old)
    parts = re.split(rf"{MARK}\d+\n", output)
    return Run(process.returncode, tuple(parts[1:]))


def end_session(leader: int) -> None:
    """Ends what a page has left running, a server for instance."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def make_environment(folder: Path) -> dict[str, str]:
    """Returns the environment of a reader: `noisebank` and `python` of this process, and no terminal."""
    commands = folder / ".commands"
    commands.mkdir(exist_ok=True)
    for name, words in (("noisebank", "-m noisebank"), ("python", "")):
        path = commands / name
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        path.chmod(0o755)
    return {
        **os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "COLUMNS": WIDTH, "NO_COLOR": "1",
        "PYTHONPATH": f"{ROOT / 'src'}",
    }  # fmt: skip


def choose_ports(script: str) -> dict[str, str]:
    """Returns a free port for each in the script: pages run beside each other, and beside whatever else listens."""
    ports = {}
    for number in {match[2] for match in PORTS.finditer(script)}:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports[number] = str(probe.getsockname()[1])
    return ports


def show_outputs(page: str, outputs: tuple[str, ...]) -> str:
    """Returns the page with every `text` block that follows a block of commands holding that block's output."""
    blocks, numbers = list_blocks(page), iter(range(len(outputs)))
    changes = []
    for block, follower in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language == "sh":
            output = outputs[next(numbers)]
            if follower and follower.language == "text" and not page[block.stop + 3 : follower.start - 8].strip():
                lines = [line.rstrip() for line in output.strip().splitlines()]
                changes.append((follower.start, follower.stop, "\n".join(lines) + "\n"))
    for start, stop, text in reversed(changes):
        page = page[:start] + text + page[stop:]
    return page


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        page = path.read_text()
        with tempfile.TemporaryDirectory() as folder:
            prepare_folder(Path(folder), with_bank=path.parent.name != "tutorial")
            run = run_page(page, Path(folder))
        if run.code:
            sys.exit(f"{name}: {run}")
        path.write_text(show_outputs(page, run.outputs))


if __name__ == "__main__":
    main()
