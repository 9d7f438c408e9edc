"""Tries mutants, each in a throw-away clone of the commit: the work tree is never touched.

A test that fails counts only if it passes on the original, and, beyond the near tests, only if it then fails again on
its own: on a busy machine tests fail for reasons of their own. A run that takes much longer than it should is a hang
under the same conditions.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tools.mutants.changes import Mutant
from tools.mutants.plugin import NOTES, TARGETS, WRONG_PRODUCT
from tools.mutants.recording import NEAR, Recording
from tools.mutants.selection import Choice, Graph, choose_rounds
from tools.mutants.server import Server, is_in_body

KILLED, SURVIVED = "killed", "survived"
LINKED = (".venv", ".npm-parts")
UNWANTED = ("slow", "extras", "flower", "timing")
"""Marks of tests that are not run, as far as the tree knows them."""
MOST_SECONDS = 120.0
"""Of CPU time, of all tests for one mutant, as recorded without a mutant."""
LEAST_PATIENCE, SLOWNESS = 100.0, 10.0
"""A run is a hang after so many seconds, or so many times what it takes without a mutant. `NOISEBANK_PATIENCE`
multiplies both."""


@dataclass(frozen=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    outcome: str
    test: str
    """The one that noticed it, or empty."""
    how: str
    """`failed`, `hangs`, or which files ran for nothing."""
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Run:
    """One call of pytest."""

    code: int | None
    """None: it was ended for taking too long."""
    failed: str
    running: str
    cpu_seconds: float
    tail: str

    @property
    def passed(self) -> bool:
        """All tests passed, or there were none."""
        return self.code in (0, 5)


STOPPING = threading.Event()
"""Set when somebody stops the whole: what runs is ended."""


class BrokenTests(Exception):
    """The tests cannot be run at all: no mutant can be judged."""


@dataclass
class Known:
    """What is known about tests on the original, shared by all workers."""

    recorded: frozenset[str] = frozenset()
    """Near tests that passed when they were recorded: good until `find_bad_tests` looks at all that have noticed
    something together, which is much cheaper than one by one."""
    good: set[str] = field(default_factory=set)
    bad: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Slot:
    """A clone of the commit in which one mutant at a time is tried."""

    def __init__(self, root: Path, commit: str, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        folder.mkdir(parents=True)
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", root, self.tree], check=True)
        subprocess.run(["git", "checkout", "-q", "--detach", commit], cwd=self.tree, check=True)
        for name in LINKED:
            if (root / name).exists() and not (self.tree / name).exists():
                (self.tree / name).symlink_to((root / name).resolve())
        marks = tomllib.loads((self.tree / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
        names = {mark.partition(":")[0] for mark in marks}
        self.marks = " and ".join(f"not {name}" for name in UNWANTED if name in names)
        # By content: a mutant of the same size, written within the same second, must not run from an old cache.
        subprocess.run(
            [self.python, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"],
            cwd=self.tree, check=True,
        )  # fmt: skip
        self._server: Server | None = None

    def start_server(self) -> None:
        """From here on most runs are forks of a process that has collected the tests. No mistake is in the tree."""
        self._server = Server(self.tree, self.python, self.environment, self.marks, self.folder)

    def wait_ready(self) -> None:
        """Returns when it has, or could not."""
        if self._server is not None and not self._server.wait_ready():
            self._server = None

    def close(self) -> None:
        """Ends the process."""
        if self._server is not None:
            self._server.close()

    @property
    def python(self) -> str:
        return str(self.tree / ".venv" / "bin" / "python")

    @property
    def environment(self) -> dict[str, str]:
        """A clean one, as of `tools/run-tests`."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "NOISEBANK_PATIENCE") if name in os.environ}
        language = os.environ.get("LANG", "C.UTF-8")
        return kept | {"LANG": language, "PYTHONHASHSEED": "0", "PYTHONPATH": str(self.tree / "src")}

    def read_original(self, mutant: Mutant) -> bytes:
        """The file without the mistake."""
        words = ["git", "show", f"HEAD:{mutant.file}"]
        return subprocess.run(words, cwd=self.tree, capture_output=True, check=True).stdout

    @contextmanager
    def apply(self, mutant: Mutant) -> Iterator[None]:
        """The mistake is in the tree for as long as this lasts."""
        path = self.tree / mutant.file
        original = path.read_bytes()
        path.write_bytes(mutant.apply_to(original))
        try:
            yield
        finally:
            path.write_bytes(original)

    def run_tests(self, targets: list[str], without: set[str], patience: float, mutant: Mutant | None = None) -> Run:
        """Files or tests, in this order file by file, until the first failure. `mutant` is what is in the tree now."""
        if self._server is not None:
            original = self.read_original(mutant) if mutant else b""
            if mutant is None or is_in_body(original, mutant.start):
                answer = self._server.run(targets, without, patience, mutant.file if mutant else "", original)
                if STOPPING.is_set():
                    raise KeyboardInterrupt
                if answer is not None:
                    return Run(*(answer[name] for name in ("code", "failed", "running", "cpu_seconds", "tail")))
        notes, scratch = self.folder / "notes", self.folder / "tmp"
        for room in (notes, scratch):
            shutil.rmtree(room, ignore_errors=True)
            room.mkdir()
        (notes / TARGETS).write_text(json.dumps([target for target in targets if target not in without]))
        files = dict.fromkeys(target.partition("::")[0] for target in targets)
        command = [
            self.python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:schemathesis",
            "-p", "tools.mutants.plugin", "-m", self.marks, *(f"--deselect={test}" for test in sorted(without)), *files,
        ]  # fmt: skip
        environment = self.environment | {"TMPDIR": str(scratch), NOTES: str(notes)}
        log = self.folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.tree, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            code, cpu_seconds = wait_for(process, patience)
        if STOPPING.is_set():
            raise KeyboardInterrupt
        tail = log.read_text(errors="replace")[-1500:]
        return Run(code, _read(notes / "failed"), _read(notes / "running"), cpu_seconds, tail)


def wait_for(process: subprocess.Popen[bytes], patience: float) -> tuple[int | None, float]:
    """The exit code, or None if it had to be ended, and the CPU time of it and its children."""
    deadline = time.monotonic() + patience
    ended = False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > deadline or STOPPING.is_set():
            ended = True
            _end_group(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
            break
        time.sleep(0.1)
    _end_group(process.pid)  # servers that a failed test has left
    process.returncode = os.waitstatus_to_exitcode(status)
    return None if ended else process.returncode, usage.ru_utime + usage.ru_stime


def _end_group(group: int) -> None:
    """Ends a process that we started, and what it started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def measure_patience(choices: list[Choice]) -> float:
    """How long these may take before it is called a hang."""
    factor = float(os.environ.get("NOISEBANK_PATIENCE") or 1)
    return factor * max(LEAST_PATIENCE, SLOWNESS * sum(choice.seconds for choice in choices))


def try_mutant(
    mutant: Mutant, slot: Slot, graph: Graph, recording: Recording, known: Known, most_seconds: float = MOST_SECONDS
) -> Result:
    """Runs what can notice it, in rounds."""
    began, used, ran = time.monotonic(), 0.0, 0
    rounds = choose_rounds(mutant.file, mutant.line, graph, recording, most_seconds)
    unsure: set[str] = set()

    def run(targets: list[str], patience: float, mutated: bool) -> Run:
        nonlocal used
        with slot.apply(mutant) if mutated else nullcontext():
            result = slot.run_tests(targets, known.bad | unsure, patience, mutant if mutated else None)
        used += result.cpu_seconds
        if result.code == WRONG_PRODUCT or (not mutated and result.code not in (0, 1, 2, 5, None)):
            raise BrokenTests(result.tail)
        return result

    def conclude(outcome: str, test: str, how: str) -> Result:
        return Result(mutant, outcome, test, how, round(time.monotonic() - began, 1), round(used, 1))

    for choices in rounds:
        patience = measure_patience(choices)
        waiting = [choice.target for choice in choices]
        while waiting:
            noticed = run(waiting, patience, True)
            if noticed.passed:
                ran += len(waiting)
                break
            test, hangs = noticed.failed or noticed.running or waiting[0], noticed.code is None
            if is_noticed_by(test, hangs, known, partial(run, [test], patience)):
                return conclude(KILLED, test, "hangs" if hangs else "failed")
            unsure.add(test)
            if hangs or test in waiting:  # a file that cannot be collected, or hangs, is left out as a whole
                waiting = [target for target in waiting if target not in (test, test.partition("::")[0])]
    count = sum(len(choices) for choices in rounds)
    return conclude(SURVIVED, "", f"{ran} of {count} tests and files of tests ran for nothing")


def is_noticed_by(test: str, hangs: bool, known: Known, run: Callable[[bool], Run]) -> bool:
    """Whether a failure is the mutant's doing. `run(mutated)` runs the test by itself."""
    if not is_good(test, known, run):
        return False
    return (test.startswith(NEAR) and not hangs) or not run(True).passed


def is_good(test: str, known: Known, run: Callable[[bool], Run]) -> bool:
    """Whether it passes on the original; looked at once."""
    with known.lock:
        if test in known.good | known.bad | known.recorded:
            return test not in known.bad
    passed = run(False).passed
    with known.lock:
        (known.good if passed else known.bad).add(test)
    return passed


def find_bad_tests(tests: list[str], slot: Slot, known: Known) -> set[str]:
    """Those of these tests that fail on the original."""
    bad: set[str] = set()
    while True:
        run = slot.run_tests(tests, bad, LEAST_PATIENCE * len(tests))
        test = run.failed or run.running
        if run.passed or not test:
            known.bad |= bad
            return bad
        bad.add(test)


class Slots:
    """As many as there are workers."""

    def __init__(self, root: Path, commit: str, folder: Path, count: int, forks: bool = True) -> None:
        self._free: SimpleQueue[Slot] = SimpleQueue()
        self._all = [Slot(root, commit, folder / str(number)) for number in range(count)]
        for slot in self._all if forks else []:
            slot.start_server()
        for slot in self._all:
            slot.wait_ready()
            self._free.put(slot)

    def close(self) -> None:
        """Ends their processes."""
        for slot in self._all:
            slot.close()

    @contextmanager
    def borrow(self) -> Iterator[Slot]:
        slot = self._free.get()
        try:
            yield slot
        finally:
            self._free.put(slot)
