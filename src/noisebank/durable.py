"""Durable writes: a SQLite file that survives power loss, and group commit over it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import apsw

from noisebank.errors import BadBank, OutcomeUnknown

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def open_database(path: Path | str, schema: str, vfs: str | None = None) -> apsw.Connection:
    """A connection whose commits are on disk when they return.

    WAL with synchronous=FULL: one fsync a commit; NORMAL loses acknowledged rows at power loss.
    apsw brings its own SQLite, free of the WAL-reset bug of 3.7.0-3.51.2. `vfs` is for tests; such
    a file system has no shared memory, so its lock is exclusive.
    """
    if isinstance(path, Path) and not path.exists():
        # Created here and not by SQLite: for its owner's eyes only from the first byte on.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        database = apsw.Connection(str(path), vfs=vfs)
        if vfs is not None:
            database.pragma("locking_mode", "EXCLUSIVE")
        database.pragma("journal_mode", "WAL")
        database.pragma("synchronous", "FULL")
        database.set_busy_timeout(5_000)
        database.execute(schema)
    except apsw.Error as error:
        raise BadBank(f"{path} cannot be opened as a database: {error}") from None
    return database


@contextmanager
def reading(database: apsw.Connection) -> Iterator[None]:
    """What SQLite cannot read is an unreadable bank, and said so."""
    try:
        yield
    except apsw.Error as error:
        raise BadBank(f"{database.filename} cannot be read: {error}") from None


def end_process(reason: str) -> None:
    """A commit failed: what memory holds may be ahead of the disk, so nothing may go on from it."""
    sys.stderr.write(f"noisebank: {reason}; ending the process so that nothing builds on it\n")
    sys.stderr.flush()
    os._exit(70)


@dataclass(slots=True)
class Turn(Generic[Item, Outcome]):
    """One caller's item and, once its group is durable, what came of it."""

    item: Item
    outcome: Outcome | None = None
    refusal: Exception | None = None
    done: bool = field(default=False)


class GroupCommit(Generic[Item, Outcome]):
    """Many callers, one writer, one fsync a group.

    `commit` gets all turns that queued up while the last group was being written, makes them
    durable and sets the outcome or refusal of each. No outcome leaves before that returns. If it
    raises, the process ends (`die`); should `die` return, as in tests, nothing is ever committed
    again and every caller gets `OutcomeUnknown`.
    """

    def __init__(
        self, commit: Callable[[Sequence[Turn[Item, Outcome]]], None], die: Callable[[str], None] = end_process
    ) -> None:
        self._commit, self._die = commit, die
        self._waiting: list[Turn[Item, Outcome]] = []
        self._queue, self._writer = threading.Lock(), threading.Lock()
        self._broken = False

    def __call__(self, item: Item) -> Outcome:
        turn: Turn[Item, Outcome] = Turn(item)
        with self._queue:
            self._waiting.append(turn)
        with self._writer:  # whoever gets here first commits for all who wait behind
            if not turn.done:
                self._commit_waiting()
        if not turn.done:  # its group was taken by a caller who was interrupted before the commit
            raise OutcomeUnknown("the commit was interrupted")
        if turn.refusal is not None:
            raise turn.refusal
        return turn.outcome  # type: ignore[return-value]  # set by commit when there is no refusal

    def _commit_waiting(self) -> None:
        with self._queue:
            group, self._waiting = self._waiting, []
        try:
            if self._broken:
                raise OutcomeUnknown("an earlier commit failed")
            self._commit(group)
        except BaseException as error:
            self._broken = True
            for turn in group:
                turn.refusal, turn.outcome = OutcomeUnknown(f"the commit failed: {error}"), None
            self._die(f"a commit failed ({error})")
        finally:
            for turn in group:
                turn.done = True
