"""P1's experiments as runs of systems: who pays what, who answers how many, how far off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isnan, nan
from typing import TYPE_CHECKING, Protocol

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.intervals import normal_quantile
from noisebank.core.units import Precision
from noisebank.planning.inference import CubePosterior, CubeStatistic
from noisebank.planning.linear import Vector
from noisebank.planning.strategies.axes import Axis
from noisebank.privacy.calibration import account_epsilon, budget_precision
from research.benches.cell_workloads import make_workload
from research.benches.reuse import Cells, plan_with_looks
from research.inference.bayes import _wish, questions
from research.inference.laplace_system import LaplaceSystem, Reply
from research.papers.exhibit import Found

if TYPE_CHECKING:
    from numpy.random import Generator

CELLS = 32
"""The 4,096 counts of a histogram, merged: P1's inference is slow, and its questions ask the first ones."""
HISTOGRAMS = ("nettrace", "searchlogs")
TITLES = {"nettrace": "net-trace", "searchlogs": "search logs"}
DELTA = Fraction(1, 10**6)
POINTS = 20
"""Of a curve."""
STRICTEST = 0.1
"""Of the requests: those for which it is also counted how many are answered as near as they require."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One of P1's experiments."""

    within: tuple[float, float]
    miss: float
    budget: float
    tree: float = 0.0
    requests: int = 1000


@dataclass(frozen=True, slots=True)
class Asking:
    """One run's histogram, questions and utility requirements."""

    counts: Vector
    asked: Vector
    reaches: Vector
    generator: Generator


class System(Protocol):
    """Answers, and says what its largest cell has spent, in epsilon."""

    def ask(self, query: Vector, within: float) -> Reply | None:
        """None if the budget does not allow it."""
        ...

    def spent_epsilon(self) -> float:
        """Pure, or at delta 1e-6 for Gaussian noise."""
        ...


class Laplace:
    """P1's own: dynamic or static budgets, with or without Bayesian inference."""

    def __init__(self, asking: Asking, setting: Setting, infer: bool = False, alpha: float | None = None) -> None:
        self._system = LaplaceSystem(asking.counts, setting.budget, 1 - setting.miss, infer, asking.generator)
        self._alpha = alpha
        if infer and setting.tree:
            self._system.plant_tree(setting.tree)

    def ask(self, query: Vector, within: float) -> Reply | None:
        return self._system.ask(query, within, self._alpha)

    def spent_epsilon(self) -> float:
        return float(self._system.spent.max())


class LeastSquares(Laplace):
    """P1's other baseline: pays as the improved baseline, then takes the *unweighted* least-squares answer."""

    def __init__(self, asking: Asking, setting: Setting) -> None:
        super().__init__(asking, setting)
        cells = len(asking.counts)
        self._gram, self._right = np.zeros((cells, cells)), np.zeros(cells)

    def ask(self, query: Vector, within: float) -> Reply | None:
        paid = super().ask(query, within)
        if paid is None:
            return None
        self._gram += np.outer(query, query)
        self._right += query * paid.value
        value = float(query @ (np.linalg.pinv(self._gram, hermitian=True) @ self._right))
        return Reply(value, value - within, value + within, False)


class Planner:
    """The bank's planner: Gaussian noise, first look by the default rule, charges as the contract takes them."""

    def __init__(self, asking: Asking, setting: Setting) -> None:
        self._asking, axes = asking, (Axis(len(asking.counts), True),)
        self._budget = budget_precision(Fraction(setting.budget), DELTA)
        self._knowledge = CubePosterior(CubeStatistic(axes))
        self._books, self._quantile = Cells(self._budget, len(asking.counts)), normal_quantile(1 - setting.miss)

    def ask(self, query: Vector, within: float) -> Reply | None:
        wish, wanted = _wish(query, within)
        known = self._knowledge
        plan = plan_with_looks(known, wish, wanted, self._books, self._asking.counts, self._asking.generator)
        if plan.fresh_precision:
            if not self._books.pay(plan.charges, plan.fresh_precision):
                return None
            noise = (
                float(self._asking.generator.standard_normal()) * wish.max_weight / float(plan.fresh_precision) ** 0.5
            )
            known.add_measurement(plan, wish.dot(self._asking.counts) + noise)
        answer = known.estimate_planned(plan)
        factor = float(query.max()) / wish.max_weight  # the canonical query leaves a common factor out
        value, reach = answer.value * factor, self._quantile * answer.stddev * factor
        return Reply(value, value - reach, value + reach, not plan.fresh_precision)

    def spent_epsilon(self) -> float:
        return float(account_epsilon(Precision(self._books.spent), DELTA))


Make = Callable[[Asking, Setting], System]
MAKES: dict[str, Make] = {
    "static": lambda asking, setting: Laplace(asking, setting, alpha=setting.budget / setting.requests),
    "dynamic": Laplace,
    "least squares": LeastSquares,
    "bayes": lambda asking, setting: Laplace(asking, setting, infer=True),
    "ours": Planner,
}


def histogram(name: str) -> tuple[Vector, str]:
    """Counts merged to CELLS, and where they come from."""
    work = make_workload(name, queries=1)
    return work.counts.reshape(CELLS, -1).sum(axis=1), work.source


def asking(name: str, seed: int, setting: Setting) -> Asking:
    """Questions by equations 50 and 51; other seeds for the other histogram."""
    counts, _ = histogram(name)
    generator = simulation_rng(1000 * HISTOGRAMS.index(name) + seed)
    asked = questions(generator, CELLS, setting.requests)
    return Asking(counts, asked, generator.uniform(*setting.within, setting.requests), generator)


def one_run(system: str, name: str, seed: int, setting: Setting) -> Found:
    """Curves over the requests: epsilon, share answered, share of truths inside, mean error over what was required."""
    made = asking(name, seed, setting)
    running = MAKES[system](made, setting)
    answered = inside = inferred = strict = 0
    error, strictest = 0.0, float(np.quantile(made.reaches, STRICTEST))
    found: Found = {"spent": [], "answered": [], "inside": [], "error": []}
    marks = {round(place) for place in np.linspace(setting.requests / POINTS, setting.requests, POINTS)}
    for place, (query, reach) in enumerate(zip(made.asked, made.reaches.tolist(), strict=True), 1):
        reply, truth = running.ask(query, reach), float(query @ made.counts)
        if reply is not None:
            answered += 1
            inside += reply.low <= truth <= reply.high
            strict += reach <= strictest and abs(reply.value - truth) <= reach
            inferred += reply.inferred
            error += abs(reply.value - truth) / reach
        if place in marks:
            found["spent"].append(running.spent_epsilon())
            found["answered"].append(answered / place)
            found["inside"].append(inside / answered if answered else nan)
            found["error"].append(error / answered if answered else nan)
    strict_share = strict / float(np.sum(made.reaches <= strictest))
    return {**found, "inferred": inferred / setting.requests, "strict": strict_share}


def many_runs(system: str, name: str, runs: int, setting: Setting) -> Found:
    """Curves as mean, 5% and 95% of the runs; ends as means."""
    rows = [one_run(system, name, seed, setting) for seed in range(runs)]
    found: Found = {"runs": runs, **{key: float(np.mean([row[key] for row in rows])) for key in ("inferred", "strict")}}
    for key in ("spent", "answered", "inside", "error"):
        table = np.array([row[key] for row in rows])
        mean, spread = _mean(table), np.nanquantile(table, (0.05, 0.95), axis=0)
        found[key] = [_plain(mean), *(_plain(one) for one in spread)]
        found[f"{key}_end"] = float(mean[-1])
        found[f"{key}_ends"] = _plain(table[:, -1])
    return found


def _mean(table: Vector) -> Vector:
    made: Vector = np.nanmean(table, axis=0)
    return made


def _plain(values: Sequence[float] | Vector) -> list[float | None]:
    """For JSON: nothing instead of not a number."""
    return [None if isnan(value) else float(value) for value in values]


def places(setting: Setting) -> list[int]:
    """The requests at which curves are kept."""
    return sorted({round(place) for place in np.linspace(setting.requests / POINTS, setting.requests, POINTS)})
