"""P1's system as printed: Laplace noise, greedy linear representations, a posterior, a budget for each cell.

P1 is Xiao and Xiong, "Online query answering with differential privacy: a utility-driven approach using Bayesian
inference". For comparison and reproduction only: the bank infers with Gaussian noise (`planning.inference`), which
needs no search for representations and no numerical posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from noisebank.planning.linear import Vector

if TYPE_CHECKING:
    from numpy.random import Generator

MOST_REPRESENTATIONS = 8
"""P1 names no limit; more than these hardly narrow an interval."""
TOLERANCE = 1e-8
GRID, NOISE_GRID = 4096, 8192


@dataclass(frozen=True)
class Representation:
    """The target as a combination of rows of the history: `weights` @ history[`rows`]."""

    rows: tuple[int, ...]
    weights: Vector


@dataclass(frozen=True, slots=True)
class Credible:
    """A posterior: its mean and mode, and its narrowest interval of the wanted probability."""

    mean: float
    mode: float
    low: float
    high: float
    variance: float


def representations(target: Vector, history: Vector) -> list[Representation]:
    """Algorithm 2: the first rows that span the target give one; its rows are struck out; and so on."""
    alive, found = list(range(len(history))), list[Representation]()
    while alive and len(found) < MOST_REPRESENTATIONS:
        rows = _first_span(target, history, alive)
        if rows is None:
            break
        weights = np.linalg.lstsq(history[rows].T, target, rcond=None)[0]
        used = np.abs(weights) > TOLERANCE
        kept = tuple(row for row, one in zip(rows, used.tolist(), strict=True) if one)
        found.append(Representation(kept, weights[used]))
        alive = [row for row in alive if row not in kept]
    return found


def _first_span(target: Vector, history: Vector, alive: Sequence[int]) -> list[int] | None:
    """Independent rows among the first ones that span the target."""
    basis = np.zeros((len(target), len(target)))
    rest, rows = target.astype(float).copy(), list[int]()
    lengths, enough = np.sqrt(np.einsum("ij,ij->i", history, history)), TOLERANCE * sqrt(float(target @ target))
    for row in alive:
        known = basis[: len(rows)]
        new = history[row] - known.T @ (known @ history[row])
        new -= known.T @ (known @ new)
        length = sqrt(float(new @ new))
        if length < TOLERANCE * max(1.0, lengths[row]):
            continue
        basis[len(rows)] = new / length
        rest -= basis[len(rows)] * (basis[len(rows)] @ rest)
        rows.append(row)
        if sqrt(float(rest @ rest)) < enough:
            return rows
        if len(rows) == len(target):
            return None
    return None


def posterior(observed: Sequence[float], scales: Sequence[Vector], confidence: float) -> Credible:
    """Theorems 3.3 to 3.5, normalised: the product of the densities of composed Laplace noises around each observation.

    A density is computed from its characteristic function, prod 1/(1 + (b w)^2); P1 simulates it.
    """
    deviations = np.array([np.sqrt(2.0 * np.sum(one**2)) for one in scales])
    weights = deviations**-2.0
    values = np.array(observed)
    centre = float(weights @ values / weights.sum())
    span = 1.2 * float(np.ptp(values)) + 12.0 * float(deviations.min())
    grid = np.linspace(centre - span, centre + span, GRID)
    logs = np.zeros(GRID)
    for value, one, deviation in zip(observed, scales, deviations.tolist(), strict=True):
        reach = max(abs(value - grid[0]), abs(value - grid[-1])) + 14.0 * deviation
        step = 2.0 * reach / NOISE_GRID
        squares = (2.0 * np.pi * np.fft.rfftfreq(NOISE_GRID, step)) ** 2
        spectrum = np.ones(len(squares))
        for scale in (one * one).tolist():
            spectrum *= 1.0 + scale * squares
        density = np.fft.fftshift(np.fft.irfft(1.0 / spectrum, NOISE_GRID)) / step
        places = (np.arange(NOISE_GRID) - NOISE_GRID // 2) * step
        logs += np.log(np.maximum(np.interp(value - grid, places, density), 1e-300))
    mass = np.exp(logs - logs.max())
    mass /= mass.sum()
    order = np.argsort(-mass)
    inside = grid[order[: int(np.searchsorted(np.cumsum(mass[order]), confidence)) + 1]]
    mean = float(mass @ grid)
    variance = float(mass @ (grid - mean) ** 2)
    return Credible(mean, float(grid[mass.argmax()]), float(inside.min()), float(inside.max()), variance)


@dataclass(frozen=True, slots=True)
class Reply:
    """One request: what was returned, and whether it was inferred."""

    value: float
    low: float
    high: float
    inferred: bool


class LaplaceSystem:
    """Algorithm 1. With `infer` off it is P1's improved baseline (a budget for each request as it needs)."""

    def __init__(self, counts: Vector, budget: float, confidence: float, infer: bool, generator: Generator) -> None:
        self.spent = np.zeros(len(counts))
        """B of Theorem 3.8: what each cell has lost."""
        self._counts, self._budget, self._confidence = counts, budget, confidence
        self._infer, self._generator = infer, generator
        self._history = np.zeros((0, len(counts)))
        self._scales, self._values = np.zeros(0), np.zeros(0)

    def plant_tree(self, alpha: float) -> None:
        """A hierarchical partition of all cells (P1 section 5.3), alpha-private in all."""
        cells = len(self._counts)
        sizes = [cells >> level for level in range(cells.bit_length())]
        rows = np.array(
            [np.roll(np.arange(cells) < size, low) for size in sizes for low in range(0, cells, size)], float
        )
        self._remember(rows, np.full(len(rows), len(sizes) / alpha))
        self.spent += alpha

    def ask(self, query: Vector, within: float, alpha: float | None = None) -> Reply | None:
        """An answer within `within` at the confidence, or none if the budget does not allow it."""
        if self._infer and len(self._history):
            found = self._inferred(query)
            if found is not None and found.high - found.low <= 2.0 * within:
                return Reply(found.mean, found.low, found.high, True)
        peak = float(np.abs(query).max())
        cost = peak * -log(1.0 - self._confidence) / within if alpha is None else alpha  # Theorem 3.7
        after = self.spent + cost / peak * np.abs(query)
        if float(after.max()) > self._budget * (1 + 1e-12):
            return None
        self.spent = after
        value = float(self._remember(query[None, :], np.array([peak / cost]))[0])
        return Reply(value, value - within, value + within, False)

    def _inferred(self, query: Vector) -> Credible | None:
        found = representations(query, self._history)
        if not found:
            return None
        observed = [float(one.weights @ self._values[list(one.rows)]) for one in found]
        return posterior(
            observed, [np.abs(one.weights) * self._scales[list(one.rows)] for one in found], self._confidence
        )

    def _remember(self, rows: Vector, scales: Vector) -> Vector:
        values: Vector = rows @ self._counts + self._generator.laplace(size=len(rows)) * scales
        if self._infer:
            self._history = np.vstack([self._history, rows])
            self._scales, self._values = np.append(self._scales, scales), np.append(self._values, values)
        return values
