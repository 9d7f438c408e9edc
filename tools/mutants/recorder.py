"""A pytest plugin that writes down which lines of src/ each test executes, and what it costs.

One line of JSON per test and worker of xdist, in the folder that `NOISEBANK_MUTANT_RECORD` names; `recording.py` reads
them. That a test has started another process is written down; what that one executes it writes itself (`lines.py`).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tools.mutants.lines import FOLDER, Recorder


def read_cpu_seconds() -> float:
    """Of this process and of children that have ended."""
    return sum(os.times()[:4])


class Notebook:
    """The hooks."""

    def __init__(self, recorder: Recorder, path: Path) -> None:
        self.recorder, self.path = recorder, path
        self._failed: set[str] = set()
        self._current = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.recorder.take_lines()
        self.recorder.has_started_process, self._current = False, item.nodeid
        sys.settrace(self.recorder.trace)  # anew: an overflow of the stack while it is called switches it off
        began = read_cpu_seconds()
        outcome = yield
        seconds, starts = read_cpu_seconds() - began, self.recorder.has_started_process
        record = {
            "test": item.nodeid, "seconds": round(seconds, 2), "starts": starts, "failed": item.nodeid in self._failed,
            "lines": self.recorder.take_lines(),
        }  # fmt: skip
        self._write_record(record)
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """What is set up once is set up in the first test only; it counts for all of the file."""
        if fixturedef.scope == "function":
            return (yield)
        with self.recorder.set_aside():
            try:
                return (yield)
            finally:
                record = {"started_by": self._current, "phase": "setup", "lines": self.recorder.take_lines()}
                self._write_record(record)

    def _write_record(self, record: dict[str, object]) -> None:
        with self.path.open("a") as records:
            records.write(json.dumps(record) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)


def pytest_configure(config: pytest.Config) -> None:
    recorder = Recorder(Path("src"))
    name = os.environ.get("PYTEST_XDIST_WORKER", "main")
    config.pluginmanager.register(Notebook(recorder, Path(os.environ[FOLDER]) / f"{name}.jsonl"))
    threading.settrace(recorder.trace)
