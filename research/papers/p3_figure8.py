"""P3, Figure 8: throughput and latency of recording on the ledger and of asking it, at rising rates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

from noisebank.core.digests import keccak
from noisebank.core.entropy import SystemEntropy
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.node import Node
from noisebank.ledger.rpc import ChainLedger, deploy_contract
from research.benches.anvil import anvil_binary, fund, running_anvil
from research.benches.ledger import CURATOR, KEYS, OWNER, _account, _claim
from research.papers.charts import BLUE, GREEN, GREY, INK, ORANGE, dress, figure, headline, plain_ticks
from research.papers.exhibit import Exhibit, Found, Moved, Number

EMBEDDED, INSTANT, BLOCKS = "embedded", "anvil, a block a transaction", "anvil, a block a second"
ABOUT = 1
"""The public byte whose balance is asked for: P3's query type N."""
PRINTED: dict[str, dict[str, float]] = {
    "record": {"throughput": 50, "latency_at_50": 12.0, "capacity": 40},
    "query": {"throughput": 30, "capacity": 20},
}
WORKERS = 128


def run(quick: bool, moved: Moved) -> Found:
    """Open loop: transactions come at their rate, whether or not earlier ones are done."""
    rates = (10, 50, 200, 1000) if quick else (10, 20, 30, 40, 50, 100, 200, 500, 1000)
    seconds = 1.0 if quick else 4.0
    chains = [EMBEDDED]
    if anvil_binary() is not None:
        chains += [INSTANT] if quick else [INSTANT, BLOCKS]
    found: Found = {"rates": rates, "seconds": seconds, "printed": PRINTED, "chains": {}}
    done, total = 0, 2 * len(chains) * len(rates)
    for name in chains:
        with _ledger(name) as (record, query):
            found["chains"][name] = {"record": [], "query": []}
            for way, act in (("record", record), ("query", query)):
                for rate in rates:
                    found["chains"][name][way].append(offered(act, rate, seconds))
                    done += 1
                    moved(done, total)
    return found


def offered(act: Callable[[int], None], rate: float, seconds: float) -> Found:
    """What comes of so many a second: done a second, and the latency from the moment each one was due."""
    count = max(5, round(rate * seconds))
    latencies = [0.0] * count
    start = time.perf_counter() + 0.02
    due = [start + place / rate for place in range(count)]

    def one(place: int) -> float:
        act(place)
        ended = time.perf_counter()
        latencies[place] = ended - due[place]
        return ended

    with ThreadPoolExecutor(WORKERS) as pool:
        running = []
        for place, moment in enumerate(due):
            time.sleep(max(0.0, moment - time.perf_counter()))
            running.append(pool.submit(one, place))
        ended = max(each.result() for each in running)
    return {
        "throughput": count / max(ended - start, count / rate),
        "latency": float(np.mean(latencies)),
        "p95": float(np.quantile(latencies, 0.95)),
        "p05": float(np.quantile(latencies, 0.05)),
    }


@contextmanager
def _ledger(name: str) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Recording one spend, and asking for the balance: total, used, remaining."""
    entropy = SystemEntropy()
    with TemporaryDirectory(prefix="noisebank-papers-") as room:
        if name == EMBEDDED:
            journal = Journal(Path(room) / "journal.sqlite")
            create_chain(journal, CURATOR, entropy)
            chain: EmbeddedLedger | ChainLedger = EmbeddedLedger(journal, KEYS)
            account = _account(chain)
            turn = Lock()  # one machine, one caller: as the bank's own writer

            def ask(place: int) -> None:
                assert isinstance(chain, EmbeddedLedger)
                with turn:
                    chain._replay.evm.call_view(chain._replay.contract, "balance_on", account, ABOUT)

            yield _recorder(chain, account, entropy), ask
            chain.close()
            return
        with running_anvil(*(("--block-time", "1") if name == BLOCKS else ())) as url:
            fund(url, CURATOR.address, OWNER.address)
            where = deploy_contract(url, CURATOR)
            chain = ChainLedger(where, KEYS, Path(room) / "outbox.sqlite", poll_seconds=0.01)
            account, nodes = _account(chain), [Node(url) for _ in range(8)]
            yield _recorder(chain, account, entropy), lambda place: _balance(nodes, where.contract, account, place)
            chain.close()


def _balance(nodes: Sequence[Node], contract: str, account: bytes, place: int) -> None:
    nodes[place % len(nodes)].call_view(budget_ledger(), contract, "balance_on", account, ABOUT)


def _recorder(chain: EmbeddedLedger | ChainLedger, account: bytes, entropy: SystemEntropy) -> Callable[[int], None]:
    def record(place: int) -> None:
        chain.reserve(_claim(account, keccak(entropy.token())))

    return record


def here(found: Found) -> str:
    """In words."""
    words = []
    fifty = found["rates"].index(50)
    for name, one in found["chains"].items():
        record, query = one["record"], one["query"]
        most = [max(row["throughput"] for row in rows) for rows in (record, query)]
        words.append(
            f"{name}: at 50 a second {1000 * record[fifty]['latency']:.0f} ms to record and "
            f"{1000 * query[fifty]['latency']:.1f} ms to ask; up to {most[0]:.0f} records and {most[1]:.0f} questions "
            "a second"
        )
        if most[0] < found["rates"][-1] / 2:
            words[-1] += f" (beyond {most[0]:.0f} a second records wait)"
    return "; ".join(words) + f" (rates up to {found['rates'][-1]} were offered)."


def numbers(found: Found) -> list[Number]:
    """P3's most: 50 records and 30 questions a second. Ours keep up with both."""
    made = []
    fifty = found["rates"].index(50)
    for name, one in found["chains"].items():
        for way in ("record", "query"):
            made.append(Number(f"{name}: done of 50 a second, {way}", one[way][fifty]["throughput"], 50, 25))
    return made


def draw(found: Found) -> Any:
    """Four panels as in the paper."""
    drawn = figure(10.6, 7.0)
    grid = drawn.subplots(2, 2)
    fifty = found["rates"].index(50)
    latency = 1000 * found["chains"][EMBEDDED]["record"][fifty]["latency"]
    headline(
        drawn,
        f"At P3's largest load, 50 a second, the embedded ledger records in {latency:.0f} ms; Fabric took 12 s",
        f"Transactions arrive at the rate on the axis for {found['seconds']:g} s. Bands: 5% to 95% of the latencies.",
    )
    styles = {EMBEDDED: (BLUE, "o"), INSTANT: (ORANGE, "s"), BLOCKS: (GREEN, "^")}
    for column, (way, words) in enumerate((("record", "recording a spend"), ("query", "asking for the balance"))):
        upper, lower = grid[0][column], grid[1][column]
        dress(upper, f"{words}: done", "offered, a second", "done a second")
        dress(lower, f"{words}: latency", "offered, a second", "milliseconds")
        upper.plot(found["rates"], found["rates"], color=GREY, linestyle=":", linewidth=1)
        upper.text(
            found["rates"][0] * 1.1, found["rates"][0] * 2.0, "all that is offered", color=INK, fontsize=8, rotation=22
        )
        for name, one in found["chains"].items():
            colour, mark = styles[name]
            upper.loglog(
                found["rates"],
                [row["throughput"] for row in one[way]],
                color=colour,
                marker=mark,
                markersize=5,
                label=name,
            )
            lower.loglog(
                found["rates"], [1000 * row["latency"] for row in one[way]], color=colour, marker=mark, markersize=5
            )
            low, high = ([1000 * max(row[end], 1e-6) for row in one[way]] for end in ("p05", "p95"))
            lower.fill_between(found["rates"], low, high, color=colour, alpha=0.18, linewidth=0)
            most = max(row["throughput"] for row in one[way])
            if most < found["rates"][-1] / 2:
                upper.annotate(f"{most:.0f} a second", (found["rates"][-1], one[way][-1]["throughput"]), (-4, -11),
                               textcoords="offset points", ha="right", fontsize=8, color=INK)  # fmt: skip
        printed = PRINTED[way]["throughput"]
        upper.plot(printed, printed, "*", color="black", markersize=11, label="P3's most (Fabric)")
        if way == "record":
            lower.plot(50, 12_000, "*", color="black", markersize=11)
        for axes in (upper, lower):
            plain_ticks(axes.xaxis, [rate for rate in found["rates"] if rate not in (30, 40)])
    handles, labels = grid[0][0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p3-figure8",
    paper="P3",
    title="Figure 8: throughput and latency of the ledger",
    printed="Hyperledger Fabric under Caliper: up to 50 records and 30 questions a second; latency of records rises "
    "beyond 40 a second to about 12 s at 50, of questions beyond 20.",
    why="Another ledger (an EVM in the process, or anvil) and another machine, so the seconds cannot be "
    "compared; the shape can. The embedded ledger and anvil with a block a transaction keep up far beyond 50 a second. "
    "With a block a second, records that wait are sent together, so that it records more than a block would hold one "
    "by one, but it bends: the sentence above says at which rate. Fabric and Caliper are not set up: the contract "
    "runs on any EVM chain instead.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
    timed=True,
)
