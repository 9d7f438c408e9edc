"""A pytest plugin that writes down which lines of src/ each test executes, and what it costs.

One line of JSON per test and worker of xdist, in the folder that `NOISEBANK_MUTANT_RECORD` names; `recording.py` reads
them. Only what runs in the test's own process is seen, in all of its threads; that a test has started another process
is written down. A function that one test calls often is looked at in its first calls only: the price of a whole run of
the tests is then about twice what it is without.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

FOLDER = "NOISEBANK_MUTANT_RECORD"
MAX_CALLS = 40
"""Of one function in one test, with lines; a later call hardly takes a way that none of these took."""
Local = Callable[[FrameType, str, Any], Any]


class Recorder:
    """Sees the lines of files in one folder."""

    def __init__(self, source: Path) -> None:
        self._prefix = f"{source.resolve()}{os.sep}"
        self._lines: dict[str, set[int]] = {}
        self._tracers: dict[str, Local | None] = {}
        self._calls: dict[int, int] = {}
        self.has_started_process = False
        sys.addaudithook(self._note_process)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Local | None:
        """For `sys.settrace`."""
        code = frame.f_code
        try:
            tracer = self._tracers[code.co_filename]
        except KeyError:
            tracer = self._tracers[code.co_filename] = self._make_tracer(code.co_filename)
        if tracer is None:
            return None
        count = self._calls.get(id(code), 0)
        if count == MAX_CALLS:
            return None
        self._calls[id(code)] = count + 1
        return tracer

    def take_lines(self) -> dict[str, list[int]]:
        """What was executed since the last time, by file."""
        lines = {name: sorted(numbers) for name, numbers in self._lines.items() if numbers}
        for numbers in self._lines.values():
            numbers.clear()
        self._calls.clear()
        self.has_started_process = False
        return lines

    def _make_tracer(self, name: str) -> Local | None:
        if not name.startswith(self._prefix):
            return None
        add = self._lines.setdefault(name.removeprefix(self._prefix), set()).add

        def note_line(frame: FrameType, event: str, argument: Any) -> Local:
            if event == "line":
                add(frame.f_lineno)
            return note_line

        return note_line

    def _note_process(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            self.has_started_process = True


def read_cpu_seconds() -> float:
    """Of this process and of children that have ended."""
    return sum(os.times()[:4])


class Notebook:
    """The hooks."""

    def __init__(self, recorder: Recorder, path: Path) -> None:
        self.recorder, self.path = recorder, path
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.recorder.take_lines()
        sys.settrace(self.recorder.trace)  # anew: an overflow of the stack while it is called switches it off
        began = read_cpu_seconds()
        outcome = yield
        seconds, starts = read_cpu_seconds() - began, self.recorder.has_started_process
        masks = {name: hex(sum(1 << line for line in lines)) for name, lines in self.recorder.take_lines().items()}
        record = {
            "test": item.nodeid, "seconds": round(seconds, 2), "starts": starts, "failed": item.nodeid in self._failed,
            "lines": masks,
        }  # fmt: skip
        with self.path.open("a") as records:
            records.write(json.dumps(record) + "\n")
        return outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder(Path("src"))
    name = os.environ.get("PYTEST_XDIST_WORKER", "main")
    config.pluginmanager.register(Notebook(recorder, Path(os.environ[FOLDER]) / f"{name}.jsonl"))
    threading.settrace(recorder.trace)
