"""Second moments of the mechanisms in closed form: E[y^2 | x] = constant + linear |x| + quadratic x^2.

Every mechanism here is unbiased, so these three numbers give its variance at any x, its worst case over [-1, 1], and
the same under sampling (a value sent with probability 1/scale and multiplied by scale).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1

MAX_EPSILON = 20.0
MIN_EPSILON = 1e-4
"""Below MIN_EPSILON a report is useless, above MAX_EPSILON it protects nobody. Both are refused."""


@dataclass(frozen=True, slots=True)
class ReportMoments:
    """E[y^2 | x] = constant + linear |x| + quadratic x^2, for y an unbiased report of x in [-1, 1]."""

    constant: float
    linear: float
    quadratic: float

    def variance(self, x: float, scale: float = 1.0) -> float:
        """Returns the variance of a report on x, if sent with probability 1/scale and multiplied by scale."""
        size = abs(x)
        return scale * (self.constant + self.linear * size + self.quadratic * size * size) - size * size

    def worst_variance(self, scale: float = 1.0) -> float:
        """Returns the largest variance over x in [-1, 1]."""
        linear, quadratic = scale * self.linear, scale * self.quadratic - 1.0
        worst = max(self.variance(0.0, scale), self.variance(1.0, scale))
        if quadratic < 0.0 and linear < -2.0 * quadratic:  # the peak -linear / (2 quadratic) lies inside (0, 1)
            worst = max(worst, scale * self.constant - linear * linear / (4.0 * quadratic))
        return worst

    def mix_with(self, other: ReportMoments, weight: float) -> ReportMoments:
        """Returns the moments of the mechanism that uses `self` with probability `weight`, else `other`."""
        rest = 1.0 - weight
        return ReportMoments(
            weight * self.constant + rest * other.constant,
            weight * self.linear + rest * other.linear,
            weight * self.quadratic + rest * other.quadratic,
        )


def laplace_moments(epsilon: float) -> ReportMoments:
    """Returns the moments of x plus Laplace noise of scale 2/epsilon."""
    return ReportMoments(8.0 / epsilon**2, 0.0, 1.0)


def three_outputs_moments(epsilon: float, a: float) -> ReportMoments:
    """Returns the moments of Three-Outputs (thesis eq. 3.24); a = P(0 | x = 0). Duchi et al. is a = 0."""
    square = three_outputs_bound(epsilon, a) ** 2
    return ReportMoments(square * (1.0 - a), square * a * -expm1(-epsilon), 0.0)


def three_outputs_bound(epsilon: float, a: float) -> float:
    """Returns C of the outputs {-C, 0, C}: e^eps (e^eps + 1) / ((e^eps - 1)(e^eps - a))."""
    c = exp(epsilon)
    return c * (c + 1.0) / (expm1(epsilon) * (c - a))


def piecewise_moments(epsilon: float, t: float) -> ReportMoments:
    """Returns the moments of the piecewise mechanism (thesis eq. 3.30, plus x^2); t sets its window's width."""
    c, rise = exp(epsilon), expm1(epsilon)
    constant = (t + c) * ((t + 1.0) ** 3 + rise) / (3.0 * t * t * rise * rise)
    return ReportMoments(constant, 0.0, 1.0 + (t + 1.0) / rise)


def piecewise_bound(epsilon: float, t: float) -> float:
    """Returns A of the output range [-A, A] (eq. 3.28)."""
    return (exp(epsilon) + t) * (t + 1.0) / (t * expm1(epsilon))
