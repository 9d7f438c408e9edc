"""The journal of an embedded ledger: an append-only SQLite file of blocks, and its canonical export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from noisebank.core.durability import open_database, translate_errors
from noisebank.ledger.block import Block, Genesis
from noisebank.runtime.gathering import apart

SCHEMA = "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT"
GENESIS_ROW = -1
JOURNAL_FILE = "journal.sqlite"
"""The journal's name in a bank's folder."""


class Journal:
    """Durable on return of `append`. The first line is the genesis, then one line per block."""

    def __init__(self, path: Path | str, vfs: str | None = None) -> None:
        self._database = open_database(path, SCHEMA, vfs)

    def write_genesis(self, genesis: Genesis) -> None:
        """Writes the first line of a new journal."""
        self._database.execute("INSERT INTO lines VALUES (?, ?)", (GENESIS_ROW, genesis.to_canonical_json()))

    def append(self, block: Block) -> None:
        """Appends a block. It is on disk once this returns."""
        row = block.number, block.to_canonical_json()
        apart(lambda: self._database.execute("INSERT INTO lines VALUES (?, ?)", row))

    def read_lines(self) -> Iterator[str]:
        """Yields the canonical export, line by line."""
        with translate_errors(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines ORDER BY number"):
                yield str(line)  # a damaged page may hold anything: whoever parses the line refuses it

    def close(self) -> None:
        """Closes the file. Nothing is lost."""
        self._database.close()
