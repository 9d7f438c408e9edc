"""A crowd's task played in one process, on a chain of its own: real contracts, lots, votes, models, and cheats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_member import glyphs
from support.internals import (
    NO_RECEIPT,
    SMALL_SHAPE,
    CommitteeDuties,
    DeviceAccount,
    Examples,
    FolderStore,
    JsonRpcServer,
    Key,
    Model,
    ModelRegistry,
    Phase,
    SortitionKey,
    SplitTrainer,
    SystemEntropy,
    TaskRules,
    create_dev_chain,
    find_own_contract,
    load_global_model,
    post_task,
    simulation_rng,
    to_fixed_point,
)

PAPER = TaskTerms("glyphs", SMALL_SHAPE, epsilon="10", batch=16, epochs=3)
RULES = TaskRules(round_count=2, byzantine=2, expected_seats=20, patience_seconds=600)
MEMBERS = 7


@dataclass
class Played:
    """A crowd that does what it is told, round by round."""

    folder: Path
    url: str
    terms: TaskTerms = PAPER
    rules: TaskRules = RULES
    count: int = MEMBERS
    conducts: dict[tuple[int, int], str] = field(default_factory=dict)
    """By round and member: `missing`, `stolen`, `flipped`, `away`; honest otherwise."""
    examples: Callable[[int], Examples] = lambda number: glyphs(number + 10, 64)
    task: bytes = b""

    def __post_init__(self) -> None:
        self.registry, self.store = ModelRegistry(self.url), FolderStore(self.folder / "models")
        self.poster = Key(SystemEntropy().token())
        self.keys = [Key(SystemEntropy().token()) for _ in range(self.count)]
        self.lots = [SortitionKey(SystemEntropy().token()) for _ in range(self.count)]
        self._receipts = [NO_RECEIPT] * self.count

    def begin(self) -> None:
        """Posts the task; everybody joins, and pays where there is something to pay."""
        if self.terms.mode == "sound":
            from dataclasses import replace

            self.terms = replace(self.terms, ledger=find_own_contract(self.registry.node, "budget_ledger"))
        admitted = [(key.address, 5) for key in self.keys]
        self.task, secret = post_task(self.registry, self.store, self.poster, self.terms, self.rules, admitted)
        for key, lot in zip(self.keys, self.lots, strict=True):
            self.registry.join_task(key, lot, self.task)
        self.registry.send_call(self.poster, "begin", self.task, secret)
        if self.terms.mode == "sound":
            self._receipts = [self._charged(number) for number in range(self.count)]

    def submit(self, round: int) -> None:
        """Everybody's model of a round."""
        books = self.registry.read_books(self.task)
        before = load_global_model(books, self.store, round - 1, self.terms.shape.weight_count)
        stolen = None
        for number, key in enumerate(self.keys):
            conduct = self.conducts.get((round, number), "honest")
            if conduct == "away":
                continue
            content = self._trained(before, round, number, conduct)
            stolen = stolen or content
            digest = self.store.put(stolen if conduct == "stolen" else content)
            if conduct == "missing":
                digest = SystemEntropy().token()
            self.registry.send_call(key, "submit", self.task, round, digest, self._receipts[number])

    def judge(self) -> None:
        """Lots, the leader's proposal and votes, until the round is finished."""
        duties = [
            CommitteeDuties(self.registry, self.store, key, lot, self.task)
            for key, lot in zip(self.keys, self.lots, strict=True)
        ]
        round = self.registry.read_stage(self.task).round
        while (stage := self.registry.read_stage(self.task)).round == round and stage.phase is not Phase.FINISHED:
            acted = [each.perform_duties(self.registry.read_stage(self.task)) for each in duties]
            assert any(acted), stage

    def play(self) -> bytes:
        """All of it; the task's id."""
        self.begin()
        for round in range(1, self.rules.round_count + 1):
            self.submit(round)
            self.judge()
        return self.task

    def _trained(self, before: Model, round: int, number: int, conduct: str) -> bytes:
        if self.terms.mode == "sound":  # training it needs torch; who pays for what does not
            moved = before.weights + simulation_rng(100 * round + number).integers(-900, 900, len(before.weights))
        else:
            trainer = SplitTrainer(self.terms, self.examples(number), "")
            moved = to_fixed_point(trainer.train(before.to_floats(), round))
        if conduct == "flipped":
            moved = np.clip(before.weights - 3 * (moved - before.weights), -(2**27) + 1, 2**27 - 1)
        return Model(self.task.hex(), round, self.keys[number].address, moved).to_bytes()

    def _charged(self, number: int) -> bytes:
        folder = self.folder / f"device-{number}"
        account = DeviceAccount(self.url, self.terms.ledger, self.keys[number], folder)
        try:
            account.open_budget("8", "1e-4")
            return account.charge_task(self.task, self.rules.round_count, self.terms).id
        finally:
            account.close()


@contextmanager
def own_chain(folder: Path, clock: Callable[[], float] = time.time) -> Iterator[str]:
    """A chain of one's own in `folder`/chain, behind its door."""
    with (
        closing(create_dev_chain(folder / "chain", SystemEntropy(), clock)) as chain,
        closing(JsonRpcServer(chain)) as door,
    ):
        yield door.url


def save_test(path: Path) -> Path:
    """Examples to measure models on."""
    found = glyphs(99, 120)
    np.savez(path, images=found.images, labels=found.labels)
    return path
