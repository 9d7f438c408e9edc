"""What one error of a paper is, and the two rules of calibration that several of them need."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import log, sqrt
from typing import Any

import numpy as np

from noisebank.core.units import Precision
from noisebank.privacy.calibration import gaussian_delta

Erratum = dict[str, Any]
Makers = tuple[Callable[[], Erratum], ...]


def describe(where: str, printed: str, holds: str, /, **numbers: object) -> Erratum:
    """Where it stands, what is printed, what holds, and the numbers of the smallest counterexample."""
    shown = {name.replace("_", " "): _short(value) for name, value in numbers.items()}
    return {"where": where, "printed": printed, "holds": holds, "numbers": shown}


def _short(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (float, np.floating)):
        return value
    return float(f"{float(value):.4g}")


def classical(delta: float) -> float:
    """sigma epsilon / sensitivity of the classical rule."""
    return sqrt(2.0 * log(1.25 / delta))


def exact_delta(epsilon: float, delta: float) -> float:
    """What the classical rule's noise really has for delta at this epsilon."""
    mu = epsilon / classical(delta)
    return float(gaussian_delta(Precision.floor(Fraction(mu) ** 2), Fraction(epsilon)))


def failing_epsilon(delta: float) -> float:
    """From here on the classical rule has more delta than it claims."""
    low, high = 1.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(middle, delta) <= delta else (low, middle)
    return high


def saving_by_reuse(smallest: float, largest: float) -> tuple[float, float]:
    """Of 150 requests over five types with deltas in this range: saved in epsilon, and in squared epsilon."""
    generator = np.random.default_rng(0)
    savings = []
    for _ in range(200):
        kinds, epsilons = generator.integers(0, 5, 150), generator.uniform(0.1, 1.1, 150)
        squares = (epsilons / np.array([classical(d) for d in generator.uniform(smallest, largest, 150)])) ** 2
        best = sum(squares[kinds == kind].max(initial=0.0) for kind in range(5))
        savings.append((1 - sqrt(best / squares.sum()), 1 - best / squares.sum()))
    epsilon, square = np.mean(savings, axis=0)
    return float(epsilon), float(square)
