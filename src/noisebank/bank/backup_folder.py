"""A folder that appears complete or not at all: its content is staged in a folder beside it, synced, and renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebank.core.durability import fsync_path
from noisebank.core.errors import BadBank, BankInUse

LOCK = "lock"


def sibling_folder(folder: Path, suffix: str) -> Path:
    """Returns the path beside a folder with a suffix added to its name."""
    return folder.parent / f"{folder.name}.{suffix}"


@contextmanager
def stage_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty, locked staging folder beside `folder`. Removes what a killed process left there.

    If the body fails, the staging folder is removed, too.
    """
    staging = sibling_folder(folder, "partial")
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
        clear_folder(staging)
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def clear_folder(staging: Path) -> None:
    """Removes everything from a staging folder but its lock."""
    for path in staging.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def move_into_place(staging: Path, folder: Path) -> None:
    """Syncs everything in the staging folder to disk, then gives it its final name. The lock file moves with it."""
    for path in staging.rglob("*"):
        fsync_path(path)
    fsync_path(staging)
    staging.rename(folder)
    fsync_path(folder.parent)


def copy_file(source: Path, target: Path) -> None:
    """Copies a small file to one that only its owner may read."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with source.open("rb") as reading, os.fdopen(handle, "wb") as writing:
            shutil.copyfileobj(reading, writing, 2**20)
    except OSError as error:
        raise BadBank(f"{source} cannot be copied: {error.strerror}") from None
