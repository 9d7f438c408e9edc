"""Alias tables: draw from a finite distribution with integer weights, one 64-bit word per draw, without rounding."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

WORDS = 1 << 64
"""How many 64-bit words there are: the denominator of every probability in this package."""


def round_weights(masses: Sequence[float], total: int) -> list[int]:
    """Returns integers in proportion to `masses` that add up to `total`; the largest takes the rounding remainder."""
    mass_sum = fsum(masses)
    weights = [int(mass / mass_sum * total) for mass in masses]
    weights[weights.index(max(weights))] += total - sum(weights)
    return weights


class AliasTable:
    """Walker's alias method in integers (Vose's construction).

    Requires: weights that add up to 2^64. Guarantees: outcome i comes from exactly weights[i] of the 2^64 words.
    """

    def __init__(self, weights: Sequence[int]) -> None:
        if sum(weights) != WORDS or min(weights) < 0:
            raise ValueError("weights must add up to 2^64")
        self.index_bits = max(1, (len(weights) - 1).bit_length())
        cells = 1 << self.index_bits
        room = WORDS >> self.index_bits
        left = [*weights, *([0] * (cells - len(weights)))]
        keep, other = [room] * cells, list(range(cells))
        small = [i for i in range(cells) if left[i] < room]
        large = [i for i in range(cells) if left[i] >= room]
        while small and large:
            poor, rich = small.pop(), large[-1]
            keep[poor], other[poor] = left[poor], rich
            left[rich] -= room - left[poor]
            if left[rich] < room:
                small.append(large.pop())
        self._thresholds = np.array(keep, dtype=np.uint64)
        self._aliases = np.array(other, dtype=np.int64)

    def draw_outcomes(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns one outcome per word: the top bits choose a cell, the rest one of the cell's two outcomes."""
        shift = np.uint64(64 - self.index_bits)
        cells = (words >> shift).view(np.int64)
        rest = words & np.uint64((WORDS >> self.index_bits) - 1)
        return np.where(rest < self._thresholds[cells], cells, self._aliases[cells])

    def count_words(self) -> list[int]:
        """Returns how many words lead to each outcome: the weights, recomputed from the table."""
        room = WORDS >> self.index_bits
        counts = [0] * len(self._thresholds)
        for cell, (keep, other) in enumerate(zip(self._thresholds.tolist(), self._aliases.tolist(), strict=True)):
            counts[cell] += keep
            counts[other] += room - keep
        return counts
