"""`Posterior`: best linear estimates over the cells of a cube; `CovariancePosterior` for up to some thousand cells.

A covariance is kept as its root S (covariance = S S^T), in a basis of the measured directions. A direction that no
measurement has touched is not in the basis: its variance is infinite, not large. A variance is a sum of squares,
|S^T q|^2: it cannot be negative, and it has twice the digits that a covariance would give. A measurement multiplies S
by one factor (Potter's form of the Kalman update); factors wait in a small product, I - F^T T F, and are multiplied out
in blocks.
"""

from __future__ import annotations

from collections.abc import Callable
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
SEEN_SHARE = 2.0**-30
"""The same for what a prior knows of a row of which it does not know all."""
NEW_DIRECTION_SHARE = 2.0**-20
"""A query adds a new direction if at least this share lies outside. Between the two it is unknown and not
learned from: a measurement that close to the basis would cost its neighbours half of their digits."""
SMALL_REST = 2.0**-20
"""Of a squared length, below which the rest is computed by itself."""
LEAST_ADDED = 1e-10
"""Of information: less is rounding."""
MAX_PENDING = 32
MANY_PLACES = 16
"""At least one place in so many is not zero: then all are computed with."""
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
    drop_known: Callable[[Vector], Vector] | None = None
    """Returns the part of a row of which nothing is known to begin with; None if something is known of every row."""


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

    def added_rows(self, drop_counted: Callable[[Vector], Vector]) -> Vector:
        """Returns rows that tell, with noise of variance 1, what is known beyond the prior's precision of all
        directions but those that `drop_counted` leaves."""
        self._multiply_out()
        basis = np.eye(self.cell_count) if self._basis is None else self._basis[:, : self.rank]
        left, scales, _ = np.linalg.svd(self._root[: self.rank, : self.rank])
        information = (left / (scales * scales)) @ left.T
        if self._prior is not None:
            information = information - self._prior.precision * (basis.T @ (basis - drop_counted(basis.T).T))
        added, mixes = np.linalg.eigh(information)
        rows: Vector = np.sqrt(np.maximum(added, 0))[:, None] * (basis @ mixes).T
        return rows[added > LEAST_ADDED * max(1.0, float(added.max(initial=0)))]

    def infer(self, query: QueryRow) -> LinearEstimate | None:
        if self._prior is not None and self._basis is not None:
            return self._infer_with_prior(query, self._prior)
        inside, outside = self._split_query(query)
        return None if outside is not None else self._estimate_query(query, inside)[0]

    def error_vector(self, query: QueryRow) -> Vector | None:
        inside, outside = self._split_query(query)
        if self._prior is None or self._basis is None:
            return None if outside is not None else self._estimate_query(query, inside)[1]
        whole = float(np.linalg.norm(query.support_weights))
        if outside is not None and self._split_outside(outside, whole)[1] is not None:
            return None
        rest = np.zeros(self.cell_count) if outside is None else outside / sqrt(self._prior.precision)
        return np.concatenate((self._estimate_query(query, inside)[1], rest))

    def observe(self, query: QueryRow, value: float, precision: Precision) -> bool:
        noise = noise_variance(query, precision)
        inside, outside = self._split_query(query)
        whole = float(np.linalg.norm(query.support_weights))
        if self._prior is not None and outside is not None and inside is not None:
            seen, unknown = self._split_outside(outside, whole)
            if unknown is not None and float(np.linalg.norm(unknown)) < NEW_DIRECTION_SHARE * whole:
                return False
            length = float(np.linalg.norm(seen))
            if length > (KNOWN_SHARE if self._prior.drop_known is None else SEEN_SHARE) * whole:
                self._add_unseen_direction(self._straighten(seen, whole), self._prior)
                inside = None if self._basis is None else np.append(inside, length)
            outside = unknown
        if outside is None:
            self._update_known(inside, query, value, noise)
            return True
        length = float(np.linalg.norm(outside))
        if length < NEW_DIRECTION_SHARE * whole:
            return False
        self._add_direction(inside, self._straighten(outside, whole), length, query, value, noise)
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
        inside: Vector = weights @ self._basis[low:high, : self.rank]
        outside = np.zeros(self.cell_count)
        outside[low:high] = weights
        met = _nonzero_places(inside)
        basis = self._basis[:, : self.rank][:, met]
        if basis.shape[1]:  # none of it for the groups of one question, which share no cell
            outside -= basis @ inside[met]
            again = outside @ basis  # once more: Gram-Schmidt twice is as good as exact
            inside[met] += again
            outside -= basis @ again
        if np.linalg.norm(outside) <= KNOWN_SHARE * np.linalg.norm(weights):
            return inside, None
        return inside, outside

    def _straighten(self, outside: Vector, whole: float) -> Vector:
        """Returns the direction of what is outside of the basis of a row of length `whole`, at right angles to the
        basis also if it is a short rest of a long row."""
        assert self._basis is not None
        length = float(np.linalg.norm(outside))
        direction: Vector = outside / length
        if length > whole / 2 and (self._prior is None or self._prior.drop_known is None):
            return direction
        basis = self._basis[:, : self.rank]
        for _ in range(2):
            direction = direction - basis @ (direction @ basis)
            if self._prior is not None and self._prior.drop_known is not None:  # all or nothing of it is known
                unknown = self._prior.drop_known(direction)
                is_unknown = float(unknown @ unknown) > float(direction @ direction) / 2
                direction = unknown if is_unknown else direction - unknown
            direction = direction / np.linalg.norm(direction)
        return direction

    def _split_outside(self, outside: Vector, whole: float) -> tuple[Vector, Vector | None]:
        """Returns what the prior knows of a row outside of the basis, and the rest (None if zero), for a row of length
        `whole`."""
        if self._prior is None or self._prior.drop_known is None:
            return outside, None
        unknown = self._prior.drop_known(outside)
        is_known = float(np.linalg.norm(unknown)) <= KNOWN_SHARE * whole
        return outside - unknown, None if is_known else unknown

    def _estimate_query(self, query: QueryRow, inside: Vector | None) -> tuple[LinearEstimate, Vector]:
        """Returns the estimate, and S^T q: its error as a combination of independent errors of variance 1."""
        low, high = query.support
        if inside is None:
            value, spread = (
                float(query.support_weights @ self._mean[low:high]),
                query.support_weights @ self._root[low:high],
            )
        else:
            met = _nonzero_places(inside)
            value, spread = (
                float(inside @ self._mean[: self.rank]),
                inside[met] @ self._root[: self.rank, : self.rank][met],
            )
        if self._pending_count:
            value += float(spread @ self._pending_shift)
            factors, mixed = (
                self._pending_factors[: self._pending_count],
                self._pending_product[: self._pending_count, : self._pending_count],
            )
            spread = spread - (mixed.T @ (factors @ spread)) @ factors
        return LinearEstimate(value, float(spread @ spread)), spread

    def _infer_with_prior(self, query: QueryRow, prior: Prior) -> LinearEstimate | None:
        """Returns the estimate with what only the prior knows, without computing the direction of that part if the
        prior knows all of it."""
        assert self._basis is not None
        if prior.drop_known is not None:
            outside = self._split_query(query)[1]
            whole = float(np.linalg.norm(query.support_weights))
            if outside is not None and self._split_outside(outside, whole)[1] is not None:
                return None
        (low, high), weights = query.support, query.support_weights
        inside: Vector = weights @ self._basis[low:high, : self.rank]
        estimate = self._estimate_query(query, inside)[0]
        square = float(weights @ weights)
        rest = square - float(inside @ inside)
        if rest < SMALL_REST * square:  # a difference of near numbers has few digits
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
        if not self._pending_count:
            self._pending_factors = np.zeros((MAX_PENDING, self.rank))
            self._pending_product = np.zeros((MAX_PENDING, MAX_PENDING))
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
            cells, places = np.nonzero(self._basis)
            if len(cells) == self.cell_count:  # each cell was measured by itself
                lengths = self._basis[cells, places]
                self._root, self._mean = lengths[:, None] * self._root[places], lengths * self._mean[places]
            else:
                self._root, self._mean = self._basis @ self._root, self._basis @ self._mean
            self._basis = None

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
        self._pending_factors = self._pending_product = np.zeros((0, 0))
        self._pending_shift = np.zeros(self.rank)


def _nonzero_places(inside: Vector) -> NDArray[np.int64] | slice:
    """Returns where a vector is not zero, if that is in a few places only: rows that share no cells share no
    directions. Else all places."""
    places = np.flatnonzero(inside)
    return places if MANY_PLACES * len(places) <= len(inside) else slice(None)
