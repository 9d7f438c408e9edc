"""Noisy gradients of many devices at a time: clip, send k of d numbers with noise, average (Algorithms 5 and 6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.units import parse_exact
from noisebank.federated.enrolment import float_below
from noisebank.federated.fedsgd.task import Task
from noisebank.federated.ldp.catalogue import build_sampler
from noisebank.federated.ldp.levels import QuantizedMixture
from noisebank.federated.ldp.mechanism import clip_values
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.vectors import (
    VectorMechanism,
    choose_coordinates,
    make_published_vector_mechanism,
    make_vector_mechanism,
)

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
    def coordinate_mechanism(self) -> Laplace | Mixture | QuantizedMixture:
        """The mechanism that reports a single number."""
        sampler = build_sampler(self.vector.coordinate_params)
        return QuantizedMixture(sampler, self.levels) if self.levels and isinstance(sampler, Mixture) else sampler

    def mean_gradient(self, slopes: Floats, rows: Floats) -> Floats:
        """Returns the mean of one report per device, whose gradient is slope · row."""
        return np.asarray(self.mean_gradients(slopes, rows, 1)[0])

    def mean_gradients(self, slopes: Floats, rows: Floats, group_count: int) -> Floats:
        """Returns one mean per group; the devices form `group_count` consecutive groups of equal size."""
        vector, group_size = self.vector, len(rows) // group_count
        indices = choose_coordinates(len(rows), vector.dimension, vector.sent_count)
        sent = slopes[:, None] * np.take_along_axis(rows, indices, axis=1)
        values = self.coordinate_mechanism.perturb(sent).reshape(-1)  # clips
        bins = indices + (np.arange(len(rows)) // group_size * vector.dimension)[:, None]
        sums = np.bincount(bins.reshape(-1), weights=values, minlength=group_count * vector.dimension)
        return np.asarray(vector.scale * sums / group_size).reshape(group_count, vector.dimension)

    def worst_variance(self) -> float:
        """Returns the largest variance of one number of one device's report."""
        scale, mechanism = self.vector.scale, self.coordinate_mechanism
        if not isinstance(mechanism, QuantizedMixture):
            return self.vector.worst_variance()
        base = mechanism.base.worst_variance()
        return self.vector.worst_variance() + scale * (mechanism.worst_variance() - base)


class ExactMean:
    """The noiseless baseline for comparisons. Never part of a task."""

    def mean_gradient(self, slopes: Floats, rows: Floats) -> Floats:
        """Returns the mean of the clipped gradients."""
        return np.asarray(self.mean_gradients(slopes, rows, 1)[0])

    def mean_gradients(self, slopes: Floats, rows: Floats, group_count: int) -> Floats:
        """Returns one mean per group, for consecutive groups of equal size."""
        clipped = clip_values(slopes[:, None] * rows)
        return np.asarray(clipped.reshape(group_count, -1, rows.shape[1]).mean(axis=1))


def task_noise(task: Task) -> GradientNoise:
    """Returns the noise of a task; k and parameters tuned for its dimension."""
    return GradientNoise(
        make_vector_mechanism(task.mechanism, float_below(parse_exact(task.epsilon, "epsilon")), task.dimension),
        task.levels,
    )


def published_noise(name: str, epsilon: float, dimension: int, levels: int = 0) -> GradientNoise:
    """Returns the noise as printed in chapter 3: for reproductions."""
    return GradientNoise(make_published_vector_mechanism(name, epsilon, dimension), levels)
