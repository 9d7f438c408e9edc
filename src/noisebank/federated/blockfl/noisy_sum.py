"""One step of DP-SGD in whole numbers: a sum of clipped gradients, and Gaussian noise of the operating system's.

torch's generator is no source for it: on a CPU it keeps 32 bits of its seed, and whoever can see noise alone (weights
whose gradient is 0 for every example, which a poster can arrange) tries them all in an hour and takes the noise off.
Nor are sums of 32-bit floats: what one example changes in the rounding of all later additions is not bounded by its
clipping. So every example's gradient is cut to its norm in 64 bits and rounded towards 0 to steps of clip / 2^24, and
steps are added as integers, exactly: one example more or less moves the sum by at most its own steps, whose norm is
no more than 2^24. Noise is rounded to the same steps. Rounding (sum + noise) and sum + rounding (noise) are the same
for a sum in whole steps, so this is the Gaussian mechanism with its output rounded, and leaves no low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import uniform_words

STEPS = 2**24
"""In the clipping norm."""
SHORTER = 1 - 2.0**-40
"""Keeps a cut gradient inside its norm, whatever the last bits of the division were."""
AT_ONCE = 2**20
"""Numbers that are cut and rounded at a time: 64-bit copies of a whole batch would take gigabytes."""
Floats = NDArray[np.float64]
Words = Callable[[int], NDArray[np.uint64]]


def chosen_examples(examples: int, batches: int, words: Words = uniform_words) -> NDArray[np.int64]:
    """Poisson sampling: each of them, by a coin of its own, with probability 1 / batches, rounded down."""
    if batches == 1:
        return np.arange(examples)
    return np.flatnonzero(words(examples) < np.uint64(2**64 // batches))


def noisy_gradients(
    gradients: Sequence[NDArray[np.float32]], clip: float, noise: float, words: Words = uniform_words
) -> list[Floats]:
    """For every parameter the sum over the examples (the first axis), each cut to `clip` over all parameters together,
    plus noise of standard deviation `noise` x `clip` on every number."""
    found: list[Floats] = []
    for total in clipped_sum(gradients, clip):
        drawn = np.rint(gaussians(total.size, words) * (noise * STEPS)).astype(np.int64).reshape(total.shape)
        found.append((total + drawn).astype(np.float64) * (clip / STEPS))
    return found


def clipped_sum(gradients: Sequence[NDArray[np.float32]], clip: float) -> list[NDArray[np.int64]]:
    """The sum alone, in steps. A number that is not finite counts as 0: weights are a poster's choice."""
    count = len(gradients[0])
    squares = np.zeros(count)
    for part in gradients:
        for some in _pieces(part):
            squares[some] += np.square(finite(part[some])).reshape(len(part[some]), -1).sum(axis=1)
    factors = (STEPS / clip) * SHORTER * np.minimum(1.0, clip / np.maximum(np.sqrt(squares), np.finfo(float).tiny))
    totals = []
    for part in gradients:
        total = np.zeros(part.shape[1:], dtype=np.int64)
        for some in _pieces(part):
            cut = finite(part[some]) * factors[some].reshape(-1, *(1,) * total.ndim)
            total += np.clip(np.trunc(cut), -STEPS, STEPS).astype(np.int64).sum(axis=0)
        totals.append(total)
    return totals


def finite(numbers: NDArray[np.float32]) -> Floats:
    """64 bits, in which the square of no 32-bit number runs over."""
    return np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def gaussians(count: int, words: Words = uniform_words) -> Floats:
    """Independent standard normal numbers, two from three words of 64 bits (Box and Muller).

    128 bits decide the length: tails are cut 13 standard deviations out, which nobody will ever see.
    """
    pairs = -(-count // 2)
    high, low, turn = words(3 * pairs).reshape(3, pairs).astype(np.float64)
    length = np.sqrt(-2.0 * np.log((high + (low + 0.5) * 2.0**-64) * 2.0**-64))
    angle = turn * (2.0 * np.pi * 2.0**-64)
    return np.concatenate([length * np.cos(angle), length * np.sin(angle)])[:count]


def _pieces(part: NDArray[np.float32]) -> list[slice]:
    """Of the first axis."""
    rows = max(1, AT_ONCE // max(1, part[:1].size))
    return [slice(start, start + rows) for start in range(0, len(part), rows)]
