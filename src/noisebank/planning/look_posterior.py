"""`LookPosterior`: what is known of a cube after looks with the same roots, and the paid measurements beside them.

In the coordinates u of `LookStrategy.halve`, for the strategy that is all looks together, these know all directions
alike, but for the few that they left out, and for those that no look has measured. So the posterior is one precision
for all measured directions, and a covariance along the basis of those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.posterior import KNOWN_SHARE, CovariancePosterior, LinearEstimate, Prior
from noisebank.planning.strategies.kronecker import LookStrategy, strategy_of_levels
from noisebank.planning.strategies.looks import ROW_SCALE, Look

MAX_BASIS_BYTES = 128 << 20
"""Of the directions that are kept; what is measured beyond is reused for the same question only."""


LEAST_KNOWN = 1e-9
"""Of what looks tell of all other directions."""
LEAST_LENGTH = 1e-13
"""Of the longest direction."""
MAX_ROWS_OF_LOOK = 512
"""Rows up to which an earlier look with another strategy is taken in row by row."""


@dataclass(frozen=True, slots=True)
class MeasuredLook:
    """A look and the values of its rows over its scale, in the cells' unit."""

    look: Look
    values: Vector


@dataclass(frozen=True, slots=True)
class HalvedRow:
    """A query in the coordinates u."""

    support_weights: Vector
    max_weight: int

    @property
    def support(self) -> tuple[int, int]:
        """All coordinates."""
        return 0, len(self.support_weights)


class LookPosterior:
    """See `Posterior`. Takes 8 p r bytes for p parts and r directions that are known otherwise than by the looks.

    Requires: looks whose roots are those of the same axes. Together they measure what one look with their squared
    levels, added up, would; `strategy` is that of this look, with a largest level of 1.
    """

    def __init__(self, looks: Sequence[MeasuredLook]) -> None:
        first = looks[0].look.strategy
        self.roots = first.roots
        seen = tuple(any(look.look.strategy.seen[axis] for look in looks) for axis in range(len(first.axes)))
        shares = [float(look.look.precision) ** 0.5 * look.look.strategy.levels_among(seen) for look in looks]
        self._levels: Vector = np.sqrt(np.sum([share * share for share in shares], axis=0))
        self._top = float(self._levels.max())
        self.strategy = strategy_of_levels(first.axes, seen, self.roots, self._levels / self._top)
        self._posterior = CovariancePosterior(self.strategy.part_count, self._join_looks(looks, shares))

    def infer(self, query: LinearQuery) -> LinearEstimate | None:
        row = self._halve_query(query)
        return None if row is None else self._posterior.infer(row)

    def error_vector(self, query: LinearQuery) -> Vector | None:
        row = self._halve_query(query)
        return None if row is None else self._posterior.error_vector(row)

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        row = self._halve_query(query)
        size = self.strategy.part_count
        if row is None or 8 * size * min(self._posterior.rank + 2, size) > max(MAX_BASIS_BYTES, 8 * size * 64):
            return False
        return self._posterior.observe(row, value, precision)

    def observe_look(self, measured: MeasuredLook) -> bool:
        """Adds a look with other roots, row by row; returns whether it was small enough."""
        if measured.look.strategy.part_count > MAX_ROWS_OF_LOOK:
            return False
        rows = [self.strategy.weights_of_parts(row) for row in measured.look.rows_over_cells()]
        for weights, value in zip(rows, measured.values, strict=True):
            if weights is None:
                return False
            self._posterior.observe(HalvedRow(self._halve_weights(weights), 1), float(value), measured.look.precision)
        return True

    def rows_for(self, strategy: LookStrategy) -> list[Vector]:
        """Returns what was measured beside the looks in the coordinates of another strategy with the same roots, which
        sees the same axes or more, as rows with noise of variance 1.

        What of a row the other strategy does not measure is known from looks, so it adds to the row's noise; a row of
        which that is not known is left out.
        """
        own = self.strategy
        added = self._posterior.added_rows(own.drop_measured)
        unmeasured = (strategy.symmetric.levels == 0).astype(np.float64)
        known = (own.levels_among(strategy.seen) != 0).astype(np.float64)
        weights = own.spread_over(own.combine(added) + own.drop_measured(added), strategy.seen) * self._top
        spread = own.spread_over(added, strategy.seen) / sqrt(strategy.part_count / own.part_count)
        rows = []
        for row, part in zip(weights, spread, strict=True):
            outside = strategy.along_symmetric(part, unmeasured)
            lost = outside - strategy.along_symmetric(outside, known)
            if float(np.linalg.norm(lost)) <= KNOWN_SHARE * float(np.linalg.norm(part)):
                rows.append(strategy.halve(row) / sqrt(1 + float(outside @ outside)))
        return rows

    def squared_levels_among(self, seen: Sequence[bool]) -> Vector:
        """Returns what the looks have measured of each set of symmetric axes, among more axes."""
        levels = self.strategy.levels_among(seen) * self._top
        return levels * levels

    def _halve_query(self, query: LinearQuery) -> HalvedRow | None:
        weights = self.strategy.weights_of_parts(query.dense_weights)
        return None if weights is None else HalvedRow(self._halve_weights(weights), query.max_weight)

    def _halve_weights(self, weights: Vector) -> Vector:
        """Returns weights in the coordinates u; of what no look has measured, the weights themselves."""
        halved = self.strategy.halve(weights)
        if self.strategy.symmetric.is_singular:
            halved = halved + self.strategy.drop_measured(weights)
        return halved / self._top

    def _join_looks(self, looks: Sequence[MeasuredLook], shares: Sequence[Vector]) -> Prior:
        """Returns what all looks say together.

        A look measures (I - V^T W) D u with noise of the same variance in each row, where D is symmetric, and its
        level is the look's over that of all looks together. What differs from the identity, summed over the looks,
        lies in the span of all D V^T and D W^T.
        """
        size = self.strategy.part_count
        parts = []
        for look, share in zip(looks, shares, strict=True):
            own = look.look.strategy
            levels = np.divide(share, self._levels, out=np.zeros(len(share)), where=self._levels != 0)
            length = sqrt(own.part_count / size)  # spread, rows keep their length
            left = own.spread_over(look.look.directions.astype(np.float64) / ROW_SCALE, self.strategy.seen)
            mixed = own.spread_over(own.halve(look.look.left_out.astype(np.float64)) / own.scale, self.strategy.seen)
            values = own.spread_over(look.values, self.strategy.seen) * sqrt(float(look.look.precision))
            parts.append((levels, left * length, mixed * length, values * length))
        spans = np.concatenate(
            [self.strategy.along_symmetric(rows, part[0]) for part in parts for rows in part[1:3]]
        )  # fmt: skip
        basis = self._find_basis(spans)
        information = np.zeros((basis.shape[1],) * 2)
        total = np.zeros(size)
        for levels, left, mixed, values in parts:
            inner = self.strategy.along_symmetric(basis.T, levels).T
            rows = inner - left.T @ (mixed @ inner)
            information += rows.T @ rows
            total += self.strategy.along_symmetric(values - mixed.T @ (left @ values), levels)
        lengths, turns = np.linalg.eigh(information)
        known = lengths > LEAST_KNOWN  # looks have left out the others: what was paid beside them tells these
        unknown, basis, lengths = basis @ turns[:, ~known], basis @ turns[:, known], lengths[known]
        inside = basis.T @ total
        mean = total - basis @ inside - unknown @ (unknown.T @ total)

        def drop_known(row: Vector) -> Vector:
            left: Vector = self.strategy.drop_measured(row) + unknown @ (unknown.T @ row)
            return left

        is_partial = self.strategy.symmetric.is_singular or unknown.shape[1]
        root = np.diag(1 / np.sqrt(lengths))
        return Prior(1.0, mean, basis, root, inside / lengths, drop_known if is_partial else None)

    def _find_basis(self, spans: Vector) -> Vector:
        """Returns orthonormal columns with the same span, all of which looks have measured."""
        if not len(spans):
            return np.zeros((self.strategy.part_count, 0))
        directions, lengths, _ = np.linalg.svd(spans.T, full_matrices=False)
        kept = directions[:, lengths > LEAST_LENGTH * lengths[0]]  # others are rounding, and may lie anywhere
        basis: Vector = np.linalg.qr(kept - self.strategy.drop_measured(kept.T).T)[0]
        return basis
