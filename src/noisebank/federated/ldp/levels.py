"""Quantization: a piecewise report rounded at random to one of 2m + 1 levels, so that it needs few bits (Algorithm 5).

Rounding is post-processing of a code, so it costs no privacy; it is unbiased, and adds about A^2 / (6 m^2) to the
variance. -C, 0 and C of a mixture keep codes of their own: Three-Outputs needs no levels, and 2 bits.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.law import Law
from noisebank.federated.ldp.mechanism import ROUNDING_BITS, BaseMechanism, to_fixed_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.federated.ldp.mixture import Mixture

MAX_LEVELS = 1 << 15


class QuantizedMixture(BaseMechanism):
    """`base` with its piecewise outputs on the levels i A/m, i = -m .. m.

    Codes: 0 .. 2m the levels from left to right (none if `base` has no piecewise part), then -C, 0, C.
    """

    def __init__(self, base: Mixture, m: int) -> None:
        if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= MAX_LEVELS:
            raise BadRequest("levels", m, f"must be a whole number in 1 .. {MAX_LEVELS}")
        self.base, self.m = base, m
        self._span = base.weights.output_count - 1
        self._level_count = 2 * m + 1 if base.weights.outer else 0
        self._spacing = float(base.weights.step_size) * self._span / (2 * m) if base.weights.outer else 0.0
        self._atom_size = float(base.weights.atom_size) if base.weights.atom_weight else 0.0

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def epsilon(self) -> float:
        return self.base.epsilon

    @property
    def steps(self) -> int:
        return self.base.steps

    @property
    def code_count(self) -> int:
        return self._level_count + (3 if self.base.weights.atom_weight else 0)

    @property
    def output_bound(self) -> float:
        """A: the outermost level."""
        return self.m * self._spacing

    def variance(self, x: float) -> float:
        position, part = to_fixed_point(x, self.steps)
        added = self._added_variance[position + self.steps]
        if part:
            added += part / 2**ROUNDING_BITS * (self._added_variance[position + 1 + self.steps] - added)
        return self.base.variance(x) + float(added)

    def worst_variance(self) -> float:
        x, moments = np.abs(np.arange(-self.steps, self.steps + 1) / self.steps), self.base.moments
        known = moments.constant + moments.linear * x + (moments.quadratic - 1.0) * x * x
        return float(np.max(known + self._added_variance))

    def output_law(self, x: float) -> Law:
        position, part = to_fixed_point(x, self.steps)
        law = self._law_at(position)
        return law.mix_with(self._law_at(position + 1), part, 1 << ROUNDING_BITS) if part else law

    def _law_at(self, position: int) -> Law:
        """Returns the law at a grid position. Weights are multiplied by `_span`, the denominator of the rounding."""
        parts, starts, weights = self.base.weights, [], []
        if self._level_count:
            first = position + self.steps
            inside = self._sum_level_weights(np.arange(first, first + parts.window))
            for level, (everywhere, near) in enumerate(zip(self._level_weights, inside, strict=True)):
                starts.append(level)
                weights.append(parts.outer * int(everywhere) + (parts.inner - parts.outer) * int(near))
        for start, stop, weight in parts.law_at(position).iter_runs():
            if start >= parts.output_count:
                for code in range(start, stop):
                    starts.append(code - parts.output_count + self._level_count)
                    weights.append(weight * (self._span if self._level_count else 1))
        return Law(tuple(starts), tuple(weights), self.code_count)

    @cached_property
    def _level_weights(self) -> NDArray[np.int64]:
        return self._sum_level_weights(np.arange(self.base.weights.output_count))

    def _sum_level_weights(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns for each level the sum over positions of `_span` times the probability of rounding to it."""
        level, rest = np.divmod(positions * (2 * self.m), self._span)
        sums = np.zeros(self._level_count + 1, dtype=np.int64)
        np.add.at(sums, level, self._span - rest)
        np.add.at(sums, level + 1, rest)
        return sums[:-1]

    @cached_property
    def _added_variance(self) -> NDArray[np.float64]:
        """The variance that rounding adds, for each input position -steps .. steps."""
        parts = self.base.weights
        if not self._level_count:
            return np.zeros(2 * self.steps + 1)
        rest = np.arange(parts.output_count) * (2 * self.m) % self._span / self._span
        sums = np.concatenate([[0.0], np.cumsum(rest * (1.0 - rest))])
        windows = sums[parts.window :] - sums[: -parts.window]
        added = float(parts.outer) * sums[-1] + float(parts.inner - parts.outer) * windows
        return np.asarray(added * (self._spacing**2 / float(parts.total_weight)))

    def _draw_chunk(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        codes = self.base._draw_chunk(values)
        if not self._level_count:
            return codes
        level, rest = np.divmod(codes * np.int64(2 * self.m), np.int64(self._span))
        coins = (uniform_words(len(codes)) >> np.uint64(11)) * (2.0**-53 * self._span)
        level += coins < rest
        return np.where(codes < self.base.weights.output_count, level, codes + (self._level_count - self._span - 1))

    def _chunk_values(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        levels = (codes - self.m) * self._spacing
        return np.where(codes < self._level_count, levels, (codes - (self._level_count + 1)) * self._atom_size)
