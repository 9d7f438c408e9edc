"""Noise too small: the whole path on a table and on its neighbour, a threshold test, Clopper-Pearson.

Every sample is a fresh measurement: a question that nobody asked before (a range of its own that
sees the changed person), walked through parse, price, plan, reserve, measure, seal and publish.
The claim comes from the ledger: mu is the square root of what was charged.

False alarms: each bound has two one-sided Clopper-Pearson limits at 5e-5, which a true claim
breaks together with probability about 2e-8 (5.5 standard deviations of their sum), per statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from assurance.planting import plant_bug, plant_class, replaces
from assurance.report import Finding, Progress, worker_count
from noisebank import Account, Precision, Result, read_policy
from support.banks import memory_rooms
from support.internals import Engine, Entropy, PlainStrategy, Query, Question, Reservation, SystemEntropy, open_account

POLICY = """\
name = "people"
source = "people.csv"
neighbours = "replace-one"
rows = 3
raise_delay_hours = 0
[budget]
epsilon = 100
delta = 0.5
[columns.place]
type = "integer"
bounds = [0, 1048576]
[columns.room]
type = "integer"
bounds = [0, 1048576]
[columns.income]
type = "integer"
bounds = [-100, 1000]
"""
NEAR, FAR = 2**18, 3 * 2**18
"""Where the changed person stands in D and in D'. The others stand at 0, outside every range asked about."""
PEOPLE = (f"{NEAR},{NEAR},-100", f"{FAR},{NEAR},1000")
SENSITIVITY = {"count": 1, "sum": 1100}
PER_ACCOUNT = 2_500
CONFIDENCE = 0.9999
PARALLEL_FROM = 4_000

Samples = dict[str, np.ndarray]
Plant = Callable[[Account], AbstractContextManager[None]]


def mu_lower_bound(a: np.ndarray, b: np.ndarray, confidence: float = CONFIDENCE) -> float:
    """A lower confidence bound on mu from outputs on D and on D', where those on D' are larger.

    Half of each chooses the threshold, the other half is tested.
    """
    half = len(a) // 2
    cut = np.median(np.concatenate([a[:half], b[:half]]))
    n = len(a) - half
    false_positives, false_negatives = int((a[half:] > cut).sum()), int((b[half:] <= cut).sum())

    def upper(k: int) -> float:
        return float(betaincinv(k + 1, n - k, 1 - (1 - confidence) / 2)) if k < n else 1.0

    return float(ndtri(1 - upper(false_positives)) - ndtri(upper(false_negatives)))


# -- the audited path ------------------------------------------------------------------------------


def rich_account(folder: Path, policy: str, lines: tuple[str, ...], entropy: Entropy | None = None) -> Account:
    """A whole bank in memory whose owner has raised the budget to the most that the contract allows."""
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    (folder / "people.toml").write_text(policy)
    account = open_account(memory_rooms(entropy), read_policy(folder / "people.toml"))[0]
    most = most_units(account)
    account.ledger.propose_raise(account.id, most)
    account.ledger.finish_raise(account.id)
    return account


def most_units(account: Account) -> int:
    """The largest budget, asked of the contract."""
    (most,) = account.ledger._replay.evm.call_view(account.ledger.contract, "MAX_BUDGET")
    assert isinstance(most, int)
    return most


def question_number(function: str, number: int) -> tuple[str, int]:
    """A question that no other number asks, and whether D' makes its answer larger (1) or smaller (-1)."""
    wide, high = divmod(number // 2, 1024)
    if function == "sum":
        wide, high = divmod(number, 1024)
        low = NEAR - 1 - wide
        return f"SELECT SUM(income) FROM people WHERE room BETWEEN {low} AND {NEAR + 1 + high}", 1
    spot, sign = (FAR, 1) if number % 2 == 0 else (NEAR, -1)
    return f"SELECT COUNT(*) FROM people WHERE place BETWEEN {spot - 1 - wide} AND {spot + 1 + high}", sign


@dataclass(frozen=True)
class Task:
    """What one process samples: one side of the audit."""

    side: int
    function: str
    questions: int
    plant: str = ""
    refines: bool = True


def sample(task: Task) -> Samples:
    """Outputs in units of the noise that was charged: each has sd 1 and moves by mu, if the claim is true.

    first    the FIRST answer, charged 1
    refine   what the REFINE answer says beyond it, charged 1
    pair     two different questions together, charged 2: noise that they share would show
    refined  the REFINE answer itself, charged 2 in all
    """
    move = SENSITIVITY[task.function]
    first, refine, refined = (np.empty(task.questions) for _ in range(3))
    account = None
    progress = Progress(f"{task.function}, side {task.side}, {task.plant or 'as it is'}", task.questions)
    with TemporaryDirectory() as folder, ExitStack() as bug:
        for number in range(task.questions):
            progress(number)
            if number % PER_ACCOUNT == 0:
                bug.close()
                lines = ("place,room,income", "0,0,0", "0,0,0", PEOPLE[task.side])
                account = rich_account(Path(folder), POLICY, lines)
                bug.enter_context(PLANTS[task.plant](account))
            assert account is not None
            sql, sign = question_number(task.function, number)
            once = account.ask(sql, sigma=move)
            base = 0 if sign > 0 else move * getattr(account.engine, "factor", 1)  # the attacker knows D
            first[number] = sign * (once.exact - base) / move * _root(once.cost)
            if not task.refines:
                continue
            twice = account.ask(sql, sigma=move * Fraction("0.70710678"))
            assert (once.case.name, twice.case.name) == ("FIRST", "REFINE")
            refine[number] = sign * (_beyond(once, twice) - base) / move * _root(twice.cost)
            refined[number] = sign * (twice.exact - base) / move * _root(once.cost + twice.cost)
    even = task.questions // 2 * 2
    found = {"first": first, "pair": (first[0:even:2] + first[1:even:2]) / np.sqrt(2.0)}
    return found | ({"refine": refine, "refined": refined} if task.refines else {})


def _beyond(once: Result, twice: Result) -> Fraction:
    """The fresh measurement inside a refined answer, which anybody who has both answers can compute."""
    w, b = twice.parts[0].target.exact, once.parts[0].target.exact
    return (w * twice.exact - b * once.exact) / (w - b)


def _root(cost: Precision) -> Fraction:
    return Fraction(float(cost) ** 0.5)


def bounds_over_claims(a: Samples, b: Samples) -> dict[str, float]:
    """For each statistic: the lower bound of mu divided by the mu that was charged."""
    claims = {"first": 1.0, "refine": 1.0, "refined": 2.0**0.5, "pair": 2.0**0.5}
    ratios = {name: mu_lower_bound(a[name], b[name]) / claims[name] for name in a}
    return ratios | {"all": mu_lower_bound(_pooled(a), _pooled(b))}


def _pooled(samples: Samples) -> np.ndarray:
    """Everything that claims mu = 1."""
    return np.stack([samples[name] for name in ("first", "refine") if name in samples], axis=1).ravel()


# -- planted bugs ----------------------------------------------------------------------------------


class ScaledNoise(SystemEntropy):
    """Noise that is too small by a factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @replaces
    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    @replaces
    def discrete_gaussian(self, scale: float) -> int:
        return super().discrete_gaussian(scale * self.factor)


class ReusedNoise(SystemEntropy):
    """Noise that two questions share: every second draw of a scale is the draw before."""

    def __init__(self) -> None:
        self.kept: dict[float, int] = {}

    @replaces
    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    @replaces
    def discrete_gaussian(self, scale: float) -> int:
        if scale in self.kept:
            return self.kept.pop(scale)
        self.kept[scale] = super().discrete_gaussian(scale)
        return self.kept[scale]


class Amplified:
    """An engine in which people move statistics further than the policy's sensitivity says."""

    def __init__(self, engine: Engine, factor: int) -> None:
        self.engine, self.factor = engine, factor
        self.identity = engine.identity

    @replaces
    def statistic(self, query: Query) -> int:
        return self.factor * self.engine.statistic(query)


class Undercharging(PlainStrategy):
    """A bank that measures better than it charges."""

    factor = 2

    @replaces
    def draw_contents(self, paid: Sequence[tuple[Reservation, Question]]) -> Any:
        return super().draw_contents(
            [
                (replace(reservation, fresh_precision=Precision(reservation.fresh_precision.units * self.factor)), each)
                for reservation, each in paid
            ]
        )


class UnderchargingMuch(Undercharging):
    factor = 16


def _noise(factor: float) -> Plant:
    return lambda account: plant_bug(account.context, "entropy", ScaledNoise(factor))


def _amplified(factor: int) -> Plant:
    return lambda account: plant_bug(account.context, "engine", Amplified(account.engine, factor))


PLANTS: dict[str, Plant] = {
    "": nullcontext,
    "10% too little noise": _noise(0.9),
    "a quarter of the noise": _noise(1 / 4),
    "sensitivity understated by 2": _amplified(2),
    "sensitivity understated by 4": _amplified(4),
    "charging half": lambda account: plant_class(account.context.plain, Undercharging),
    "charging a sixteenth": lambda account: plant_class(account.context.plain, UnderchargingMuch),
    "noise shared by two questions": lambda account: plant_bug(account.context, "entropy", ReusedNoise()),
}


# -- the row ---------------------------------------------------------------------------------------


def mu_audit(share: float) -> Finding:
    """Claimed mu = 1, whole path, 100,000 samples a side at full share: 25,000 of each kind.

    Counts and sums, FIRST and REFINE. A planted bug counts as caught when the bound passes the claim.
    """
    questions = max(100, round(25_000 * share))
    full = share >= 0.5
    if full:
        plants = {"10% too little noise": round(30_000 * share), "sensitivity understated by 2": 4_000}
        plants |= {"charging half": 4_000, "noise shared by two questions": 1_000}
    else:  # fewer samples see only larger bugs
        names = ("a quarter of the noise", "sensitivity understated by 4", "charging a sixteenth")
        plants = dict.fromkeys(names, 160) | {"noise shared by two questions": 200}
    honest_tasks = {(f, side): Task(side, f, questions) for f in SENSITIVITY for side in (0, 1)}
    plant_tasks = {
        (plant, side): Task(side, "count", count, plant, full) for plant, count in plants.items() for side in (0, 1)
    }
    tasks = [*honest_tasks.values(), *plant_tasks.values()]
    found = dict(zip(tasks, _all(tasks), strict=True))
    honest = {f: (found[honest_tasks[f, 0]], found[honest_tasks[f, 1]]) for f in SENSITIVITY}
    ratios = {
        f"{name} ({f})": ratio
        for f, (a, b) in honest.items()
        for name, ratio in bounds_over_claims(a, b).items()
        if name != "all"
    }
    a, b = (np.concatenate([_pooled(sides[side]) for sides in honest.values()]) for side in (0, 1))
    order = np.arange(len(a)).reshape(2, -1).T.ravel()  # counts and sums alike in both halves
    ratios["all"] = mu_lower_bound(a[order], b[order])
    planted, seen = {}, []
    for plant, count in plants.items():
        worst = max(bounds_over_claims(*(found[plant_tasks[plant, side]] for side in (0, 1))).values())
        planted[f"{plant} ({worst:.3f})"] = worst > 1
        seen.append(f"{2 * count if full else count:,}")
    return Finding(
        row="noise too small: mu-audit of the whole path",
        tried=f"{len(a):,} samples a side, claimed mu = 1; planted bugs with {', '.join(seen)} a side",
        figure="; ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items()) + " (bound / claim)",
        violations=sum(ratio > 1 for ratio in ratios.values()),
        planted=planted,
        note="bounds at 99.99%; a correct bank breaks one with probability about 2e-8",
    )


def _all(tasks: list[Task]) -> list[Samples]:
    if sum(task.questions for task in tasks) < PARALLEL_FROM:
        return [sample(task) for task in tasks]
    with ProcessPoolExecutor(max_workers=worker_count(), mp_context=get_context("spawn")) as pool:
        return list(pool.map(sample, tasks))
