"""A poster that posts what it likes, against one member that runs `noisebank learn join` with a budget."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner, Result

from noisebank import Precision
from noisebank.cli.main import main
from noisebank.federated.blockfl import dp_sgd
from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_member import glyphs
from support.internals import (
    SMALL_SHAPE,
    DevChain,
    FolderStore,
    Follower,
    JsonRpcServer,
    Key,
    MemberBook,
    Model,
    ModelRegistry,
    Refused,
    SortitionKey,
    SystemEntropy,
    TaskRules,
    create_dev_chain,
    find_own_contract,
    parse_exact,
    post_task,
    read_terms,
    uniform_words,
)

SOUND = TaskTerms("sound", SMALL_SHAPE, norm="fixed", mode="sound", epsilon="2", delta="1e-5", batch=16, epochs=1)


class Killed(BaseException):
    """Nothing in the product catches it, as nothing catches SIGKILL."""


class Noisy:
    """Stands for DP-SGD, which needs torch: a model that is never the same twice. Counts trainings."""

    trained = 0

    def __init__(self, terms: TaskTerms, examples: Any, rounds: int) -> None:
        pass

    def train(self, weights: Any, round: int, progress: Any) -> Any:
        Noisy.trained += 1
        return weights + uniform_words(len(weights)).astype(np.float64) / 2.0**64


@dataclass
class Scene:
    """A chain whose keeper and poster is the adversary, and one member's folder."""

    folder: Path
    chain: DevChain
    url: str
    poster: Key = field(default_factory=lambda: Key(SystemEntropy().token()))

    def __post_init__(self) -> None:
        self.registry, self.store = ModelRegistry(self.url), FolderStore(self.folder / "models")
        self.ledger = find_own_contract(self.registry.node, "budget_ledger")
        self.keys = self.folder / "victim"
        self.key, self.lot = Key(SystemEntropy().token()), SortitionKey(SystemEntropy().token())
        self.key.save(self.keys / "member.key")
        self.lot.save(self.keys / "lot.key")
        examples = glyphs(5, 32)
        np.savez(self.folder / "own.npz", images=examples.images, labels=examples.labels)

    def post(self, terms: TaskTerms = SOUND, rounds: int = 1, **changes: str) -> bytes:
        """A task that has begun; two others have joined and stay silent."""
        terms = replace(terms, **{"ledger": self.ledger, **changes})
        others = [(Key(SystemEntropy().token()), SortitionKey(SystemEntropy().token())) for _ in range(3)]
        members = [(self.key, self.lot), *others]
        task, secret = post_task(
            self.registry,
            self.store,
            self.poster,
            terms,
            TaskRules(round_count=rounds, byzantine=0, patience_seconds=600),
            [(key.address, 5) for key, _ in members],
        )
        for key, lot in members:
            self.registry.join_task(key, lot, task)
        self.registry.send_call(self.poster, "begin", task, secret)
        return task

    def join(self, task: bytes, *more: str, wait: str = "0.1") -> Result:
        """`noisebank learn join`, until nothing moves any more."""
        words = [
            "learn", "join", task.hex(), "--rpc", self.url, "--contract", self.registry.contract, "--store",
            str(self.store.folder), "--keys", str(self.keys), "--data", str(self.folder / "own.npz"), "--wait", wait,
            *more,
        ]  # fmt: skip
        with patch.object(dp_sgd, "DpSgdTrainer", Noisy):
            return CliRunner().invoke(main, words)

    def verify(self, task: bytes) -> Result:
        """`noisebank learn verify`."""
        words = [
            "learn", "verify", task.hex(), "--rpc", self.url, "--contract", self.registry.contract, "--store",
            str(self.store.folder),
        ]  # fmt: skip
        return CliRunner().invoke(main, words)

    def charged(self, *ledgers: str) -> float:
        """What was charged to the member in all, on these ledgers and the chain's own."""
        total = 0.0
        for ledger in {self.ledger, *ledgers}:
            follower = Follower(self.registry.node, ledger, 0, 1)
            follower.sync()
            total += sum(float(one.spent) for one in follower.books.list_accounts() if one.owner == self.key.address)
        return total

    def submitted(self, task: bytes) -> int:
        """Models of the member on record."""
        rounds = self.registry.read_books(task).rounds
        return sum(one.member == self.key.address for each in rounds for one in each.submissions)

    def models(self, task: bytes) -> list[bytes]:
        """Stored models that name the member as their author."""
        found = []
        for digest in self.store:
            content = self.store.get(digest) or b""
            head = content.partition(b"\n")[0]
            if self.key.address.encode() in head and task.hex().encode() in head:
                found.append(digest)
        return found

    def forge(self, task: bytes) -> None:
        """A second model of the member for round 1, as the first edition could leave one behind."""
        self.store.put(
            Model(task.hex(), 1, self.key.address, np.zeros(SMALL_SHAPE.weight_count, dtype=np.int64)).to_bytes()
        )

    def crash_and_return(self, task: bytes) -> int:
        """Dies after storing its model and before submitting it, and comes back: how many models there are then."""
        send, fallen = ModelRegistry.send_call, []

        def falling(registry: ModelRegistry, key: Key, function: str, *arguments: Any, value: int = 0) -> Any:
            if function == "submit" and not fallen:
                fallen.append(function)
                raise Killed
            return send(registry, key, function, *arguments, value=value)

        with patch.object(ModelRegistry, "send_call", falling):
            with suppress(Killed):
                self.join(task, "--budget", "2")
            assert fallen, "it never came to submitting"
            self.join(task, "--budget", "2")
        assert self.submitted(task) == 1
        return len(self.models(task))


SPELLINGS = ("1e-5", "0.00001", "10e-6", "1.0e-5", "0.1e-4", "0.000010")


def posted_too_much(folder: Path, chance: random.Random) -> list[str]:
    """A poster with any epsilons and spellings, against a book with a budget: what was charged beyond it."""
    budget = Fraction(chance.randint(1, 400), 100)
    book, paid = MemberBook(folder), []
    book.set_budget(budget, "1e-4")
    for number in range(12):
        terms = replace(SOUND, epsilon=f"{chance.randint(1, 200)}e-2", delta=chance.choice(SPELLINGS))
        price = (parse_exact(terms.epsilon), parse_exact(terms.delta))
        with suppress(Refused):
            book.charge_task(bytes([number]), terms.to_bytes(), *price)
            paid.append(price)
    book.close()
    epsilon, delta = sum(one for one, _ in paid), sum(one for _, one in paid)
    return (
        [f"({epsilon}, {delta}) of a budget of ({budget}, 1e-4)"]
        if epsilon > budget or delta > parse_exact("1e-4")
        else []
    )


@contextmanager
def budgets_by_spelling() -> Iterator[None]:
    """Planted: one budget per spelling of delta, as accounts once were."""
    honest = MemberBook.charge_task

    def charge(book: MemberBook, task: bytes, work: bytes, epsilon: Fraction, delta: Fraction) -> Precision:
        spelled, budget = read_terms(work).delta, book.budget
        assert budget is not None
        other = MemberBook(Path(book.folder, spelled))
        try:
            other.set_budget(budget.epsilon, budget.delta)
            return honest(other, task, work, epsilon, delta)
        finally:
            other.close()

    with patch.object(MemberBook, "charge_task", charge):
        yield


@contextmanager
def models_in_memory() -> Iterator[None]:
    """Planted: what was trained is remembered nowhere."""
    with (
        patch.object(MemberBook, "find_model", lambda book, task, round: None),
        patch.object(MemberBook, "seal_model", lambda book, task, round, content: content),
    ):
        yield


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Everything, on a chain of its own."""
    chain = create_dev_chain(folder / "chain", SystemEntropy())
    door = JsonRpcServer(chain)
    try:
        yield Scene(folder, chain, door.url)
    finally:
        door.close()
        chain.close()
