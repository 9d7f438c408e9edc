"""Runs exhibits, two at a time where nothing is timed, and writes PNG, SVG and JSON of each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from research.papers.catalogue import exhibit
from research.papers.charts import save, stamp_made_up
from research.papers.exhibit import Found, Moved, rounded, unmoved
from research.papers.provenance import explain_numbers

THREADS = "OPENBLAS_NUM_THREADS"
"""One each: two processes with two threads each would only wait for one another."""


def run_one(name: str, quick: bool, folder: Path | None, moved: Moved = unmoved) -> Found:
    """One exhibit; its files go to `folder`, if there is one."""
    shown = exhibit(name)
    began, load, worked = time.perf_counter(), os.getloadavg()[0], _count_cpu_seconds()
    data: Found = rounded(shown.run(quick, moved))
    found: Found = {
        "name": name,
        "paper": shown.paper,
        "title": shown.title,
        "quick": quick,
        "printed": shown.printed,
        "here": shown.here(data),
        "why": shown.why,
        "numbers": explain_numbers(name, [number.plain() for number in shown.numbers(data)]),
        "seconds": round(time.perf_counter() - began, 1),
        "cpu": round(_count_cpu_seconds() - worked, 1),
        "load": round(load, 1),
        "data": data,
    }
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        save(draw_exhibit(name, data), folder, name)
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return found


def _count_cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def draw_exhibit(name: str, data: Found) -> Any:
    """Its chart, marked where its data is made up."""
    shown = exhibit(name)
    drawn = shown.draw(data)
    if words := shown.made_up(data):
        stamp_made_up(drawn, words)
    return drawn


def run_all(names: Sequence[str], quick: bool, folder: Path | None, moved: Moved = unmoved) -> dict[str, Found]:
    """Several exhibits. Those that measure time come last, each with the machine to itself."""
    if len(names) == 1:
        return {names[0]: run_one(names[0], quick, folder, moved)}
    timed = [name for name in names if exhibit(name).timed or (exhibit(name).together and not quick)]
    others = [name for name in names if name not in timed]
    found: dict[str, Found] = {}
    moved(0, len(names))
    workers = max(1, min(2, os.cpu_count() or 1, len(others)))
    with _single_threaded(), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_one, name, quick, folder): name for name in _longest_first(others)}
        for done in as_completed(running):
            found[running[done]] = done.result()
            moved(len(found), len(names))
    for name in timed:
        found[name] = run_one(name, quick, folder)
        moved(len(found), len(names))
    return {name: found[name] for name in names}


def _longest_first(names: Sequence[str]) -> list[str]:
    """So that the two processes end at about the same time."""
    long = ("p1-figure9", "p1-figure10", "budget", "p1-figure8", "p1-figure7", "p1-planner")
    return sorted(names, key=lambda name: long.index(name) if name in long else len(long))


@contextmanager
def _single_threaded() -> Iterator[None]:
    """For child processes: linear algebra in one thread."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before
