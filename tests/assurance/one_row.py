"""One row in a process of its own: `python -m assurance.one_row ROW SHARE OUT`. Writes what it found to OUT."""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from assurance.exercised import Tree
from assurance.report import Row


def run_row(name: str, share: float) -> dict[str, object]:
    """What the row found, and what it took; CPU seconds are those of all processes that it has waited for."""
    started = time.perf_counter()
    row: Row = getattr(import_module(f"assurance.{name}"), name)
    finding = row(share)
    seconds = round(time.perf_counter() - started)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = round(sum(usage.ru_utime + usage.ru_stime for usage in used))
    loaded = Tree().loaded_files(name)
    return {**asdict(finding), "passed": finding.passed, "seconds": seconds, "cpu_seconds": cpu, "loaded": loaded}


if __name__ == "__main__":
    name, share, out = sys.argv[1:]
    Path(out).write_text(json.dumps(run_row(name, float(share)), ensure_ascii=False))
