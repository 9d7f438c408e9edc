"""A sound search for relative accuracy in numbers, beside P3's: `opu_looks` on simulated answers.

S(t) = t y_t, with y_t the answer of precision t, has independent increments: normal with mean u dt and
variance dt for a true value u in sensitivities. That is all that a simulation of looks needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING

from noisebank.core.entropy import simulation_rng
from noisebank.core.intervals import normal_quantile
from noisebank.core.units import Precision
from noisebank.privacy.calibration import account_epsilon
from research.accuracy.looks import Goal, Step, next_step
from research.accuracy.unsound import REQUIRED, Settings, flat, laplace_coverage, search, ten_users

if TYPE_CHECKING:
    from numpy.random import Generator

TRUTHS = (200.0, 1000.0, 5000.0)
COMPARED_DEFAULT = 0.5
"""P3's eps_def in its Figure 7 and in the comparison."""
CONFIDENCE = Fraction(95, 100)
DELTA = Fraction(1, 10**6)
ROWS = 32_561
"""Of P3's table: the most that a count can be, from which the first look follows."""
FINE_START = Precision(10**10)
"""1e-8: the first look of the method before anything is rounded to the ladder."""


@dataclass(frozen=True, slots=True)
class Method:
    """One accuracy, many runs. Precisions are means over the runs, the looks included."""

    relative: float
    oracle: float
    """What a single measurement costs whose asker knows the true value beforehand."""
    precision: float
    coverage: float

    @property
    def ratio(self) -> float:
        """Cost over the oracle's."""
        return self.precision / self.oracle


@dataclass(frozen=True, slots=True)
class Sound:
    """All queries together; every one is a different query, so nothing is reused."""

    precision: float
    epsilon: float
    """At delta 1e-6, of the mean total precision."""
    coverage_least: float
    coverage_mean: float
    ratio_mean: float
    ratio_most: float


@dataclass(frozen=True, slots=True)
class Compared:
    """Ten queries of one true value: what each way spends, and how often it is within 1 - A_req."""

    truth: float
    flat: float
    bst: float
    unsound: float
    unsound_coverage: tuple[float, float]
    """Least and mean over the ten queries."""
    flat_coverage: tuple[float, float]
    oracle: float
    """Epsilon of Gaussian answers whose asker knows the truth beforehand."""
    sound: Sound
    """Before rounding to the ladder."""
    product: Sound
    """With looks and targets that are powers of two."""

    @property
    def surcharge(self) -> float:
        """Share of precision that rounding up to powers of two adds."""
        return self.product.precision / self.sound.precision - 1.0


def sound(required: Sequence[float], truth: float, on_ladder: bool, runs: int, seed: int) -> Sound:
    """The method for queries of these required accuracies, all of one true value.

    `on_ladder`: looks and targets are powers of two. Without it the looks double from
    1e-8 and the final measurement has exactly the precision that the lower bound asks for.
    """
    generator = simulation_rng(seed)
    distinct = {accuracy: _method(accuracy, truth, on_ladder, runs, generator) for accuracy in dict.fromkeys(required)}
    methods = [distinct[accuracy] for accuracy in required]
    precision = sum(method.precision for method in methods)
    return Sound(
        precision=precision,
        epsilon=epsilon_of(precision),
        coverage_least=min(method.coverage for method in methods),
        coverage_mean=sum(method.coverage for method in methods) / len(methods),
        ratio_mean=sum(method.ratio for method in methods) / len(methods),
        ratio_most=max(method.ratio for method in methods),
    )


def compare(truth: float, runs: int) -> Compared:
    """Ten different queries of this true value, each way at eps_def .5; beta .05 and delta 1e-6 for ours."""
    asked, settings = ten_users("Count", truth, truth), Settings(COMPARED_DEFAULT)
    found = search(asked, settings, simulation_rng(0))
    oracle = sum(oracle_precision(float(goal_for(required).relative), truth) for required in REQUIRED)
    searched = [laplace_coverage(reply.epsilon or 0.0, one) for reply, one in zip(found.replies, asked, strict=True)]
    flatly = [laplace_coverage(COMPARED_DEFAULT, one) for one in asked]
    return Compared(
        truth=truth,
        flat=flat(asked, settings, reuse=False),
        bst=flat(asked, settings, reuse=True),
        unsound=found.total,
        unsound_coverage=(min(searched), sum(searched) / len(searched)),
        flat_coverage=(min(flatly), sum(flatly) / len(flatly)),
        oracle=epsilon_of(oracle),
        sound=sound(REQUIRED, truth, on_ladder=False, runs=runs, seed=1),
        product=sound(REQUIRED, truth, on_ladder=True, runs=runs, seed=2),
    )


def oracle_precision(relative: float, truth: float) -> float:
    """(z/(R u))^2 with the two-sided quantile of 95%: the price for one who knows the answer."""
    return (normal_quantile(float(CONFIDENCE)) / (relative * truth)) ** 2


def epsilon_of(precision: float) -> float:
    """Epsilon at delta 1e-6, from the bank's own accounting."""
    return float(account_epsilon(Precision.ceil(Fraction(precision)), DELTA))


def goal_for(required: float) -> Goal:
    """P3 asks for an accuracy of .98; that is a relative error of .02."""
    return Goal(1 - Fraction(str(required)), CONFIDENCE)


def look_until_decided(wanted: Goal, truth: float, first: Precision, generator: Generator) -> tuple[Precision, Step]:
    """Looks in doublings from `first`; the last look and what `next_step` then asked for."""
    look, number, before, walk = first, 1, 0.0, 0.0
    while True:
        now = float(look)
        walk += truth * (now - before) + float(generator.standard_normal()) * sqrt(now - before)
        step = next_step(wanted, number, look, walk / now, nonnegative=True)
        if step.target is not None:
            return look, step
        look, number, before = look + look, number + 1, now


def _method(required: float, truth: float, on_ladder: bool, runs: int, generator: Generator) -> Method:
    wanted = goal_for(required)
    relative = float(wanted.relative)
    first = Precision(2 ** wanted.first_look(ROWS)) if on_ladder else FINE_START
    spent, covered = 0.0, 0
    for _ in range(runs):
        look, step = look_until_decided(wanted, truth, first, generator)
        final = float(step.target) if on_ladder and step.target is not None else step.needed
        error = float(generator.standard_normal()) / sqrt(final)  # of the fresh increment alone
        covered += abs(error) <= relative * truth
        spent += float(look) + final
    return Method(relative, oracle_precision(relative, truth), spent / runs, covered / runs)
