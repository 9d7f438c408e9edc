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
from noisebank.planning.posterior import LinearEstimate, noise_variance
from noisebank.planning.prefix import TreeEstimate

Scalar = TypeVar("Scalar", bound=np.generic)
SOLVE_TOLERANCE = 1e-12
"""Solving for t stops once the residual adds at most this share to the variance."""
MAX_ROUNDS = 4


class FirstLookPosterior:
    """See `Posterior`. For more than some thousand cells; takes 8 k^2 bytes for k paid measurements."""

    def __init__(self, first_look: TreeEstimate) -> None:
        self.cell_count = first_look.measurement.cell_count
        self.paid_count = 0
        self._first_look = first_look
        self._cumulative_means = np.concatenate(([0.0], np.cumsum(first_look.cell_means)))
        self._size = len(first_look.measurement.coefficient_precisions)
        self._row_numbers, self._indices, self._values = (
            GrowingArray(np.int64),
            GrowingArray(np.int64),
            GrowingArray(np.float64),
        )
        self._noise, self._residuals = GrowingArray(np.float64), GrowingArray(np.float64)
        self._inverse_factor = np.zeros((16, 16))

    def infer(self, query: LinearQuery) -> LinearEstimate:
        weights, variance, _ = self._solve_weights(query)
        return LinearEstimate(self._first_estimate(query) + float(weights @ self._residuals.values), variance)

    def error_vector(self, query: LinearQuery) -> Vector:
        weights, _, remaining = self._solve_weights(query)
        return np.concatenate((remaining, weights * np.sqrt(self._noise.values)))

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        noise = noise_variance(query, precision)
        weights, variance, _ = self._solve_weights(query)
        indices, values = self._first_look.query_coefficients(query)
        count, pivot = self.paid_count, sqrt(variance + noise)
        if count == len(self._inverse_factor):
            wider = np.zeros((2 * count, 2 * count))
            wider[:count, :count] = self._inverse_factor
            self._inverse_factor = wider
        self._inverse_factor[count, :count] = weights / -pivot
        self._inverse_factor[count, count] = 1.0 / pivot
        self._row_numbers.extend(np.full(len(indices), count))
        self._indices.extend(indices)
        self._values.extend(values)
        self._noise.extend(np.array([noise]))
        self._residuals.extend(np.array([value - self._first_estimate(query)]))
        self.paid_count += 1
        return True

    def _first_estimate(self, query: LinearQuery) -> float:
        """Returns the estimate from the first look alone."""
        starts, stops, weights = query.run_arrays
        return float(weights @ (self._cumulative_means[stops] - self._cumulative_means[starts]))

    def _solve_weights(self, query: LinearQuery) -> tuple[Vector, float, Vector]:
        """Returns t, the variance of the corrected estimate, and what remains of the first look's errors in it."""
        indices, values = self._first_look.query_coefficients(query)
        remaining = np.zeros(self._size)
        remaining[indices] = values
        if not self.paid_count:
            return np.zeros(0), float(values @ values), remaining
        inverse, noise = self._inverse_factor[: self.paid_count, : self.paid_count], self._noise.values
        weights, residual, least = np.zeros(self.paid_count), self._multiply_rows(remaining), float(noise.min())
        for _ in range(MAX_ROUNDS):
            weights = weights + inverse.T @ (inverse @ residual)
            remaining = -self._combine_rows(weights)
            remaining[indices] += values
            variance = float(remaining @ remaining + weights @ (noise * weights))
            residual = self._multiply_rows(remaining) - noise * weights
            if float(residual @ residual) <= SOLVE_TOLERANCE * variance * least:  # r^T (A A^T + R)^-1 r is even less
                break
        return weights, variance, remaining

    def _multiply_rows(self, row: Vector) -> Vector:
        """Returns A times a row over the independent errors."""
        products = row[self._indices.values] * self._values.values
        return np.bincount(self._row_numbers.values, weights=products, minlength=self.paid_count).astype(
            np.float64, copy=False
        )

    def _combine_rows(self, weights: Vector) -> Vector:
        """Returns A^T times weights of the measurements."""
        shares = weights[self._row_numbers.values] * self._values.values
        return np.bincount(self._indices.values, weights=shares, minlength=self._size).astype(np.float64, copy=False)


class GrowingArray(Generic[Scalar]):
    """An array that grows at its end."""

    def __init__(self, kind: type[Scalar]) -> None:
        self._buffer: NDArray[Scalar] = np.zeros(64, dtype=kind)
        self._length = 0

    @property
    def values(self) -> NDArray[Scalar]:
        """The elements so far."""
        return self._buffer[: self._length]

    def extend(self, more: NDArray[Scalar]) -> None:
        """Appends `more`."""
        used = self._length + len(more)
        if used > len(self._buffer):
            wider = np.zeros(max(used, 2 * len(self._buffer)), dtype=self._buffer.dtype)
            wider[: self._length] = self.values
            self._buffer = wider
        self._buffer[self._length : used] = more
        self._length = used
