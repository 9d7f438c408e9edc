"""The Laplace mechanism for one number: x plus noise of scale 2/eps, on a grid and exactly eps-LDP.

Noise added to floats reveals the true value in its low bits, so the noise is a whole number of steps and a half:
sign (G + 1/2), G geometric with ratio q. Shifting the input by all of its 2N steps changes a probability by at most
q^-2N = e^eps. G = B high + low with `high` and `low` independent (a geometric variable has no memory), each drawn from
a table of integer weights that add up to 2^64 exactly (the sign comes with `high`). `high` counts up to 12 scales; for
what lies beyond it is drawn again and added, by the same lack of memory. Weights round to integers, which moves a
log-probability by less than 2^-41; epsilon is first lowered by more than two of these (`ROUNDING_MARGIN`). What lies
24 scales or more outside [-1, 1] is reported as the limit itself: clipping the output costs no privacy, and moves the
mean by less than 1e-10.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, exp, expm1
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.federated.ldp.alias import WORDS, AliasTable, round_weights
from noisebank.federated.ldp.law import Law
from noisebank.federated.ldp.mechanism import ROUNDING_BITS, BaseMechanism, round_to_grid, to_fixed_point
from noisebank.federated.ldp.moments import ReportMoments
from noisebank.federated.ldp.parameters import Parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS_PER_EPSILON = 512
"""Steps of the grid for each unit of epsilon: the noise's scale is 1024 steps, or more where epsilon is small."""
BLOCKS, TAIL_SCALES = 12, 24
"""Blocks of about one scale in the table; scales outside [-1, 1] that can be reported."""
ROUNDING_MARGIN = 2.0**-36
"""Taken off epsilon: more than the rounded weights of two inputs can add."""


class Laplace(BaseMechanism):
    """Requires: epsilon. Guarantees: the code's law on x is `output_law(x)`; ratios at most e^eps; unbiased to 1e-10
    and 2^-17 of a step of the grid."""

    def __init__(self, params: Parameters) -> None:
        self.parameters = params
        self.steps = max(1, ceil(STEPS_PER_EPSILON * params.epsilon))
        self._rate = (params.epsilon - ROUNDING_MARGIN) / (2 * self.steps)
        self._block_steps = max(1, round(1.0 / self._rate))
        self._stages = ceil((TAIL_SCALES + params.epsilon) / BLOCKS)
        self._limit = self._stages * BLOCKS * self._block_steps - self.steps
        """Outputs are -limit .. limit - 1, plus a half, in steps: every one of them can come from every input."""

    @property
    def name(self) -> str:
        return self.parameters.name

    @property
    def epsilon(self) -> float:
        return self.parameters.epsilon

    @property
    def code_count(self) -> int:
        return 2 * self._limit

    @cached_property
    def low_weights(self) -> list[int]:
        """Weights of the steps within a block; they add up to 2^64."""
        return round_weights([exp(-self._rate * step) for step in range(self._block_steps)], WORDS)

    @cached_property
    def high_weights(self) -> list[int]:
        """Weights of the blocks, for either sign; the last one stands for all that follow. They add up to 2^63."""
        fall = self._rate * self._block_steps
        return round_weights(
            [exp(-fall * j) * -expm1(-fall) for j in range(BLOCKS)] + [exp(-fall * BLOCKS)], WORDS // 2
        )

    @cached_property
    def _low_table(self) -> AliasTable:
        return AliasTable(self.low_weights)

    @cached_property
    def _high_table(self) -> AliasTable:
        """Outcome i: block i to the right of x; outcome i + BLOCKS + 1: the same to the left."""
        return AliasTable(self.high_weights * 2)

    @cached_property
    def moments(self) -> ReportMoments:
        """Second moments of the reports as drawn, up to the clipping far out and the rounding of x."""
        q = exp(-self._rate)
        spread = q * (1.0 + q) / (1.0 - q) ** 2 + q / (1.0 - q) + 0.25  # E (G + 1/2)^2
        return ReportMoments(spread / self.steps**2, 0.0, 1.0)

    def variance(self, x: float) -> float:
        return self.moments.variance(x)

    def worst_variance(self) -> float:
        return self.moments.worst_variance()

    def output_law(self, x: float) -> Law:
        position, part = to_fixed_point(x, self.steps)
        law = self._law_at(position)
        return law.mix_with(self._law_at(position + 1), part, 1 << ROUNDING_BITS) if part else law

    def _law_at(self, position: int) -> Law:
        """Returns the law at a grid position. Code i stands for i - limit + 1/2 steps."""
        (*high, tail), half = self.high_weights, WORDS // 2
        blocks = [
            tail**stage * weight * half ** (self._stages - 1 - stage)
            for stage in range(self._stages)
            for weight in high
        ]
        weights = [0] * self.code_count
        beyond = [tail**self._stages * WORDS] * 2
        for step, weight in enumerate(block * low for block in blocks for low in self.low_weights):
            for side, code in ((0, position + self._limit + step), (1, position + self._limit - 1 - step)):
                if 0 <= code < self.code_count:
                    weights[code] += weight
                else:
                    beyond[side] += weight
        weights[-1] += beyond[0]
        weights[0] += beyond[1]
        return Law(tuple(range(self.code_count)), tuple(weights), self.code_count)

    def _chunk_values(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = np.multiply(codes - (self._limit - 0.5), 1.0 / self.steps, dtype=np.float64)
        return values

    def _draw_chunk(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        words, positions = round_to_grid(values, self.steps, words_per_value=2)
        first, second = words[: len(values)], words[len(values) :]
        outcome = self._high_table.draw_outcomes(second)
        left = outcome > BLOCKS
        blocks = outcome - (BLOCKS + 1) * left
        for stage in range(1, self._stages):
            far = np.flatnonzero(blocks == stage * BLOCKS)
            if len(far) == 0:
                break
            blocks[far] += self._high_table.draw_outcomes(uniform_words(len(far))) % (BLOCKS + 1)
        steps = self._low_table.draw_outcomes(first) + self._block_steps * blocks
        codes = positions + np.where(left, ~steps, steps) + np.int64(self._limit)  # ~steps = -1 - steps
        clipped: NDArray[np.int64] = np.clip(codes, 0, self.code_count - 1)
        return clipped
