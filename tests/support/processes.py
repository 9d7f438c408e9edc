"""Processes that tests start: what they announce, how they end, and which ones were forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

from support.patience import FACTOR, POLL, patience

MARK = "STARTED_BY_TESTS_OF"
"""In the environment of whatever a run of tests starts, and of what that starts: the run's process."""


def read_announcement(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """Returns the JSON that a server says first. A server that does not say it is ended, and its log is shown."""
    assert process.stdout is not None
    hang = threading.Timer(patience(), process.kill)
    hang.start()
    try:
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, f"nothing was announced: {text}{log.read_text()}"
            text += line
        return dict(json.loads(text))
    except BaseException:
        end_process(process)
        raise
    finally:
        hang.cancel()


def end_process(process: subprocess.Popen[Any]) -> None:
    """Kills a process that still runs, waits for its end and closes its pipes."""
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def mark_processes() -> None:
    """From now on, what this process starts can be told from everything else."""
    os.environ[MARK] = str(os.getpid())


def end_leftovers() -> list[str]:
    """Ends what this run of tests has started and left running; returns the command lines."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # both serve later tests, too: they may be here
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    _end_spark()
    last_look = time.monotonic() + 20 * FACTOR
    while (leftovers := find_leftovers()) and time.monotonic() < last_look:  # some were told to end, and do so now
        time.sleep(10 * POLL)
    for process in leftovers:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return [f"{process}: {command}" for process, command in leftovers.items()]


def _end_spark() -> None:
    """Ends Spark's Java process, which all tests of a run share and which would end with Python."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    if (gateway := SparkContext._gateway) is not None:
        gateway.shutdown()
        end_process(gateway.proc)
        SparkContext._gateway = SparkContext._jvm = None


def find_leftovers() -> dict[int, str]:
    """Returns the command line of each running process that bears the mark of this one, or is its child."""
    mark, own = f"{MARK}={os.getpid()}".encode(), os.getpid()
    leftovers = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile, or is somebody else's
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            marked = mark in (folder / "environ").read_bytes().split(b"\0")
            if state != "Z" and int(folder.name) != own and (marked or int(parent) == own):
                leftovers[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:300]
    return leftovers
