"""Noisy gradients of many devices at a time: clip, send k of d numbers with noise, average (Algorithms 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.units import exact
from noisebank.federated.enrolment import below
from noisebank.federated.fedsgd.task import Task
from noisebank.federated.ldp.catalogue import built
from noisebank.federated.ldp.levels import Levels
from noisebank.federated.ldp.mechanism import clean
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.vectors import VectorMechanism, choose, published_vector_mechanism, vector_mechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.federated.ldp.laplace import Laplace

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GradientNoise:
    """How one gradient is reported: a vector mechanism, and levels for its piecewise part (0: its own grid).

    Guarantees: each device's report is epsilon-LDP in its whole record, since whatever the gradient is, it is clipped
    to [-1, 1]^d first and reported once; rounding to levels is post-processing. The mean is unbiased for the mean of
    the clipped gradients.
    """

    vector: VectorMechanism
    levels: int = 0

    @cached_property
    def one(self) -> Laplace | Mixture | Levels:
        """The mechanism that reports a single number."""
        sampler = built(self.vector.each)
        return Levels(sampler, self.levels) if self.levels and isinstance(sampler, Mixture) else sampler

    def mean(self, slopes: Floats, rows: Floats) -> Floats:
        """Returns the mean of one report per device, whose gradient is slope · row."""
        return np.asarray(self.means(slopes, rows, 1)[0])

    def means(self, slopes: Floats, rows: Floats, groups: int) -> Floats:
        """Returns one mean per group; the devices form `group_count` consecutive groups of equal size."""
        vector, group_size = self.vector, len(rows) // groups
        indices = choose(len(rows), vector.dimension, vector.sent)
        sent = slopes[:, None] * np.take_along_axis(rows, indices, axis=1)
        values = self.one.perturb(sent).reshape(-1)  # clips
        bins = indices + (np.arange(len(rows)) // group_size * vector.dimension)[:, None]
        sums = np.bincount(bins.reshape(-1), weights=values, minlength=groups * vector.dimension)
        return np.asarray(vector.scale * sums / group_size).reshape(groups, vector.dimension)

    def worst_variance(self) -> float:
        """Returns the largest variance of one number of one device's report."""
        scale, mechanism = self.vector.scale, self.one
        if not isinstance(mechanism, Levels):
            return self.vector.worst_variance()
        base = mechanism.base.worst_variance()
        return self.vector.worst_variance() + scale * (mechanism.worst_variance() - base)


class ExactMean:
    """The noiseless baseline for comparisons. Never part of a task."""

    def mean(self, slopes: Floats, rows: Floats) -> Floats:
        """Returns the mean of the clipped gradients."""
        return np.asarray(self.means(slopes, rows, 1)[0])

    def means(self, slopes: Floats, rows: Floats, groups: int) -> Floats:
        """Returns one mean per group, for consecutive groups of equal size."""
        clipped = clean(slopes[:, None] * rows)
        return np.asarray(clipped.reshape(groups, -1, rows.shape[1]).mean(axis=1))


def task_noise(task: Task) -> GradientNoise:
    """Returns the noise of a task; k and parameters tuned for its dimension."""
    return GradientNoise(
        vector_mechanism(task.mechanism, below(exact(task.epsilon, "epsilon")), task.dimension), task.levels
    )


def published_noise(name: str, epsilon: float, dimension: int, levels: int = 0) -> GradientNoise:
    """Returns the noise as printed in chapter 3: for reproductions."""
    return GradientNoise(published_vector_mechanism(name, epsilon, dimension), levels)
