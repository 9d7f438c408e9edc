"""Which lines of src/ a process executes: of a test, with the recorder, or of a program that a test has started.

A function that one test calls often is looked at in its first calls only: the price of a whole run of the tests is then
about twice what it is without. `site/sitecustomize.py` loads this in every Python that a test starts with an
environment made of its own; one that is killed is not seen.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

FOLDER = "NOISEBANK_MUTANT_RECORD"
CURRENT = "PYTEST_CURRENT_TEST"
"""How pytest tells other processes which test runs, and in which phase: `path::name (setup)`."""
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

    def take_lines(self) -> dict[str, str]:
        """What was executed since the last time, by file: a number in hexadecimal with a bit per line."""
        lines = {name: hex(sum(1 << line for line in numbers)) for name, numbers in self._lines.items() if numbers}
        for numbers in self._lines.values():
            numbers.clear()
        self._calls.clear()
        return lines

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """What was executed before is there again afterwards, as if nothing had been between."""
        earlier, calls = {name: set(numbers) for name, numbers in self._lines.items()}, dict(self._calls)
        self.take_lines()
        try:
            yield
        finally:
            self.take_lines()
            for name, numbers in earlier.items():
                self._lines[name] |= numbers
            self._calls |= calls

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


def record_process(source: Path) -> None:
    """Writes down what this process executes, when it ends, for the test that has started it."""
    folder, (test, _, phase) = os.environ.get(FOLDER), os.environ.get(CURRENT, "").rpartition(" ")
    if not folder or not test:
        return
    recorder, owner = Recorder(source), os.getpid()

    def write_record() -> None:
        sys.settrace(None)
        if os.getpid() == owner:  # not a fork of it
            record = {"started_by": test, "phase": phase.strip("()"), "lines": recorder.take_lines()}
            with (Path(folder) / f"process-{owner}.jsonl").open("a") as records:
                records.write(json.dumps(record) + "\n")

    atexit.register(write_record)
    threading.settrace(recorder.trace)
    sys.settrace(recorder.trace)
