"""Noisy gradients of many devices at a time: clip, send k of the d numbers, add noise, average (Algorithms 5 and 6)."""

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
        """What reports a single number."""
        made = built(self.vector.each)
        return Levels(made, self.levels) if self.levels and isinstance(made, Mixture) else made

    def mean(self, slopes: Floats, rows: Floats) -> Floats:
        """The mean of one report from each device, whose gradient is slope · row."""
        return np.asarray(self.means(slopes, rows, 1)[0])

    def means(self, slopes: Floats, rows: Floats, groups: int) -> Floats:
        """The same for so many groups of equal size, one after the other: a row of the result for each."""
        made, each = self.vector, len(rows) // groups
        indices = choose(len(rows), made.dimension, made.sent)
        sent = slopes[:, None] * np.take_along_axis(rows, indices, axis=1)
        values = self.one.perturb(sent).reshape(-1)  # clips
        places = indices + (np.arange(len(rows)) // each * made.dimension)[:, None]
        sums = np.bincount(places.reshape(-1), weights=values, minlength=groups * made.dimension)
        return np.asarray(made.scale * sums / each).reshape(groups, made.dimension)

    def worst_variance(self) -> float:
        """Of one number of one device's report."""
        scale, one = self.vector.scale, self.one
        if not isinstance(one, Levels):
            return self.vector.worst_variance()
        base = one.base.worst_variance()
        return self.vector.worst_variance() + scale * (one.worst_variance() - base)


class ExactMean:
    """No noise: what the noisy runs are compared with. Never part of a task."""

    def mean(self, slopes: Floats, rows: Floats) -> Floats:
        """The mean of the clipped gradients."""
        return np.asarray(self.means(slopes, rows, 1)[0])

    def means(self, slopes: Floats, rows: Floats, groups: int) -> Floats:
        """The same for so many groups of equal size."""
        clipped = clean(slopes[:, None] * rows)
        return np.asarray(clipped.reshape(groups, -1, rows.shape[1]).mean(axis=1))


def task_noise(task: Task) -> GradientNoise:
    """As the task says; k and parameters tuned for its dimension."""
    return GradientNoise(
        vector_mechanism(task.mechanism, below(exact(task.epsilon, "epsilon")), task.dimension), task.levels
    )


def published_noise(name: str, epsilon: float, dimension: int, levels: int = 0) -> GradientNoise:
    """As printed in chapter 3: for reproductions."""
    return GradientNoise(published_vector_mechanism(name, epsilon, dimension), levels)
