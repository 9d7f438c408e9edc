"""`Follower`: reads the contract's logs from a node and keeps the books of all final blocks, and their refusals."""

from __future__ import annotations

import threading
import time
from typing import Any

from noisebank.core.caches import BoundedCache
from noisebank.core.errors import BadLedger, LedgerHalted, OutcomeUnknown
from noisebank.ledger.abi import Contract, budget_ledger
from noisebank.ledger.books import Books
from noisebank.ledger.node import Node, raw_log
from noisebank.ledger.protocol import Head

GROUP_REFUSED = next(topic for topic, event in budget_ledger().events.items() if event.name == "GroupRefused")
REFUSALS_BYTES = 8 << 20


class Follower:
    """Books of final blocks only. A block is final once `confirmations` - 1 blocks follow it; if a final block changes,
    the follower halts for good."""

    def __init__(self, node: Node, address: str, created: int, confirmations: int) -> None:
        if confirmations < 1:
            raise BadLedger("a block is final after one confirmation at least")
        self.node, self.address, self.confirmations = node, address, confirmations
        self.contract: Contract = budget_ledger()
        self.books = Books(self.contract)
        self.refusals: BoundedCache[tuple[bytes, bytes], str] = BoundedCache(REFUSALS_BYTES)
        """The contract's reason, by transaction and first id of the group. The sender looks within seconds; refusals of
        others are dropped before they fill the memory."""
        self.transactions: dict[tuple[bytes, bytes], list[bytes]] = {}
        """The transactions that reserved and published a reservation, by account and id."""
        self._done = Head(created - 1, b"")
        self._times: dict[int, int] = {}
        self._hashes: dict[int, bytes] = {}
        self._turn = threading.RLock()
        self.halted = ""

    def check_contract(self, chain_id: int | None) -> int:
        """Returns the chain's id; `BadLedger` if the chain or the contract's code is not the expected one."""
        actual = self.node.chain_id()
        if chain_id is not None and actual != chain_id:
            raise BadLedger(f"the node {self.node.name} is on chain {actual}, not on chain {chain_id}")
        code = self.node.code(self.address)
        if not code:
            raise BadLedger(
                f"there is no contract at {self.address} on chain {actual}: the node was reset, or it is another "
                "chain. Nothing can be spent before the node knows the ledger again"
            )
        if code != self.contract.runtime:
            raise BadLedger(f"the code at {self.address} is not this version's budget ledger")
        return actual

    @property
    def head(self) -> Head:
        """The newest final block that was read."""
        return self._done

    def block_hash(self, number: int) -> bytes:
        """Returns a block's hash, as it was when its logs were read."""
        return self._hashes.get(number) or self.node.block_hash(number) or b""

    def sync(self, patience: float = 30.0) -> None:
        """Reads the blocks that have become final. `LedgerHalted` if a block that was final has changed."""
        with self._turn:
            deadline = time.monotonic() + patience
            while not self._advance():
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(f"the node {self.node.name} lags behind what it has shown before")
                time.sleep(0.1)

    def halt(self, why: str) -> LedgerHalted:
        """Stops this follower for good; returns the error for the caller to raise."""
        self.halted = why
        return LedgerHalted(why)

    def _advance(self) -> bool:
        """Reads all new final blocks. Returns False if the node is behind, or changed while it was read: try again."""
        if self.halted:
            raise LedgerHalted(self.halted)
        last = self.node.head() - (self.confirmations - 1)
        if last <= self._done.number:
            return self._still_there(last)
        hash = self.node.block_hash(last)
        entries = self.node.logs(self.address, self._done.number + 1, last)
        if hash is None or self.node.block_hash(last) != hash or not self._still_there(last):
            return False
        for entry in entries:
            self._read(entry)
        self._done = Head(last, hash)
        return True

    def _still_there(self, last: int) -> bool:
        """Whether the newest final block that was read is still on the chain. False if the node is merely behind;
        `LedgerHalted` if the block has changed."""
        if not self._done.digest:
            return True
        hash = self.node.block_hash(self._done.number)
        if hash is None and last < self._done.number:
            return self._lagging()
        if hash != self._done.digest:
            raise self.halt(
                f"block {self._done.number} was final under {self.confirmations} confirmations and has changed: "
                "the chain was rolled back deeper than that, or the node is another one. Nothing is spent until the "
                "bank is opened again; it then sends what the chain has forgotten before anything else"
            )
        return True

    def _lagging(self) -> bool:
        """Returns False, for its caller: the node is behind. `LedgerHalted` if it has forgotten the contract."""
        if not self.node.code(self.address):
            raise self.halt(
                f"the node {self.node.name} no longer knows the ledger at {self.address}: "
                "it was reset, or it is another one"
            )
        return False

    def _read(self, entry: dict[str, Any]) -> None:
        number, log = int(entry["blockNumber"], 16), raw_log(entry)
        if entry.get("removed"):
            return
        if number not in self._times:
            stamp = entry.get("blockTimestamp")
            self._times = {number: int(stamp, 16) if stamp else self.node.time(number)}
        self._hashes[number] = bytes.fromhex(entry["blockHash"][2:])
        if log[0][0] == GROUP_REFUSED:
            _, arguments = self.contract.decode_event(*log)
            transaction = bytes.fromhex(entry["transactionHash"][2:])
            id, reason = arguments["id"], arguments["reason"]
            assert isinstance(id, bytes) and isinstance(reason, str)
            self.refusals.put((transaction, id), reason)
        name, values = self.books.write(log, number, self._times[number])
        if name in ("Reserved", "Published"):
            sent = self.transactions.setdefault((values[0], values[1]), [])  # account and id come first in both
            sent.append(bytes.fromhex(entry["transactionHash"][2:]))
