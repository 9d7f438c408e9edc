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
from noisebank.runtime.strands import Sleep, let_others

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
def reading(database: apsw.Connection) -> Iterator[None]:
    """Translates errors of reading: `BadBank` if SQLite fails, `Tampered` if a row cannot be parsed."""
    try:
        yield
    except apsw.Error as error:
        raise BadBank(f"{database.filename} cannot be read: {error}") from None
    except (KeyError, TypeError, ValueError):
        raise Tampered(f"{database.filename} holds a row that nobody here has written") from None


def sync_folder(folder: Path) -> None:
    """Syncs a folder or file to disk. A new file survives a crash only if its folder was synced, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_once(path: Path, text: str) -> None:
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
class Turn(Generic[Item, Outcome]):
    """One caller's item and, once its group is durable, its outcome or refusal."""

    item: Item
    outcome: Outcome | None = None
    refusal: Exception | None = None
    committed: bool = field(default=False)
    done: bool = field(default=False)
    sleep: Sleep = field(default_factory=Sleep)


class GroupCommit(Generic[Item, Outcome]):
    """Group commit: many callers, one writer, one fsync per group.

    A caller that finds nobody writing becomes the leader: it takes all waiting items and commits them
    together; the others sleep until theirs is done, or until one is woken to lead next. A leading strand
    first lets the others of its thread come here. `commit` makes the items durable and sets the outcome
    or refusal of each. No outcome is returned before `commit` returns. If it raises, the process ends
    (`on_failure`); if that returns, as in tests, nothing is ever committed again and callers get
    `OutcomeUnknown`.
    """

    def __init__(
        self, commit: Callable[[Sequence[Turn[Item, Outcome]]], None], die: Callable[[str], None] = end_process
    ) -> None:
        self._commit, self._die = commit, die
        self._waiting: list[Turn[Item, Outcome]] = []
        self._leader: Turn[Item, Outcome] | None = None
        self._access = threading.Lock()
        self._broken = False

    def __call__(self, item: Item) -> Outcome:
        turn: Turn[Item, Outcome] = Turn(item)
        group: list[Turn[Item, Outcome]] = []
        try:
            with self._access:
                self._waiting.append(turn)
                leads = self._leader is None
                if leads:
                    self._leader = turn
            if not leads:
                turn.sleep.wait()
            if not turn.done:
                let_others()
                with self._access:
                    group, self._waiting = self._waiting, []
                self._commit_group(group)
        finally:  # also when interrupted: the others must get an outcome, if only an unknown one, and a new leader
            self._hand_over(turn, group)
        if turn.refusal is not None:
            raise turn.refusal
        if not turn.committed:
            raise OutcomeUnknown("the commit was interrupted")
        return turn.outcome  # type: ignore[return-value]  # set by commit when there is no refusal

    def _hand_over(self, turn: Turn[Item, Outcome], group: list[Turn[Item, Outcome]]) -> None:
        """Wakes the other callers of a committed group and, if this one was the leader, the next leader."""
        with self._access:
            if turn in self._waiting:  # interrupted before a leader took it: it is never committed
                self._waiting.remove(turn)
            for member in group:
                member.done = True
            woken = [member for member in group if member is not turn]
            if self._leader is turn:
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    woken.append(self._leader)
        for member in woken:
            member.sleep.wake()

    def _commit_group(self, group: list[Turn[Item, Outcome]]) -> None:
        try:
            if self._broken:
                raise OutcomeUnknown("an earlier commit failed")
            self._commit(group)
            for turn in group:
                turn.committed = True
        except BaseException as error:
            self._broken = True
            for turn in group:
                turn.refusal, turn.outcome = OutcomeUnknown(f"the commit failed: {error}"), None
            self._die(f"a commit failed ({error})")
