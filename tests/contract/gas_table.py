"""What each operation of the contract costs on a real node, and which storage words it pays for.

    PYTHONPATH=src:tests .venv/bin/python -m contract.gas_table

writes docs/results/gas.md. `test_gas.py` holds the figures to their limits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from contract.node import Node, OnAnvil
from contract.real import CURATOR, OWNER, PLENTY, THE_OWNER, WHOLE, Row, contract_under_test, word
from support.internals import keccak
from support.paths import ROOT

TABLE = ROOT / "docs" / "results" / "gas.md"
MAPS = (
    "differences", "accounts", "opened_by", "pending_raise", "pending_owner", "pending_curator", "cells_of", "spent_on",
    "reservations", "desk", "money", "view", "record", "older", "largest", "seen",
)  # fmt: skip
"""Of the contract, in the order in which the compiler places them."""
BUYS = {
    "desk": "who may reserve, for which version, and whether the account is paused",
    "money": "the budget is enforced; spend and number of measurements are on record",
    "reservations": "this id is never charged or measured twice, and its answer is published once",
    "record": "this query is never paid twice: number of records and the best precision",
    "older": "a weaker record can still be named for REPEAT and BLUR",
    "view": "the analyst's limit is enforced",
    "seen": "the analyst is not charged twice for what was delivered before",
    "spent_on": "what was spent under each public byte can be asked from the chain",
    "cells_of": "the size of the cube",
    "largest": "the cube's spend: its largest cell",
    "differences": "one node of the cube's tree that the run cuts",
}
NEW, CHANGED, READ = 22_100, 5_000, 2_100
"""Gas of a new word, a changed word and a read one, each cold."""
STEADY_RUNS, BATCHED_RUNS, MEASURED_RUNS = 384, 24, 60
ABOUT = 17


@dataclass(frozen=True)
class Operation:
    """What was measured."""

    name: str
    gas: tuple[int, ...]
    """Per record, of each time."""
    most: int | None = None
    """What it may cost."""
    new: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    """Words, of the most expensive time."""

    @property
    def cleared(self) -> bool:
        return self.most is None or max(self.gas) <= self.most


class Meter:
    """An account in steady state: two analysts, cubes of 1,024 and 2^20 cells, and everything used before."""

    def __init__(self, node: Node, seed: int = 1) -> None:
        self.random = Random(seed)
        self.chain = OnAnvil(node, contract_under_test())
        self.account = self.chain.open(budget=2**95, cubes=[1024, 2**20])
        self.analyst, self.newcomer = self.digest(), self.digest()
        for analyst in (self.analyst, self.newcomer):
            self.chain.call(OWNER, "set_limit", self.account, analyst, PLENTY)
            self.reserve(self.claim(analyst=analyst))

    def operations(self) -> Iterator[Operation]:
        """All of them, each measured in the state that the earlier ones left."""
        seen = self.digest()
        yield self.measured("FIRST", self.claim(query=seen, wanted=10**16), most=150_000)
        yield self.measured("REPEAT", self.claim(query=seen, wanted=10**16), most=50_000)
        yield self.measured(
            "REPEAT, for an analyst who has not seen it",
            self.claim(query=seen, wanted=10**16, analyst=self.newcomer),
            most=90_000,
        )
        yield self.measured("REPEAT, for the owner", self.claim(query=seen, wanted=10**16, analyst=THE_OWNER))
        yield self.measured("REFINE", self.claim(query=seen, wanted=2 * 10**16))
        yield self.measured("REPEAT of an older record", self.claim(query=seen, wanted=10**16))
        yield self.measured("BLUR", self.claim(query=seen, wanted=10**15))
        yield from self.batches()
        yield from self.runs(1, 1024, most=300_000)
        yield self.measured("INFER in a cube", self.claim(wanted=0, cube=1))
        yield from self.runs(2, 2**20)

    def batches(self) -> Iterator[Operation]:
        claims = [self.claim() for _ in range(100)]
        receipt = self.send("reserve_many", tuple(claims), ())
        yield self.operation("FIRST in a batch of 100, a record", [receipt], 100, claims, most=90_000)
        seals = [(claim[0], self.digest(), True) for claim in claims]
        yield self.operation("publish", [self.send("publish", tuple(seals[:1]))], 1, claims)
        yield self.operation(
            "publish in a batch of 99, a record", [self.send("publish_many", tuple(seals[1:]))], 99, claims
        )

    def runs(self, cube: int, cells: int, most: int | None = None) -> Iterator[Operation]:
        """Single random runs after many others."""
        for _ in range(STEADY_RUNS // BATCHED_RUNS):
            claims = [self.claim(cube=cube, runs=1) for _ in range(BATCHED_RUNS)]
            self.send("reserve_many", tuple(claims), tuple(self.run(cells) for _ in claims))
        receipts, worst = [], (0, self.claim(), self.run(cells))
        for _ in range(MEASURED_RUNS):
            claim, run = self.claim(cube=cube, runs=1), self.run(cells)
            receipts.append(self.send("reserve", (claim,), (run,)))
            worst = max(worst, (gas_of(receipts[-1]), claim, run))
        _, claim, run = worst
        yield self.operation(f"FIRST with a run over {cells:,} cells", receipts, 1, [claim], [run], cells, most)

    # -- parts -----------------------------------------------------------------------------------

    def digest(self) -> bytes:
        return self.random.randbytes(32)

    def run(self, cells: int) -> Row:
        start, last = sorted(self.random.choices(range(cells), k=2))
        return start, last + 1, WHOLE

    def claim(
        self,
        query: bytes | None = None,
        wanted: int | None = None,
        analyst: bytes | None = None,
        cube: int = 0,
        runs: int = 0,
    ) -> Row:
        wanted = self.random.randrange(10**14, 10**16) if wanted is None else wanted
        who = self.analyst if analyst is None else analyst
        return (self.digest(), query or self.digest(), who, ABOUT, cube, wanted, PLENTY, runs, True)

    def send(self, function: str, *arguments: Any) -> dict[str, Any]:
        """The receipt of a call that must succeed."""
        data = self.chain.contract.encode_call(function, self.account, *arguments)
        receipt = self.chain._send(CURATOR, self.chain.address, data)
        assert receipt["status"] == "0x1" and len(receipt["logs"]) == len(arguments[0]), function
        return receipt

    def reserve(self, claim: Row) -> dict[str, Any]:
        return self.send("reserve", (claim,), ())

    def measured(self, name: str, claim: Row, most: int | None = None) -> Operation:
        return self.operation(name, [self.reserve(claim)], 1, [claim], most=most)

    def operation(
        self,
        name: str,
        receipts: Sequence[dict[str, Any]],
        records: int,
        claims: Sequence[Row],
        runs: Sequence[Row] = (),
        cells: int = 0,
        most: int | None = None,
    ) -> Operation:
        worst = max(receipts, key=gas_of)
        names = self.names(claims, runs, cells)
        touched = self.trace(worst, whole=True)
        before, after = touched, self.trace(worst, whole=False)
        new, changed, read = Counter[str](), Counter[str](), Counter[str]()
        for slot in touched:
            kind = read if slot not in after else changed if before[slot] else new
            kind[names[slot]] += 1
        gas = tuple(-(-gas_of(receipt) // records) for receipt in receipts)
        return Operation(name, gas, most, new, changed, read)

    def trace(self, receipt: dict[str, Any], whole: bool) -> dict[int, int]:
        """The contract's words that a transaction touched, before it; or those that it changed, after it."""
        how = {"tracer": "prestateTracer", "tracerConfig": {"diffMode": not whole}}
        traced = self.chain.node.rpc("debug_traceTransaction", receipt["transactionHash"], how)
        if whole:
            return _words(traced[self.chain.address])
        post, pre = (_words(traced[side].get(self.chain.address, {})) for side in ("post", "pre"))
        return dict.fromkeys(pre, 0) | post

    def names(self, claims: Sequence[Row], runs: Sequence[Row], cells: int) -> dict[int, str]:
        """Which word is where, for these claims."""
        place = {name: word(number) for number, name in enumerate(MAPS)}
        account = self.account
        named = {keccak(place[name], account): name for name in ("desk", "money")}
        for id, query, analyst, about, cube, *_ in claims:
            tree = keccak(account, word(1), word(cube))
            own = b"".join(word(number) for run in runs for number in run)  # type: ignore[arg-type]
            key = keccak(tree, query, word(96), word(len(runs)), own) if runs else keccak(tree, query)
            entry = keccak(tree, analyst) if cube else keccak(tree, analyst, query)
            for name, *keys in (
                ("reservations", account, id),
                ("view", account, analyst),
                ("spent_on", account, word(about)),
                ("cells_of", account, word(cube)),
                ("record", key),
                ("largest", tree),
                ("seen", entry),
                *(("older", key, word(number)) for number in range(4)),
                *(("differences", tree, word(node)) for run in runs for node in cut_nodes(cells, *run[:2])),
            ):
                slot = place[name]
                for part in keys:
                    slot = keccak(slot, part)
                named[slot] = name
        return {int.from_bytes(slot, "big"): name for slot, name in named.items()}


def cut_nodes(cells: int, start: int, stop: int) -> set[int]:
    """The ancestors of a run's first and last cell."""
    return {(cells + cell) >> height for cell in (start, stop - 1) for height in range(1, cells.bit_length())}


def gas_of(receipt: dict[str, Any]) -> int:
    return int(receipt["gasUsed"], 16)


def measured(node: Node) -> list[Operation]:
    """Every operation, on a fresh contract."""
    return list(Meter(node).operations())


def table(operations: Sequence[Operation]) -> str:
    """The page."""
    lines = [
        "# Gas",
        "",
        "Measured on anvil (Cancun), in steady state: the account, the analyst's view, the public byte and the",
        "cubes were used before. Written by `PYTHONPATH=src:tests python -m contract.gas_table`;",
        "`tests/contract/test_gas.py` holds the figures to the limits.",
        "",
        f"A word of storage costs {NEW:,} gas when it is new, {CHANGED:,} when it changes and {READ:,} when it is only",
        "read. The rest of a transaction is its base fee of 21,000, its calldata, its log and computing.",
        "",
        "| operation | gas | limit | new words | changed words | read only |",
        "|---|---:|---:|---|---|---|",
    ]
    for made in operations:
        gas = f"{made.gas[0]:,}" if len(made.gas) == 1 else f"{round(mean(made.gas)):,} (at most {max(made.gas):,})"
        limit = f"{made.most:,}" if made.most else ""
        words = " | ".join(_list(kind) for kind in (made.new, made.changed, made.read))
        lines.append(f"| {made.name} | {gas} | {limit} | {words} |")
    lines += [
        "",
        f"Runs: {MEASURED_RUNS} random ones after {STEADY_RUNS} others, mean and most; the words are those of the most",
        "expensive. Batches: gas a record, words of the whole batch. Its records share the base fee and the words that",
        "stay warm (desk, money, view, public byte), which cost 100 gas after the first.",
        "",
        "## What each word buys",
        "",
        "| word | what it buys |",
        "|---|---|",
        *(f"| {_shown(name)} | {text} |" for name, text in BUYS.items()),
    ]
    return "\n".join(lines) + "\n"


def _list(words: Counter[str]) -> str:
    order = list(BUYS)
    return ", ".join(
        _shown(name) if count == 1 else f"{count} {_shown(name)}"
        for name, count in sorted(words.items(), key=lambda item: order.index(item[0]))
    )


def _shown(name: str) -> str:
    return {"differences": "node", "reservations": "id", "spent_on": "public byte", "cells_of": "cells"}.get(name, name)


def _words(state: dict[str, Any]) -> dict[int, int]:
    return {int(slot, 16): int(value, 16) for slot, value in state.get("storage", {}).items()}


if __name__ == "__main__":
    with Node() as node:
        TABLE.write_text(table(measured(node)))
    print(TABLE.relative_to(Path.cwd()) if TABLE.is_relative_to(Path.cwd()) else TABLE)
