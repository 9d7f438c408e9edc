"""Gaussian noise and (epsilon, delta): the exact conversion, and the classical rule."""

from __future__ import annotations

from math import erfc, exp, log, sqrt

CERTAIN = 1e-12


def normal_tail(x: float) -> float:
    """P(N > x)."""
    return 0.5 * erfc(x / sqrt(2.0))


def delta_of(mu: float, epsilon: float) -> float:
    """Balle and Wang, Theorem 8."""
    return normal_tail(epsilon / mu - mu / 2) - exp(epsilon) * normal_tail(epsilon / mu + mu / 2)


def bisect(below: float, above: float, function: object, steps: int = 200) -> float:
    """Where an increasing function becomes positive."""
    assert callable(function)
    for _ in range(steps):
        middle = (below + above) / 2
        if function(middle) > 0:
            above = middle
        else:
            below = middle
    return (below + above) / 2


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that (epsilon, delta) allows."""
    return bisect(1e-6, 40.0, lambda mu: delta_of(mu, epsilon) - delta)


def epsilon_of(mu: float, delta: float) -> float:
    """The least epsilon at this delta."""
    high = mu * mu / 2 + mu * sqrt(2 * log(1 / delta)) + 1
    return bisect(0.0, high, lambda epsilon: delta - delta_of(mu, epsilon))


def classical(delta: float) -> float:
    """sigma epsilon / sensitivity."""
    return sqrt(2.0 * log(1.25 / delta))
