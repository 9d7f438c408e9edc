"""`ModelRegistry`: the model registry contract over JSON-RPC, on any chain or on a development chain."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from noisebank.core.digests import keccak
from noisebank.core.errors import BadLedger, BadRequest
from noisebank.federated.blockfl.books import Phase, TaskBooks, TaskSetup
from noisebank.federated.blockfl.sortition import SortitionKey
from noisebank.ledger.abi import Value, model_registry
from noisebank.ledger.node import Node, NodeError, parse_log, send_and_wait
from noisebank.ledger.signing import Key

CALL_GAS, DEPLOY_GAS = 5_000_000, 6_000_000
"""Gas limits, above what docs/results/crowd-gas.md measures."""
TRANSACTION_SECONDS = 120.0


@dataclass(frozen=True)
class TaskStage:
    """The contract's current state of a task; `since_time` is the Unix time of its last change of phase."""

    phase: Phase
    round: int
    attempt: int
    since_time: int
    seed: bytes
    submission_count: int


class ModelRegistry:
    """Reads the books of tasks and sends calls signed by a key. What a call changes is in a block on return."""

    def __init__(self, endpoint: str | Node, contract: str | None = None, timeout: float = 20.0) -> None:
        self.node = Node(endpoint, timeout) if isinstance(endpoint, str) else endpoint
        self.chain_id = self.node.chain_id()
        self.contract = contract.lower() if contract else find_own_contract(self.node, "model_registry")
        if self.node.get_code(self.contract) != model_registry().runtime:
            raise BadLedger(f"the code at {self.contract} is not this version's model registry")
        self._books: dict[bytes, tuple[TaskBooks, int]] = {}
        self._followed_books: dict[bytes, TaskBooks] = {}
        self.followed_lock = threading.Lock()
        """Held while the followed books are written, and by whoever reads them meanwhile."""
        self._followed_block, self._followed_hash = -1, b""
        self.blocks_behind = 0
        """Blocks that `follow_tasks` has still to read."""

    def post_task(self, key: Key, *arguments: Value) -> bytes:
        """Post a task; return its id."""
        receipt = self.send_call(key, "post", *arguments)
        return bytes.fromhex(receipt["logs"][0]["topics"][1][2:])

    def join_task(self, key: Key, sortition_key: SortitionKey, task: bytes, stake_wei: int = 0) -> None:
        """Join a task: register a member's sortition key with a proof of possession, and pay the stake."""
        member_word = bytes(12) + bytes.fromhex(key.address[2:])
        message = keccak(_encode_word(self.chain_id), self._contract_word(), task, member_word)
        self.send_call(
            key, "join", task, *sortition_key.public_key.abi_words, *sortition_key.sign(message), value=stake_wei
        )

    def draw_lot(self, key: Key, sortition_key: SortitionKey, task: bytes, stage: TaskStage) -> None:
        """Send a member's lot."""
        message = self.lot_message(task, stage.round, stage.attempt, stage.seed)
        self.send_call(key, "draw", task, stage.round, stage.attempt, *sortition_key.sign(message))

    def lot_message(self, task: bytes, round: int, attempt: int, seed: bytes) -> bytes:
        """Return the message whose signature is a lot."""
        return keccak(
            _encode_word(self.chain_id), self._contract_word(), task, _encode_word(round), _encode_word(attempt), seed
        )

    def send_call(self, key: Key, function: str, *arguments: Value, value: int = 0) -> dict[str, Any]:
        """Send one call, wait until it is in a block, return its receipt. `LedgerRefused` has the contract's reason."""
        data = model_registry().encode_call(function, *arguments)
        return send_and_wait(self.node, key, self.chain_id, self.contract, data, CALL_GAS, TRANSACTION_SECONDS, value)

    def move_on(self, key: Key, task: bytes) -> None:
        """End the wait for whoever is late.

        Not simulated first: a node may do that at the time of the newest block, when it was too early.
        """
        data = model_registry().encode_call("move_on", task)
        send_and_wait(
            self.node, key, self.chain_id, self.contract, data, CALL_GAS, TRANSACTION_SECONDS, simulate_first=False
        )

    def read_stage(self, task: bytes) -> TaskStage:
        """Return the current stage of a task."""
        words = self.node.call_view(model_registry(), self.contract, "stages", task)
        if not words[0]:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        return TaskStage(Phase(words[0]), words[1], words[2], words[3], words[4], words[8])

    def read_books(self, task: bytes) -> TaskBooks:
        """Return the books of a task; reads only the events since the last call."""
        head = self.node.block_number()
        books, done = self._books.get(task, (None, -1))
        entries = self.node.read_logs(self.contract, done + 1, head, [None, "0x" + task.hex()]) if head > done else []
        for entry in entries:
            name, event = model_registry().decode_event(*parse_log(entry))
            if name == "TaskPosted":
                books = TaskBooks(_parse_setup(event))
            elif books is not None:
                books.apply_event(name, event, int(entry["blockNumber"], 16))
        if books is None:
            raise BadRequest("task", task.hex()[:16], "is not known to this registry")
        self._books[task] = (books, head)
        return books

    def list_tasks(self) -> list[bytes]:
        """Return the ids of all posted tasks, oldest first."""
        topic = next(topic for topic, event in model_registry().events.items() if event.name == "TaskPosted")
        entries = self.node.read_logs(self.contract, 0, self.node.block_number(), ["0x" + topic.hex()])
        return [bytes.fromhex(entry["topics"][1][2:]) for entry in entries]

    @property
    def followed_books(self) -> dict[bytes, TaskBooks]:
        """The books that were followed so far, by task."""
        return self._followed_books

    def follow_tasks(self, max_blocks: int | None = None) -> dict[bytes, TaskBooks]:
        """Return the books of every task, oldest first; reads only the events since the last call.

        If the block where that ended has changed, the chain was rolled back, and everything is read anew. Reads at most
        `max_blocks` blocks, if given; `blocks_behind` says how many are left.
        """
        known = self.node.block_hash(self._followed_block) if self._followed_block >= 0 else None
        start = 0 if known is not None and known != self._followed_hash else self._followed_block + 1
        newest = self.node.block_number()
        head = newest if max_blocks is None else min(newest, start + max_blocks - 1)
        hash = self.node.block_hash(head)
        entries = self.node.read_logs(self.contract, start, head) if head >= start else []
        with self.followed_lock:
            if start == 0:
                self._followed_books.clear()
            for entry in entries:
                name, event = model_registry().decode_event(*parse_log(entry))
                task = bytes.fromhex(entry["topics"][1][2:])
                if name == "TaskPosted":
                    self._followed_books[task] = TaskBooks(_parse_setup(event))
                else:
                    self._followed_books[task].apply_event(name, event, int(entry["blockNumber"], 16))
            if head >= start and hash is not None:
                self._followed_block, self._followed_hash = head, hash
            self.blocks_behind = max(0, newest - self._followed_block)
        return self._followed_books

    def _contract_word(self) -> bytes:
        return bytes(12) + bytes.fromhex(self.contract[2:])


def find_own_contract(node: Node, name: str) -> str:
    """Return the address of a development chain's own contract, by its name."""
    try:
        return str(node.ask("noisebank_contracts")[name])
    except (NodeError, KeyError, TypeError):
        raise BadLedger(f"{node.name} is no crowd's own chain: name the contract's address") from None


def deploy_registry(url: str, key: Key) -> str:
    """Deploy the registry on a chain; `key` pays. Returns its address."""
    node = Node(url)
    receipt = send_and_wait(node, key, node.chain_id(), "", model_registry().initcode, DEPLOY_GAS, TRANSACTION_SECONDS)
    return str(receipt["contractAddress"]).lower()


def _parse_setup(event: dict[str, Any]) -> TaskSetup:
    return TaskSetup(
        event["task"], event["poster"], event["model"], event["terms"], event["rounds"], event["byzantine"],
        event["seats"], event["patience"], event["norm"], event["printed"], event["stake"],
    )  # fmt: skip


def _encode_word(number: int) -> bytes:
    return number.to_bytes(32, "big")
