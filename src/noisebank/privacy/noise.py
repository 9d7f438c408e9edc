"""From a variance to an integer noise scale that is never too small."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from noisebank.entropy import MAX_NOISE_SCALE
from noisebank.errors import BadRequest
from noisebank.units import Precision

LEAST_SCALE = 2**26
"""In grid steps. From here on discrete noise composes like Gaussian noise: docs/proofs."""


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Noise of standard deviation `scale` on the grid of spacing 2^-shift steps."""

    shift: int
    scale: float

    @property
    def variance(self) -> Fraction:
        """In squared steps, exactly."""
        return Fraction(self.scale) ** 2 / 4**self.shift


def noise_scale(variance: Fraction) -> NoiseScale:
    """The coarsest grid on which noise of at least `variance` (squared steps) is fine enough.

    Requires: variance > 0.
    Guarantees: scale^2 / 4^shift >= variance, above it by a factor of at most 1 + 2^-50; scale >= 2^26;
    the grid divides the step, so exact statistics lie on it. Depends on public numbers only.
    Proof: docs/proofs/noise_scale.md.
    """
    if variance <= 0:
        raise ValueError(f"noise needs a positive variance, not {variance}")
    shift = 0
    while variance * 4**shift < LEAST_SCALE**2:
        shift += 1
    scaled = variance * 4**shift
    scale = _sqrt_up(scaled)
    if scale > MAX_NOISE_SCALE:
        raise BadRequest(
            "precision", f"noise of {float(scale):.3g} steps", "is more noise than 64 bits hold; ask for more precision"
        )
    return NoiseScale(shift, scale)


def fresh_variance(sensitivity_squared: Fraction, fresh: Precision) -> Fraction:
    """Delta^2 / p: the variance of a fresh measurement that costs `fresh`."""
    if not fresh:
        raise ValueError("a measurement that costs nothing does not exist")
    return sensitivity_squared / fresh.exact


def _sqrt_up(value: Fraction) -> float:
    """The smallest few-ulp float whose exact square is at least `value`."""
    guess = math.sqrt(float(value)) if value.numerator.bit_length() < 1000 else float(math.isqrt(int(value)))
    while Fraction(guess) ** 2 < value:
        guess = math.nextafter(guess, math.inf)
    return guess
