"""A chain of one's own, read from its folder: no keeper has to run, and nothing can be written from here.

Every block is checked again as it is read: signatures, nonces, links, results. Whoever keeps the chain may go on
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
    """The chain as its journal has it. `catch_up` reads what has come since."""

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
        """`Tampered` names the first block that does not follow from those before it."""
        with self._access:
            for line in self._lines(len(self.state.digests)):
                self.state.apply(line)

    def send(self, raw: bytes) -> Entered:
        """Never."""
        raise LedgerRefused("ledger: this chain is only read here")

    def peek(self, sender: str, to: str, data: bytes) -> bytes:
        """What a call would return now."""
        with self._access:
            self.state.machine.at(len(self.state.digests), max(self.state.time, int(time.time())))
            return self.state.machine.peek(sender, to, data)

    def close(self) -> None:
        """Nothing was written."""
        with self._access:
            self._database.close()

    def _lines(self, first: int) -> Iterator[str]:
        with reading(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines WHERE number >= ? ORDER BY number", (first,)):
                yield str(line)


class FolderNode(Node):
    """A node without a network: the same questions, answered from a folder."""

    def __init__(self, folder: Path) -> None:
        self.chain = ReadChain(folder)
        self._window = Window(self.chain)
        self.name = f"the folder {folder.name}"

    def head(self) -> int:
        """The newest block's number, read just now."""
        self.chain.catch_up()
        return super().head()

    def _once(self, method: str, params: Sequence[Any]) -> Any:
        asked = json.dumps({"id": 1, "method": method, "params": list(params)}).encode()
        said: dict[str, Any] = json.loads(self._window.answer(asked))
        if "error" in said:
            raise NodeError(said["error"]["message"])
        return said["result"]


class ReadStore(FolderStore):
    """A folder of models that is only looked into, and need not be there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
