"""Kills by strace: the process dies on entering its n-th pwrite64, fdatasync, write, ftruncate or unlink.

strace counts each system call by itself, so every one of them is injected by itself, n = 1, 2, 3, ...
until the process survives. What is on disk then must be enough: the bank is opened again by another
process, the request is retried, and everything that was ever answered is asked again.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from assurance.crashes import Asked, bank_with_account, model, room_for, workload_of
from assurance.report import Finding
from support.internals import workload_rng
from support.patience import patience, wait_until

KILLS = 500
CALLS = ("pwrite64", "fdatasync", "write", "ftruncate", "unlink", "fsync")
"""Seconds until a tracer must have attached."""


@dataclass(frozen=True)
class Ended:
    """How a process ended and all that it said."""

    code: int
    lines: tuple[dict[str, Any], ...]

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    def answers(self) -> Iterator[tuple[str, tuple[str, str, int, str]]]:
        """By key: exact value, case, cost and receipt, as printed."""
        for line in self.lines:
            if "answered" in line:
                yield line["answered"], (line["exact"], line["case"], line["cost"], line["receipt"])

    def said(self, word: str) -> Any:
        return next((line[word] for line in self.lines if word in line), None)


class Server:
    """Runs `ask_once` in forks of a process that has everything imported."""

    def __init__(self, room: Path) -> None:
        self._room, self._count = room, 0
        self.errors = room / "stderr.txt"
        script = Path(__file__).with_name("ask_once.py")
        with self.errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(script), "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(patience())
        self._process.stdout.close()

    def start(self, folder: Path, asks: Sequence[tuple[Asked, int]], **job: Any) -> tuple[int, Path]:
        """Begins; returns the process id and the file with what it says."""
        self._count += 1
        out = self._room / f"out{self._count}.txt"
        plain = [[asked.key, asked.sql(spelling), asked.sigma] for asked, spelling in asks]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"folder": str(folder), "out": str(out), "asks": plain, **job}) + "\n")
        self._process.stdin.flush()
        return int(self._answer()), out

    def end(self, out: Path) -> Ended:
        """Waits for the end."""
        code = int(self._answer())
        text = out.read_text() if out.exists() else ""
        out.unlink(missing_ok=True)
        whole = text.split("\n")[:-1]  # what has no end of line was not said to the end
        return Ended(code, tuple(json.loads(line) for line in whole))

    def run(self, folder: Path, asks: Sequence[tuple[Asked, int]], **job: Any) -> Ended:
        """To its own end."""
        return self.end(self.start(folder, asks, **job)[1])

    def run_under_strace(self, call: str, when: int, folder: Path, asked: Asked, **job: Any) -> Ended:
        """Killed on entering a system call for the n-th time."""
        child, out = self.start(folder, [(asked, when)], hold=True, **job)
        inject = f"inject={call}:signal=KILL:when={when}"
        command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", inject, "-p", str(child)]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        status = Path(f"/proc/{child}/status")
        wait_until(
            lambda: tracer.poll() is not None or "TracerPid:\t0" not in status.read_text(),
            "strace attaches",
            poll=0.001,
        )
        if tracer.poll() is not None:
            os.kill(child, signal.SIGKILL)
            self.end(out)
            raise OSError(f"strace cannot attach: {tracer.stderr.read().strip()}")
        os.kill(child, signal.SIGUSR1)
        ended = self.end(out)
        tracer.wait(patience())
        tracer.stderr.close()
        return ended

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise OSError(f"the server ended: {self.errors.read_text()[-2000:]}")
        return line


@dataclass
class Notes:
    """What askers were given, and what is wrong."""

    shown: dict[str, tuple[str, str, int, str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def fork(self) -> Notes:
        return Notes(dict(self.shown), self.wrong)

    def saw(self, ended: Ended) -> None:
        for key, bits in ended.answers():
            known = self.shown.setdefault(key, bits)
            self.shown[key] = bits if not known[3] else known  # a planted bug shows answers that have no receipt yet
            if known[:3] != bits[:3] or (known[3] and known[3] != bits[3]):
                self.wrong.append("a retried request gave other bits than the ones acknowledged")
        if ended.code not in (0, -signal.SIGKILL):
            self.wrong.append(f"a process failed with {ended.code}")

    def audit(self, ended: Ended, requests: Sequence[Asked]) -> None:
        """The books of a bank that answered all these requests, in this order."""
        self.saw(ended)
        found = ended.said("books")
        if found is None:
            self.wrong.append("the bank could not be opened, or did not answer everything again")
            return
        expected = model(requests)
        if not found["spent"] == found["replayed"] == sum(found["fresh"]) == sum(c for _, c in expected.values()):
            self.wrong.append("the books do not balance")
        if not found["same head"]:
            self.wrong.append("a replay of the journal ends elsewhere")
        if len(found["fresh"]) != len(requests) or found["unpublished"] or found["unsealed"]:
            self.wrong.append("not one sealed and published reservation for each request")
        for key, (case, cost) in expected.items():
            if key not in self.shown or self.shown[key][1:3] != (case.name, cost):
                self.wrong.append("a request has no answer, or another case or cost than it should")


@dataclass
class Kills:
    """Kills the last request of a history in many ways."""

    server: Server
    room: Path
    random: Random
    calls: tuple[str, ...] = CALLS
    stride: int = 1
    """1 kills at every call; more leaves some out at random."""
    planted: bool = False
    kills: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)

    def points(self, state: Path, requests: list[Asked], notes: Notes, enough: int) -> None:
        """Every call, n = 1, 2, 3, ... until the process survives."""
        for call in self.calls:
            when = 0
            while self.kills.total() < enough and not notes.wrong:
                when += self.random.randint(1, self.stride)
                if not self.one(state, requests, notes, call, when):
                    break

    def one(self, state: Path, requests: list[Asked], notes: Notes, call: str, when: int) -> bool:
        """One kill; every third time what follows is killed, too. False if the process survived."""
        folder, own = self.room / "killed", notes.fork()
        shutil.copytree(state, folder)
        ended = self._kill(folder, requests, own, call, when)
        if ended.killed and self.kills.total() % 3 == 0:
            self._kill(folder, requests, own, self.random.choice(CALLS[:2]), self.random.randint(1, 20))
        history = [(asked, when + place) for place, asked in enumerate(requests)]
        own.audit(self.server.run(folder, [*history[-1:], *history], books=True, planted=self.planted), requests)
        shutil.rmtree(folder)
        return ended.killed

    def _kill(self, folder: Path, requests: list[Asked], notes: Notes, call: str, when: int) -> Ended:
        ended = self.server.run_under_strace(call, when, folder, requests[-1], planted=self.planted)
        notes.saw(ended)
        self.kills[call] += ended.killed
        return ended

    def work(self, start: Path, requests: list[Asked], enough: int) -> list[str]:
        """Walks through a workload; kills each of its requests in every way on the way."""
        state, notes = self.room / "state", Notes()
        shutil.copytree(start, state)
        for place in range(len(requests)):
            done = requests[: place + 1]
            self.points(state, done, notes, enough)
            notes.saw(self.server.run(state, [(done[-1], 0)], planted=self.planted))
            if notes.wrong or self.kills.total() >= enough:
                break
            self.cases[notes.shown[done[-1].key][1]] += 1
        shutil.rmtree(state)
        return notes.wrong


def strace_works() -> bool:
    """Whether there is a strace that may trace."""
    strace = shutil.which("strace")
    return strace is not None and subprocess.run([strace, "-qq", "-o", os.devnull, "true"], check=False).returncode == 0


def strace_kills(share: float) -> Finding:
    """A record lost, or a second sample, when the process is killed between any two system calls."""
    row = "an answer without a record; a record lost after it was acknowledged"
    if not strace_works():
        missing = "strace is not installed, or may not trace here: nothing was tried (apt-get install strace)"
        return Finding(row, missing, "none", violations=1, note=missing)
    enough, random = max(1, round(KILLS * share)), workload_rng(4)
    with room_for("strace") as name, Server(Path(name)) as server:
        room = Path(name)
        start = bank_with_account(room)
        real, wrong = Kills(server, room, random, stride=max(1, round(0.5 / share))), []
        while real.kills.total() < enough and not wrong:
            requests = workload_of(random, f"after {real.kills.total()}", more=1)
            random.shuffle(requests)
            wrong = real.work(start, requests, enough)
        hasty = Kills(server, room, random, calls=("pwrite64",), planted=True)
        caught = any("other bits" in what for what in hasty.work(start, workload_of(random, "planted", more=0), KILLS))
    calls = ", ".join(f"{count} at {call}" for call, count in sorted(real.kills.items()) if count)
    cases = ", ".join(f"{count} {case}" for case, count in sorted(real.cases.items()))
    every = "every call" if real.stride == 1 else "some calls"
    return Finding(
        row=row,
        tried=f"{real.kills.total():,} kills by strace ({calls})",
        figure=f"{len(wrong)} violations; requests killed at {every}: {cases or 'part of one'}",
        violations=len(wrong),
        planted={"shows before it seals": caught},
        note="; ".join(dict.fromkeys(wrong)),
    )
