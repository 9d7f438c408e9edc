"""Fixed-point vectors: coordinates as integer steps of bound/2^40, sums modulo 2^64, exact discrete noise.

Integers, because the last bits of a float sum reveal who added what, and because masks must cancel exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from noisebank.core.entropy import Entropy

    Steps = NDArray[np.uint64]

STEPS_PER_BOUND = 2**40
"""Steps in one bound."""
MIN_SCALE = 2**26
"""In steps. From this scale on sums of discrete draws compose like Gaussian noise: docs/proofs/relay.md."""
MAX_SCALE = 2**54
"""256 such draws together stay 8 standard deviations away from 2^63."""
MAX_DEVIATIONS = 12.0
"""Standard deviations: an honest sum is outside with probability below 1e-30 per coordinate."""
BID_UNITS = 10**9
"""A preference is sent as a whole number of 1e-9."""


@runtime_checkable
class BatchEntropy(Protocol):
    """Entropy that draws many values in one call of the sampler; the same law, an eighth of the time."""

    def discrete_gaussians(self, scale: float, count: int) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Contribution:
    """One member's vector on the grid, and how many of its numbers had to be clipped."""

    steps: Steps
    clipped_count: int


def finite_numbers(vector: ArrayLike) -> NDArray[np.float64]:
    """Returns a flat array of finite numbers; anything else is refused, whatever the terms are."""
    try:
        numbers = np.array(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadRequest("vector", "not numbers", "must be a flat list of numbers") from None
    if numbers.ndim != 1:
        raise BadRequest("vector", f"shape {numbers.shape}", "must be a flat list of numbers")
    if not np.isfinite(numbers).all():
        raise BadRequest("vector", "NaN or infinity", "every number must be finite")
    return numbers


def quantize_vector(vector: ArrayLike, bound: Fraction, dimension: int) -> Contribution:
    """Clip to [-bound, bound] and round towards 0 to steps. NaN and infinities are refused.

    The member rounds, towards 0: the sensitivity 2 bound sqrt(d) holds for what is really sent. Integers from the first
    line on: a float is an integer over a power of two, so the quotient by any bound is exact and cannot become 0/0 or
    overflow, as a quotient of floats can.
    """
    numbers = finite_numbers(vector)
    if len(numbers) != dimension or dimension < 1:
        raise BadRequest("vector", f"shape {numbers.shape}", f"must be a flat list of {dimension} (at least 1) numbers")
    if bound <= 0:
        raise BadRequest("bound", str(bound)[:40], "must be above 0")
    above, below = bound.denominator * STEPS_PER_BOUND, bound.numerator
    sizes, clipped = [], 0
    for number in numbers.tolist():
        top, bottom = number.as_integer_ratio()
        steps, rest = divmod(abs(top) * above, bottom * below)
        clipped += steps > STEPS_PER_BOUND or (steps == STEPS_PER_BOUND and rest > 0)
        sizes.append(min(steps, STEPS_PER_BOUND) if top >= 0 else -min(steps, STEPS_PER_BOUND))
    return Contribution(np.array(sizes, dtype=np.int64).view(np.uint64), clipped)


def clip_norm(steps: Steps, limit: int) -> Steps:
    """Returns the steps scaled down to a Euclidean norm of at most `limit` steps, each rounded towards 0."""
    signed = steps.view(np.int64).tolist()
    square = sum(step * step for step in signed)
    if square <= limit * limit:
        return steps
    length = isqrt(square - 1) + 1  # rounded up: the result is never too long
    scaled = [step * limit // length if step >= 0 else -(-step * limit // length) for step in signed]
    return np.array(scaled, dtype=np.int64).view(np.uint64)


def clip_steps(steps: Steps) -> Steps:
    """The last check before noise: clip to one bound, whatever came before."""
    return np.clip(steps.view(np.int64), -STEPS_PER_BOUND, STEPS_PER_BOUND).view(np.uint64)


def dequantize_sum(total: Steps, bound: Fraction, divisor: float) -> NDArray[np.float64]:
    """Returns a sum of steps as numbers in the vector's unit, divided by `divisor`."""
    return np.asarray(total.view(np.int64) / (STEPS_PER_BOUND * divisor) * float(bound))


def scale_for_bid(bid: int) -> int:
    """Returns the least integer s with (s/STEPS_PER_BOUND)^2 >= m bid: in sixth powers, the same on every machine.

    m^3 = 1/4, hence the condition is 4 s^6 >= bid^3 STEPS_PER_BOUND^6.
    """
    if bid <= 0:
        return 0
    right = bid**3 * STEPS_PER_BOUND**6
    left = 4 * BID_UNITS**3

    def is_enough(scale: int) -> bool:
        return left * scale**6 >= right

    low, high = 0, 1
    while not is_enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def scale_for_variance(variance: Fraction) -> int:
    """Returns the least integer scale, in steps, whose square is at least `variance` squared bounds."""
    square = variance * STEPS_PER_BOUND * STEPS_PER_BOUND
    return 0 if square <= 0 else isqrt(-(-square.numerator // square.denominator) - 1) + 1


def draw_noise(scale: int, count: int, entropy: Entropy) -> Steps:
    """Returns `count` independent discrete Gaussian draws of this scale; zeros for scale 0."""
    if scale == 0:
        return np.zeros(count, dtype=np.uint64)
    if not MIN_SCALE <= scale <= MAX_SCALE:
        raise BadRequest(
            "noise", f"{scale / STEPS_PER_BOUND:g} bounds", "standard deviations lie in 2^-14 .. 2^14 bounds"
        )
    float_scale = float(scale)
    if float_scale < scale:  # above 2^53 not every integer is a float: round up
        float_scale = nextafter(float_scale, inf)
    if isinstance(entropy, BatchEntropy):
        drawn = entropy.discrete_gaussians(float_scale, count)
    else:
        drawn = [entropy.discrete_gaussian(float_scale) for _ in range(count)]
    return np.array(drawn, dtype=np.int64).view(np.uint64)


def is_plausible(total: Steps, member_count: int, variance: int) -> bool:
    """Whether so many honest members with this total noise variance (squared steps) could have sent the sum."""
    limit = member_count * STEPS_PER_BOUND + MAX_DEVIATIONS * float(variance) ** 0.5
    return bool((np.abs(total.view(np.int64).astype(np.float64)) <= limit).all())
