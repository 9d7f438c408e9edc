"""A whole crowd on this machine: a chain, an edge worker and ten members, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noisebank.federated.blockfl.terms import Terms
from support.internals import SMALL, FolderStore, Key, Registry, Rules, SystemEntropy, post_task
from support.paths import SOURCES, TESTS

ENVIRONMENT = {
    **os.environ, "PYTHONPATH": f"{SOURCES}:{TESTS}", "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


@dataclass
class Crowd:
    """Ten members with keys, and what they ended with."""

    rpc: str
    contract: str | None
    folder: Path
    edge: str
    conducts: list[str]
    keys: list[bytes] = field(default_factory=lambda: [SystemEntropy().token() for _ in range(10)])
    lots: list[bytes] = field(default_factory=lambda: [SystemEntropy().token() for _ in range(10)])
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registry = Registry(self.rpc, self.contract)
        self.store = FolderStore(self.folder / "models")
        self.addresses = [Key(key).address for key in self.keys]
        self.poster = Key(SystemEntropy().token())

    def run(self, rules: Rules, terms: Terms | None = None) -> bytes:
        """A whole task; its id."""
        began = time.monotonic()
        terms = terms or Terms("glyphs", SMALL, epsilon="10", batch=16, epochs=3)
        admitted = [(address, 5) for address in self.addresses]
        task, secret = post_task(self.registry, self.store, self.poster, terms, rules, admitted)
        self.processes = [self._start(number, task) for number in range(10)]
        deadline = time.monotonic() + 240
        while sum(member.key is not None for member in self.registry.books(task).members.values()) < 10:
            assert time.monotonic() < deadline, "not all have joined"
            time.sleep(0.2)
        self.registry.send(self.poster, "begin", task, secret)
        for process in self.processes:
            _, said = process.communicate(timeout=280)
            self.said += said.splitlines()
            self.codes.append(process.returncode)
        self.seconds = time.monotonic() - began
        return task

    def end(self) -> None:
        for process in getattr(self, "processes", ()):
            if process.poll() is None:
                process.kill()
                process.communicate()

    def _start(self, number: int, task: bytes) -> subprocess.Popen[str]:
        said = {
            "rpc": self.rpc, "contract": self.registry.contract, "store": str(self.store.folder), "edge": self.edge,
            "key": self.keys[number].hex(), "lot": self.lots[number].hex(), "task": task.hex(), "number": number,
            "conduct": self.conducts[number], "wait": 240,
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-m", "support.crowd_member", json.dumps(said)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
        )  # fmt: skip


@contextmanager
def served(*arguments: str) -> Iterator[dict[str, Any]]:
    """`noisebank learn ...` as a process that announces itself in one line of JSON and serves until told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "noisebank", "learn", *arguments, "--json"], stdout=subprocess.PIPE, text=True,
        env=ENVIRONMENT,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
