"""A folder that appears complete or not at all: its content is staged in a folder beside it, synced, and renamed."""

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
    """Returns the path beside a folder with a suffix added to its name."""
    return folder.parent / f"{folder.name}.{how}"


@contextmanager
def room_for(folder: Path) -> Iterator[Path]:
    """Yields an empty, locked staging folder beside `folder`. Removes what a killed process left there.

    If the body fails, the staging folder is removed, too.
    """
    staging = beside(folder, "partial")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(staging / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadBank(f"{staging} cannot be made: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BankInUse(f"another process is writing {staging}") from None
        empty(staging)
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def empty(room: Path) -> None:
    """Removes everything from a staging folder but its lock."""
    for path in room.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def finish(room: Path, folder: Path) -> None:
    """Syncs everything in the staging folder to disk, then gives it its final name. The lock file moves with it."""
    for path in room.rglob("*"):
        sync_folder(path)
    sync_folder(room)
    room.rename(folder)
    sync_folder(folder.parent)


def copy_file(source: Path, target: Path) -> None:
    """Copies a small file to one that only its owner may read."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with source.open("rb") as reading, os.fdopen(handle, "wb") as writing:
            shutil.copyfileobj(reading, writing, 2**20)
    except OSError as error:
        raise BadBank(f"{source} cannot be copied: {error.strerror}") from None
