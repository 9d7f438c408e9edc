"""P0, Figure 7: latency against the number of queries sent at once, with and without access to the data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from noisebank.account.account import Account
from noisebank.demo.survey import RACES
from research.benches.anvil import anvil_binary, running_anvil
from research.papers.charts import BLUE, GREY, INK, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.seeded import survey_account

PAPER_BLOCK = 15.0
PEAK_BLOCKS = 2.5
"""A batch of looks at the data takes about four blocks: a last answer so far behind the mean came with a second one."""
"""Seconds a block in the paper's test chain."""
EMBEDDED, INSTANT, BLOCKS = "embedded", "anvil, a block a transaction", "anvil, blocks at intervals"
BUDGET = "60"


def run(quick: bool, moved: Moved) -> Found:
    """Every number of queries on every chain: each query new (a look at the data), then all of them again (reuse)."""
    counts = (1, 20, 60, 100) if quick else (1, 10, 20, 40, 60, 80, 100, 120)
    block = 0.5 if quick else 1.0
    chains: dict[str, float | None] = {EMBEDDED: None}
    if anvil_binary() is not None:
        chains |= {INSTANT: 0.0, BLOCKS: block}
    found: Found = {"counts": counts, "block_seconds": block, "paper_block_seconds": PAPER_BLOCK, "chains": {}}
    total = len(chains) * len(counts) + (0 if quick else 1)
    for place, (name, seconds) in enumerate(chains.items()):
        rounds = 1 if seconds else 2 if quick else 3
        found["chains"][name] = _on(seconds, counts, rounds, lambda done, p=place: moved(p * len(counts) + done, total))
    if anvil_binary() is not None and not quick:
        found["as_printed"] = {"counts": [1, 60], **_on(PAPER_BLOCK, (1, 60), 1, lambda done: None)}
    moved(total, total)
    return found


def _on(block: float | None, counts: Sequence[int], rounds: int, moved: Any) -> Found:
    """Seconds until an answer is there: mean, 95% and last of those sent at once; means over the rounds."""
    found: Found = {"access": [], "reuse": []}
    with _chain(block) as url, survey_account(7, BUDGET, url) as account:
        _ask_all(account, _queries(3))
        offset = 3
        for done, count in enumerate(counts, 1):
            rows: dict[str, list[list[float]]] = {"access": [], "reuse": []}
            for _ in range(rounds):
                asked = _queries(count, offset)
                offset += count
                rows["access"].append(_ask_all(account, asked))
                rows["reuse"].append(_ask_all(account, asked))
            for way, latencies in rows.items():
                found[way].append(_summary(latencies))
            moved(done)
    return found


def _summary(latencies: list[list[float]]) -> Found:
    last = [max(row) for row in latencies]
    everyone = [one for row in latencies for one in row]
    return {
        "mean": float(np.mean(everyone)),
        "p95": float(np.quantile(everyone, 0.95)),
        "last": float(np.mean(last)),
        "last_range": [min(last), max(last)],
    }


@contextmanager
def _chain(block: float | None) -> Iterator[str | None]:
    """None for the embedded one; else a node with blocks at once (0) or at intervals."""
    if block is None:
        with nullcontext():
            yield None
        return
    arguments = ("--block-time", f"{block:g}") if block else ()
    with running_anvil(*arguments) as url:
        yield url


def _queries(count: int, offset: int = 0) -> list[str]:
    """Different counts, as many as are needed."""
    made = []
    for number in range(offset, offset + count):
        race, rest = RACES[number % len(RACES)], number // len(RACES)
        low, width = 16 + rest % 60, 3 + rest // 60
        made.append(f"SELECT COUNT(*) FROM survey WHERE race = '{race}' AND age >= {low} AND age < {low + width}")
    return made


def _ask_all(account: Account, asked: Sequence[str]) -> list[float]:
    """Sends all of them at once; seconds until each answer."""
    began = time.perf_counter()

    def one(sql: str) -> float:
        account.ask(sql, epsilon="0.1", delta="1e-5")
        return time.perf_counter() - began

    with ThreadPoolExecutor(len(asked)) as pool:
        return list(pool.map(one, asked))


def here(found: Found) -> str:
    """In words."""
    at = found["counts"].index(60)
    words = []
    for name, one in found["chains"].items():
        access, reuse = one["access"][at]["last"], one["reuse"][at]["last"]
        unit = (
            f"{access / found['block_seconds']:.1f} and {reuse / found['block_seconds']:.1f} blocks"
            if name == BLOCKS
            else ""
        )
        words.append(
            f"{name}: {access:.2f} s with access to the data, {reuse:.2f} s by reuse{f' ({unit})' if unit else ''}"
        )
    text = "Sixty queries sent at once, until the last answer: " + "; ".join(words) + "."
    if BLOCKS not in found["chains"]:
        text += " anvil is not here, so nothing was measured over RPC."
    if "as_printed" in found:
        one = found["as_printed"]
        text += (
            f" With the paper's 15 s blocks: {one['access'][1]['last']:.0f} s and {one['reuse'][1]['last']:.0f} s "
            f"({one['access'][1]['last'] / PAPER_BLOCK:.1f} and {one['reuse'][1]['last'] / PAPER_BLOCK:.1f} blocks)."
        )
    for way, count, last, mean in list_peaks(found):
        text += (
            f" A peak at {count} queries ({way}): the mean waits {mean:.1f} blocks, the last {last:.1f}. It is no "
            f"trend: "
            "one round, whose last request took as long as one that waits for a second batch."
        )
    return text


def list_peaks(found: Found) -> list[tuple[str, int, float, float]]:
    """Where the last answer came blocks after the mean: way, number of queries, its blocks and the mean's."""
    rows = found["chains"].get(BLOCKS)
    if rows is None:
        return []
    block = found["block_seconds"]
    return [
        (way, count, one["last"] / block, one["mean"] / block)
        for way in ("access", "reuse")
        for count, one in zip(found["counts"], rows[way], strict=True)
        if one["last"] - one["mean"] >= PEAK_BLOCKS * block
    ]


def numbers(found: Found) -> list[Number]:
    """Speeds differ from machine to machine; that reuse takes fewer blocks than access does not."""
    if BLOCKS not in found["chains"]:
        return []
    block, one = found["block_seconds"], found["chains"][BLOCKS]
    return [Number("blocks until one answer from the data", one["access"][0]["last"] / block, 3, 2.5),
            Number("blocks until one reused answer", one["reuse"][0]["last"] / block, 1.5, 1.5)]  # fmt: skip


def draw(found: Found) -> Any:
    """One panel a chain, since their scales are decades apart."""
    chains = found["chains"]
    drawn = figure(3.9 * len(chains) + 0.4, 4.8)
    panels = drawn.subplots(1, len(chains), squeeze=False)[0]
    embedded, again = (chains[EMBEDDED][way][found["counts"].index(60)]["last"] for way in ("access", "reuse"))
    headline(
        drawn,
        f"Sixty queries at once take {embedded:.1f} s with looks at the data, {again:.1f} s by reuse; reuse also "
        "waits for fewer blocks",
        "Lines: until the last answer; shade: between the first and the last round. Dotted: mean of all answers.",
    )
    titles = {EMBEDDED: "embedded chain", INSTANT: "anvil, a block a transaction",
              BLOCKS: f"anvil, a block every {found['block_seconds']:g} s (paper: 15 s)"}  # fmt: skip
    for axes, (name, one) in zip(panels, chains.items(), strict=True):
        scale = found["block_seconds"] if name == BLOCKS else 1.0
        dress(
            axes,
            titles[name],
            "queries sent at once",
            "blocks until answered" if name == BLOCKS else "seconds until answered",
        )
        for way, colour, mark, label in (
            ("access", ORANGE, "s", "new queries: the data is read"),
            ("reuse", BLUE, "o", "asked before: reused"),
        ):
            rows = one[way]
            axes.plot(
                found["counts"],
                [row["last"] / scale for row in rows],
                color=colour,
                marker=mark,
                markersize=5,
                label=label,
            )
            axes.plot(
                found["counts"], [row["mean"] / scale for row in rows], color=colour, linestyle=":", linewidth=1.2
            )
            axes.fill_between(found["counts"], *([row["last_range"][end] / scale for row in rows] for end in (0, 1)),
                              color=colour, alpha=0.2, linewidth=0)  # fmt: skip
        axes.set_ylim(0)
        axes.set_xlim(0)
        if name == BLOCKS:
            for _, count, top, _ in list_peaks(found):
                axes.annotate("a second batch", (count, top), (4, -3), textcoords="offset points", fontsize=8,
                              color=INK)  # fmt: skip
        if name == BLOCKS and "as_printed" in found:
            for way, colour in (("access", ORANGE), ("reuse", BLUE)):
                last = [row["last"] / PAPER_BLOCK for row in found["as_printed"][way]]
                axes.plot(found["as_printed"]["counts"], last, "*", color=colour, markersize=11, markeredgecolor=GREY)
            axes.text(
                0.97, 0.05, "stars: with 15 s blocks", transform=axes.transAxes, ha="right", fontsize=9, color=INK
            )
    panels[0].legend(frameon=False, fontsize=9, loc="upper left")
    return drawn


EXHIBIT = Exhibit(
    name="p0-figure7",
    paper="P0",
    title="Figure 7: latency against the number of queries",
    printed="On a test chain with 15 s blocks: latency rises with the number of queries, steeply from 60 on; reused "
    "answers are faster than those that need the server (through the service Provable).",
    why="Here a look at the data takes two transactions (reserve before, publish after) and reuse takes one, so "
    "a single answer waits for two or three blocks, or for one. Up to 128 requests travel in one "
    "transaction, so there is no step at 60: what rises with their number is the bank's own work (parsing, "
    "reading, noise). A peak at one number of queries with a block a second, as at sixty in the chart of the pages, "
    "is no trend: there is one round for each number, the line shows its last answer, and that took twice the four "
    "blocks of the others, as a request does that waits for a second batch. No oracle service is in the way: the "
    "bank itself asks the contract.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "a survey of 5,000 people with the ranges that P0 prints",
    numbers=numbers,
    timed=True,
)
