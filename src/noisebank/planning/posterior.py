"""`Posterior`: best linear estimates over the cells of a cube; `CovariancePosterior` for up to some thousand cells.

A covariance is kept as its root S (covariance = S S^T), in a basis of the measured directions. A direction that no
measurement has touched is not in the basis: its variance is infinite, not large. A variance is a sum of squares,
|S^T q|^2: it cannot be negative, and it has twice the digits that a covariance would give. A measurement multiplies S
by one factor (Potter's form of the Kalman update); factors wait in a small product, I - F^T T F, and are multiplied out
in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector

KNOWN_SHARE = 2.0**-36
"""A query is known if no more than this share of its length lies outside the basis: far above rounding, and
far too little to bias an answer (a share of 1.5e-11 of a statistic of the size of the whole table)."""
NEW_DIRECTION_SHARE = 2.0**-20
"""A query adds a new direction if at least this share lies outside. Between the two it is unknown and not
learned from: a measurement that close to the basis would cost its neighbours half of their digits."""
SMALL_REST = 2.0**-20
"""Of a squared length, below which the rest is computed by itself."""
MAX_PENDING = 32
BLOCK_ENTRIES = 65_536
"""Entries that are updated together: they fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class LinearEstimate:
    """An estimate of a query, in the cells' unit, and the variance of its error."""

    value: float
    variance: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the error."""
        return sqrt(self.variance)


class QueryRow(Protocol):
    """A query as the posterior needs it: one weight per coordinate in [support[0], support[1])."""

    @property
    def support(self) -> tuple[int, int]:
        """First coordinate with a weight, and one past the last."""
        ...

    @property
    def support_weights(self) -> Vector:
        """One weight per coordinate of the support."""
        ...

    @property
    def max_weight(self) -> int:
        """The query's largest absolute weight of a cell."""
        ...


class Posterior(Protocol):
    """Best linear unbiased estimates of linear queries, given all measurements so far.

    Values are in the cells' own unit, of which one person changes a cell by at most 1. Variances are finite and
    positive, or infinite: never negative, never not a number, whatever was observed.
    """

    def infer(self, query: LinearQuery) -> LinearEstimate | None:
        """Returns the estimate, linear in the query (parts add up to the whole); None if it is not determined."""
        ...

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        """Adds one measurement with noise of variance max_weight^2 / precision; returns whether it could be used."""
        ...

    def error_vector(self, query: LinearQuery) -> Vector | None:
        """Returns the estimate's error as a combination of independent errors of variance 1, the same for all queries
        until something is observed; linear in the query. Its squared length is the variance. None as in `infer`."""
        ...


def noise_variance(query: QueryRow, precision: Precision) -> float:
    """Returns the noise variance of a measurement: Delta^2 / precision, with Delta = the largest weight."""
    if not precision:
        raise ValueError("a measurement without precision tells nothing")
    return query.max_weight * query.max_weight / float(precision)


@dataclass(frozen=True, slots=True)
class Prior:
    """What is known to begin with: all directions alike, but for those of `basis`."""

    precision: float
    mean: Vector
    """Of the directions outside of the basis."""
    basis: Vector
    """Orthonormal columns."""
    root: Vector
    """Of the covariance along the basis."""
    basis_mean: Vector


class CovariancePosterior:
    """See `Posterior`. Takes 8 r^2 bytes for r measured directions, and 8 n r for their basis over n cells."""

    def __init__(self, cell_count: int, prior: Prior | None = None) -> None:
        self.cell_count, self._prior = cell_count, prior
        self.rank = 0 if prior is None else len(prior.basis_mean)
        room = min(cell_count, max(16, self.rank))
        self._basis: Vector | None = np.zeros((cell_count, room))
        self._root, self._mean = np.zeros((room, room)), np.zeros(room)
        if prior is not None:
            self._rest_mean = prior.mean
            self._basis[:, : self.rank], self._mean[: self.rank] = prior.basis, prior.basis_mean
            self._root[: self.rank, : self.rank] = prior.root
        self._drop_full_basis()
        self._clear_pending()

    def known_directions(self) -> tuple[Vector, Vector]:
        """Returns orthonormal rows, and the information along them: with a prior, of all others it is the prior's."""
        self._multiply_out()
        left, scales, _ = np.linalg.svd(self._root[: self.rank, : self.rank])
        basis = np.eye(self.cell_count) if self._basis is None else self._basis[:, : self.rank]
        return (basis @ left).T, 1 / (scales * scales)

    def infer(self, query: QueryRow) -> LinearEstimate | None:
        if self._prior is not None and self._basis is not None:
            return self._infer_with_prior(query, self._prior)
        inside, outside = self._split_query(query)
        return None if outside is not None else self._estimate_query(query, inside)[0]

    def error_vector(self, query: QueryRow) -> Vector | None:
        inside, outside = self._split_query(query)
        if self._prior is None or self._basis is None:
            return None if outside is not None else self._estimate_query(query, inside)[1]
        rest = np.zeros(self.cell_count) if outside is None else outside / sqrt(self._prior.precision)
        return np.concatenate((self._estimate_query(query, inside)[1], rest))

    def observe(self, query: QueryRow, value: float, precision: Precision) -> bool:
        noise = noise_variance(query, precision)
        inside, outside = self._split_query(query)
        if self._prior is not None and outside is not None and inside is not None:
            length = float(np.linalg.norm(outside))
            self._add_unseen_direction(outside / length, self._prior)
            inside, outside = (None if self._basis is None else np.append(inside, length)), None
        if outside is None:
            self._update_known(inside, query, value, noise)
            return True
        length = float(np.linalg.norm(outside))
        if length < NEW_DIRECTION_SHARE * float(np.linalg.norm(query.support_weights)):
            return False
        self._add_direction(inside, outside / length, length, query, value, noise)
        return True

    def refine_coordinates(self, parents: NDArray[np.int64], shares: Vector) -> None:
        """Splits coordinates: the new number i is a part of the old `parents[i]`, with `shares[i]` of its length.

        Requires: the squared shares of each old coordinate add up to 1, so that the basis stays orthonormal.
        """
        basis = np.eye(self.rank) if self._basis is None else self._basis
        self.cell_count, self._basis = len(parents), basis[parents] * shares[:, None]

    def _split_query(self, query: QueryRow) -> tuple[Vector | None, Vector | None]:
        """Returns coordinates in the basis (None if all directions are measured), and the rest (None if zero)."""
        if self._basis is None:
            return None, None
        (low, high), weights = query.support, query.support_weights
        basis = self._basis[:, : self.rank]
        inside: Vector = weights @ basis[low:high]
        outside = -(basis @ inside)
        outside[low:high] += weights
        again = outside @ basis  # once more: Gram-Schmidt twice is as good as exact
        inside += again
        outside -= basis @ again
        if np.linalg.norm(outside) <= KNOWN_SHARE * np.linalg.norm(weights):
            return inside, None
        return inside, outside

    def _estimate_query(self, query: QueryRow, inside: Vector | None) -> tuple[LinearEstimate, Vector]:
        """Returns the estimate, and S^T q: its error as a combination of independent errors of variance 1."""
        low, high = query.support
        if inside is None:
            value, spread = (
                float(query.support_weights @ self._mean[low:high]),
                query.support_weights @ self._root[low:high],
            )
        else:
            value, spread = float(inside @ self._mean[: self.rank]), inside @ self._root[: self.rank, : self.rank]
        if self._pending_count:
            value += float(spread @ self._pending_shift)
            factors, mixed = (
                self._pending_factors[: self._pending_count],
                self._pending_product[: self._pending_count, : self._pending_count],
            )
            spread = spread - (mixed.T @ (factors @ spread)) @ factors
        return LinearEstimate(value, float(spread @ spread)), spread

    def _infer_with_prior(self, query: QueryRow, prior: Prior) -> LinearEstimate:
        """Returns the estimate with what only the prior knows, without computing the direction of that part."""
        assert self._basis is not None
        (low, high), weights = query.support, query.support_weights
        inside: Vector = weights @ self._basis[low:high, : self.rank]
        estimate = self._estimate_query(query, inside)[0]
        whole = float(weights @ weights)
        rest = whole - float(inside @ inside)
        if rest < SMALL_REST * whole:  # a difference of near numbers has few digits
            outside = -(self._basis[:, : self.rank] @ inside)
            outside[low:high] += weights
            rest = float(outside @ outside)
        value = estimate.value + float(weights @ self._rest_mean[low:high])
        return LinearEstimate(value, estimate.variance + rest / prior.precision)

    def _add_unseen_direction(self, direction: Vector, prior: Prior) -> None:
        """Adds a direction of which the prior alone is known."""
        self._multiply_out()
        self._grow_arrays()
        assert self._basis is not None
        rank, share = self.rank, float(direction @ self._rest_mean)
        self._basis[:, rank] = direction
        self._root[rank, :rank] = self._root[:rank, rank] = 0.0
        self._root[rank, rank], self._mean[rank] = 1 / sqrt(prior.precision), share
        self._rest_mean = self._rest_mean - share * direction
        self.rank += 1
        self._drop_full_basis()
        self._clear_pending()

    def _update_known(self, inside: Vector | None, query: QueryRow, value: float, noise: float) -> None:
        known, spread = self._estimate_query(query, inside)
        gain = 1.0 / (known.variance + noise)
        count = self._pending_count
        factors, mixed = self._pending_factors[:count], self._pending_product[:count, :count]
        pushed = mixed @ (factors @ spread)
        self._pending_shift += gain * (value - known.value) * (spread - pushed @ factors)
        scale = gain / (1.0 + sqrt(gain * noise))
        self._pending_product[:count, count] = -scale * pushed
        self._pending_product[count, count] = scale
        self._pending_factors[count] = spread
        self._pending_count += 1
        if self._pending_count == MAX_PENDING:
            self._multiply_out()

    def _add_direction(
        self, inside: Vector | None, direction: Vector, length: float, query: QueryRow, value: float, noise: float
    ) -> None:
        """Adds an unmeasured direction: its coordinate is (value - the estimate inside the basis) / length."""
        if self._basis is None or inside is None:
            raise AssertionError("every direction is measured")
        self._multiply_out()
        known, spread = self._estimate_query(query, inside)
        rank = self.rank
        self._grow_arrays()
        self._basis[:, rank] = direction
        self._root[rank, :rank] = -spread / length
        self._root[rank, rank] = sqrt(noise) / length
        self._mean[rank] = (value - known.value) / length
        self.rank += 1
        self._drop_full_basis()
        self._clear_pending()

    def _drop_full_basis(self) -> None:
        """Once all directions are measured the cells themselves are a basis."""
        if self.rank == self.cell_count and self._basis is not None:
            self._root, self._mean, self._basis = self._basis @ self._root, self._basis @ self._mean, None

    def _grow_arrays(self) -> None:
        room = len(self._mean)
        if self._basis is None or self.rank < room:
            return
        more = min(self.cell_count, 2 * room)
        basis, root, mean = np.zeros((self.cell_count, more)), np.zeros((more, more)), np.zeros(more)
        basis[:, :room], root[:room, :room], mean[:room] = self._basis, self._root, self._mean
        self._basis, self._root, self._mean = basis, root, mean

    def _multiply_out(self) -> None:
        if not self._pending_count:
            return
        rank, count = self.rank, self._pending_count
        root, factors = self._root[:rank, :rank], self._pending_factors[:count]
        self._mean[:rank] += root @ self._pending_shift
        weights = (root @ factors.T) @ self._pending_product[:count, :count]
        step = max(1, 16 * BLOCK_ENTRIES // rank)
        for low in range(0, rank, step):
            root[low : low + step] -= weights[low : low + step] @ factors
        self._clear_pending()

    def _clear_pending(self) -> None:
        """Empties the pending product."""
        self._pending_count = 0
        self._pending_factors = np.zeros((MAX_PENDING, self.rank))
        self._pending_product = np.zeros((MAX_PENDING, MAX_PENDING))
        self._pending_shift = np.zeros(self.rank)
