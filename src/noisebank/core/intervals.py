"""Confidence intervals of Gaussian noise. Post-processing of released values: floats are fine, except in promises."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from noisebank.core.caches import cache_results
from noisebank.core.errors import BadRequest

PRECISION_BITS = 256
"""Of ball arithmetic, as in `privacy.calibration`."""


def normal_quantile(confidence: float) -> float:
    """Returns z such that a normal value lies within z standard deviations with this probability.

    >>> round(normal_quantile(0.95), 4)
    1.96
    """
    if not 0.0 < confidence < 1.0:
        raise BadRequest("confidence", confidence, "must lie in (0, 1)")
    return _cached_quantile(confidence)


@lru_cache(256)
def _cached_quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1.0 + confidence) / 2.0)


@cache_results(1 << 18)  # a confidence may be any number in (0, 1)
def quantile_bound(confidence: Fraction) -> Fraction:
    """Returns the same quantile, proven not too small (ball arithmetic): for promises, not for display."""
    from flint import arb, ctx, fmpq  # 30 ms to import, and clients only display

    with ctx.workprec(PRECISION_BITS):  # flint's own precision is global: whoever was imported before may have set it
        exact = arb(2).sqrt() * arb(fmpq(confidence.numerator, confidence.denominator)).erfinv()
        upper = (exact * 2**64).upper().ceil().unique_fmpz()
    if upper is None:
        raise BadRequest("confidence", float(confidence), "is too close to 1")
    return Fraction(int(upper), 2**64)


def confidence_interval(value: float, stddev: float, confidence: float = 0.95) -> tuple[float, float]:
    """Returns the two-sided interval for Gaussian noise."""
    half_width = normal_quantile(confidence) * stddev
    return (value - half_width, value + half_width)
