"""`LookPosterior`: what is known of a cube after looks with one strategy, and the paid measurements after them.

In the coordinates u of `LookStrategy.halve` a look knows all directions alike, but for the few that it left out. So the
posterior is one precision for all directions, and a covariance along the basis of those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisebank.core.units import Precision
from noisebank.planning.linear import LinearQuery, Vector
from noisebank.planning.posterior import CovariancePosterior, LinearEstimate, Prior
from noisebank.planning.strategies.looks import ROW_SCALE, Look

MAX_BASIS_BYTES = 128 << 20
"""Of the directions that are kept; what is measured beyond is reused for the same question only."""


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
    """See `Posterior`. Takes 8 p r bytes for p parts and r directions that are known otherwise than by the looks."""

    def __init__(self, looks: Sequence[MeasuredLook]) -> None:
        self.strategy = looks[0].look.strategy
        self.everywhere = sum(float(look.look.precision) for look in looks)
        """The information that the looks gave of all directions."""
        self._posterior = CovariancePosterior(self.strategy.part_count, self._join_looks(looks))

    def infer(self, query: LinearQuery) -> LinearEstimate | None:
        row = self._halve(query)
        return None if row is None else self._posterior.infer(row)

    def error_vector(self, query: LinearQuery) -> Vector | None:
        row = self._halve(query)
        return None if row is None else self._posterior.error_vector(row)

    def observe(self, query: LinearQuery, value: float, precision: Precision) -> bool:
        row = self._halve(query)
        size = self.strategy.part_count
        if row is None or 8 * size * min(self._posterior.rank + 1, size) > max(MAX_BASIS_BYTES, 8 * size * 64):
            return False
        return self._posterior.observe(row, value, precision)

    def observe_look(self, measured: MeasuredLook) -> bool:
        """Adds a look with another strategy, row by row; returns whether it was small enough."""
        if measured.look.strategy.part_count > MAX_ROWS_OF_LOOK:
            return False
        for row, value in zip(measured.look.rows_over_cells(), measured.values, strict=True):
            weights = self.strategy.weights_of_parts(row)
            if weights is None:
                return False
            self._posterior.observe(HalvedRow(self.strategy.halve(weights), 1), float(value), measured.look.precision)
        return True

    def known_directions(self) -> tuple[Vector, Vector]:
        """See `CovariancePosterior`."""
        return self._posterior.known_directions()

    def _halve(self, query: LinearQuery) -> HalvedRow | None:
        weights = self.strategy.part_weights(query)
        return None if weights is None else HalvedRow(self.strategy.halve(weights), query.max_weight)

    def _join_looks(self, looks: Sequence[MeasuredLook]) -> Prior:
        """Returns what all looks say together.

        A look measures (I - V^T W) u with noise of the same variance in each row; what differs from the identity
        lies in the span of all V and W.
        """
        size = self.strategy.part_count
        pairs = [
            (
                look.look.directions.astype(np.float64) / ROW_SCALE,
                self.strategy.halve(look.look.left_out.astype(np.float64)) / self.strategy.scale,
            )
            for look in looks
        ]
        spans = np.concatenate([part for pair in pairs for part in pair])
        basis = np.linalg.qr(spans.T)[0][:, : min(size, len(spans))] if len(spans) else np.zeros((size, 0))
        information = np.zeros((basis.shape[1],) * 2)
        total = np.zeros(size)
        for look, (left, mixed) in zip(looks, pairs, strict=True):
            precision, rows = float(look.look.precision), basis - left.T @ (mixed @ basis)
            information += precision * rows.T @ rows
            total += precision * (look.values - mixed.T @ (left @ look.values))
        inside = basis.T @ total
        root = np.linalg.inv(np.linalg.cholesky(information)).T if len(information) else information
        return Prior(self.everywhere, (total - basis @ inside) / self.everywhere, basis, root, root @ (root.T @ inside))
