"""Numbers on the wire: coordinates as whole steps of bound/2^40, sums modulo 2^64, exact discrete noise.

Whole numbers, because a float sum tells by its last bits who added what, and because masks must cancel exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from noisebank.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from noisebank.entropy import Entropy

    Steps = NDArray[np.uint64]

STEPS = 2**40
"""In one bound."""
LEAST_SCALE = 2**26
"""In steps. From here on sums of discrete draws compose like Gaussian noise: docs/proofs/relay.md."""
MAX_SCALE = 2**54
"""256 such draws together stay 8 standard deviations away from 2^63."""
TAILS = 12.0
"""Standard deviations: an honest sum is outside with probability below 1e-30 a coordinate."""
BID_UNITS = 10**9
"""A preference is sent as a whole number of 1e-9."""


@runtime_checkable
class ManyDraws(Protocol):
    """Entropy that draws many values in one call of the sampler; the same law, an eighth of the time."""

    def discrete_gaussians(self, scale: float, count: int) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Contribution:
    """One member's vector on the grid, and how many of its numbers had to be clipped."""

    steps: Steps
    clipped: int


def contribution(vector: ArrayLike, bound: Fraction, dimension: int) -> Contribution:
    """Clips to [-bound, bound], rounds towards 0. NaN and infinities are refused.

    Rounding towards 0 and on the member's side: the sensitivity 2 bound sqrt(d) holds for what is really sent.
    """
    try:
        numbers = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadRequest("vector", "not numbers", "must be a flat list of numbers") from None
    if numbers.ndim != 1 or len(numbers) != dimension or dimension < 1:
        raise BadRequest("vector", f"shape {numbers.shape}", f"must be a flat list of {dimension} (at least 1) numbers")
    if not np.isfinite(numbers).all():
        raise BadRequest("vector", "NaN or infinity", "every number must be finite")
    relative = numbers / float(bound)
    clipped = np.clip(relative, -1.0, 1.0)
    return Contribution(
        np.trunc(clipped * STEPS).astype(np.int64).view(np.uint64), int(np.count_nonzero(clipped != relative))
    )


def restored(total: Steps, bound: Fraction, divisor: float) -> NDArray[np.float64]:
    """A sum of steps as numbers in the vector's unit, divided."""
    return np.asarray(total.view(np.int64) / (STEPS * divisor) * float(bound))


def wanted_scale(bid: int) -> int:
    """The least whole scale s with (s/STEPS)^2 >= m bid: sixth powers, so that every machine finds the same one.

    m^3 = 1/4, hence the condition is 4 s^6 >= bid^3 STEPS^6.
    """
    if bid <= 0:
        return 0
    right = bid**3 * STEPS**6
    left = 4 * BID_UNITS**3

    def enough(scale: int) -> bool:
        return left * scale**6 >= right

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def scale_of_variance(variance: Fraction) -> int:
    """The least whole scale whose square is at least `variance` squared bounds."""
    square = variance * STEPS * STEPS
    return 0 if square <= 0 else isqrt(-(-square.numerator // square.denominator) - 1) + 1


def noise(scale: int, count: int, entropy: Entropy) -> Steps:
    """`count` independent discrete Gaussian draws of this scale; zeros for scale 0."""
    if scale == 0:
        return np.zeros(count, dtype=np.uint64)
    if not LEAST_SCALE <= scale <= MAX_SCALE:
        raise BadRequest("noise", f"{scale / STEPS:g} bounds", "standard deviations lie in 2^-14 .. 2^14 bounds")
    if isinstance(entropy, ManyDraws):
        drawn = entropy.discrete_gaussians(float(scale), count)
    else:
        drawn = [entropy.discrete_gaussian(float(scale)) for _ in range(count)]
    return np.array(drawn, dtype=np.int64).view(np.uint64)


def plausible(total: Steps, members: int, variance: int) -> bool:
    """Whether honest members with this total noise (squared steps) could have sent it."""
    limit = members * STEPS + TAILS * float(variance) ** 0.5
    return bool((np.abs(total.view(np.int64).astype(np.float64)) <= limit).all())
