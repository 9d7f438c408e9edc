"""A folder that appears whole or not at all: everything is written beside it, checked, and renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebank.core.durability import sync_folder
from noisebank.core.errors import BadBank, BankInUse

LOCK = "lock"


def beside(folder: Path, how: str) -> Path:
    """A neighbour of a folder."""
    return folder.parent / f"{folder.name}.{how}"


@contextmanager
def room_for(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder`. What a killed process left there is removed: its lock is free.

    If whoever uses it fails, it is removed, too.
    """
    room = beside(folder, "partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        room.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(room / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadBank(f"{room} cannot be made: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BankInUse(f"another process is writing {room}") from None
        empty(room)
        try:
            yield room
        except BaseException:
            shutil.rmtree(room, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def empty(room: Path) -> None:
    """Removes all but the lock."""
    for path in room.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def finish(room: Path, folder: Path) -> None:
    """Everything in the room is on disk, then it gets its name. Its lock is in it until nobody can mistake it."""
    for path in room.rglob("*"):
        sync_folder(path)  # fsync takes files as well
    sync_folder(room)
    room.rename(folder)
    sync_folder(folder.parent)


def copy_file(source: Path, target: Path) -> None:
    """A small file, for the bank's eyes only."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with source.open("rb") as reading, os.fdopen(handle, "wb") as writing:
            shutil.copyfileobj(reading, writing, 2**20)
    except OSError as error:
        raise BadBank(f"{source} cannot be copied: {error.strerror}") from None
