"""Backup and restore killed (SIGKILL) before each of their steps."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from noisebank import open_bank
from noisebank.bank import backup
from noisebank.bank import restore as restoring
from noisebank.bank.manifest import MANIFEST_FILE as MANIFEST
from support.internals import BadBank, RestoreOptions, make_backup, restore
from support.patience import patience

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["noisebank.bank.restore", "noisebank.bank.backup", "noisebank.bank.bank"])


def older(age: int) -> str:
    return f"SELECT COUNT(*) FROM people WHERE age > {age}"


STEPS = {
    "backup": (backup, ("copy_database", "_align_vault", "copy_file", "write_manifest", "move_into_place")),
    "restore": (
        restoring,
        (
            "copy_file",
            "check_bytes",
            "find_newest_journal",
            "check_vault",
            "_restore_keys",
            "_move_vault",
            "move_into_place",
        ),
    ),
}


def _killed_at(verb: str, step: int, source: str, target: str) -> None:
    """In a process of its own: kills itself before the step of this number, and after the last one does not."""
    module, names = STEPS[verb]
    count = iter(range(10_000))

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            if next(count) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return run

    for name in names:
        setattr(module, name, counted(getattr(module, name)))
    if verb == "backup":
        module.make_backup(Path(source), Path(target), True)
    else:
        module.restore(Path(source), Path(target), RestoreOptions(replace=True))


def _kills(verb: str, source: Path, target: Path) -> Iterator[bool]:
    """Whether it was killed, step by step, until it was not."""
    for step in range(40):
        process = FORKING.Process(target=_killed_at, args=(verb, step, str(source), str(target)))
        process.start()
        process.join(patience())
        assert process.exitcode in (0, -signal.SIGKILL)
        yield process.exitcode != 0
        if process.exitcode == 0:
            return


def test_a_backup_killed_anywhere_leaves_no_backup(folder: Path, tmp_path: Path) -> None:
    target, kills = tmp_path / "copy", 0
    for killed in _kills("backup", folder, target):
        kills += killed
        assert target.exists() != killed
        if killed:
            complete = (tmp_path / "copy.partial" / MANIFEST).exists()  # only its name was missing
            with nullcontext() if complete else pytest.raises(BadBank):
                restore(tmp_path / "copy.partial", tmp_path / f"from partial {kills}")
    assert kills >= 6 and not (tmp_path / "copy.partial").exists()
    restore(target, tmp_path / "again")


def test_a_restore_killed_anywhere_loses_nothing(folder: Path, tmp_path: Path) -> None:
    make_backup(folder, tmp_path / "copy", with_keys=True)
    with open_bank(folder) as bank:
        bank.account().ask(older(30), sigma="4", key="later")
        head, kills = bank.head(), 0
    for killed in _kills("restore", tmp_path / "copy", folder):
        kills += killed
        if not killed:
            break
        if not folder.exists():  # between the two renames: the old bank is beside, whole
            (aside,) = tmp_path.glob("bank.replaced-*")
            shutil.copytree(aside, folder)
        with open_bank(folder) as bank:  # the old one, as it was
            assert bank.head() == head and bank.recovered["people"].lost == 0
    assert kills >= 8
    with open_bank(folder) as bank:
        assert bank.head() == head and bank.recovered["people"].lost == 1
