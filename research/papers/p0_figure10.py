"""P0, Figure 10: CPU of fifty queries with and without the contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from noisebank.account.account import Account
from noisebank.planning.pricing import parse_accuracy
from noisebank.privacy.noise import NormalLaw, fresh_variance
from noisebank.privacy.noise import draw_value as drawn_from
from research.benches.anvil import anvil_binary, anvil_process, cpu_seconds
from research.papers.charts import BLUE, GREY, INK, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number
from research.papers.p0_figure7 import BUDGET, _queries
from research.papers.seeded import SeededEntropy, survey_account

QUERIES = 50
DIRECT, EMBEDDED, NODE = "no contract", "embedded chain", "anvil"
IDLE = 3.0
"""Seconds over which an idle node is watched."""


def run(quick: bool, moved: Moved) -> Found:
    """Milliseconds of CPU a query, of this process and of the node; several rounds of fifty."""
    rounds = 2 if quick else 5
    found: Found = {"queries": QUERIES, "rounds": rounds, "ways": {}}
    with survey_account(7, BUDGET) as account:
        _direct(account, _queries(5))
        _asked(account, _queries(5, 900))
        found["ways"][DIRECT] = {"ours": _rounds(rounds, lambda some: _direct(account, some)), "node": [0.0]}
        moved(1, 4)
        found["ways"][EMBEDDED] = {"ours": _rounds(rounds, lambda some: _asked(account, some)), "node": [0.0]}
        repeats = _rounds(rounds, lambda some: _asked(account, some))
        found["ways"][f"{EMBEDDED}, reused"] = {"ours": repeats, "node": [0.0]}
        moved(2, 4)
    if anvil_binary() is not None:
        with anvil_process() as (url, pid), survey_account(7, BUDGET, url) as account:
            _asked(account, _queries(5, 900))
            before = cpu_seconds(pid)
            ours = _rounds(rounds, lambda some: _asked(account, some))
            node = 1000 * (cpu_seconds(pid) - before) / (rounds * QUERIES)
            found["ways"][NODE] = {"ours": ours, "node": [node]}
            found["idle_percent"] = {"a block a transaction": _idle(pid)}
        moved(3, 4)
        with anvil_process("--block-time", "1") as (_, pid):
            found["idle_percent"]["a block every second"] = _idle(pid)
    moved(4, 4)
    return found


def _rounds(rounds: int, act: Callable[[Sequence[str]], None]) -> list[float]:
    """CPU milliseconds a query in each round, all threads of this process."""
    spent = []
    for number in range(rounds):
        began = time.process_time()
        act(_queries(QUERIES, 10 + number * QUERIES))
        spent.append(1000 * (time.process_time() - began) / QUERIES)
    return spent


def _direct(account: Account, asked: Sequence[str]) -> None:
    """As if analysts called the server themselves: parse, price, read, add noise. Nothing is recorded."""
    entropy = SeededEntropy(1)
    for sql in asked:
        question = account.parse(sql)
        moves = account.context.sensitivity_of(question.query)
        wanted = account.context.target_precision(question, parse_accuracy(epsilon="0.1", delta="1e-5"))
        drawn_from(
            NormalLaw(Fraction(account.engine.statistic(question.query)), fresh_variance(moves * moves, wanted)),
            entropy,
        )


def _asked(account: Account, asked: Sequence[str]) -> None:
    """The one path."""
    for sql in asked:
        account.ask(sql, epsilon="0.1", delta="1e-5")


def _idle(pid: int) -> float:
    """Per cent of a core that a node without work takes."""
    before = cpu_seconds(pid)
    time.sleep(IDLE)
    return 100 * (cpu_seconds(pid) - before) / IDLE


def _total(one: Found) -> float:
    return float(np.mean(one["ours"])) + float(one["node"][0])


def here(found: Found) -> str:
    """In words."""
    words = [f"{name} {_total(one):.1f} ms" for name, one in found["ways"].items()]
    ratio = _total(found["ways"][EMBEDDED]) / _total(found["ways"][DIRECT])
    text = f"CPU a query: {', '.join(words)}. The embedded contract costs {ratio:.1f} times the CPU of no contract."
    if "idle_percent" in found:
        idle = [f"{share:.1f}% ({name})" for name, share in found["idle_percent"].items()]
        text += f" An idle node takes {' and '.join(idle)} of a core."
    return text


def numbers(found: Found) -> list[Number]:
    """Milliseconds differ between machines; that the contract costs more than none, and not a hundredfold, does not."""
    ratio = _total(found["ways"][EMBEDDED]) / _total(found["ways"][DIRECT])
    return [Number("CPU with the contract over CPU without, at least 1, at most 20", ratio, 10.5, 9.5)]


def draw(found: Found) -> Any:
    """Bars, with the rounds as marks."""
    drawn = figure(8.4, 4.2)
    ways = found["ways"]
    extra = _total(ways[EMBEDDED]) - _total(ways[DIRECT])
    again = _total(ways[f"{EMBEDDED}, reused"])
    headline(drawn, f"The contract adds {extra:.0f} ms of CPU to a query; a reused answer takes {again:.0f} ms in all")
    axes = dress(
        drawn.subplots(),
        "",
        f"milliseconds of CPU a query ({QUERIES} queries a round; marks: the bank's in single rounds)",
        "",
    )
    labels = {DIRECT: "no contract:\nread, add noise, record nothing", EMBEDDED: "noisebank, embedded chain",
              f"{EMBEDDED}, reused": "noisebank, embedded chain,\nasked before: reused", NODE: "noisebank, node apart "
              "(anvil)"}  # fmt: skip
    for place, (_, one) in enumerate(ways.items()):
        ours, node = float(np.mean(one["ours"])), float(one["node"][0])
        axes.barh(
            place, ours, color=BLUE if place else GREY, height=0.6, label="bank's process" if place == 1 else None
        )
        if node:
            axes.barh(place, node, left=ours, color=ORANGE, height=0.6, label="node's process")
        axes.plot(one["ours"], [place] * len(one["ours"]), "|", color="black", markersize=12)
        end = max(ours + node, *one["ours"])  # beside the marks of single rounds, not across them
        axes.text(end, place, f"  {ours + node:.1f} ms", va="center", fontsize=10, color=INK)
    axes.set_yticks(range(len(ways)), [labels[name] for name in ways])
    axes.invert_yaxis()
    axes.set_xlim(0, max(_total(one) for one in ways.values()) * 1.15)
    axes.legend(frameon=False, loc="upper right")
    return drawn


EXHIBIT = Exhibit(
    name="p0-figure10",
    paper="P0",
    title="Figure 10: CPU with and without the contract",
    printed="Bars without numbers: fifty queries through Node.js and three mining nodes take more CPU than the "
    "server alone, acceptably more. Remedy: mine only while there is work.",
    why="The same finding, in milliseconds a query instead of a share of a laptop. Nothing is mined here: the "
    "embedded chain works only when it is asked, and anvil with a block a transaction hardly does anything "
    "while idle (the paper's remedy, for free). Three geth nodes are not set up here: proof-of-work mining "
    "has left Ethereum and geth.",
    run=run,
    here=here,
    draw=draw,
    made_up=lambda found: "a survey of 5,000 people with the ranges that P0 prints",
    numbers=numbers,
    timed=True,
)
