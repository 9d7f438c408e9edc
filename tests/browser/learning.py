"""A bank beside which things are learned: by a crowd on a chain of its own, and from devices on the bank's ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from browser.serving import EASY, Served, new_bank, served
from noisebank import open_bank
from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_played import RULES, Played, own_chain, save_test
from support.internals import SMALL_SHAPE, learn_model, open_task
from support.learning import table
from support.learning import task as sgd_task

SOUND = TaskTerms("private glyphs", SMALL_SHAPE, norm="fixed", mode="sound", epsilon="2", delta="1e-5", batch=16)
CHEATS = {(1, 5): "missing", (1, 6): "flipped", (2, 5): "stolen", (2, 6): "flipped"}


@dataclass
class School:
    """A served bank and the tasks that its pages show."""

    desk: Served
    paper: Played
    sound: Played
    offers: str
    """The account of a task on the bank's own ledger."""

    @property
    def address(self) -> str:
        return self.desk.address


@contextmanager
def school(folder: Path, **other: Any) -> Iterator[School]:
    """A finished task with cheats, one in the sound mode that goes on, one of devices on the bank's ledger."""
    with own_chain(folder) as url, open_bank(new_bank(folder)) as bank:
        first = Played(folder, url, **({"conducts": dict(CHEATS)} | other))
        first.play()
        second = Played(folder, url, terms=SOUND, rules=RULES)
        second.begin()
        second.submit(1)
        second.judge()
        second.submit(2)
        offers = open_task(bank.parts, sgd_task(devices=23))
        learn_model(offers.task, *table(23), offers)
        settings = replace(
            EASY, learning=str(folder / "chain"), learning_models=folder / "models",
            learning_test=str(save_test(folder / "test.npz")),
        )  # fmt: skip
        with served(bank, settings) as desk:
            yield School(desk, first, second, offers.id.hex())
