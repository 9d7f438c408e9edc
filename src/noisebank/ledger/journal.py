"""The journal of an embedded ledger: an append-only SQLite file of blocks, and its canonical export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import apsw

from noisebank.core.durability import open_database, translate_errors
from noisebank.core.errors import BadBank
from noisebank.ledger.block import Genesis

SCHEMA = "CREATE TABLE IF NOT EXISTS lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL) STRICT"
GENESIS_ROW = -1
JOURNAL_FILE = "journal.sqlite"
"""The journal's name in a bank's folder."""


class JournalBlock(Protocol):
    """What a journal needs of a block; `ledger.block.Block` is one."""

    @property
    def number(self) -> int: ...

    def to_canonical_json(self) -> str: ...


class Journal:
    """Durable on return of `append`. The first line is the genesis, then one line per block."""

    def __init__(self, path: Path | str, vfs: str | None = None) -> None:
        self._database = open_database(path, SCHEMA, vfs)

    def write_genesis(self, genesis: Genesis) -> None:
        """Writes the first line of a new journal."""
        self._database.execute("INSERT INTO lines VALUES (?, ?)", (GENESIS_ROW, genesis.to_canonical_json()))

    def append(self, block: JournalBlock) -> None:
        """Appends a block. It is on disk once this returns."""
        self._database.execute("INSERT INTO lines VALUES (?, ?)", (block.number, block.to_canonical_json()))

    def read_lines(self) -> Iterator[str]:
        """Yields the canonical export, line by line."""
        with translate_errors(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines ORDER BY number"):
                yield str(line)  # a damaged page may hold anything: whoever parses the line refuses it

    def close(self) -> None:
        """Closes the file. Nothing is lost."""
        self._database.close()


class JournalReader:
    """A journal that another process may be writing; nothing is written here."""

    def __init__(self, path: Path) -> None:
        try:
            self._database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise BadBank(f"{path} cannot be read: {error}") from None
        self._database.set_busy_timeout(5_000)

    def read_lines(self, first: int = GENESIS_ROW) -> Iterator[str]:
        """Yields the lines from block `first` on; from the genesis if not said."""
        with translate_errors(self._database):
            for (line,) in self._database.execute("SELECT line FROM lines WHERE number >= ? ORDER BY number", (first,)):
                yield str(line)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()
