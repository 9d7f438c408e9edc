"""The sampler of every mechanism but Laplace: one random word per value, integer arithmetic only."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from noisebank.federated.ldp.alias import WORDS
from noisebank.federated.ldp.law import Law
from noisebank.federated.ldp.mechanism import ROUNDING_BITS, BaseMechanism, round_to_grid, to_fixed_point
from noisebank.federated.ldp.moments import ReportMoments
from noisebank.federated.ldp.parameters import Parameters
from noisebank.federated.ldp.weights import MixtureWeights, compute_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Mixture(BaseMechanism):
    """With probability beta a piecewise mechanism, else Three-Outputs; exactly eps-LDP, exactly unbiased.

    Requires: parameters of the family. Guarantees: the code's law on input x is `output_law(x)`, whose ratios between
    any two inputs are at most e^eps as fractions of integers; E[value | x] = x up to 2^-17 / steps (rounding of x) and
    the last digit of a float. Which part answers does not depend on x.
    """

    def __init__(self, params: Parameters) -> None:
        self.parameters = params
        self.weights: MixtureWeights = compute_weights(params)
        self._step_size = float(self.weights.step_size) if self.weights.outer else 0.0
        self._atom_size = float(self.weights.atom_size) if self.weights.atom_weight else 0.0
        self._middle_code = (self.weights.output_count - 1) / 2.0

    @property
    def name(self) -> str:
        return self.parameters.name

    @property
    def epsilon(self) -> float:
        return self.parameters.epsilon

    @property
    def steps(self) -> int:
        return self.weights.steps

    @property
    def code_count(self) -> int:
        return self.weights.output_count + (3 if self.weights.atom_weight else 0)

    @cached_property
    def moments(self) -> ReportMoments:
        """Second moments of the reports as drawn."""
        return self.weights.moments

    def variance(self, x: float) -> float:
        return self.moments.variance(min(1.0, max(-1.0, x)))

    def worst_variance(self) -> float:
        return self.moments.worst_variance()

    def output_law(self, x: float) -> Law:
        position, part = to_fixed_point(x, self.steps)
        law = self.weights.law_at(position)
        return law.mix_with(self.weights.law_at(position + 1), part, 1 << ROUNDING_BITS) if part else law

    def _chunk_values(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        positions = self.weights.output_count
        if not positions:
            return np.array([-self._atom_size, 0.0, self._atom_size])[codes]
        piecewise: NDArray[np.float64] = np.multiply(codes - self._middle_code, self._step_size, dtype=np.float64)
        if not self.weights.atom_weight:
            return piecewise
        return np.where(codes < positions, piecewise, (codes - (positions + 1)) * self._atom_size)

    def _draw_chunk(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        words, positions = round_to_grid(values, self.steps)
        parts = self.weights
        if not parts.atom_weight:
            codes = self._piecewise_codes(words, positions)
        elif not parts.outer:
            codes = self._atom_codes(words, positions)
        else:
            below = words < np.uint64(parts.piecewise_weight)
            atoms = self._atom_codes(words - np.uint64(parts.piecewise_weight), positions)
            codes = np.where(below, self._piecewise_codes(words, positions), atoms)
        if parts.total_weight < WORDS:
            again = np.flatnonzero(words >= np.uint64(parts.total_weight))
            if len(again):  # independent of the values, so it reveals nothing
                codes[again] = self._draw_chunk(values[again])
        return codes

    def _piecewise_codes(self, words: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns piecewise codes. Words below 2N outer: one of 2N outputs outside the window; else one of W inside."""
        parts = self.weights
        outside = np.uint64(2 * parts.steps * parts.outer)
        first = positions + parts.steps
        far = (words // np.uint64(parts.outer)).view(np.int64)
        far += parts.window * (far >= first)
        near = ((words - outside) // np.uint64(parts.inner)).view(np.int64)
        near += first
        return np.where(words < outside, far, near)

    def _atom_codes(self, words: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the codes of -C, 0 or C. Words in order: sign(x)C, then -sign(x)C, then 0."""
        parts = self.weights
        size = np.abs(positions).view(np.uint64)
        same = size * np.uint64(parts.up)
        same += np.uint64(parts.level)
        either = size * np.uint64(parts.up - parts.down)
        either += np.uint64(2 * parts.level)
        sign = np.where(positions < 0, np.int64(-1), np.int64(1))
        outcome = 2 * (words < same).view(np.int8) - (words < either).view(np.int8)
        return sign * outcome + np.int64(parts.output_count + 1)
