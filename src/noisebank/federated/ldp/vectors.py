"""Vectors in [-1, 1]^d under eps-LDP (Algorithm 6): clip, send k of the d numbers with eps/k each, multiply by d/k.

Which numbers are sent does not depend on them. The variance of coordinate x is (d/k) E[y^2 | x] - x^2, which is what k
and the mechanism's parameters are tuned for: the published k = floor(eps / 2.5) is not its minimum (PM-SUB at d = 16,
eps = 4: 17.66 with k = 1, 15.84 with k = 2), and the a of eq. 3.4 is not either (Three-Outputs at d = 16, eps = 1:
82.74 with it, 74.75 with a = .018).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.catalogue import build_sampler
from noisebank.federated.ldp.mechanism import clip_values
from noisebank.federated.ldp.moments import MIN_EPSILON
from noisebank.federated.ldp.parameters import Parameters, check_epsilon, find_parameters, split_epsilon

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True)
class VectorReports:
    """What n devices send, one row per device: which k coordinates, and a code for each."""

    indices: NDArray[np.int64]
    codes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class VectorMechanism:
    """Reports vectors of `dimension` numbers under epsilon-LDP by sending `sent_count` of them; unbiased."""

    epsilon: float
    dimension: int
    sent_count: int
    coordinate_params: Parameters

    @property
    def scale(self) -> float:
        """d/k: the factor of a sent number."""
        return self.dimension / self.sent_count

    def worst_variance(self) -> float:
        """Returns the largest variance over [-1, 1] of one coordinate of one device's report."""
        return self.coordinate_params.moments.worst_variance(self.scale)

    def variance(self, x: float) -> float:
        """Returns the variance of one coordinate that is x."""
        return self.coordinate_params.moments.variance(x, self.scale)

    def draw_reports(self, vectors: ArrayLike) -> VectorReports:
        """Returns one report per row. Values outside [-1, 1] are clipped; NaN is refused."""
        rows = clip_values(vectors)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise BadRequest("vectors", f"shape {rows.shape}", f"must have {self.dimension} numbers in each row")
        indices = choose_coordinates(len(rows), self.dimension, self.sent_count)
        return VectorReports(
            indices, build_sampler(self.coordinate_params).draw_codes(np.take_along_axis(rows, indices, axis=1))
        )

    def perturb(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Returns one unbiased vector per row: d/k times the report where a number was sent, else 0."""
        reports = self.draw_reports(vectors)
        filled = np.zeros((len(reports.indices), self.dimension))
        np.put_along_axis(
            filled, reports.indices, self.scale * build_sampler(self.coordinate_params).to_values(reports.codes), axis=1
        )
        return filled

    def estimate_mean(self, reports: VectorReports) -> NDArray[np.float64]:
        """Returns the unbiased estimate of each coordinate's mean over the devices."""
        values = build_sampler(self.coordinate_params).to_values(reports.codes).reshape(-1)
        sums = np.bincount(reports.indices.reshape(-1), weights=values, minlength=self.dimension)
        return np.asarray(self.scale * sums / len(reports.indices))


@lru_cache(maxsize=256)
def make_vector_mechanism(name: str, epsilon: float, dimension: int, sent_count: int | None = None) -> VectorMechanism:
    """Returns the mechanism with the smallest worst case over every k (or the given one), tuned for d/k."""
    epsilon, dimension = check_epsilon(epsilon), _check_dimension(dimension, sent_count)
    # Where eps/k is below 1/2 every mechanism is close to C = 2k/eps: its worst case d k (2/eps)^2 only grows with k.
    counts = range(1, min(dimension, ceil(2 * epsilon) + 1) + 1) if sent_count is None else (sent_count,)
    candidates = [
        VectorMechanism(epsilon, dimension, k, find_parameters(name, split_epsilon(epsilon, k), dimension / k))
        for k in counts
        if epsilon / k >= MIN_EPSILON
    ]
    if not candidates:
        raise BadRequest("k", sent_count, f"leaves less than {MIN_EPSILON:g} of epsilon for each number")
    return min(candidates, key=VectorMechanism.worst_variance)


def make_published_vector_mechanism(name: str, epsilon: float, dimension: int) -> VectorMechanism:
    """Returns the mechanism as printed: k = max(1, min(d, floor(eps / 2.5))) of eq. 3.35 and the parameters for one
    number; Laplace spends eps/d on every number."""
    epsilon, dimension = check_epsilon(epsilon), _check_dimension(dimension, None)
    k = dimension if name == "laplace" else max(1, min(dimension, int(epsilon // 2.5)))
    return VectorMechanism(epsilon, dimension, k, find_parameters(name, split_epsilon(epsilon, k)))


def _check_dimension(dimension: int, sent_count: int | None) -> int:
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise BadRequest("dimension", dimension, "must be a whole number of at least 1")
    if sent_count is not None and not 1 <= sent_count <= dimension:
        raise BadRequest("k", sent_count, f"must lie in 1 .. {dimension}")
    return dimension


def choose_coordinates(count: int, dimension: int, sent_count: int) -> NDArray[np.int64]:
    """Returns for each of `count` devices a uniform set of `sent_count` different coordinates out of `dimension`.

    Floyd's algorithm, for all devices at a time. The choice is public and carries no privacy; a remainder of 64 bits
    is uniform to d / 2^64.
    """
    if sent_count == dimension:
        return np.tile(np.arange(dimension), (count, 1))
    chosen = np.empty((count, sent_count), dtype=np.int64)
    for column, top in enumerate(range(dimension - sent_count, dimension)):
        pick = (uniform_words(count) % np.uint64(top + 1)).astype(np.int64)
        taken = (chosen[:, :column] == pick[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, top, pick)
    return chosen
