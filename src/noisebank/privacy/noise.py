"""Draws normal noise on an integer grid; its variance is never below the one asked for. Randomness: `entropy`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from noisebank.core.entropy import MAX_NOISE_SCALE, Entropy
from noisebank.core.errors import BadRequest
from noisebank.core.units import GridValue, Precision

LEAST_SCALE = 2**26
"""Least standard deviation in grid steps. From here on discrete noise composes like Gaussian noise: docs/proofs."""


@dataclass(frozen=True, slots=True)
class Law:
    """A normal law, in steps of the query."""

    mean: Fraction
    variance: Fraction


@dataclass(frozen=True, slots=True)
class NoiseScale:
    """Noise of standard deviation `scale` on the grid of spacing 2^-shift steps."""

    shift: int
    scale: float

    @property
    def variance(self) -> Fraction:
        """The variance in squared steps, exactly."""
        scale = Fraction(self.scale)
        return scale * scale / (1 << 2 * self.shift)


@lru_cache(maxsize=256)  # all groups of an answer have the same variance
def noise_scale(variance: Fraction) -> NoiseScale:
    """Returns the coarsest grid on which noise of at least `variance` (squared steps) is fine enough.

    Requires: variance > 0.
    Guarantees: scale^2 / 4^shift >= variance, above it by a factor of at most 1 + 2^-50; scale >= 2^26;
    the grid divides the step, so exact statistics lie on it. Depends on public numbers only.
    Proof: docs/proofs/noise_scale.md.
    """
    if variance <= 0:
        raise ValueError(f"noise needs a positive variance, not {variance}")
    if variance > Fraction(MAX_NOISE_SCALE) ** 2:
        steps = math.isqrt(int(variance))
        raise BadRequest(
            "precision",
            f"noise of 2^{steps.bit_length() - 1} steps or more",
            "is more noise than 64 bits hold; ask for more precision",
        )
    shift = 0
    while variance * 4**shift < LEAST_SCALE**2:
        shift += 1
    scaled = variance * 4**shift
    return NoiseScale(shift, _sqrt_up(scaled))


def draw(law: Law, entropy: Entropy) -> GridValue:
    """Returns one draw from the law: its mean, rounded to the grid, plus exact discrete noise.

    The mean is rounded *before* the noise is added, so that its low bits do not leak. An
    exact statistic is an integer and lies on every grid: rounding leaves it as it is.
    Proof: docs/proofs/discrete_gaussian.md.
    """
    scale = noise_scale(law.variance)
    centre = GridValue.nearest(law.mean, scale.shift)
    return GridValue(centre.numerator + entropy.discrete_gaussian(scale.scale), scale.shift)


def draw_all(means: Sequence[Fraction], variance: Fraction, entropy: Entropy) -> tuple[GridValue, ...]:
    """Returns one draw per mean, with the same variance and independent noise: `draw_value`, many at once."""
    scale = noise_scale(variance)
    centres = [GridValue.nearest(mean, scale.shift) for mean in means]
    noise = entropy.discrete_gaussians(scale.scale, len(centres))
    return tuple(GridValue(c.numerator + n, scale.shift) for c, n in zip(centres, noise, strict=True))


def fresh_variance(sensitivity_squared: Fraction, fresh: Precision) -> Fraction:
    """Returns Delta^2 / p: the variance of a fresh measurement of precision p."""
    if not fresh:
        raise ValueError("a measurement that costs nothing does not exist")
    return sensitivity_squared / fresh.exact


def _sqrt_up(value: Fraction) -> float:
    """Returns a float whose exact square is at least `value`, and within a few ulps of its root."""
    guess = math.sqrt(float(value))
    while Fraction(guess) ** 2 < value:
        guess = math.nextafter(guess, math.inf)
    return guess
