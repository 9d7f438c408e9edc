"""Cross-validated runs of LDP-FedSGD: all folds, mechanisms and epsilons of a repetition descend side by side.

One product of matrices gives every descent its scores; each then draws its own reports through the product's own
mechanisms. A repetition is one process's work, so that all cores can be used.
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

from noisebank.core.entropy import simulation_rng
from noisebank.federated.fedsgd import ExactMean, GradientDescent, GradientNoise, get_model, published_noise
from research.fedsgd.tables import table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Places = NDArray[np.int64]

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
    """The folds of one repetition."""

    table: str
    model: str
    settings: tuple[Setting, ...]
    repetition: int
    folds: int
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


def run_folds(job: Job) -> list[list[float]]:
    """For each fold, the error of each setting's model on rows that it has not seen."""
    rows, targets = table(job.table, job.quick).task(job.model)
    order = simulation_rng(3000 + job.repetition).permutation(len(rows))
    size = len(rows) // FOLDS
    tests = [order[fold * size : (fold + 1) * size] for fold in range(job.folds)]
    trains = [np.concatenate([order[: fold * size], order[(fold + 1) * size :]]) for fold in range(job.folds)]
    return descend(job.model, job.settings, rows, targets, trains, tests)


def descend(
    model: str, settings: Sequence[Setting], rows: Floats, targets: Floats, trains: Sequence[Places],
    tests: Sequence[Places],
) -> list[list[float]]:  # fmt: skip
    """One pass over each training set, one participation a device; errors by test set and setting."""
    kind, dimension, count = get_model(model), rows.shape[1], len(trains)
    noises = [setting.noise(dimension) for setting in settings]
    groups = min(map(len, trains)) // GROUP
    descent = GradientDescent(np.zeros((count, len(settings), dimension)), groups, float(kind.default_rate(dimension)))
    for group in range(groups):
        chosen = np.stack([train[group * GROUP : (group + 1) * GROUP] for train in trains])
        here = rows[chosen]
        slopes = kind.loss_slopes(descent.weights @ here.transpose(0, 2, 1), targets[chosen][:, None])
        flat = here.reshape(-1, dimension)
        found = [noise.mean_gradients(slopes[:, place].reshape(-1), flat, count) for place, noise in enumerate(noises)]
        descent.step(np.stack(found, axis=1))
    weights = descent.averaged_weights
    return [
        [
            float(error)
            for error in kind.prediction_errors(weights[place] @ rows[test].T, targets[test][None]).mean(axis=1)
        ]
        for place, test in enumerate(tests)
    ]


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
            jobs.append(Job(name, model, chosen, repetition, folds, quick))
    found: dict[tuple[str, str], dict[Setting, list[float]]] = defaultdict(lambda: defaultdict(list))
    jobs.sort(key=lambda job: (job.repetition, job.table != "vehicle"))  # long ones first: cores end together
    with _one_thread_each(), ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run_folds, job): job for job in jobs}
        for done, future in enumerate(as_completed(running), 1):
            job = running[future]
            for errors in future.result():
                for setting, error in zip(job.settings, errors, strict=True):
                    found[job.table, job.model][setting].append(error)
            progress(done, len(jobs))
    return {
        (name, model): {setting: Errors(tuple(errors)) for setting, errors in found[name, model].items()}
        for name, model, _ in wanted
    }
