"""`ModelRegistry`: the model registry contract over JSON-RPC, on any chain or on a development chain."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from noisebank.core.digests import keccak
from noisebank.core.errors import BadLedger, BadRequest
from noisebank.federated.blockfl.books import Phase, Posted, TaskBooks
from noisebank.federated.blockfl.sortition import LotKey
from noisebank.ledger.abi import Value, model_registry
from noisebank.ledger.node import Node, NodeError, raw_log, transact
from noisebank.ledger.signing import Key

GAS, DEPLOY_GAS = 5_000_000, 6_000_000
"""Gas limits, above what docs/results/crowd-gas.md measures."""
PATIENCE = 120.0


@dataclass(frozen=True)
class Stage:
    """The contract's current state of a task; `since` is the Unix time of its last change of phase."""

    phase: Phase
    round: int
    attempt: int
    since: int
    seed: bytes
    submitted: int


class Registry:
    """Reads the books of tasks and sends calls signed by a key. What a call changes is in a block on return."""

    def __init__(self, where: str | Node, contract: str | None = None, timeout: float = 20.0) -> None:
        self.node = Node(where, timeout) if isinstance(where, str) else where
        self.chain_id = self.node.chain_id()
        self.contract = contract.lower() if contract else own_contract(self.node, "model_registry")
        if self.node.code(self.contract) != model_registry().runtime:
            raise BadLedger(f"the code at {self.contract} is not this version's model registry")
        self._books: dict[bytes, tuple[TaskBooks, int]] = {}
        self._every: dict[bytes, TaskBooks] = {}
        self.turn = threading.Lock()
        """Held while the followed books are written, and by whoever reads them meanwhile."""
        self._followed, self._hash = -1, b""
        self.behind = 0
        """Blocks that `follow_tasks` has still to read."""

    def post(self, key: Key, *arguments: Value) -> bytes:
        """Post a task; return its id."""
        receipt = self.send(key, "post", *arguments)
        return bytes.fromhex(receipt["logs"][0]["topics"][1][2:])

    def join(self, key: Key, lot: LotKey, task: bytes, stake: int = 0) -> None:
        """Join a task: register a member's sortition key with a proof of possession, and pay the stake."""
        member_word = bytes(12) + bytes.fromhex(key.address[2:])
        message = keccak(_word(self.chain_id), self._here(), task, member_word)
        self.send(key, "join", task, *lot.public.words, *lot.sign(message), value=stake)

    def draw(self, key: Key, lot: LotKey, task: bytes, stage: Stage) -> None:
        """Send a member's lot."""
        message = self.lot_message(task, stage.round, stage.attempt, stage.seed)
        self.send(key, "draw", task, stage.round, stage.attempt, *lot.sign(message))

    def lot_message(self, task: bytes, round: int, attempt: int, seed: bytes) -> bytes:
        """Return the message whose signature is a lot."""
        return keccak(_word(self.chain_id), self._here(), task, _word(round), _word(attempt), seed)

    def send(self, key: Key, function: str, *arguments: Value, value: int = 0) -> dict[str, Any]:
        """Send one call, wait until it is in a block, return its receipt. `LedgerRefused` has the contract's reason."""
        data = model_registry().call(function, *arguments)
        return transact(self.node, key, self.chain_id, self.contract, data, GAS, PATIENCE, value)

    def move_on(self, key: Key, task: bytes) -> None:
        """End the wait for whoever is late.

        Not simulated first: a node may do that at the time of the newest block, when it was too early.
        """
        data = model_registry().call("move_on", task)
        transact(self.node, key, self.chain_id, self.contract, data, GAS, PATIENCE, tried=False)

    def stage(self, task: bytes) -> Stage:
        """Return the current stage of a task."""
        words = self.node.view(model_registry(), self.contract, "stages", task)
        if not words[0]:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        return Stage(Phase(words[0]), words[1], words[2], words[3], words[4], words[8])

    def books(self, task: bytes) -> TaskBooks:
        """Return the books of a task; reads only the events since the last call."""
        head = self.node.head()
        books, done = self._books.get(task, (None, -1))
        entries = self.node.logs(self.contract, done + 1, head, [None, "0x" + task.hex()]) if head > done else []
        for entry in entries:
            name, event = model_registry().decode_event(*raw_log(entry))
            if name == "TaskPosted":
                books = TaskBooks(_posted(event))
            elif books is not None:
                books.write(name, event, int(entry["blockNumber"], 16))
        if books is None:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        self._books[task] = (books, head)
        return books

    def tasks(self) -> list[bytes]:
        """Return the ids of all posted tasks, oldest first."""
        topic = next(topic for topic, event in model_registry().events.items() if event.name == "TaskPosted")
        entries = self.node.logs(self.contract, 0, self.node.head(), ["0x" + topic.hex()])
        return [bytes.fromhex(entry["topics"][1][2:]) for entry in entries]

    @property
    def known(self) -> dict[bytes, TaskBooks]:
        """The books that were followed so far, by task."""
        return self._every

    def follow(self, most: int | None = None) -> dict[bytes, TaskBooks]:
        """Return the books of every task, oldest first; reads only the events since the last call.

        If the block where that ended has changed, the chain was rolled back, and everything is read anew. Reads at most
        `max_blocks` blocks, if given; `blocks_behind` says how many are left.
        """
        known = self.node.block_hash(self._followed) if self._followed >= 0 else None
        start = 0 if known is not None and known != self._hash else self._followed + 1
        newest = self.node.head()
        head = newest if most is None else min(newest, start + most - 1)
        hash = self.node.block_hash(head)
        entries = self.node.logs(self.contract, start, head) if head >= start else []
        with self.turn:
            if start == 0:
                self._every.clear()
            for entry in entries:
                name, event = model_registry().decode_event(*raw_log(entry))
                task = bytes.fromhex(entry["topics"][1][2:])
                if name == "TaskPosted":
                    self._every[task] = TaskBooks(_posted(event))
                else:
                    self._every[task].write(name, event, int(entry["blockNumber"], 16))
            if head >= start and hash is not None:
                self._followed, self._hash = head, hash
            self.behind = max(0, newest - self._followed)
        return self._every

    def _here(self) -> bytes:
        return bytes(12) + bytes.fromhex(self.contract[2:])


def own_contract(node: Node, name: str) -> str:
    """Return the address of a development chain's own contract, by its name."""
    try:
        return str(node.ask("noisebank_contracts")[name])
    except (NodeError, KeyError, TypeError):
        raise BadLedger(f"{node.name} is no crowd's own chain: name the contract's address") from None


def deploy_registry(url: str, key: Key) -> str:
    """Deploy the registry on a chain; `key` pays. Returns its address."""
    node = Node(url)
    receipt = transact(node, key, node.chain_id(), "", model_registry().initcode, DEPLOY_GAS, PATIENCE)
    return str(receipt["contractAddress"]).lower()


def _posted(said: dict[str, Any]) -> Posted:
    return Posted(
        said["task"], said["poster"], said["model"], said["terms"], said["rounds"], said["byzantine"],
        said["seats"], said["patience"], said["norm"], said["printed"], said["stake"],
    )  # fmt: skip


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")
