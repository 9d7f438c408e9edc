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

MIN_SCALE = 2**26
"""Least standard deviation in grid steps. From here on discrete noise composes like Gaussian noise: docs/proofs."""


@dataclass(frozen=True, slots=True)
class NormalLaw:
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
    while variance * 4**shift < MIN_SCALE**2:
        shift += 1
    scaled = variance * 4**shift
    return NoiseScale(shift, _sqrt_up(scaled))


def draw_value(law: NormalLaw, entropy: Entropy) -> GridValue:
    """Returns one draw from the law: its mean, rounded to the grid, plus exact discrete noise.

    The mean is rounded *before* the noise is added, so that its low bits do not leak. An
    exact statistic is an integer and lies on every grid: rounding leaves it as it is.
    Proof: docs/proofs/discrete_gaussian.md.
    """
    scale = noise_scale(law.variance)
    centre = GridValue.nearest(law.mean, scale.shift)
    return GridValue(centre.numerator + entropy.discrete_gaussian(scale.scale), scale.shift)


def draw_values(means: Sequence[Fraction], variance: Fraction, entropy: Entropy) -> tuple[GridValue, ...]:
    """Returns one draw per mean, with the same variance and independent noise: `draw_value`, many at once."""
    return draw_values_many([(means, variance)], entropy)[0]


def draw_values_many(
    parts: Sequence[tuple[Sequence[Fraction], Fraction]], entropy: Entropy
) -> list[tuple[GridValue, ...]]:
    """Returns `draw_values` of each part, given by its means and their variance: one call of the sampler per scale."""
    scales = [noise_scale(variance) for _, variance in parts]
    counts: dict[float, int] = {}
    for scale, (means, _) in zip(scales, parts, strict=True):
        counts[scale.scale] = counts.get(scale.scale, 0) + len(means)
    noise = {scale: iter(entropy.discrete_gaussians(scale, count)) for scale, count in counts.items()}
    return [
        tuple(
            GridValue(GridValue.nearest(mean, scale.shift).numerator + next(noise[scale.scale]), scale.shift)
            for mean in means
        )
        for scale, (means, _) in zip(scales, parts, strict=True)
    ]


def fresh_variance(sensitivity_squared: Fraction, fresh_precision: Precision) -> Fraction:
    """Returns Delta^2 / p: the variance of a fresh measurement of precision p."""
    if not fresh_precision:
        raise ValueError("a measurement that costs nothing does not exist")
    return sensitivity_squared / fresh_precision.exact


def _sqrt_up(value: Fraction) -> float:
    """Returns a float whose exact square is at least `value`, and within a few ulps of its root."""
    guess = math.sqrt(float(value))
    while Fraction(guess) ** 2 < value:
        guess = math.nextafter(guess, math.inf)
    return guess
