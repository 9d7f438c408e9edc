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
from noisebank.planning.haar import forward, pad, padded
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.prefix import FirstLook

KNOWN = 2.0**-36
"""A query is known if no more than this share of its length lies outside the basis: far above rounding, and
far too little to bias an answer (a share of 1.5e-11 of a statistic of the size of the whole table)."""
DISTINCT = 2.0**-20
"""A query adds a new direction if at least this share lies outside. Between the two it is unknown and not
learned from: a measurement that close to the basis would cost its neighbours half of their digits."""
PENDING = 32
BLOCK = 65_536
"""Entries that are updated together: they fit the processor's cache."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """An estimate of a query, in the cells' unit, and the variance of its error."""

    value: float
    variance: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the error."""
        return sqrt(self.variance)


class Row(Protocol):
    """A query as the posterior needs it: one weight per coordinate in [support[0], support[1])."""

    @property
    def support(self) -> tuple[int, int]:
        """First coordinate with a weight, and one past the last."""
        ...

    @property
    def inner(self) -> Vector:
        """One weight per coordinate of the support."""
        ...

    @property
    def peak(self) -> int:
        """The query's largest absolute weight of a cell."""
        ...


class Posterior(Protocol):
    """Best linear unbiased estimates of linear queries, given all measurements so far.

    Values are in the cells' own unit, of which one person changes a cell by at most 1. Variances are finite and
    positive, or infinite: never negative, never not a number, whatever was observed.
    """

    def infer(self, query: LinearQuery) -> Inferred | None:
        """Returns the estimate, linear in the query (parts add up to the whole); None if it is not determined."""
        ...

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        """Adds one measurement with noise of variance max_weight^2 / precision; returns whether it could be used."""
        ...

    def errors(self, query: LinearQuery) -> Vector | None:
        """Returns the estimate's error as a combination of independent errors of variance 1, the same for all queries
        until something is observed; linear in the query. Its squared length is the variance. None as in `infer`."""
        ...


def noise_variance(query: Row, precision: Precision) -> float:
    """Returns the noise variance of a measurement: Delta^2 / precision, with Delta = the largest weight."""
    if not precision:
        raise ValueError("a measurement without precision tells nothing")
    return query.peak * query.peak / float(precision)


class Covariance:
    """See `Posterior`. Takes 8 r^2 bytes for r measured directions, and 8 n r for their basis over n cells."""

    def __init__(self, cells: int, look: FirstLook | None = None) -> None:
        self.cells = cells
        self.rank = 0
        self._basis: Vector | None = np.zeros((cells, min(cells, 16)))
        self._root = np.zeros((min(cells, 16),) * 2)
        self._mean = np.zeros(min(cells, 16))
        if look is not None:
            self._basis, self.rank = None, cells
            self._mean = look.mean.copy()
            self._root = _root_of(look)
        self._forget()

    def infer(self, query: Row) -> Inferred | None:
        inside, outside = self._split(query)
        return None if outside is not None else self._inferred(query, inside)[0]

    def errors(self, query: Row) -> Vector | None:
        inside, outside = self._split(query)
        return None if outside is not None else self._inferred(query, inside)[1]

    def observe(self, query: Row, value: float, precision: Precision) -> bool:
        noise = noise_variance(query, precision)
        inside, outside = self._split(query)
        if outside is None:
            self._sharpen(inside, query, value, noise)
            return True
        length = float(np.linalg.norm(outside))
        if length < DISTINCT * float(np.linalg.norm(query.inner)):
            return False
        self._open(inside, outside / length, length, query, value, noise)
        return True

    def refine(self, places: NDArray[np.int64], shares: Vector) -> None:
        """Splits coordinates: the new number i is a part of the old `parents[i]`, with `shares[i]` of its length.

        Requires: the squared shares of each old coordinate add up to 1, so that the basis stays orthonormal.
        """
        basis = np.eye(self.rank) if self._basis is None else self._basis
        self.cells, self._basis = len(places), basis[places] * shares[:, None]

    def _split(self, query: Row) -> tuple[Vector | None, Vector | None]:
        """Returns coordinates in the basis (None if all directions are measured), and the rest (None if zero)."""
        if self._basis is None:
            return None, None
        (low, high), weights = query.support, query.inner
        basis = self._basis[:, : self.rank]
        inside: Vector = weights @ basis[low:high]
        outside = -(basis @ inside)
        outside[low:high] += weights
        again = outside @ basis  # once more: Gram-Schmidt twice is as good as exact
        inside += again
        outside -= basis @ again
        if np.linalg.norm(outside) <= KNOWN * np.linalg.norm(weights):
            return inside, None
        return inside, outside

    def _inferred(self, query: Row, inside: Vector | None) -> tuple[Inferred, Vector]:
        """Returns the estimate, and S^T q: its error as a combination of independent errors of variance 1."""
        low, high = query.support
        if inside is None:
            value, spread = float(query.inner @ self._mean[low:high]), query.inner @ self._root[low:high]
        else:
            value, spread = float(inside @ self._mean[: self.rank]), inside @ self._root[: self.rank, : self.rank]
        if self._waiting:
            value += float(spread @ self._shift)
            factors, mixed = self._factors[: self._waiting], self._mixed[: self._waiting, : self._waiting]
            spread = spread - (mixed.T @ (factors @ spread)) @ factors
        return Inferred(value, float(spread @ spread)), spread

    def _sharpen(self, inside: Vector | None, query: Row, value: float, noise: float) -> None:
        known, spread = self._inferred(query, inside)
        gain = 1.0 / (known.variance + noise)
        count = self._waiting
        factors, mixed = self._factors[:count], self._mixed[:count, :count]
        pushed = mixed @ (factors @ spread)
        self._shift += gain * (value - known.value) * (spread - pushed @ factors)
        scale = gain / (1.0 + sqrt(gain * noise))
        self._mixed[:count, count] = -scale * pushed
        self._mixed[count, count] = scale
        self._factors[count] = spread
        self._waiting += 1
        if self._waiting == PENDING:
            self._multiply_out()

    def _open(
        self, inside: Vector | None, direction: Vector, length: float, query: Row, value: float, noise: float
    ) -> None:
        """Adds an unmeasured direction: its coordinate is (value - the estimate inside the basis) / length."""
        if self._basis is None or inside is None:
            raise AssertionError("every direction is measured")
        self._multiply_out()
        known, spread = self._inferred(query, inside)
        rank = self.rank
        self._make_room()
        self._basis[:, rank] = direction
        self._root[rank, :rank] = -spread / length
        self._root[rank, rank] = sqrt(noise) / length
        self._mean[rank] = (value - known.value) / length
        self.rank += 1
        if self.rank == self.cells:  # now the cells themselves are a basis
            self._root, self._mean, self._basis = self._basis @ self._root, self._basis @ self._mean, None
        self._forget()

    def _make_room(self) -> None:
        room = len(self._mean)
        if self._basis is None or self.rank < room:
            return
        more = min(self.cells, 2 * room)
        basis, root, mean = np.zeros((self.cells, more)), np.zeros((more, more)), np.zeros(more)
        basis[:, :room], root[:room, :room], mean[:room] = self._basis, self._root, self._mean
        self._basis, self._root, self._mean = basis, root, mean

    def _multiply_out(self) -> None:
        if not self._waiting:
            return
        rank, count = self.rank, self._waiting
        root, factors = self._root[:rank, :rank], self._factors[:count]
        self._mean[:rank] += root @ self._shift
        weights = (root @ factors.T) @ self._mixed[:count, :count]
        step = max(1, 16 * BLOCK // rank)
        for low in range(0, rank, step):
            root[low : low + step] -= weights[low : low + step] @ factors
        self._forget()

    def _forget(self) -> None:
        """Empties the pending product."""
        self._waiting = 0
        self._factors = np.zeros((PENDING, self.rank))
        self._mixed = np.zeros((PENDING, PENDING))
        self._shift = np.zeros(self.rank)


def _root_of(look: FirstLook) -> Vector:
    """Returns a root of the covariance after a first look: Haar vectors over the roots of their precisions."""
    shape, size = look.prefix.shape, look.prefix.cells
    scales = 1.0 / np.sqrt(look.prefix.strength)
    root = np.empty((size, len(scales)))
    full = tuple(padded(side) for side in shape)
    indices = np.flatnonzero(pad(np.ones(size), shape))
    step = max(1, 16 * BLOCK // len(scales))
    for low in range(0, size, step):  # a cell's row holds its Haar coefficients
        here = indices[low : low + step]
        rows = np.zeros((len(here), len(scales)))
        rows[np.arange(len(here)), here] = 1.0
        wide = rows.reshape(len(here), *full)
        for axis in range(len(shape)):
            wide = forward(wide, axis + 1)
        root[low : low + step] = wide.reshape(rows.shape) * scales
    if len(scales) == size:
        return root
    triangle: Vector = np.linalg.qr(root.T).R  # padding leaves more columns than cells
    return np.ascontiguousarray(triangle.T)
