"""The doors through which snapshots look: command line, server, SDK, files. A move or rename edits this file alone."""

from __future__ import annotations

import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from noisebank.bank import folder as bank_folder
from noisebank.bank.bank import Bank
from noisebank.cli import render
from noisebank.federated.blockfl.terms import TaskTerms as CrowdTerms
from noisebank.federated.relay.terms import RelayTerms as RelayTerms
from noisebank.queries.current_time import write_moment
from noisebank.service.web.rendering import form_token
from snapshots.comparing import DATA
from support.internals import (
    Category,
    ChainConfig,
    Design,
    EmbeddedLedger,
    NetworkShape,
    Number,
    Schema,
    Task,
    create_chain,
    format_cid,
    read_chain_config,
    write_chain_config,
)
from support.internals import read_terms as read_crowd_terms
from support.patience import patience
from support.processes import read_announcement

__all__ = [
    "NOW",
    "Category",
    "ChainConfig",
    "CrowdTerms",
    "Design",
    "Done",
    "NetworkShape",
    "Number",
    "RelayTerms",
    "Schema",
    "Shell",
    "Task",
    "copy_bank",
    "form_token",
    "format_cid",
    "read_chain_config",
    "read_crowd_terms",
    "run_module",
    "served",
    "still_bank",
    "write_chain_config",
    "write_moment",
]  # fmt: skip

PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "LANG": "C.UTF-8", "TZ": "UTC"}


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@contextmanager
def _terminal(width: int) -> Iterator[None]:
    """The width of all output, whenever and wherever the terminal's module was imported."""
    with ExitStack() as stack:
        for console in (render.out, render.err):
            stack.enter_context(patch.object(console, "_width", width))
            stack.enter_context(patch.object(console, "_height", 25))
        yield


def run_module(module: str, *words: str, cwd: Path | None = None) -> Done:
    """`python -m module words` within this process: a process of its own costs a second."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", [module, *words]), patch.dict(os.environ, PLAIN), redirect_stdout(out),
        redirect_stderr(err), chdir(cwd or Path.cwd()), warnings.catch_warnings(), _terminal(100),
        # what click looks at to tell a script from a module; a test's own main module is neither
        patch.object(sys.modules["__main__"], "__package__", None, create=True),
    ):  # fmt: skip
        # Another test may have imported the module already; run as a script it is a new one.
        warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
        for name in [name for name in os.environ if name.startswith("NOISEBANK_")]:
            del os.environ[name]
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=False)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    return Done(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Shell:
    """Commands in one folder, as somebody types them there."""

    folder: Path

    def run(self, *words: str) -> Done:
        return run_module("noisebank", *words, cwd=self.folder)

    def json(self, *words: str) -> Any:
        """What a command says with --json; it must succeed."""
        done = self.run(*words, "--json")
        assert done.code == 0, f"{' '.join(words)}: {done.err or done.out}"
        return json.loads(done.out)


def copy_bank(target: Path) -> Shell:
    """The committed bank, its tables and exports in a new folder, with the modes that git does not keep."""
    for part in ("tables", "exports", "bank"):
        shutil.copytree(DATA / part, target / part)
    with zipfile.ZipFile(target / "exports" / "bundle.zip") as bundle:
        bundle.extract("journal.jsonl", target / "exports")
    (target / "bank").chmod(0o700)
    for path in (target / "bank").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return Shell(target)


@contextmanager
def served(shell: Shell, **settings: Any) -> Iterator[tuple[str, Path]]:
    """`python -m noisebank serve` as a process of its own: its address, and the file of its log."""
    log = shell.folder / "serve.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NOISEBANK_")}
    environment |= {f"NOISEBANK_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "noisebank", "serve", "--bank", "bank", "--port", "0", "--json"]
    with log.open("w") as errors, subprocess.Popen(
        command, cwd=shell.folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as process:  # fmt: skip
        try:
            yield read_announcement(process, log)["address"], log
        finally:
            process.terminate()
            process.wait(patience())


NOW = 1_800_000_000
"""The time in a bank in which time stands still."""


class Repeatable:
    """No randomness at all: the same tokens and the same noise in every run. For what is compared to the byte."""

    def __init__(self) -> None:
        self._count, self._random = 0, Random(26)

    def token(self, size: int = 32) -> bytes:
        self._count += 1
        return sha256(b"%d" % self._count).digest()[:size]

    def discrete_gaussian(self, scale: float) -> int:
        return round(self._random.gauss(0.0, scale))

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]


@contextmanager
def still_bank(folder: Path, entropy: Repeatable) -> Iterator[Bank]:
    """A new bank in which neither time nor chance moves."""

    def stand_still() -> float:
        return float(NOW)

    with (
        patch.object(bank_folder, "create_chain", partial(create_chain, clock=stand_still)),
        patch.object(bank_folder, "EmbeddedLedger", partial(EmbeddedLedger, clock=stand_still)),
        patch("time.time", stand_still),
    ):
        bank_folder.create_bank(folder, entropy=entropy)
        bank = Bank(folder, entropy=entropy)
        try:
            yield bank
        finally:
            bank.close()
