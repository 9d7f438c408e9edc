"""The public ledger tells tables apart: what everybody can read of relative requests is the same whatever the data.

The same requests go to two tables whose counts differ tenfold, each bank with noise of its own and the same salts. A
reader without any key compares all that `/entries` and the exported journal show, the order and the errors included.
Nothing here is random in its verdict. Only digests of answers, which are salted, and what is hashed or signed over them
are left out: `data_independence` compares those too, between tables whose released answers are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import sqrt
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from assurance.data_independence import SameSalts
from assurance.planting import plant_class, replaces
from assurance.report import Finding
from noisebank import Account, NoisebankError, Precision
from noisebank.service import serializers
from research.accuracy.looks import Goal, next_step
from support.banks import memory_account, write_people
from support.internals import (
    EmbeddedLedger,
    PrecisionTarget,
    RelativeTarget,
    parse_accuracy,
    recover_account,
    saturation_limit,
    workload_rng,
)
from support.released import release_answer

ROWS, SMOKERS = 2_000, (600, 60)
LIMITS = {"ann": Precision.floor(Fraction(1, 2)), "bob": Precision.floor(Fraction(1, 100))}
SMOKING = "SELECT COUNT(*) FROM people WHERE smoker"
QUESTIONS = (
    SMOKING,
    "SELECT COUNT(*) FROM people WHERE smoker AND age > 50",
    "SELECT COUNT(*) FROM people WHERE NOT smoker",
    "SELECT -3 * COUNT_IF(smoker) FROM people",
    "SELECT SUM(income) FROM people WHERE smoker",
    "SELECT SUM(children) FROM people",
    "SELECT COUNT(*) FROM people WHERE age > 119",
    "SELECT COUNT_IF(smoker), SUM(age) FROM people",
    "SELECT town, COUNT(*) FROM people GROUP BY town",
    "SELECT AVG(income) FROM people WHERE smoker",
)
LOOKED = QUESTIONS[-2:]
"""Without a floor these begin with a look, whose released answers choose how much precision grows: docs/proofs/looks.md
says what that shows. With a floor they are measured once, or refused."""
Plant = Callable[[Account], AbstractContextManager[None]]
Seen = list[str]


class Crash(BaseException):
    """The process is gone."""


# -- what a reader sees ------------------------------------------------------------------------------


def public_view(account: Account) -> Seen:
    """All entries and the whole journal, a line each, without digests of answers and what follows from them."""
    assert isinstance(account.ledger, EmbeddedLedger)
    found = account.ledger.list_reservations(account.id)
    entries = [json.dumps(serializers.entry_to_json(place, entry)) for place, entry in enumerate(found)]
    salted = [
        account.state.data_commitment.hex(),
        *(entry.answer_digest.hex() for entry in found if entry.answer_digest is not None),
    ]
    return [_blank(line, salted) for line in (*entries, *map(_unsigned, account.ledger.export_journal()))]


def _unsigned(line: str) -> str:
    """A line of the journal without its signatures and digests of the blocks before: their lengths stay."""
    read = json.loads(line)
    if "block" in read:
        read["signature"] = len(read["signature"])
        block = read["block"]
        block |= {name: len(block[name]) for name in ("parent", "results")}
        block["transactions"] = [[*called[:3], len(called[3])] for called in block["transactions"]]
    return json.dumps(read)


def _blank(line: str, digests: list[str]) -> str:
    for digest in digests:
        line = line.replace(digest, "-" * len(digest))
    return line


# -- requests ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asking:
    """One request; `cut`: the process ends after the reservation, starts again, and the request comes once more."""

    sql: str
    wish: dict[str, Any]
    rest: dict[str, Any]
    cut: bool

    def put(self, account: Account) -> str:
        """What somebody else may notice of it: that it came back, or the error."""
        try:
            if self.cut:
                with _cut_off():
                    account.ask(self.sql, **self.wish, **self.rest)
                recover_account(account)
            account.ask(self.sql, **self.wish, **self.rest)
        except NoisebankError as error:
            return f"{type(error).__name__} {error}"
        return "answered"


@contextmanager
def _cut_off() -> Iterator[None]:
    def gone(*_: object) -> None:
        raise Crash

    with patch("noisebank.account.plain.measure", gone), suppress(Crash):
        yield


def requests(random: Random, count: int) -> list[Asking]:
    """Relative ones of every kind, and others about the same queries before and after: reused, refined, blurred."""
    made = []
    for number in range(count):
        share, sure = random.choice(["0.5%", "2%", "10%", "30%", "0.9"]), random.choice(["0.8", "0.95", "0.999"])
        said: dict[str, Any] = {"relative": share, "confidence": sure}
        if random.random() < 0.5:
            said["floor"] = random.choice(["20", "100", "500", "5000", "200000"])
        if random.random() < 0.3:
            said = {"sigma": random.choice(["3", "20", "100", "900"])}
        rest: dict[str, Any] = {"analyst": random.choice(["owner", "ann", "bob"]), "best": random.random() < 0.2}
        rest["key"] = f"key {random.randrange(count)}" if random.random() < 0.2 else f"own {number}"
        if random.random() < 0.2:
            rest["max_cost"] = random.choice(["0.001", "0.1", "2"])
        sql = random.choice(QUESTIONS)
        if "relative" in said and sql in LOOKED:
            said.setdefault("floor", "500")
        made.append(Asking(sql, said, rest, random.random() < 0.1))
    return made


def two_accounts(folder: Path, random: Random, cubes: bool) -> list[Account]:
    """600 smokers of 2,000, and 60. Everything else is as different."""
    made = []
    expected = 'expect = ["marginals"]\n' if random.random() < 0.5 else ""
    for smokers in SMOKERS:
        people = [_person(random, smokers, number < smokers) for number in range(ROWS)]
        policy = write_people(folder / str(smokers), lines=people, epsilon="20")
        if cubes:
            policy.write_text(f'cubes = [["smoker", "town"]]\n{expected}{policy.read_text()}')
        account = memory_account(policy, SameSalts())
        for analyst, limit in LIMITS.items():
            account.ledger.set_limit(account.id, account.analyst(analyst), limit.units)
        made.append(account)
    return made


def _person(random: Random, smokers: int, smokes: bool) -> str:
    age, income = random.randrange(20, 20 + smokers // 6), random.randrange(0, 1 + smokers)
    return f"{age},{income},{'true' if smokes else 'false'},{'north' if smokes else 'south'},{smokers % 7}"


def differences(accounts: list[Account], asked: list[Asking]) -> int:
    """Lines that a reader finds different between the two banks, or finds in one of them only."""
    seen = []
    for account in accounts:
        outcomes = [request.put(account) for request in asked]
        seen.append(outcomes + public_view(account))
    one, two = seen
    return sum(a != b for a, b in zip(one, two, strict=False)) + abs(len(one) - len(two))


# -- planted bugs ------------------------------------------------------------------------------------


class Searching(Account):
    """Looks in doublings until a lower bound says what a final measurement needs, all on the ledger."""

    bounds: tuple[float, ...] = ()

    @replaces
    def ask(self, sql: str, **said: Any) -> Any:
        wanted = parse_accuracy(**{name: said.get(name) for name in ("relative", "confidence", "sigma")})
        if not isinstance(wanted, RelativeTarget):
            return super().ask(sql, **said)
        question, key = self.parse(sql), said.get("key") or "search"
        goal = Goal(wanted.relative, wanted.confidence)
        moves = self.context.sensitivity_of(question.query)
        power = goal.first_look(float(saturation_limit(question.query, self.context.policy) / moves))
        for number in range(1, 40):
            look = Precision(2 ** (power + number - 1))
            found = self._look(sql, look, f"{key} / look {number}", said)
            step = next_step(goal, number, look, float(found.exact / (moves * abs(question.unit))), False)
            if step.target is not None:
                size = goal.final_quantile / (float(goal.relative) * sqrt(step.needed))
                self.bounds = (*self.bounds, size)
                return self._look(sql, look + step.target, f"{key} / final", said)
        return found

    def _look(self, sql: str, precision: Precision, key: str, said: dict[str, Any]) -> Any:
        return release_answer(self, sql, PrecisionTarget(precision), key=key, analyst=said.get("analyst", "owner"))


class GoingOn(Account):
    """Asks again by itself, for smaller values, where it was not reached."""

    @replaces
    def ask(self, sql: str, **said: Any) -> Any:
        found = super().ask(sql, **said)
        if found.verdict is not None and not found.verdict.reached and not said["key"].endswith("again"):
            floor = found.verdict.floor / 2
            return super().ask(sql, **said | {"floor": floor, "key": f"{said['key']} again"})
        return found


class Refusing(Account):
    """Says that a relative request failed where it was not reached: an error that others may see."""

    @replaces
    def ask(self, sql: str, **said: Any) -> Any:
        found = super().ask(sql, **said)
        if found.verdict is not None and not found.verdict.reached:
            raise NoisebankError("not reached")
        return found


PLANTS: dict[str, type[Account]] = {
    "a search in doublings": Searching,
    "a request that goes on by itself": GoingOn,
    "an error where it is not reached": Refusing,
}


def read_bound(wanted: list[str], relative: Fraction, confidence: Fraction) -> tuple[float, float]:
    """Between which sizes the search's lower bound was, from the precisions on the ledger alone."""
    last, before = (float(Precision.parse_decimal(text)) for text in (wanted[-1], wanted[-2]))
    most = Goal(relative, confidence).final_quantile / (float(relative) * sqrt((last - before) / 2))
    return most / sqrt(2), most


def read_search(runs: int) -> tuple[int, int, float]:
    """A reader of `/entries` against a bank that searches: bounds read rightly, tables named rightly, how closely."""
    inside = named = 0
    closest = 1.0
    relative, confidence = Fraction(1, 10), Fraction(95, 100)
    for seed in range(runs):
        with TemporaryDirectory() as folder:
            for account, smokers in zip(two_accounts(Path(folder), workload_rng(seed), False), SMOKERS, strict=True):
                account.__class__ = Searching
                account.ask(SMOKING, relative=relative, confidence=confidence, key="k")
                entries = [
                    serializers.entry_to_json(place, each)
                    for place, each in enumerate(account.ledger.list_reservations(account.id))
                ]
                low, high = read_bound([entry["wanted"] for entry in entries], relative, confidence)
                assert isinstance(account, Searching)
                inside += low <= account.bounds[-1] * (1 + 1e-9) and account.bounds[-1] <= high * (1 + 1e-9)
                named += (high > sqrt(SMOKERS[0] * SMOKERS[1])) is (smokers == SMOKERS[0])
                closest = max(closest, high / low)
    return inside, named, closest


# -- the row -----------------------------------------------------------------------------------------


def public_ledger(share: float) -> Finding:
    """150 sequences of 40 requests at full share."""
    sequences, length = max(3, round(150 * share)), 40 if share >= 0.1 else 25
    found = sum(_run(seed, length, nullcontext) for seed in range(sequences))
    few = max(2, round(15 * share))
    planted = {}
    for bug, kind in PLANTS.items():
        told = [_run(seed, length, partial(plant_class, kind=kind)) for seed in range(few)]
        planted[f"{bug} ({sum(each > 0 for each in told)} of {few} sequences told apart)"] = all(told)
    inside, named, closest = read_search(few)
    said = (
        f"its lower bound read to a factor of {closest:.2f} in {inside} of {2 * few} runs, the table named in {named}"
    )
    planted[f"the search's numbers ({said})"] = inside == named == 2 * few and closest < 1.5
    return Finding(
        row="the public ledger tells tables apart",
        tried=f"{sequences:,} sequences of {length} requests, most of them relative, on tables with {SMOKERS[0]} and "
        f"{SMOKERS[1]} of {ROWS:,} people counted; {few} on every planted bug",
        figure=f"{found} lines differ",
        violations=found,
        planted=planted,
        note="entries, journal and errors compared; crashes, caps, limits of analysts and cubes among the requests",
    )


def _run(seed: int, length: int, plant: Plant) -> int:
    random = workload_rng(seed)
    with TemporaryDirectory() as folder:
        accounts = two_accounts(Path(folder), random, cubes=bool(seed % 2))
        with ExitStack() as planted:
            for account in accounts:
                planted.enter_context(plant(account))
            return differences(accounts, requests(random, length))
