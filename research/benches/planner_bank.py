"""What a whole bank takes on disk: CPU of a free answer and of opening a large cube, memory of quotes.

CPU of this process, in which SQL is parsed, the ledger's contract executed and the vault written.
"""

from __future__ import annotations

import gc
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noisebank.account.account import Account
from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.entropy import workload_rng
from noisebank.core.errors import NoisebankError
from noisebank.core.units import ZERO_PRECISION

WITHIN, FINER = "400", "0.001"
"""What the first look is bought for, and what no budget pays."""
QUERY = "SELECT COUNT(*) FROM t WHERE {name} BETWEEN {low} AND {high}"


@contextmanager
def open_table(sizes: tuple[int, ...], expect: str) -> Iterator[tuple[Account, float]]:
    """A bank with a table of integers and one cube over all bins of width 1; and the CPU seconds of opening it."""
    names, pick = [f"c{number}" for number in range(len(sizes))], workload_rng(1)
    columns = "".join(
        f'[columns.{name}]\ntype = "integer"\nbounds = [0, {size - 1}]\nbins = {list(range(1, size))}\n'
        for name, size in zip(names, sizes, strict=True)
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    head = f'name = "t"\nsource = "t.csv"\nneighbours = "add-remove"\nrow_cap = 100000\ncubes = [[{quoted}]]\n'
    rows = [",".join(str(pick.randrange(size)) for size in sizes) for _ in range(5_000)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "t.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
        (folder / "t.toml").write_text(f"{head}expect = ['{expect}']\n[budget]\nepsilon = 2\ndelta = 1e-6\n{columns}")
        with open_bank(create_bank(folder / "bank")) as bank:
            began = time.process_time()
            account = bank.open_account(folder / "t.toml")
            yield account, time.process_time() - began


def time_bank(sizes: tuple[int, ...], count: int = 40) -> dict[str, float]:
    """CPU seconds to open the table and for the first answer with its look; milliseconds of a free answer (median)."""
    example = "ranges" if len(sizes) == 1 else "SELECT COUNT(*) FROM t WHERE c0 < 5"
    with open_table(sizes, example) as (account, opening):
        ask = _asker(account, sizes[0])
        began = time.process_time()
        ask()
        first = time.process_time() - began
        spent: list[float] = []
        while len(spent) < count:
            began = time.process_time()
            if ask() == ZERO_PRECISION:
                spent.append(1000 * (time.process_time() - began))
    return {"free_ms": round(statistics.median(spent), 2), "first_s": round(first, 2), "opening_s": round(opening, 2)}


def measure_quotes(size: int, count: int) -> dict[str, float]:
    """Megabytes above the start, after half and after all of many distinct quotes: free, dear and refused ones."""
    found: dict[str, float] = {"quotes": float(count)}
    with open_table((size,), "ranges") as (account, _):
        pick = workload_rng(2)
        _asker(account, size)()
        gc.collect()
        began = resident_mb()
        for number in range(1, count + 1):
            low, high = sorted(pick.sample(range(size), 2))
            sql = QUERY.format(name="c0" if number % 3 else "missing", low=low, high=high)
            _quote(account, sql, FINER if number % 3 == 1 else WITHIN)
            if number in (count // 2, count):
                gc.collect()
                found["after_half" if number < count else "after_all"] = round(resident_mb() - began, 1)
    return found


def resident_mb() -> float:
    """Megabytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def measure_bank(quick: bool) -> dict[str, Any]:
    """All of it, by the number of cells."""
    shapes: dict[str, tuple[int, ...]] = {"1024": (1024,), "4096": (4096,)}
    if not quick:
        shapes |= {"65536": (65_536,), "1024x1024": (1024, 1024)}
    quotes = measure_quotes(4096, 300 if quick else 20_000)  # first: what larger tables free would hide what grows
    times = {name: time_bank(sizes, 10 if quick else 40) for name, sizes in shapes.items()}
    return {**times, "quotes_memory_mb": quotes}


def _asker(account: Account, size: int) -> Callable[[], Any]:
    pick = workload_rng(3)

    def ask() -> Any:
        low, high = sorted(pick.sample(range(size), 2))
        return account.ask(QUERY.format(name="c0", low=low, high=high), within=WITHIN).charge.cost

    return ask


def _quote(account: Account, sql: str, within: str) -> None:
    try:
        account.quote(sql, within=within)
    except NoisebankError:  # a column that is missing, or noise that is too small
        return
