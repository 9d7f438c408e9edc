"""What other mechanisms pay for ranges and prefixes: trees of counts of any width, and what no mechanism beats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisebank.planning.linear import Vector


def tree_prices(size: int, weights: Sequence[Vector]) -> dict[int, float]:
    """Returns by width the mean variance times the price of a tree whose levels are measured alike, with least squares.

    A tree of width b over b^L cells has L + 1 levels, and every cell lies in one node of each. Between blocks of b^m
    cells and their parts all levels below m tell apart: the information is the sum of b^l over l < m.
    """
    prices = {}
    for width in (2, 4, 8, 16, 32, 64):
        levels = 0
        while width**levels < size:
            levels += 1
        padded = [np.pad(row, (0, width**levels - size)) for row in weights]  # a tree needs a power of its width
        prices[width] = float(np.mean([_tree_variance(row, width, levels) for row in padded])) * (levels + 1)
    return prices


def _tree_variance(weights: Vector, width: int, levels: int) -> float:
    variance, means = 0.0, weights.astype(np.float64)
    for level in range(1, levels + 1):
        coarser = means.reshape(-1, width).mean(axis=1)
        energy = width ** (level - 1) * float(means @ means) - width**level * float(coarser @ coarser)
        variance += energy / sum(width**below for below in range(level))
        means = coarser
    whole = float(means @ means) * width**levels
    return float(variance + whole / sum(width**below for below in range(levels + 1)))


def bound_of_prefixes(size: int) -> float:
    """Returns the least mean variance times price of all prefixes: the square of the sum of singular values."""
    angles = (2 * np.arange(1, size + 1) - 1) * np.pi / (4 * size + 2)
    return float(np.sum(1 / (2 * np.sin(angles))) ** 2) / size**2


def bound_of_ranges(size: int) -> float:
    """The same for all ranges."""
    angles = np.arange(1, size + 1) * np.pi / (2 * (size + 1))
    total = float(np.sum(np.sqrt(size + 1) / (2 * np.sin(angles)))) ** 2
    return total / size / (size * (size + 1) / 2)
