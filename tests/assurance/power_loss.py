"""Power loss: a file system that forgets what was not synced, under the real SQLite, journal and vault.

Reads see every write. Only a sync makes writes safe: when the power goes, each write since then is
dropped, torn in sectors, or kept, one by one and at random; a file that was deleted may come back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import apsw

from assurance.crashes import (
    Asked,
    CommitFailed,
    Fuse,
    Place,
    Witness,
    ask_all_again,
    bank_with_account,
    opened,
    room_for,
    workload_of,
)
from assurance.planting import plant_bug
from assurance.report import Finding
from support.internals import open_database, workload_rng

LOSSES = 1_000
PLANTED_TRIALS = 300
STEPS_TO_LOSS = 80
"""Writes, syncs, cuts and deletions until the power goes: fewer than this; a workload takes more than a hundred."""
SECTOR = 512
VFS = "noisebank-power-loss"
Write = tuple[int, bytes | None]
"""Where and what; None cuts the file off there."""


class PowerLoss(BaseException):
    """The machine stops here."""


@dataclass
class Stored:
    """A file: what is safe, what was written since, and what a reader sees."""

    safe: bytes | None = None
    pending: list[Write] = field(default_factory=list)
    seen: bytearray = field(default_factory=bytearray)

    def write(self, write: Write) -> None:
        self.pending.append(write)
        _apply(self.seen, write)

    def sync(self) -> None:
        self.safe, self.pending = bytes(self.seen), []

    def survivor(self, random: Random) -> Stored | None:
        """What is left of it; None if it was never synced and the folder forgot it."""
        if self.safe is None and random.random() < 0.5:
            return None
        left = bytearray(self.safe or b"")
        for at, data in self.pending:
            fate = random.choice(("dropped", "torn", "kept"))
            if fate == "kept" or (data is None and fate == "torn"):
                _apply(left, (at, data))
            elif fate == "torn" and data is not None:
                for start in range(0, len(data), SECTOR):
                    if random.random() < 0.5:
                        _apply(left, (at + start, data[start : start + SECTOR]))
        return Stored(bytes(left), [], left)


def _apply(content: bytearray, write: Write) -> None:
    at, data = write
    if data is None:
        del content[at:]
        return
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(data)] = data


@dataclass
class Disk:
    """Files, and how many more steps the power holds."""

    files: dict[str, Stored]
    random: Random
    steps_left: int | None = None
    deleted: dict[str, Stored] = field(default_factory=dict)
    after: Disk | None = None
    """What the next start finds, once the power is gone."""
    moment: str = ""
    steps: int = 0

    def step(self, moment: str) -> None:
        self.steps += 1
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.lose_power(moment)
        self.alive()

    def alive(self) -> None:
        if self.after is not None:
            raise PowerLoss

    def lose_power(self, moment: str) -> None:
        if self.after is None:
            self.moment = moment
            files = {**{name: file for name, file in self.deleted.items() if self.random.random() < 0.5}, **self.files}
            left = {name: file.survivor(self.random) for name, file in files.items()}
            self.after = Disk({name: file for name, file in left.items() if file is not None}, self.random)


class PowerLossFile:
    """One open file."""

    def __init__(self, disk: Disk, file: Stored) -> None:
        self._disk, self._file = disk, file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.alive()
        return bytes(self._file.seen[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.step("write")
        self._file.write((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.step("cut")
        self._file.write((size, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.step("sync")
        self._file.sync()

    def xFileSize(self) -> int:  # noqa: N802
        self._disk.alive()
        return len(self._file.seen)

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return int(apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE)  # as the real one says; a tear stays inside its write

    def xFileControl(self, operation: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xLock(self, level: int) -> None:  # noqa: N802
        return None

    xUnlock = xLock  # noqa: N815

    def xClose(self) -> None:  # noqa: N802
        return None


class PowerLossSystem(apsw.VFS):
    """A file system of many disks; the first part of a path says which."""

    def __init__(self) -> None:
        super().__init__(VFS, base="")
        self.disks: dict[str, Disk] = {}
        self.count = 0

    @contextmanager
    def plugged_in(self, disk: Disk) -> Iterator[Place]:
        self.count += 1
        prefix = f"/disk{self.count}"
        self.disks[prefix] = disk
        try:
            yield Place(VFS, prefix)
        finally:
            del self.disks[prefix]

    def _find(self, path: str) -> tuple[Disk, str]:
        _, disk, name = path.split("/")
        return self.disks[f"/{disk}"], name

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802
        disk, name = self._find(name if isinstance(name, str) else name.filename())
        disk.alive()
        flags[1] = flags[0]
        return PowerLossFile(disk, disk.files.setdefault(name, Stored()))

    def xDelete(self, path: str, syncdir: bool) -> None:  # noqa: N802
        if f"/{path.split('/')[1]}" not in self.disks:  # a forgotten connection closes itself
            return
        disk, name = self._find(path)
        disk.step("deletion")
        file = disk.files.pop(name)
        if syncdir:
            disk.deleted.pop(name, None)
        else:
            disk.deleted[name] = file

    def xAccess(self, path: str, flags: int) -> bool:  # noqa: N802
        disk, name = self._find(path)
        return name in disk.files

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


@dataclass
class Tally:
    losses: int = 0
    trials: int = 0
    answers: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def trial(system: PowerLossSystem, folder: Path, random: Random, requests: list[Asked], tally: Tally) -> list[str]:
    """Works through the requests while the power fails again and again; returns what went wrong."""
    disk = Disk({path.name: _stored(path) for path in folder.glob("*.sqlite")}, random, random.randrange(STEPS_TO_LOSS))
    witness, done = Witness(), 0
    while done < len(requests) and not witness.wrong:
        until = random.randint(done, len(requests))
        try:
            with system.plugged_in(disk) as place, opened(folder, witness, Fuse(), place=place) as bank:
                for asked in requests[done:until]:
                    answer = bank.account().ask(asked.sql(tally.losses), sigma=asked.sigma, key=asked.key)
                    disk.alive()
                    witness.saw(asked.key, answer)
                    done += 1
                if done == len(requests):
                    disk.lose_power("rest")  # right after an answer, before anything is closed
        except (PowerLoss, CommitFailed, Exception) as error:
            if disk.after is None:
                witness.blame(f"an attempt failed: {type(error).__name__}: {error}")
        if disk.after is None:  # closed, and on the same disk again
            continue
        tally.losses += 1
        tally.moments[disk.moment] += 1
        disk = disk.after
        disk.steps_left = random.randrange(STEPS_TO_LOSS)
    disk.steps_left = None
    try:
        with system.plugged_in(disk) as place, opened(folder, witness, Fuse(), place=place) as bank:
            ask_all_again(bank, witness, requests[:done])
    except (CommitFailed, Exception) as error:
        witness.blame(f"the last look failed: {type(error).__name__}: {error}")
    tally.trials += 1
    tally.answers += done
    tally.wrong += witness.wrong
    return witness.wrong


def _stored(path: Path) -> Stored:
    content = path.read_bytes()
    return Stored(content, [], bytearray(content))


@contextmanager
def databases(pragma: str, value: str | int) -> Iterator[None]:
    """Journal and vault with another setting."""

    def opening(*arguments: Any) -> apsw.Connection:
        database = open_database(*arguments)
        database.pragma(pragma, value)
        return database

    with (
        plant_bug("noisebank.ledger.journal", "open_database", opening),
        plant_bug("noisebank.vault.sqlite_vault", "open_database", opening),
    ):
        yield


def power_loss(share: float) -> Finding:
    """A record lost after it was acknowledged, when the machine stops at any moment."""
    enough, planted_trials = max(1, round(LOSSES * share)), max(5, round(PLANTED_TRIALS * share))
    system, random = PowerLossSystem(), workload_rng(3)
    tally, lost = Tally(), {}
    with room_for("power") as name:
        folder = bank_with_account(Path(name))

        def one(tally: Tally) -> list[str]:
            return trial(system, folder, random, workload_of(random, f"trial {tally.trials}", more=1), tally)

        while tally.losses < enough:
            one(tally)
            with databases("wal_autocheckpoint", 5):  # SQLite moves pages home all the time, not every 4 MB
                one(tally)
        for level in ("NORMAL", "OFF"):  # the planted bug: commits that return before they are on disk
            with databases("synchronous", level):
                lost[level] = _count_lost(one, planted_trials)
    system.unregister()
    figures = ", ".join(f"synchronous={level} loses in {bad} of {planted_trials}" for level, bad in lost.items())
    moments = ", ".join(f"{count} at a {moment}" for moment, count in sorted(tally.moments.items()))
    return Finding(
        row="an answer without a record; a record lost after it was acknowledged",
        tried=f"{tally.losses:,} power losses ({moments}) in {tally.trials:,} workloads",
        figure=f"{len(tally.wrong)} violations; {tally.answers:,} acknowledged answers kept; planted: {figures}",
        violations=len(tally.wrong),
        planted={f"synchronous={level}": bad > 0 for level, bad in lost.items()},
        note="; ".join(dict.fromkeys(tally.wrong)),
    )


def _count_lost(one: Callable[[Tally], list[str]], trials: int) -> int:
    tally = Tally()
    return sum(bool(one(tally)) for _ in range(trials))
