"""The noisy sum of DP-SGD, in integers: clipped gradients plus Gaussian noise from the operating system's randomness.

torch's generator will not do: on a CPU it keeps 32 bits of its seed, and whoever sees noise alone (weights whose
gradient is 0 for every example, which a poster can arrange) tries all seeds in an hour and removes the noise. Nor will
sums of 32-bit floats: what one example changes in the rounding of all later additions is not bounded by its clipping.
So every example's gradient is clipped in 64 bits and rounded towards 0 to steps of clip / 2^24, and steps are added as
integers, exactly: one example more or less changes the sum by at most its own steps, whose norm is at most 2^24. Noise
is rounded to the same steps. For a sum in whole steps, rounding (sum + noise) equals sum + rounding (noise), so this is
the Gaussian mechanism with its output rounded, without low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import uniform_words

STEPS_PER_CLIP = 2**24
"""Steps in the clipping norm."""
CLIP_MARGIN = 1 - 2.0**-40
"""Keeps a clipped gradient within its norm, whatever the last bits of the division are."""
CHUNK_SIZE = 2**20
"""Numbers that are clipped and rounded at a time: 64-bit copies of a whole batch would take gigabytes."""
Floats = NDArray[np.float64]
RandomWords = Callable[[int], NDArray[np.uint64]]


def sample_batch(examples: int, batches: int, words: RandomWords = uniform_words) -> NDArray[np.int64]:
    """Return a Poisson sample of indices: each example independently with probability 1 / batches, rounded down."""
    if batches == 1:
        return np.arange(examples)
    return np.flatnonzero(words(examples) < np.uint64(2**64 // batches))


def compute_noisy_sum(
    gradients: Sequence[NDArray[np.float32]], clip: float, noise: float, words: RandomWords = uniform_words
) -> list[Floats]:
    """Return for every parameter the sum over the examples (the first axis) plus noise.

    Each example is clipped to `clip` over all parameters together; the noise has standard deviation `noise` x `clip`.
    """
    sums: list[Floats] = []
    for total in compute_clipped_sum(gradients, clip):
        drawn = (
            np.rint(sample_gaussians(total.size, words) * (noise * STEPS_PER_CLIP))
            .astype(np.int64)
            .reshape(total.shape)
        )
        sums.append((total + drawn).astype(np.float64) * (clip / STEPS_PER_CLIP))
    return sums


def compute_clipped_sum(gradients: Sequence[NDArray[np.float32]], clip: float) -> list[NDArray[np.int64]]:
    """Return the sum alone, in steps. Numbers that are not finite count as 0: the weights are a poster's choice."""
    count = len(gradients[0])
    squares = np.zeros(count)
    for part in gradients:
        for rows in _slice_rows(part):
            squares[rows] += np.square(replace_nonfinite(part[rows])).reshape(len(part[rows]), -1).sum(axis=1)
    factors = (
        (STEPS_PER_CLIP / clip)
        * CLIP_MARGIN
        * np.minimum(1.0, clip / np.maximum(np.sqrt(squares), np.finfo(float).tiny))
    )
    totals = []
    for part in gradients:
        total = np.zeros(part.shape[1:], dtype=np.int64)
        for rows in _slice_rows(part):
            clipped = replace_nonfinite(part[rows]) * factors[rows].reshape(-1, *(1,) * total.ndim)
            total += np.clip(np.trunc(clipped), -STEPS_PER_CLIP, STEPS_PER_CLIP).astype(np.int64).sum(axis=0)
        totals.append(total)
    return totals


def replace_nonfinite(numbers: NDArray[np.float32]) -> Floats:
    """Return the numbers in 64 bits, where no square of a 32-bit float overflows; 0 for what is not finite."""
    return np.nan_to_num(numbers.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def sample_gaussians(count: int, words: RandomWords = uniform_words) -> Floats:
    """Draw independent standard normal numbers, two from three words of 64 bits (Box and Muller).

    128 bits decide the length, so tails end at 13 standard deviations: what is cut off has probability 2^-128.
    """
    pairs = -(-count // 2)
    high, low, turn = words(3 * pairs).reshape(3, pairs).astype(np.float64)
    length = np.sqrt(-2.0 * np.log((high + (low + 0.5) * 2.0**-64) * 2.0**-64))
    angle = turn * (2.0 * np.pi * 2.0**-64)
    return np.concatenate([length * np.cos(angle), length * np.sin(angle)])[:count]


def _slice_rows(part: NDArray[np.float32]) -> list[slice]:
    """Return slices of the first axis with about `CHUNK_SIZE` numbers each."""
    rows = max(1, CHUNK_SIZE // max(1, part[:1].size))
    return [slice(start, start + rows) for start in range(0, len(part), rows)]
