"""Distinct questions that cost nothing, one after the other, in a process of its own: memory stays flat.

Quotes, refused asks and free answers over a cube of 4,096 cells, and quotes over one of 65,536. What a process may grow
by is the bounds of its caches, and for free answers the books, whose entries are the ledger's.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from assurance.report import Finding
from noisebank import Account, Bank, Policy, create_bank, open_bank
from noisebank.account import cube_state
from noisebank.queries import cells as cells_module
from support.internals import ALL_CACHES, BoundedCache, BudgetExhausted
from support.paths import TESTS

ROW = "questions that cost nothing fill the memory"
QUESTIONS, WIDE, FREE = 100_000, 1_000, 2_000
"""Quotes and refused asks at 4,096 cells, quotes at 65,536, free answers (which are entries of the ledger)."""
PLANTED, LEAST = 100, 40
SLACK = 24 * 2**20
"""Bytes that a process takes for itself."""
MOST_CACHED = 150 * 2**20
"""Bytes: the bounds of all caches of a bank with one account."""
MOST_GROWTH = 200 * 2**20
"""Bytes, over the whole soak."""
MOST_EACH = 20_000
"""Bytes per question until the caches are full: what a short run is held to. The old bank kept 900,000."""
POLICY = """name = "people"
source = "people.csv"
neighbours = "add-remove"
row_cap = 1000
cubes = [["age"]]
[budget]
epsilon = 2
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, {last}]
bins = [{bins}]
"""


def open_wide(bank: Bank, folder: Path, cells: int) -> Account:
    """An account over one column with so many bins."""
    (folder / "people.csv").write_text("age\n" + "".join(f"{(7 * row) % cells}\n" for row in range(200)))
    bins = ", ".join(str(edge) for edge in range(1, cells))
    (folder / "people.toml").write_text(POLICY.format(last=cells - 1, bins=bins))
    return bank.open_account(folder / "people.toml")


def questions(policy: Policy, first: int, count: int) -> Iterator[str]:
    """Distinct ranges; every tenth is a list of single values, whose text is long."""
    cells = policy.columns["age"].bounds[1] + 1
    for number in range(first, first + count):
        low, high = number % (cells // 2), cells // 2 + number // (cells // 2) % (cells // 2)
        if number % 10:
            yield f"SELECT count(*) FROM people WHERE age BETWEEN {low} AND {high}"
        else:
            listed = ", ".join(str((number + 3 * step) % cells) for step in range(min(60, cells // 4)))
            yield f"SELECT count(*) FROM people WHERE age IN ({listed})"


class Everything(BoundedCache[Any, Any]):
    """The planted bug: a cache without a bound, as there was for questions served by a cube."""

    def put(self, key: Any, value: Any) -> None:
        self._entries[key] = value, 0


class Forgetful(dict[Any, Any]):
    """The other half of it: no cube is found in use, so that every question has one of its own."""

    def get(self, key: Any, default: Any = None) -> Any:
        return None

    def setdefault(self, key: Any, default: Any = None) -> Any:
        return default


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


def soak(cells: int, asked: int, free: int, unbounded: bool) -> tuple[int, int]:
    """How much the process grew, and how much its caches say that they hold."""
    with TemporaryDirectory() as name, ExitStack() as planted:
        if unbounded:
            planted.enter_context(patch.object(cube_state, "BoundedCache", Everything))
            planted.enter_context(patch.object(cells_module, "LIVE_CUBES", Forgetful()))
        create_bank(Path(name) / "bank")
        with open_bank(Path(name) / "bank") as bank:
            account = open_wide(bank, Path(name), cells)
            account.ask("SELECT count(*) FROM people GROUP BY age" if free else "SELECT count(*) FROM people", sigma=40)
            _ask_all(account, 0, LEAST)
            gc.collect()
            began = resident()
            _ask_all(account, LEAST, asked)
            for place, sql in enumerate(questions(account.context.policy, 0, free)):
                if account.ask(sql, sigma=4_000, key=f"free {place}").cost:
                    raise AssertionError("this answer follows from what was paid for before")
            gc.collect()
            return resident() - began, sum(cache.used_bytes for cache in ALL_CACHES)


def _ask_all(account: Account, first: int, count: int) -> None:
    for place, sql in enumerate(questions(account.context.policy, first, count)):
        account.quote(sql, sigma=50)
        if place % 10 == 5:
            try:
                account.ask(sql, sigma="0.001", key=f"refused {first + place}")
            except BudgetExhausted:
                continue
            raise AssertionError("an answer beyond the budget was given")


def in_process(cells: int, asked: int, free: int = 0, unbounded: bool = False) -> tuple[int, int]:
    """The same in a process of its own, whose memory nothing else uses."""
    arguments = [str(cells), str(asked), str(free), str(int(unbounded))]
    tests = str(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "assurance.memory_soak", *arguments], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    grew, cached = done.stdout.split()
    return int(grew), int(cached)


def memory_soak(share: float) -> Finding:
    """One row of the assurance table."""
    asked, wide, free = (max(LEAST, round(share * count)) for count in (QUESTIONS, WIDE, FREE))
    bins = 65_536 if share > 0.01 else 8_192  # which take seconds to open
    runs = {
        f"{asked:,} quotes and refused asks at 4,096 cells": (in_process(4_096, asked), asked),
        f"{wide:,} quotes at {bins:,} bins": (in_process(bins, wide), wide),
        f"{free:,} free answers": (in_process(256, LEAST, free), LEAST + free),
    }
    violations = sum(grew > _allowed(count) or cached > MOST_CACHED for (grew, cached), count in runs.values())
    figure = "; ".join(f"{name}: {grew / 2**20:.0f} MB" for name, ((grew, _), _) in runs.items())
    grew, _ = in_process(4_096, PLANTED, unbounded=True)
    bug = "questions served by a cube kept without a bound, each with a cube of its own"
    return Finding(
        ROW, f"{asked + wide + free:,} distinct questions", f"grew by: {figure}", violations,
        {bug: grew > _allowed(PLANTED)},
    )  # fmt: skip


def _allowed(count: int) -> int:
    """Bytes: a short run has its questions in the caches, a long one no more than the caches hold."""
    return min(MOST_GROWTH, SLACK + MOST_EACH * count)


if __name__ == "__main__":
    cells, asked, free, unbounded = (int(argument) for argument in sys.argv[1:])
    print(*soak(cells, asked, free, bool(unbounded)))
