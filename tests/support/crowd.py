"""A whole crowd on this machine: a chain, an edge worker and ten members, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noisebank.federated.blockfl.terms import TaskTerms
from support.internals import SMALL_SHAPE, FolderStore, Key, ModelRegistry, Phase, SystemEntropy, TaskRules, post_task
from support.paths import SOURCES, TESTS
from support.patience import LONG, patience, wait_until

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
    codes: list[int] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registry = ModelRegistry(self.rpc, self.contract)
        self.store = FolderStore(self.folder / "models")
        self.addresses = [Key(key).address for key in self.keys]
        self.poster = Key(SystemEntropy().token())

    def run(
        self, rules: TaskRules, terms: TaskTerms | None = None, pass_time: Callable[[float], None] | None = None
    ) -> bytes:
        """Plays a whole task; returns its id.

        `pass_time` puts the chain's clock forward. It is called when all who live have submitted and somebody is dead:
        the others need not wait for real, and how long the machine takes decides nothing.
        """
        terms = terms or TaskTerms("glyphs", SMALL_SHAPE, epsilon="10", batch=16, epochs=3)
        admitted = [(address, 5) for address in self.addresses]
        task, secret = post_task(self.registry, self.store, self.poster, terms, rules, admitted)
        for number in range(10):
            self.processes.append(self._start(number, task))
        self._wait_for(lambda: self._joined(task) == 10, "all join")
        self.registry.send_call(self.poster, "begin", task, secret)

        def ended() -> bool:
            stage = self.registry.read_stage(task)
            late = stage.phase is Phase.SUBMITTING and stage.submission_count == self._living < 10
            if late and pass_time is not None:
                pass_time(rules.patience_seconds)
                self.registry.move_on(self.poster, task)
            return not self._living

        self._wait_for(ended, "the task ends")
        self.codes = [process.returncode for process in self.processes]
        return task

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def read_logs(self) -> str:
        """Returns what the members have said."""
        return "".join(f"{path.stem}: {path.read_text()}\n" for path in sorted(self.folder.glob("member-*.log")))

    @property
    def _living(self) -> int:
        return sum(process.poll() is None for process in self.processes)

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Waits as long as blocks come in or members end; fails with the logs if nothing moves, or a member failed."""

        def holds() -> bool:
            for number, (process, conduct) in enumerate(zip(self.processes, self.conducts, strict=True)):
                code = process.poll()
                expected = code in (None, -9 if conduct == "killed" else 0)
                assert expected, f"member {number} ({conduct}) has ended with {code}:\n{self.read_logs()}"
            return condition()

        wait_until(
            holds, lambda: f"{what}:\n{self.read_logs()}", seconds=3 * LONG, poll=0.2,
            progress=lambda: (self.registry.node.block_number(), self._living),
        )  # fmt: skip

    def _joined(self, task: bytes) -> int:
        return sum(member.public_key is not None for member in self.registry.read_books(task).members.values())

    def _start(self, number: int, task: bytes) -> subprocess.Popen[bytes]:
        said = {
            "rpc": self.rpc, "contract": self.registry.contract, "store": str(self.store.folder), "edge": self.edge,
            "key": self.keys[number].hex(), "lot": self.lots[number].hex(), "task": task.hex(), "number": number,
            "conduct": self.conducts[number], "wait": patience(1_200),
        }  # fmt: skip
        with (self.folder / f"member-{number}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "support.crowd_member", json.dumps(said)],
                stdout=log, stderr=log, env=ENVIRONMENT,
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
        process.wait(patience())
        process.stdout.close()
