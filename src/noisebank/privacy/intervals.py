"""Confidence intervals. Post-processing of released values: floats are fine here."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

from noisebank.errors import BadRequest


def normal_quantile(confidence: float) -> float:
    """z such that a normal value lies within z standard deviations with this probability.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    if not 0.0 < confidence < 1.0:
        raise BadRequest("confidence", confidence, "must lie in (0, 1)")
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


def interval(value: float, stddev: float, confidence: float = 0.95) -> tuple[float, float]:
    """The two-sided interval for Gaussian noise."""
    reach = normal_quantile(confidence) * stddev
    return (value - reach, value + reach)


def stddev_within(half_width: Fraction, confidence: float) -> Fraction:
    """The noise that keeps an answer within `half_width` at this confidence."""
    return half_width / Fraction(normal_quantile(confidence))
