"""How fast the service is: a server in one process, a load generator in another, beside bare endpoint and disk.

Three mixes: `reuse` (every question was answered before), `mixed` (every tenth is new), `paid` (all are new: each is
reserved, measured, sealed and published). Every request has an idempotency key of its own. Then the first and the last
through the batch endpoint, 1,000 questions per request. Then twice the load that it bears: whatever is not an answer
must be 429 or 503, and the books must balance.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median_low
from typing import Any

from noisebank.bank.bank import create_bank, open_bank
from noisebank.core.entropy import SystemEntropy
from noisebank.ledger.journal import JOURNAL_FILE as FILE_OF_JOURNAL
from noisebank.ledger.journal import Journal
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.roles import Role
from noisebank.verifier.verification import verify
from research.benches import load_generator as load
from research.benches.ledger import fsync_per_s
from research.benches.load_generator import Came, Load

Moved = Callable[[int, int], None]
SPAN = 1_000
ANALYSTS, KNOWN = 8, 50
CLIENTS = 32
"""Of the paid mix, whose target is stated for them."""
CROWD = 256
"""Connections of the other mixes."""
BATCH, BATCH_CLIENTS = 1_000, 4
"""Questions of a request to the batch endpoint, and how many clients send them."""
KEEPS_UP = 0.95
"""A rate is sustained if this share of it is answered by the time that the last answer comes."""
STEP, MOST_STEPS = 0.1, 8
"""How much more or less the next rate that is tried is, and how many are."""
ROUNDS = 3
"""Of reuse between bare endpoints. The speed of a shared machine changes by a third within a minute, for all alike:
each round is compared with the bare endpoint right before and after it, and the middle one counts."""
POLICY = """\
name = "readings"
source = "readings.parquet"
neighbours = "add-remove"
row_cap = 100000
[budget]
epsilon = 20
delta = 1e-6
[columns.site]
type = "integer"
bounds = [1, {span}]
[columns.level]
type = "integer"
bounds = [1, {span}]
"""
OPEN = {"NOISEBANK_RATE": "1e6", "NOISEBANK_BURST": "1000000", "NOISEBANK_OPEN_RATE": "1e6",
        "NOISEBANK_OPEN_BURST": "1000000"}  # fmt: skip
"""The paces of single keys are not what is measured."""


@dataclass(slots=True)
class Counterpart:
    """A served bank, and how to load it."""

    port: int
    process: int
    keys: tuple[str, ...]
    known: tuple[str, ...]
    first: int = 1
    cpu_ms: dict[str, float] = field(default_factory=dict)
    """The server's processor time a response: depends less on what else the machine does."""
    asked: Counter[str] = field(default_factory=Counter)

    def load(self, mix: str, connections: int, seconds: float, rate: float = 0.0, batch: int = 0) -> Came:
        """Runs the generator in its own process."""
        wanted = Load(
            self.port, mix, connections, seconds, rate, self.keys, self.known,
            '{"sql": "SELECT count(*) FROM readings WHERE site <= %d AND level <= %d", "sigma": "4000"}', self.first,
            SPAN, batch,
        )  # fmt: skip
        name = f"{mix} in batches" if batch else mix
        before = _cpu_seconds(self.process)
        ran = subprocess.run(
            [sys.executable, load.__file__], input=json.dumps(asdict(wanted)), text=True,
            stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        found = json.loads(ran.stdout)
        came = Came(**{**found, "statuses": Counter(found["statuses"]), "cases": Counter(found["cases"])})
        used = _cpu_seconds(self.process) - before
        self.cpu_ms[name] = round(used * 1e3 / max(1, came.answers if batch else sum(came.statuses.values())), 3)
        self.first += 10 * (came.asked * max(1, batch) // 10 + 1)
        self.asked.update({f"{name} {status}": count for status, count in came.statuses.items()})
        return came


def bench_service(quick: bool = False, moved: Moved = lambda done, total: None) -> dict[str, Any]:
    """All figures of `python -m research bench service`."""
    seconds, overload, rounds = (1.5, 4.0, 1) if quick else (5.0, 30.0, ROUNDS)
    steps = rounds + 5
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as room:
        folder = Path(room)
        keys = make_bank(folder)
        fsyncs = fsync_per_s(folder)
        with served(folder) as (port, process):
            server = Counterpart(port, process, keys, prepare(port, keys))
            moved(1, steps)
            bare = [sustained(server, "health", CROWD, seconds)]
            reuse = []
            for done in range(rounds):
                reuse.append(sustained(server, "reuse", CROWD, seconds))
                bare.append(sustained(server, "health", CROWD, seconds))
                moved(2 + done, steps)
            ratios = [
                2 * row["sustained_per_s"] / (before["sustained_per_s"] + after["sustained_per_s"])
                for row, before, after in zip(reuse, bare, bare[1:], strict=False)
            ]
            middle = ratios.index(median_low(ratios))
            mixes = {"reuse": reuse[middle]}
            for mix in ("mixed", "paid"):
                mixes[mix] = sustained(server, mix, CLIENTS if mix == "paid" else CROWD, seconds)
            moved(steps - 3, steps)
            alone = server.load("paid", 1, seconds)
            cpu_alone = server.cpu_ms[
                "paid"
            ]  # most of what one client waits for, and less a matter of the machine's load
            many = server.load("paid", CLIENTS, seconds)
            batches = {mix: batch_rates(server, mix, seconds) for mix in ("reuse", "paid")}
            moved(steps - 2, steps)
            over = server.load("mixed", 2_000, overload, 2 * mixes["mixed"]["sustained_per_s"])
            moved(steps - 1, steps)
        balance = books_balance(folder / "bank")
        moved(steps, steps)
    return {
        "fsync_per_s": round(fsyncs),
        "bare_endpoint_per_s": round(sum(row["sustained_per_s"] for row in bare) / len(bare)),
        "mixes": mixes,
        "reuse_of_bare": round(ratios[middle], 3),
        "reuse_of_bare_rounds": [round(ratio, 3) for ratio in ratios],
        "paid_per_s": {"1": round(alone.per_s, 1), str(CLIENTS): round(many.per_s, 1)},
        "batch_endpoint": batches,
        "clients_ratio": round(many.per_s / alone.per_s, 2),
        "overload": {
            "offered_per_s": round(2 * mixes["mixed"]["sustained_per_s"]), "seconds": overload, "asked": over.asked,
            "statuses": dict(over.statuses), "lost": over.lost, "answered_per_s": round(over.per_s, 1),
            "p99_ms": over.p99_ms, "books_balance": balance,
        },
        "server_cpu_ms": {**server.cpu_ms, "paid, one client": cpu_alone},
        "statuses": dict(server.asked),
    }  # fmt: skip


def sustained(server: Counterpart, mix: str, connections: int, seconds: float) -> dict[str, Any]:
    """The largest rate tried that the server keeps up with, and its latencies there.

    What many clients reach in a closed loop is where the search begins; then arrivals have a fixed rate, which grows
    while the server keeps up or falls until it does.
    """
    reached = server.load(mix, connections, seconds / 2).per_s
    best, kept = Came(), False
    rate, step = reached, 0.0
    for _ in range(MOST_STEPS):
        came = server.load(mix, connections, seconds, rate)
        keeps = came.answered == came.asked > 0 and came.per_s >= KEEPS_UP * rate > 0
        if keeps or not kept:
            best, kept = came, kept or keeps
        if step and keeps != (step > 0):
            break
        step = STEP if keeps else -STEP
        rate *= 1 + step
    return {
        "p50_ms": best.p50_ms, "p99_ms": best.p99_ms, "sustained_per_s": round(best.per_s, 1),
        "closed_loop_per_s": round(reached, 1), "kept_up": kept, "cases": dict(best.cases),
    }  # fmt: skip


def batch_rates(server: Counterpart, mix: str, seconds: float) -> dict[str, Any]:
    """Answers a second through the batch endpoint, in a closed loop of few clients with many questions each."""
    came = server.load(mix, BATCH_CLIENTS, seconds, batch=BATCH)
    return {
        "answers_per_s": round(came.per_s), "answers": came.answers, "cpu_ms": server.cpu_ms[f"{mix} in batches"],
        "p50_ms": came.p50_ms, "statuses": dict(came.statuses),
    }  # fmt: skip


def books_balance(bank: Path) -> bool:
    """Whether an outsider with the journal finds nothing wrong."""
    journal = Journal(bank / FILE_OF_JOURNAL)
    try:
        return verify(journal.read_lines()).passed
    finally:
        journal.close()


def make_bank(folder: Path, rows: int = 5_000) -> tuple[str, ...]:
    """A table, a bank, an account, analysts with limits; their keys."""
    import duckdb

    table = f"SELECT 1 + i * 7919 % {SPAN} AS site, 1 + i * 104729 // 7 % {SPAN} AS level FROM range({rows}) r(i)"
    duckdb.execute(f"COPY ({table}) TO '{folder / 'readings.parquet'}' (FORMAT parquet)")
    (folder / "readings.toml").write_text(POLICY.format(span=SPAN))
    create_bank(folder / "bank")
    keys = []
    with open_bank(folder / "bank") as bank:
        account = bank.open_account(folder / "readings.toml")
        access = AccessControl(folder / "bank" / ACCESS_FILE, SystemEntropy())
        for number in range(ANALYSTS):
            name = f"analyst-{number}"
            account.ledger.set_limit(account.id, account.analyst(name), account.state.budget.units)
            account.vault.save_analyst(account.id, account.analyst(name), name)
            access.add_person(name, Role.ANALYST)
            keys.append(access.make_key(name)[0])
        access.close()
    return tuple(keys)


@contextmanager
def served(folder: Path, extra: dict[str, str] | None = None) -> Iterator[tuple[int, int]]:
    """`noisebank serve` in its own process, with a log that is kept; its port and its number."""
    log = (folder / "log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "noisebank", "serve", "--bank", str(folder / "bank"), "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=log, env={**os.environ, **OPEN, **(extra or {})},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        text = b""
        while b"}" not in text:
            line = process.stdout.readline()
            if not line:
                raise AssertionError(f"the server ended: {(folder / 'log').read_text()[-2000:]}")
            text += line
        yield int(json.loads(text)["address"].rpartition(":")[2]), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
        log.close()


def _cpu_seconds(process: int) -> float:
    """Processor time of a process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def prepare(port: int, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Questions that the bank has answered; their bodies."""
    import httpx

    bodies = [
        json.dumps({"sql": f"SELECT count(*) FROM readings WHERE site <= {10 * place + 3}", "sigma": "2000"})
        for place in range(KNOWN)
    ]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for place, body in enumerate(bodies):
            headers = {"authorization": f"Bearer {keys[0]}", "idempotency-key": f"known-{place}"}
            client.post(
                "/v1/datasets/readings/answers",
                content=body,
                headers={**headers, "content-type": "application/json"},
            ).raise_for_status()
    return tuple(bodies)
