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
from noisebank.federated.ldp.catalogue import built
from noisebank.federated.ldp.mechanism import clean
from noisebank.federated.ldp.moments import MIN_EPSILON
from noisebank.federated.ldp.parameters import Parameters, checked_epsilon, parameters, shared

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
    sent: int
    each: Parameters

    @property
    def scale(self) -> float:
        """d/k: the factor of a sent number."""
        return self.dimension / self.sent

    def worst_variance(self) -> float:
        """Returns the largest variance over [-1, 1] of one coordinate of one device's report."""
        return self.each.moments.worst(self.scale)

    def variance(self, x: float) -> float:
        """Returns the variance of one coordinate that is x."""
        return self.each.moments.variance(x, self.scale)

    def draw(self, vectors: ArrayLike) -> VectorReports:
        """Returns one report per row. Values outside [-1, 1] are clipped; NaN is refused."""
        rows = clean(vectors)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise BadRequest("vectors", f"shape {rows.shape}", f"must have {self.dimension} numbers in each row")
        indices = choose(len(rows), self.dimension, self.sent)
        return VectorReports(indices, built(self.each).draw(np.take_along_axis(rows, indices, axis=1)))

    def perturb(self, vectors: ArrayLike) -> NDArray[np.float64]:
        """Returns one unbiased vector per row: d/k times the report where a number was sent, else 0."""
        reports = self.draw(vectors)
        filled = np.zeros((len(reports.indices), self.dimension))
        np.put_along_axis(filled, reports.indices, self.scale * built(self.each).value(reports.codes), axis=1)
        return filled

    def mean(self, reports: VectorReports) -> NDArray[np.float64]:
        """Returns the unbiased estimate of each coordinate's mean over the devices."""
        values = built(self.each).value(reports.codes).reshape(-1)
        sums = np.bincount(reports.indices.reshape(-1), weights=values, minlength=self.dimension)
        return np.asarray(self.scale * sums / len(reports.indices))


@lru_cache(maxsize=256)
def vector_mechanism(name: str, epsilon: float, dimension: int, sent: int | None = None) -> VectorMechanism:
    """Returns the mechanism with the smallest worst case over every k (or the given one), tuned for d/k."""
    epsilon, dimension = checked_epsilon(epsilon), _checked_dimension(dimension, sent)
    # Where eps/k is below 1/2 every mechanism is close to C = 2k/eps: its worst case d k (2/eps)^2 only grows with k.
    counts = range(1, min(dimension, ceil(2 * epsilon) + 1) + 1) if sent is None else (sent,)
    candidates = [
        VectorMechanism(epsilon, dimension, k, parameters(name, shared(epsilon, k), dimension / k))
        for k in counts
        if epsilon / k >= MIN_EPSILON
    ]
    if not candidates:
        raise BadRequest("k", sent, f"leaves less than {MIN_EPSILON:g} of epsilon for each number")
    return min(candidates, key=VectorMechanism.worst_variance)


def published_vector_mechanism(name: str, epsilon: float, dimension: int) -> VectorMechanism:
    """Returns the mechanism as printed: k = max(1, min(d, floor(eps / 2.5))) of eq. 3.35 and the parameters for one
    number; Laplace spends eps/d on every number."""
    epsilon, dimension = checked_epsilon(epsilon), _checked_dimension(dimension, None)
    k = dimension if name == "laplace" else max(1, min(dimension, int(epsilon // 2.5)))
    return VectorMechanism(epsilon, dimension, k, parameters(name, shared(epsilon, k)))


def _checked_dimension(dimension: int, sent: int | None) -> int:
    if isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1:
        raise BadRequest("dimension", dimension, "must be a whole number of at least 1")
    if sent is not None and not 1 <= sent <= dimension:
        raise BadRequest("k", sent, f"must lie in 1 .. {dimension}")
    return dimension


def choose(count: int, dimension: int, sent: int) -> NDArray[np.int64]:
    """Returns for each of `count` devices a uniform set of `sent_count` different coordinates out of `dimension`.

    Floyd's algorithm, for all devices at a time. The choice is public and carries no privacy; a remainder of 64 bits
    is uniform to d / 2^64.
    """
    if sent == dimension:
        return np.tile(np.arange(dimension), (count, 1))
    chosen = np.empty((count, sent), dtype=np.int64)
    for column, top in enumerate(range(dimension - sent, dimension)):
        pick = (uniform_words(count) % np.uint64(top + 1)).astype(np.int64)
        taken = (chosen[:, :column] == pick[:, None]).any(axis=1)
        chosen[:, column] = np.where(taken, top, pick)
    return chosen
