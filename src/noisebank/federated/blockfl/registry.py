"""The model registry on any chain behind JSON-RPC: somebody else's, or one's own behind its door."""

from __future__ import annotations

import threading
from collections.abc import Sequence
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
"""Above what docs/results/crowd-gas.md measures."""
PATIENCE = 120.0


@dataclass(frozen=True)
class Stage:
    """A task's stage as the contract has it now."""

    phase: Phase
    round: int
    attempt: int
    since: int
    seed: bytes
    submitted: int


class Registry:
    """Reads a task's books; sends a key's calls. Whatever a call changes is in a block on return."""

    def __init__(self, where: str | Node, contract: str | None = None, timeout: float = 20.0) -> None:
        self.node = Node(where, timeout) if isinstance(where, str) else where
        self.chain_id = self.node.chain_id()
        self.contract = contract.lower() if contract else self._find()
        if self.node.code(self.contract) != model_registry().runtime:
            raise BadLedger(f"the code at {self.contract} is not this version's model registry")
        self._books: dict[bytes, tuple[TaskBooks, int]] = {}
        self._every: dict[bytes, TaskBooks] = {}
        self.turn = threading.Lock()
        """Of whoever writes what was followed, or reads it meanwhile."""
        self._followed, self._hash = -1, b""
        self.behind = 0
        """Blocks that `follow` has still to read."""

    def post(self, key: Key, *arguments: Value) -> bytes:
        """Posts a task; its id."""
        receipt = self.send(key, "post", *arguments)
        return bytes.fromhex(receipt["logs"][0]["topics"][1][2:])

    def join(self, key: Key, lot: LotKey, task: bytes, stake: int = 0) -> None:
        """Brings a member's key for lots, proved, with the stake."""
        who = bytes(12) + bytes.fromhex(key.address[2:])
        message = keccak(_word(self.chain_id), self._here(), task, who)
        self.send(key, "join", task, *lot.public.words, *lot.sign(message), value=stake)

    def draw(self, key: Key, lot: LotKey, task: bytes, stage: Stage) -> None:
        """Shows a member's lot."""
        message = self.lot_message(task, stage.round, stage.attempt, stage.seed)
        self.send(key, "draw", task, stage.round, stage.attempt, *lot.sign(message))

    def lot_message(self, task: bytes, round: int, attempt: int, seed: bytes) -> bytes:
        """What a lot signs."""
        return keccak(_word(self.chain_id), self._here(), task, _word(round), _word(attempt), seed)

    def send(self, key: Key, function: str, *arguments: Value, value: int = 0) -> dict[str, Any]:
        """One transaction until it is in a block; its receipt. `LedgerRefused` in the contract's words."""
        data = model_registry().call(function, *arguments)
        return transact(self.node, key, self.chain_id, self.contract, data, GAS, PATIENCE, value)

    def move_on(self, key: Key, task: bytes) -> None:
        """Ends the wait for whoever is late. Not tried first: a node may answer for the newest block, which is old."""
        data = model_registry().call("move_on", task)
        transact(self.node, key, self.chain_id, self.contract, data, GAS, PATIENCE, tried=False)

    def stage(self, task: bytes) -> Stage:
        """Where a task stands."""
        found = self.node.view(model_registry(), self.contract, "stages", task)
        if not found[0]:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        return Stage(Phase(found[0]), found[1], found[2], found[3], found[4], found[8])

    def books(self, task: bytes) -> TaskBooks:
        """Everything that was logged about a task, read on from where the last reading ended."""
        head = self.node.head()
        books, done = self._books.get(task, (None, -1))
        found = self.node.logs(self.contract, done + 1, head, [None, "0x" + task.hex()]) if head > done else []
        for entry in found:
            name, said = model_registry().decode_event(*raw_log(entry))
            if name == "TaskPosted":
                books = TaskBooks(_posted(said))
            elif books is not None:
                books.write(name, said, int(entry["blockNumber"], 16))
        if books is None:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        self._books[task] = (books, head)
        return books

    def tasks(self) -> list[bytes]:
        """All that were posted, oldest first."""
        topic = next(topic for topic, event in model_registry().events.items() if event.name == "TaskPosted")
        found = self.node.logs(self.contract, 0, self.node.head(), ["0x" + topic.hex()])
        return [bytes.fromhex(entry["topics"][1][2:]) for entry in found]

    @property
    def known(self) -> dict[bytes, TaskBooks]:
        """What was followed so far."""
        return self._every

    def follow(self, most: int | None = None) -> dict[bytes, TaskBooks]:
        """The books of every task, oldest first, read on from where the last call ended: for whoever shows them all.

        If the block where it ended has changed since, the chain was rolled back: all is read anew. With `most`, no
        more than so many blocks are read at once; `behind` says how many are left.
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
                name, said = model_registry().decode_event(*raw_log(entry))
                task = bytes.fromhex(entry["topics"][1][2:])
                if name == "TaskPosted":
                    self._every[task] = TaskBooks(_posted(said))
                else:
                    self._every[task].write(name, said, int(entry["blockNumber"], 16))
            if head >= start and hash is not None:
                self._followed, self._hash = head, hash
            self.behind = max(0, newest - self._followed)
        return self._every

    def now(self) -> int:
        """The newest block's time."""
        return self.node.time(self.node.head())

    def _here(self) -> bytes:
        return bytes(12) + bytes.fromhex(self.contract[2:])

    def _find(self) -> str:
        """The registry on one's own chain, whose door knows it."""
        return own_contract(self.node, "model_registry")


def own_contract(node: Node, name: str) -> str:
    """A contract on one's own chain, by its name."""
    try:
        return str(node.ask("noisebank_contracts")[name])
    except (NodeError, KeyError, TypeError):
        raise BadLedger(f"{node.name} is no crowd's own chain: name the contract's address") from None


def deploy_registry(url: str, key: Key) -> str:
    """Puts the registry on a chain; `key` pays. Its address."""
    node = Node(url)
    receipt = transact(node, key, node.chain_id(), "", model_registry().initcode, DEPLOY_GAS, PATIENCE)
    return str(receipt["contractAddress"]).lower()


def admissions(members: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Who may join with how many coins, as the contract takes them."""
    return tuple((address.lower(), coins) for address, coins in members)


def _posted(said: dict[str, Any]) -> Posted:
    return Posted(
        said["task"], said["poster"], said["model"], said["terms"], said["rounds"], said["byzantine"], said["seats"],
        said["patience"], said["norm"], said["printed"], said["stake"],
    )  # fmt: skip


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")
