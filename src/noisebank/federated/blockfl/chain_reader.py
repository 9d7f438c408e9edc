"""Reads a development chain and its models from their folders, for pages and verification; writes nothing.

Every block is checked as it is read: signatures, nonces, links, results. The chain's keeper need not run, and may go on
writing meanwhile.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisebank.core.errors import BadBank, LedgerRefused
from noisebank.federated.blockfl.dev_chain import DATABASE_FILE, DevChainState, ExecutedTransaction
from noisebank.federated.blockfl.json_rpc import JsonRpcHandler
from noisebank.federated.blockfl.store import FolderStore
from noisebank.ledger.journal import JournalReader
from noisebank.ledger.node import Node, NodeError


class ChainReader:
    """The chain as in its journal. `catch_up` reads the blocks that were added since."""

    def __init__(self, folder: Path) -> None:
        if not (folder / DATABASE_FILE).is_file():
            raise BadBank(f"{folder} holds no crowd's chain; `noisebank learn host {folder}` makes one")
        self._journal = JournalReader(folder / DATABASE_FILE)
        self._lock = threading.RLock()
        self.state = DevChainState(next(self._journal.read_lines()))
        self.catch_up()

    def catch_up(self) -> None:
        """Read new blocks; `Tampered` names the first that does not follow from those before it."""
        with self._lock:
            for line in self._journal.read_lines(len(self.state.block_digests)):
                self.state.apply_line(line)

    def send_transaction(self, raw: bytes) -> ExecutedTransaction:
        """Refuse: this chain is only read."""
        raise LedgerRefused("ledger: this chain is only read here")

    def simulate_call(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        with self._lock:
            return self.state.simulate_call(sender, to, data, int(time.time()))

    def close(self) -> None:
        """Close the journal."""
        with self._lock:
            self._journal.close()


class FolderNode(Node):
    """A node without a network: answers the same requests from a chain's folder."""

    def __init__(self, folder: Path) -> None:
        self.chain = ChainReader(folder)
        self._handler = JsonRpcHandler(self.chain)
        self.name = f"the folder {folder.name}"

    def block_number(self) -> int:
        """Return the newest block's number, after reading new blocks."""
        self.chain.catch_up()
        return super().block_number()

    def _request_once(self, method: str, params: Sequence[Any]) -> Any:
        request = json.dumps({"id": 1, "method": method, "params": list(params)}).encode()
        response: dict[str, Any] = json.loads(self._handler.handle_request(request))
        if "error" in response:
            raise NodeError(response["error"]["message"])
        return response["result"]


class ReadOnlyStore(FolderStore):
    """A folder of models that is only read, and need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
