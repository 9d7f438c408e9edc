"""Reads a development chain and its models from their folders, for pages and verification; writes nothing.

Every block is checked as it is read: signatures, nonces, links, results. The chain's keeper need not run, and may go on
writing meanwhile.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from noisebank.core.durability import reading
from noisebank.core.errors import BadBank, LedgerRefused
from noisebank.federated.blockfl.dev_chain import FILE, Entered, HomeState
from noisebank.federated.blockfl.json_rpc import Window
from noisebank.federated.blockfl.store import FolderStore
from noisebank.ledger.node import Node, NodeError


class ReadChain:
    """The chain as in its journal. `catch_up` reads the blocks that were added since."""

    def __init__(self, folder: Path) -> None:
        if not (folder / FILE).is_file():
            raise BadBank(f"{folder} holds no crowd's chain; `noisebank learn host {folder}` makes one")
        try:
            self._database = apsw.Connection(str(folder / FILE), flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise BadBank(f"{folder} cannot be read: {error}") from None
        self._database.set_busy_timeout(5_000)
        self._access = threading.RLock()
        self.state = HomeState(next(self._lines(-1)))
        self.catch_up()

    def catch_up(self) -> None:
        """Read new blocks; `Tampered` names the first that does not follow from those before it."""
        with self._access:
            for line in self._lines(len(self.state.digests)):
                self.state.apply(line)

    def send(self, raw: bytes) -> Entered:
        """Refuse: this chain is only read."""
        raise LedgerRefused("ledger: this chain is only read here")

    def peek(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        with self._access:
            self.state.machine.at(len(self.state.digests), max(self.state.time, int(time.time())))
            return self.state.machine.peek(sender, to, data)

    def close(self) -> None:
        """Close the journal."""
        with self._access:
            self._database.close()

    def _lines(self, first: int) -> Iterator[str]:
        with reading(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines WHERE number >= ? ORDER BY number", (first,)):
                yield str(line)


class FolderNode(Node):
    """A node without a network: answers the same requests from a chain's folder."""

    def __init__(self, folder: Path) -> None:
        self.chain = ReadChain(folder)
        self._window = Window(self.chain)
        self.name = f"the folder {folder.name}"

    def head(self) -> int:
        """Return the newest block's number, after reading new blocks."""
        self.chain.catch_up()
        return super().head()

    def _once(self, method: str, params: Sequence[Any]) -> Any:
        request = json.dumps({"id": 1, "method": method, "params": list(params)}).encode()
        response: dict[str, Any] = json.loads(self._window.answer(request))
        if "error" in response:
            raise NodeError(response["error"]["message"])
        return response["result"]


class ReadStore(FolderStore):
    """A folder of models that is only read, and need not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
