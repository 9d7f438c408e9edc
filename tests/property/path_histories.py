"""Random histories of an account under seeded entropy, as plain data: for comparing two versions of the path.

    OPENBLAS_CORETYPE=Nehalem PYTHONPATH=src:tests:. python tests/property/path_histories.py 0 10000 > outcomes.jsonl

plays them and prints one line each. Two versions of the product that decide, draw and refuse alike print the same
lines: every answer, every sealed body with its salt, every decision of the contract in its order, every error. Blocks
are left out, since a version may put more or fewer calls into one. `--full` prints the outcomes, not their digest.

A history asks plain, grouped, derived and relative questions, alone or several in a SELECT, with keys that are used
again, limits, prices and analysts; it loses answers, is cut off at durable steps, and is opened again.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from noisebank import read_policy
from noisebank.account.recovery import recover_account
from noisebank.bank import opening
from noisebank.bank.opening import BankParts, Confirmed, load_accounts, open_account
from noisebank.core.errors import KeyReused, NoisebankError
from noisebank.ledger.abi import budget_ledger
from noisebank.ledger.block import Block
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Role
from noisebank.ledger.signing import Key
from noisebank.vault.sqlite_vault import SqliteVault

CURATOR, OWNER = Key(b"\x01" * 32), Key(b"\x02" * 32)
TABLE = "age,income,smoker,town\n" + "".join(
    f"{20 + i * 7 % 60},{i * 37 % 900},{'true' if i % 3 else 'false'},{'north' if i % 2 else 'south'}\n"
    for i in range(40)
)
POLICY = """\
name = "people"
source = "{table}"
neighbours = "{neighbours}"
{extra}
[budget]
epsilon = {epsilon}
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 99]
bins = [25, 50, 75]
[columns.income]
type = "integer"
bounds = [-100, 1000]
[columns.smoker]
type = "boolean"
[columns.town]
type = "text"
keys = ["north", "south"]
[queries]
smokers = "SELECT COUNT(*) FROM people WHERE smoker"
"""
CUBES = ("", 'cubes = [["age", "smoker"]]', 'cubes = [["age"], ["smoker", "town"]]')
SINGLE = (
    "SELECT COUNT(*) FROM people WHERE smoker",
    "select count(*) from people p where p.smoker = true",
    "smokers",
    "SELECT SUM(income) FROM people",
    "SELECT 3 * SUM(income) + 2 FROM people",
    "SELECT COUNT(*) FROM people WHERE age > 30",
    "SELECT COUNT(*) FROM people WHERE age <= 49",
    "SELECT COUNT(*) FROM people WHERE age <= 24 AND smoker",
    "SELECT COUNT(*) FROM people WHERE town = 'north'",
    "SELECT COUNT(*) FROM people WHERE smoker AND town = 'south'",
    "SELECT COUNT(*) FROM people GROUP BY town",
    "SELECT COUNT(*) FROM people GROUP BY age",
    "SELECT SUM(income) FROM people GROUP BY smoker",
)
GROUPS = (
    "SELECT AVG(income) FROM people WHERE smoker",
    "SELECT VARIANCE(income) FROM people WHERE smoker",
    "SELECT COUNT(*), SUM(income) FROM people WHERE smoker",
    "SELECT COUNT(*), SUM(income) FROM people WHERE age <= 49",
    "SELECT COUNT(*), AVG(income) FROM people GROUP BY town",
    "SELECT MEDIAN(age) FROM people",
    "SELECT COUNT(*), SUM(income), SUM(age) FROM people GROUP BY town",
)
ODD: tuple[dict[str, Any], ...] = (
    {"sigma": "-1"}, {"sigma": "1e-30"}, {"relative": "20%", "floor": "50"}, {"epsilon": "0.2", "delta": "1e-6"},
)  # fmt: skip
COUNTS: tuple[dict[str, Any], ...] = ({"sigma": "3"}, {"sigma": "2"}, {"sigma": "5"}, {"within": "8"}, {"sigma": "9"})
SUMS: tuple[dict[str, Any], ...] = ({"sigma": "3000"}, {"sigma": "2000"}, {"sigma": "5000"}, {"within": "8000"})
EPSILONS: tuple[dict[str, Any], ...] = tuple(
    {"epsilon": epsilon, "delta": "1e-6"} for epsilon in ("0.3", "0.5", "0.2", "0.8")
)
STEPS = ("save", "reserve", "seal", "publish")


TABLE_FILE = Path(tempfile.gettempdir(), "noisebank-histories", "people.csv")
"""The same for all versions that are compared."""


class Crash(BaseException):
    """The process ends here."""


class KnownEngine:
    """The real engine of a policy; what it has said once is remembered, for speed."""

    def __init__(self, engine: Any) -> None:
        self._engine, self._known = engine, dict[Any, Any]()

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._remember(name, *arguments)

    def statistics_many(self, queries: Any) -> list[Any]:
        """As an engine that reads one query after the other."""
        return [self.statistics(query) if query.by else (self.statistic(query),) for query in queries]

    def _remember(self, name: str, *arguments: Any) -> Any:
        key = name, *(getattr(argument, "digest", argument) for argument in arguments)
        if key not in self._known:
            self._known[key] = getattr(self._engine, name)(*arguments)
        return self._known[key]


ENGINES: dict[str, KnownEngine] = {}


def known_engine(policy: Any, *others: Any, make: Any = opening.make_engine) -> KnownEngine:
    """One engine for all accounts of a policy."""
    name = f"{policy.neighbours} {policy.cubes}"
    if name not in ENGINES:
        ENGINES[name] = KnownEngine(make(policy, *others))
    return ENGINES[name]


class SeededEntropy:
    """NOT for noise that protects people. One stream per scale, so that the order of scales does not matter."""

    def __init__(self, seed: int) -> None:
        self._seed, self._tokens, self._streams = seed, Random(f"{seed} tokens"), dict[float, Random]()

    def discrete_gaussian(self, scale: float) -> int:
        stream = self._streams.setdefault(scale, Random(f"{self._seed} {scale!r}"))
        return round(stream.gauss(0.0, 1.0) * scale)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def token(self, size: int = 32) -> bytes:
        return self._tokens.randbytes(size)


@dataclass
class Fuse:
    """Ends the process at a durable step, once."""

    step: str = ""

    @contextmanager
    def around(self, step: str) -> Iterator[None]:
        self.burn(f"before {step}")
        yield
        self.burn(f"after {step}")

    def burn(self, here: str) -> None:
        if here == self.step:
            self.step = ""
            raise Crash(here)

    def die(self, reason: str) -> None:
        raise Crash(reason)


class WatchedJournal(Journal):
    fuse: Fuse

    def append(self, block: Block) -> None:
        first = block.transactions[0]
        with self.fuse.around(budget_ledger().decode_call(first.data)[0] if first.to else "deploy"):
            super().append(block)


class WatchedVault(SqliteVault):
    fuse: Fuse

    def _watch(self, step: str, work: Callable[..., Any], *arguments: Any) -> Any:
        self.fuse.burn(f"before {step}")
        outcome = work(*arguments)
        if not (isinstance(outcome, list) and any(isinstance(each, KeyReused) for each in outcome)):
            self.fuse.burn(f"after {step}")  # a refusal ends the step
        return outcome


def _watch_vault(name: str, step: str) -> None:
    real = getattr(SqliteVault, name)
    setattr(WatchedVault, name, lambda self, rows: self._watch(step, real, self, rows))


for _name, _step in (("save_requests", "save"), ("seal_many", "seal")):
    _watch_vault(_name if hasattr(SqliteVault, _name) else {"save": "save_request", "seal": "seal"}[_step], _step)


@dataclass
class History:
    """One account on files, and what came of everything that was done to it."""

    folder: Path
    seed: int
    outcomes: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random, self.fuse, self.entropy = Random(self.seed), Fuse(), SeededEntropy(self.seed)
        neighbours = self.random.choice(("add-remove", "replace-one"))
        size = "rows = 40" if neighbours == "replace-one" else "row_cap = 1000"
        extra = f"{size}\n{self.random.choice(CUBES)}"
        if "cubes" in extra:
            self.random.random()  # once it chose a setting that is gone; the recorded histories go on as before
        epsilon = self.random.choice(("2", "8", "30"))
        policy = self.folder / "people.toml"
        policy.write_text(POLICY.format(table=TABLE_FILE, neighbours=neighbours, extra=extra, epsilon=epsilon))
        journal = Journal(self.folder / "journal.sqlite")
        create_chain(journal, CURATOR, self.entropy, self._clock)
        journal.close()
        self._open_parts()
        self.account, _ = open_account(self.parts, read_policy(policy), confirmed=Confirmed(header=True, policy=True))
        for name in ("ann", "bob"):
            self.parts.ledger.set_limit(self.account.id, self.account.analyst(name), 10**17)
        self.favourites = self.random.sample(SINGLE, 4), self.random.sample(GROUPS, 2)
        self.keys: list[tuple[str, dict[str, Any]]] = []

    @staticmethod
    def _clock() -> float:
        return 1_000.0

    def _open_parts(self) -> None:
        journal = WatchedJournal(self.folder / "journal.sqlite")
        journal.fuse = self.fuse
        ledger = EmbeddedLedger(journal, {Role.CURATOR: CURATOR, Role.OWNER: OWNER}, self._clock, self.fuse.die)
        vault = WatchedVault(self.folder / "vault.sqlite", on_failure=self.fuse.die)
        vault.fuse = self.fuse
        self.parts = BankParts(ledger, vault, self.entropy)

    def close(self) -> None:
        self.parts.ledger.close()
        self.parts.vault.close()

    def reopen(self) -> None:
        """Another process opens the bank and recovers."""
        self.close()
        self._open_parts()
        (self.account,) = load_accounts(self.parts)
        found = recover_account(self.account)  # of a group that lost an answer, a version may have finished the rest
        self.outcomes.append(["recovered", found.waiting, found.unknown, found.lost])

    def play(self, steps: int) -> None:
        """Takes random steps."""
        for _ in range(steps):
            chance = self.random.random()
            if chance < 0.05:
                self.reopen()
            elif chance < 0.08:
                self._lose_answer()
            elif chance < 0.14:
                self._set_limit()
            else:
                self._ask()

    def _ask(self) -> None:
        random = self.random
        if self.keys and random.random() < 0.25:
            sql, options = random.choice(self.keys)
            if random.random() < 0.3:  # the same key with another request
                options = {**options, **random.choice(COUNTS)}
        else:
            sql = random.choice(self.favourites[random.random() > 0.75])
            usual = EPSILONS if sql in GROUPS else SUMS if "income" in sql else COUNTS
            options = dict(random.choice(usual if random.random() < 0.93 else ODD))
            if random.random() < 0.3:
                options["analyst"] = random.choice(("ann", "bob"))
            if random.random() < 0.1:
                options["best"] = True
            if random.random() < 0.15:
                options["max_cost"] = random.choice(("0", "0.001", "0.05", "5"))
            if random.random() < 0.5:
                options["key"] = f"key {len(self.keys)}"
                self.keys.append((sql, options))
        crash = ""
        if random.random() < 0.15:  # within a group, versions may differ in what is cut off after a reservation
            names = STEPS if sql in SINGLE else ("reserve",)
            crash = f"{random.choice(('before', 'after'))} {random.choice(names)}"
        self.fuse.step = crash
        try:
            outcome = describe(self.account.ask(sql, **options))
        except NoisebankError as error:
            outcome = describe_error(error)
        except Crash:
            self.outcomes.append(["crash", crash])
            self.fuse.step = ""
            self.reopen()
            return
        self.fuse.step = ""
        self.outcomes.append([sql, outcome])

    def _set_limit(self) -> None:
        name, units = self.random.choice(("ann", "bob")), self.random.choice((10**15, 10**17, 10**18))
        try:
            self.parts.ledger.set_limit(self.account.id, self.account.analyst(name), units)
        except NoisebankError as error:
            self.outcomes.append(describe_error(error))

    def _lose_answer(self) -> None:
        sealed = sorted(self.parts.vault.list_answers(self.account.id), key=lambda answer: answer.id)
        if sealed:
            lost = self.random.choice(sealed)
            database: Any = self.parts.vault._database  # type: ignore[attr-defined]
            database.execute("DELETE FROM answers WHERE id = ?", (lost.id,))
            self.outcomes.append(["lost", lost.id.hex()])
            self.reopen()

    def books(self) -> list[Any]:
        """Decisions in their order, sealed answers, saved requests."""
        decisions = [
            [
                entry.id.hex(), entry.query.hex(), entry.analyst.hex(), entry.category, entry.case.name,
                entry.target.units, entry.fresh_precision.units, entry.reused_id.hex() if entry.reused_id else "",
                entry.spent_after.units, entry.cost.units, entry.used_after.units, entry.cube, list(entry.runs),
                entry.answer_digest.hex() if entry.answer_digest else "",
            ]
            for entry in self.account.ledger.list_reservations(self.account.id)
        ]  # fmt: skip
        sealed = sorted(
            (kept.id.hex(), kept.text, kept.salt.hex()) for kept in self.parts.vault.list_answers(self.account.id)
        )
        requests = [
            [request.id.hex(), request.analyst, request.key, request.body]
            for entry in self.account.ledger.list_reservations(self.account.id)
            if (request := self.parts.vault.find_request(entry.id)) is not None
        ]
        return [decisions, sealed, requests]


def describe_error(error: NoisebankError) -> list[str]:
    """Its kind and its fields; the words for people may change."""
    return [type(error).__name__, *(f"{name} {value}" for name, value in sorted(vars(error).items()))]


def describe(answer: Any) -> int:
    """What the asker was charged; cases, bits and receipts follow from the books."""
    return int(answer.cost.units)


def play_history(seed: int, steps: int = 12) -> list[Any]:
    """Returns all that came of one history."""
    if not TABLE_FILE.is_file():
        TABLE_FILE.parent.mkdir(exist_ok=True)
        TABLE_FILE.write_text(TABLE)
    with patch.object(opening, "make_engine", known_engine):
        return _play_history(seed, steps)


def _play_history(seed: int, steps: int) -> list[Any]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="histories-", dir=memory if memory.is_dir() else None) as room:
        history = History(Path(room), seed)
        try:
            history.play(steps)
            return [history.outcomes, history.books()]
        finally:
            history.close()


def to_line(seed: int, outcome: list[Any], full: bool) -> str:
    """Returns a history's line: its counts, and its digest or all of it."""
    text = json.dumps(outcome, sort_keys=True)
    counts = {"answers": len(outcome[1][1]), "decisions": len(outcome[1][0]), "steps": len(outcome[0])}
    return json.dumps({"seed": seed, **counts, "outcome": outcome if full else sha256(text.encode()).hexdigest()})


if __name__ == "__main__":
    full = "--full" in sys.argv
    first, last = (int(argument) for argument in sys.argv[1:] if argument != "--full")
    for seed in range(first, last):
        print(to_line(seed, play_history(seed), full), flush=True)
