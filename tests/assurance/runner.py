"""Runs rows, each in a process of its own, some at once; every result is written down as soon as it is there."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from assurance.exercised import Tree
from assurance.results import LOGS, Entry, Shelf, count_of, now, version

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Bytes that must be free there before rows work in it."""


class Uncommitted(Exception):
    """A result would belong to no commit."""


@dataclass
class Runner:
    """One run over some rows."""

    shelf: Shelf
    share: float = 1.0
    jobs: int = 1
    logs: Path = LOGS
    command: Sequence[str] = (sys.executable, "-m", "assurance.one_row")
    failed: list[str] = field(default_factory=list)
    _running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def recorded(self) -> bool:
        return self.share == 1.0

    def run(self, rows: Sequence[str]) -> None:
        """All of them; a run that is stopped ends its rows, and they count as never begun.

        Two at once begin with those that took longest: the last one would otherwise run alone.
        """
        if self.jobs > 1:
            took = self.shelf.read().rows
            rows = sorted(rows, key=lambda row: -took[row]["cpu_seconds"] if row in took else -math.inf)
        with ThreadPoolExecutor(self.jobs) as pool:
            tasks = [pool.submit(self._one, row) for row in rows]
            try:
                for task in tasks:
                    task.result()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Ends the running rows with all of their processes."""
        self._stopped.set()
        with self._starting:
            for process in self._running.values():
                end_group(process)

    def _one(self, row: str) -> None:
        if self._stopped.is_set():
            return
        commit, date = version(self.shelf.root), now()
        if self.recorded and commit.endswith("-dirty"):
            raise Uncommitted("src, tests, research, contracts or requirements have changes that are not committed")
        before = Tree(self.shelf.root).digest_of(row)
        started = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="noisebank-assurance-", dir=memory()) as room:
            out = Path(room) / "found.json"
            code, last = self._wait(row, out, room)
            if self._stopped.is_set():
                return
            found = json.loads(out.read_text()) if code == 0 and out.exists() else None
        if found is None:
            found = died(row, f"ended with {code}: {last}" if code >= 0 else f"killed by signal {-code}: {last}")
            found["seconds"] = round(time.perf_counter() - started)
        found.setdefault("died", "")
        after = Tree(self.shelf.root)
        if self.recorded and after.digest_of(row) != before:
            found = died(row, "files that it exercises changed while it ran") | {"seconds": found["seconds"]}
        self._tell(row, found)
        if not found["passed"]:
            self.failed.append(row)
        if self.recorded:
            own = {"date": date, "commit": commit, "digest": after.digest_of(row, found["loaded"])}
            self.shelf.keep(row, found | own | {"count": count_of(found["tried"]), "share": 1.0, "argv": [row]})

    def _wait(self, row: str, out: Path, room: str) -> tuple[int, str]:
        """How it ended, and the last line that it printed."""
        workers = max(1, (os.cpu_count() or 1) // self.jobs)
        paths = [str(self.shelf.root / folder) for folder in ("src", "tests")]
        own = {"TMPDIR": room, "ASSURANCE_WORKERS": str(workers), "PYTHONUNBUFFERED": "1"}
        own["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.logs.mkdir(parents=True, exist_ok=True)
        last = ""
        print(f"{row} ...", flush=True)
        with self._starting:
            process = self._running[row] = subprocess.Popen(
                [*self.command, row, str(self.share), str(out)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                env=os.environ | own, cwd=self.shelf.root, start_new_session=True,
            )  # fmt: skip
        if self._stopped.is_set():
            self.stop()
        # What a dead row has left running holds its output open: it must not hold up the others.
        threading.Thread(target=lambda: process.wait() is not None and end_group(process), daemon=True).start()
        with (self.logs / f"{row}.log").open("w") as log, process:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                log.flush()
                last = line.strip() or last
                print(f"{row}: {line.rstrip()}", flush=True)
        return process.returncode, last

    def _tell(self, row: str, found: Entry) -> None:
        took = f"{found['seconds']} s, {found['cpu_seconds']} s CPU"
        print(f"{row} {'ok' if found['passed'] else 'FAILED'}: {found['tried']}: {found['figure']} ({took})")
        for bug, caught in found["planted"].items():
            print(f"    planted {bug}: {'caught' if caught else 'MISSED'}")
        sys.stdout.flush()


def end_group(process: subprocess.Popen[str]) -> None:
    """The process and all that it has started, as far as they are still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def died(row: str, why: str) -> Entry:
    """What is known of a row that gave no result."""
    nothing = {"tried": "", "violations": 0, "planted": {}, "note": "", "loaded": [], "seconds": 0, "cpu_seconds": 0}
    return {"row": row, **nothing, "figure": f"did not run: {why}"[:500], "died": why[:500], "passed": False}


def memory() -> str | None:
    """A folder in memory for whatever rows write, where there is one with room: no row is about the disk itself."""
    free = shutil.disk_usage(MEMORY).free if MEMORY.is_dir() else 0
    return str(MEMORY) if free > ROOM and os.access(MEMORY, os.W_OK) else None
