"""P2: the game, its errors and costs, collusion, splits."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from research.oracles.gaussian import bisect, epsilon_of
from research.oracles.reuse import Values

M, TOP = 0.5 ** (2 / 3), 1.3


def _mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) / sqrt(len(values))


def errors(quick: bool) -> Values:
    """Figure 7, and the costs of figures 4 and 5: what each must add by its best response."""
    generator, rows = np.random.default_rng(0), {}
    for users in (3, 10, 20, 100):
        betas = generator.uniform(0, TOP, (3_000 if quick else 30_000, users))
        rows[f"errors {users} LDP"] = (M * TOP / 2 / users, 0.0)
        rows[f"errors {users} Chained"] = (M * TOP / (users * (users + 1)), 0.0)
        rows[f"errors {users} Central"] = _mean(M * (betas**1.5).mean(axis=1) ** (2 / 3) / users**2)
    betas = generator.uniform(0, TOP, (3_000 if quick else 30_000, 10))
    alphas, largest = betas**1.5, betas.max(axis=1)
    rows["costs LDP"] = (TOP / 2 / sqrt(M) + M * 10 * TOP / 2, 0.0)
    rows["costs Chained"] = _mean(M * largest + alphas.mean(axis=1) / np.sqrt(M * largest))
    rows["costs Central"] = _mean(3 * M * alphas.mean(axis=1) ** (2 / 3))
    price = M * betas.max(axis=1) / (M * alphas.mean(axis=1) ** (2 / 3))
    prices = (price + 2 / np.sqrt(price)) / 3
    rows["anarchy eq. 29 as printed fails"] = _mean((prices >= largest / (10 * betas.min(axis=1))).astype(float))
    return rows


def anarchy(quick: bool) -> Values:
    """The limit for ten users: one who cares, nine who do not."""
    ratio = 10 ** (2 / 3)
    return {"anarchy limit for K = 10": ((ratio + 2 / sqrt(ratio)) / 3, 0.0)}


def epsilon(quick: bool) -> Values:
    """Of a whole vector in [-1, 1]^50 under the mean noise of ten users."""
    return {"budgets 50 check": (epsilon_of(2 * sqrt(50 / (M * TOP * 10 / 11)), 1e-5), 0.0)}


def split(quick: bool) -> Values:
    """200 users in Q relays."""
    generator, rows = np.random.default_rng(5), Values()
    for groups in (2, 10, 100):
        parts: dict[str, list[float]] = {"random": [], "sorted": [], "LDP": []}
        for _ in range(100 if quick else 600):
            betas = generator.uniform(0, TOP, 200)
            parts["random"].append(sum(M * part.max() for part in np.array_split(betas, groups)) / 200**2)
            parts["sorted"].append(sum(M * part.max() for part in np.array_split(np.sort(betas), groups)) / 200**2)
            parts["LDP"].append(M * betas.sum() / 200**2)
        rows |= {f"split {groups} {name}": _mean(np.array(values)) for name, values in parts.items()}
    return rows


def _weak(users: int, p: float) -> float:
    return (users - 2) * p * p / users


def _strong(users: int, p: float) -> float:
    """Summed over the victim's place: a colluder before and one behind."""
    q = 1 - p
    return sum((1 - q**i) * (1 - q ** (users - 1 - i)) for i in range(users)) / users


def _known(users: int, p: float) -> float:
    return sum(1 - (1 - p) ** i for i in range(users)) / users


CHANCES: dict[str, Callable[[int, float], float]] = {"weak": _weak, "strong": _strong, "published": _known}


def collusion(quick: bool) -> Values:
    """K = 10, p = .1."""
    return {f"collusion {name}": (chance(10, 0.1), 0.0) for name, chance in CHANCES.items()}


def thresholds(quick: bool) -> Values:
    """p at which the chance is 1/K^2."""

    def threshold(chance: Callable[[int, float], float]) -> float:
        return bisect(0.0, 0.99, lambda p: chance(10, p) - 0.01)

    return {f"thresholds 10 {name}": (threshold(chance), 0.0) for name, chance in CHANCES.items()}


def variances(quick: bool) -> Values:
    """Of a relay of processes: drawn noise of variance m max beta gives ratio 1."""
    generator = np.random.default_rng(9)
    drawn = np.square(generator.normal(0, sqrt(M), (100, 1000))).mean(axis=1) / M
    return {"error over simulated": _mean(drawn)}
