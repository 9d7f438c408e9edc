"""Transaction fees of a ledger on a chain, for the ledger page. The node is asked once per transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from noisebank.core.errors import NoisebankError
from noisebank.ledger.node import NodeError
from noisebank.ledger.protocol import Reservation
from noisebank.ledger.rpc import RpcChain

PATIENCE = 0.8
"""Seconds that a page waits for the node; fees that take longer are shown when it is loaded again."""
MOST = 100_000


@dataclass(frozen=True, slots=True)
class Fee:
    """One transaction and its fee. Many entries may share it."""

    transaction: str
    block: int
    wei: int


class Fees:
    """Caches fees by transaction; they never change."""

    def __init__(self) -> None:
        self._known: dict[bytes, Fee] = {}
        self._access = threading.Lock()

    def of(self, chain: RpcChain, entries: Sequence[Reservation]) -> dict[bytes, list[Fee]]:
        """Return fees by reservation: of the transaction that reserved, then of the one that published."""
        until = time.monotonic() + PATIENCE
        fees_by_entry: dict[bytes, list[Fee]] = {}
        for entry in entries:
            hashes = chain.follower.transactions.get((entry.account, entry.id), [])
            fees = [self._fee(chain, transaction, until) for transaction in hashes]
            fees_by_entry[entry.id] = [fee for fee in fees if fee is not None]
        return fees_by_entry

    def _fee(self, chain: RpcChain, transaction: bytes, until: float) -> Fee | None:
        known = self._known.get(transaction)
        if known is not None or time.monotonic() > until:
            return known
        name = "0x" + transaction.hex()
        try:
            receipt = chain.node.ask("eth_getTransactionReceipt", name)
            wei = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
            fee = Fee(name, int(receipt["blockNumber"], 16), wei)
        except (NoisebankError, NodeError, KeyError, TypeError, ValueError):
            return None
        with self._access:
            if len(self._known) < MOST:
                self._known[transaction] = fee
        return fee
