"""Durable writes: SQLite files that survive power loss, new files that are on disk on return, and group commit."""

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

from noisebank.core.errors import BadBank, OutcomeUnknown, Tampered

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def open_database(path: Path | str, schema: str, vfs: str | None = None) -> apsw.Connection:
    """Returns a connection whose commits are on disk when they return.

    WAL with synchronous=FULL: one fsync per commit; NORMAL loses acknowledged rows at power loss.
    apsw brings its own SQLite, free of the WAL-reset bug of 3.7.0-3.51.2. `vfs` is for tests; such
    a file system has no shared memory, so its lock is exclusive.
    """
    if isinstance(path, Path) and not path.exists():
        # Created here and not by SQLite, so that only its owner may read it from the first byte on.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        database = apsw.Connection(str(path), vfs=vfs)
        database.set_busy_timeout(5_000)  # first: another process may be opening it at this moment
        if vfs is not None:
            database.pragma("locking_mode", "EXCLUSIVE")
        database.pragma("journal_mode", "WAL")
        database.pragma("synchronous", "FULL")
        database.execute(schema)
    except apsw.Error as error:
        raise BadBank(f"{path} cannot be opened as a database: {error}") from None
    return database


@contextmanager
def translate_errors(database: apsw.Connection) -> Iterator[None]:
    """Translates errors of reading: `BadBank` if SQLite fails, `Tampered` if a row cannot be parsed."""
    try:
        yield
    except apsw.Error as error:
        raise BadBank(f"{database.filename} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise Tampered(f"{database.filename} holds a row that nobody here has written") from None


def fsync_path(path: Path) -> None:
    """Syncs a folder or file to disk. A new file survives a crash only if its folder was synced, too."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_new_file(path: Path, text: str) -> None:
    """Writes a new small file that only its owner may read; never overwrites. On disk on return, but for its folder."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def end_process(reason: str) -> None:
    """Ends the process after a failed commit: memory may be ahead of the disk, so nothing may build on it."""
    sys.stderr.write(f"noisebank: {reason}; ending the process so that nothing builds on it\n")
    sys.stderr.flush()
    os._exit(70)


@dataclass(slots=True, eq=False)
class PendingItem(Generic[Item, Outcome]):
    """One item and, once its group is durable, its outcome or refusal."""

    item: Item
    outcome: Outcome | None = None
    refusal: Exception | None = None
    is_committed: bool = field(default=False)
    is_done: bool = field(default=False)

    def get_outcome(self) -> Outcome:
        """Returns the outcome, or raises the refusal."""
        if self.refusal is not None:
            raise self.refusal
        if not self.is_committed:
            raise OutcomeUnknown("the commit was interrupted")
        return self.outcome  # type: ignore[return-value]  # set by commit when there is no refusal


class GroupCommit(Generic[Item, Outcome]):
    """Group commit: many callers, one writer at a time, one fsync per group.

    Whoever gets the lock commits all that is waiting; the others find theirs done when the lock comes to them. `commit`
    makes the items durable and sets the outcome or refusal of each. No outcome is returned before `commit` returns. If
    it raises, the process ends (`on_failure`); if that returns, as in tests, nothing is ever committed again and
    callers get `OutcomeUnknown`.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[PendingItem[Item, Outcome]]], None],
        on_failure: Callable[[str], None] = end_process,
    ) -> None:
        self._commit, self._on_failure = commit, on_failure
        self._waiting: list[PendingItem[Item, Outcome]] = []
        self._access, self._writing = threading.Lock(), threading.Lock()
        self._is_broken = False

    def __call__(self, item: Item) -> Outcome:
        """Commits one item; returns its outcome or raises its refusal."""
        return self.commit_all([item])[0].get_outcome()

    def commit_all(self, items: Sequence[Item]) -> list[PendingItem[Item, Outcome]]:
        """Commits items in one group, in their order, perhaps with those of others; returns each with its outcome."""
        pending: list[PendingItem[Item, Outcome]] = [PendingItem(item) for item in items]
        if not pending:
            return pending
        with self._access:
            self._waiting += pending
        try:
            with self._writing:
                if not pending[0].is_done:
                    with self._access:
                        group, self._waiting = self._waiting, []
                    try:
                        self._commit_group(group)
                    finally:  # the others must get an outcome, if only an unknown one
                        for member in group:
                            member.is_done = True
        finally:  # interrupted before anybody took them: they are never committed
            if not pending[0].is_done:
                with self._access:
                    self._waiting = [item for item in self._waiting if item not in pending]
        return pending

    def _commit_group(self, group: list[PendingItem[Item, Outcome]]) -> None:
        try:
            if self._is_broken:
                raise OutcomeUnknown("an earlier commit failed")
            self._commit(group)
            for member in group:
                member.is_committed = True
        except BaseException as error:
            self._is_broken = True
            for member in group:
                member.refusal, member.outcome = OutcomeUnknown(f"the commit failed: {error}"), None
            self._on_failure(f"a commit failed ({error})")
