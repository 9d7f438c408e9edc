"""The posterior of a large cube after a first look: the look, and the paid measurements after it.

After a first look every query is a sparse row a over independent errors of variance 1: see `TreeEstimate`.
An estimate from k paid measurements y with rows A and noise R adds t (y - the first look's estimate of y) to the
first look's estimate. Its variance is |a - A^T t|^2 + sum R t^2, and the best t solves (A A^T + R) t = A a. We keep the
inverse of the Cholesky factor of that k x k matrix, one row per measurement. The variance is computed from t itself: a
sum of squares that is exact for the estimate that is returned, and that rounding in t raises in the second order only.
"""

from __future__ import annotations

from math import sqrt
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.posterior import Inferred, noise_variance
from noisebank.planning.prefix import FirstLook

Kind = TypeVar("Kind", bound=np.generic)
SETTLED = 1e-12
"""Solving for t stops once the residual adds at most this share to the variance."""
MOST_ROUNDS = 4


class Dual:
    """See `Posterior`. For more than some thousand cells; takes 8 k^2 bytes for k paid measurements."""

    def __init__(self, look: FirstLook) -> None:
        self.cells = look.prefix.cells
        self.paid = 0
        self._look = look
        self._below = np.concatenate(([0.0], np.cumsum(look.mean)))
        self._size = len(look.prefix.strength)
        self._rows, self._places, self._values = Growing(np.int64), Growing(np.int64), Growing(np.float64)
        self._noise, self._surprise = Growing(np.float64), Growing(np.float64)
        self._inverse = np.zeros((16, 16))

    def infer(self, query: LinearQuery) -> Inferred:
        weights, variance, _ = self._weigh(query)
        return Inferred(self._first(query) + float(weights @ self._surprise.values), variance)

    def errors(self, query: LinearQuery) -> Vector:
        weights, _, remaining = self._weigh(query)
        return np.concatenate((remaining, weights * np.sqrt(self._noise.values)))

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        noise = noise_variance(query, precision)
        weights, variance, _ = self._weigh(query)
        indices, values = self._look.coefficients(query)
        count, pivot = self.paid, sqrt(variance + noise)
        if count == len(self._inverse):
            wider = np.zeros((2 * count, 2 * count))
            wider[:count, :count] = self._inverse
            self._inverse = wider
        self._inverse[count, :count] = weights / -pivot
        self._inverse[count, count] = 1.0 / pivot
        self._rows.extend(np.full(len(indices), count))
        self._places.extend(indices)
        self._values.extend(values)
        self._noise.extend(np.array([noise]))
        self._surprise.extend(np.array([value - self._first(query)]))
        self.paid += 1
        return True

    def _first(self, query: LinearQuery) -> float:
        """Returns the estimate from the first look alone."""
        starts, stops, weights = query.columns
        return float(weights @ (self._below[stops] - self._below[starts]))

    def _weigh(self, query: LinearQuery) -> tuple[Vector, float, Vector]:
        """Returns t, the variance of the corrected estimate, and what remains of the first look's errors in it."""
        indices, values = self._look.coefficients(query)
        remaining = np.zeros(self._size)
        remaining[indices] = values
        if not self.paid:
            return np.zeros(0), float(values @ values), remaining
        inverse, noise = self._inverse[: self.paid, : self.paid], self._noise.values
        weights, residual, least = np.zeros(self.paid), self._meet(remaining), float(noise.min())
        for _ in range(MOST_ROUNDS):
            weights = weights + inverse.T @ (inverse @ residual)
            remaining = -self._combine(weights)
            remaining[indices] += values
            variance = float(remaining @ remaining + weights @ (noise * weights))
            residual = self._meet(remaining) - noise * weights
            if float(residual @ residual) <= SETTLED * variance * least:  # r^T (A A^T + R)^-1 r is even less
                break
        return weights, variance, remaining

    def _meet(self, row: Vector) -> Vector:
        """Returns A times a row over the independent errors."""
        products = row[self._places.values] * self._values.values
        return np.bincount(self._rows.values, weights=products, minlength=self.paid).astype(np.float64, copy=False)

    def _combine(self, weights: Vector) -> Vector:
        """Returns A^T times weights of the measurements."""
        shares = weights[self._rows.values] * self._values.values
        return np.bincount(self._places.values, weights=shares, minlength=self._size).astype(np.float64, copy=False)


class Growing(Generic[Kind]):
    """An array that grows at its end."""

    def __init__(self, kind: type[Kind]) -> None:
        self._room: NDArray[Kind] = np.zeros(64, dtype=kind)
        self._used = 0

    @property
    def values(self) -> NDArray[Kind]:
        """The elements so far."""
        return self._room[: self._used]

    def extend(self, more: NDArray[Kind]) -> None:
        """Appends `more`."""
        used = self._used + len(more)
        if used > len(self._room):
            wider = np.zeros(max(used, 2 * len(self._room)), dtype=self._room.dtype)
            wider[: self._used] = self.values
            self._room = wider
        self._room[self._used : used] = more
        self._used = used
