"""Cross-validated runs of LDP-FedSGD: all mechanisms and epsilons of a fold descend side by side over the same groups.

One product of matrices gives every descent its scores; each then draws its own reports through the product's own
mechanisms. A fold is one process's work, so that all cores can be used.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from multiprocessing import get_context
from typing import TYPE_CHECKING

import numpy as np

from noisebank.entropy import simulation
from noisebank.experiments.fedsgd_tables import table
from noisebank.federated.learning import Descent, ExactMean, GradientNoise, model_named, published_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Progress = Callable[[int, int], None]
FOLDS, GROUP = 10, 1000
NONE = "non-private"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
WIDE = 20
"""Laplace spends epsilon/d on every number; with more numbers than this it runs in the first repetition only."""


@dataclass(frozen=True, order=True)
class Setting:
    """One curve's point: mechanism, epsilon, and levels (0: none)."""

    mechanism: str
    epsilon: float = 0.0
    levels: int = 0

    def noise(self, dimension: int) -> GradientNoise | ExactMean:
        """k and parameters as published."""
        if self.mechanism == NONE:
            return ExactMean()
        return published_noise(self.mechanism, self.epsilon, dimension, self.levels)


@dataclass(frozen=True)
class Job:
    """One fold of one repetition."""

    table: str
    model: str
    settings: tuple[Setting, ...]
    repetition: int
    fold: int
    quick: bool = False


@dataclass(frozen=True)
class Errors:
    """Of the finished models over their test folds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """Standard deviation between runs."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else 0.0

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.spread / sqrt(len(self.values))


def run_fold(job: Job) -> list[float]:
    """The error of each setting's model on the fold that it has not seen; one pass, one participation a device."""
    rows, targets = table(job.table, job.quick).task(job.model)
    order = simulation(3000 + job.repetition).permutation(len(rows))
    size = len(rows) // FOLDS
    test = order[job.fold * size : (job.fold + 1) * size]
    train = np.concatenate([order[: job.fold * size], order[(job.fold + 1) * size :]])
    return descend(job.model, job.settings, rows[train], targets[train], rows[test], targets[test])


def descend(
    model: str, settings: Sequence[Setting], rows: Floats, targets: Floats, test_rows: Floats, test_targets: Floats
) -> list[float]:
    """One descent for each setting over the same groups; their errors on the test rows."""
    kind, dimension = model_named(model), rows.shape[1]
    noises = [setting.noise(dimension) for setting in settings]
    groups = len(rows) // GROUP
    descent = Descent(np.zeros((len(settings), dimension)), groups, float(kind.usual_rate(dimension)))
    for group in range(groups):
        part = slice(group * GROUP, (group + 1) * GROUP)
        here = rows[part]
        slopes = kind.slopes(descent.weights @ here.T, targets[part][None])
        descent.step(np.stack([noise.mean(slope, here) for noise, slope in zip(noises, slopes, strict=True)]))
    errors = kind.errors(descent.model @ test_rows.T, test_targets[None]).mean(axis=1)
    return [float(error) for error in errors]


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes use the cores already: threads of the linear algebra under them would only wait for each other."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def cross_validated(
    wanted: Sequence[tuple[str, str, tuple[Setting, ...]]], repetitions: int, folds: int, quick: bool,
    progress: Progress = lambda done, total: None,
) -> dict[tuple[str, str], dict[Setting, Errors]]:  # fmt: skip
    """For each (table, model, settings): errors over repetitions x folds, in as many processes as there are cores."""
    jobs = []
    for name, model, settings in wanted:
        wide = table(name, quick).task(model)[0].shape[1] > WIDE
        narrow = tuple(setting for setting in settings if setting.mechanism != "laplace")
        for repetition in range(repetitions):
            chosen = narrow if wide and repetition else settings
            jobs += [Job(name, model, chosen, repetition, fold, quick) for fold in range(folds)]
    found: dict[tuple[str, str], dict[Setting, list[float]]] = defaultdict(lambda: defaultdict(list))
    jobs.sort(key=lambda job: (job.repetition, job.table != "vehicle"))  # long ones first: cores end together
    with _one_thread_each(), ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_fold, job): job for job in jobs}
        for done, future in enumerate(as_completed(running), 1):
            job = running[future]
            for setting, error in zip(job.settings, future.result(), strict=True):
                found[job.table, job.model][setting].append(error)
            progress(done, len(jobs))
    return {key: {s: Errors(tuple(errors)) for s, errors in parts.items()} for key, parts in found.items()}
