"""The only source of randomness. Nothing else imports random, secrets, numpy.random or OpenDP.

Noise that protects people comes from OpenDP's exact discrete Gaussian sampler, fed by the
operating system's generator. Seeded generators exist only to make *workloads* repeatable; they
never make noise.
"""

from __future__ import annotations

import math
import os
import random
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

MAX_NOISE_SCALE = 2.0**57
"""46 standard deviations of this still fit a signed 64-bit integer."""


class Entropy(Protocol):
    """Where noise and salts come from."""

    def discrete_gaussian(self, scale: float) -> int:
        """Returns one draw t with probability proportional to exp(-t^2 / (2 scale^2)) over all integers."""
        ...

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        """Returns `count` independent draws."""
        ...

    def token(self, size: int = 32) -> bytes:
        """Returns `size` unpredictable bytes, for salts and keys."""
        ...


class SystemEntropy:
    """Real randomness: OpenDP's sampler and the operating system's generator."""

    def discrete_gaussian(self, scale: float) -> int:
        return _scalar_sampler(_check_scale(scale))(0)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        """Many draws in one call of the same sampler: eight times faster."""
        return _vector_sampler(_check_scale(scale))([0] * count) if count else []

    def token(self, size: int = 32) -> bytes:
        return secrets.token_bytes(size)


def _check_scale(scale: float) -> float:
    """Returns the scale; ValueError for 0 and infinities, which OpenDP would accept."""
    if not (math.isfinite(scale) and 0.0 < scale <= MAX_NOISE_SCALE):
        raise ValueError(f"noise scale {scale!r} is outside (0, 2^57]")
    return scale


@lru_cache(maxsize=256)
def _scalar_sampler(scale: float) -> Callable[[int], int]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    sampler: Callable[[int], int] = dp.m.make_gaussian(
        dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=scale
    )
    return sampler


@lru_cache(maxsize=64)
def _vector_sampler(scale: float) -> Callable[[list[int]], list[int]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    sampler: Callable[[list[int]], list[int]] = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale
    )
    return sampler


def workload_rng(seed: int) -> random.Random:
    """Returns a seeded generator for made-up tables and requests. Never for noise."""
    return random.Random(seed)


def simulation_rng(seed: int) -> Generator:
    """Returns a fast seeded generator for simulations. Never for noise that protects people."""
    from numpy.random import default_rng

    return default_rng(seed)


def torch_simulation_rng(seed: int) -> Any:
    """The same for torch (extra `[federated]`): seeded, never for noise that protects people."""
    import torch

    return torch.Generator().manual_seed(seed)


def uniform_words(count: int) -> NDArray[np.uint64]:
    """Returns `count` independent uniform 64-bit integers from the operating system, for noise that protects people.

    Integers, not floats in [0, 1): a caller splits the range 0 .. 2^64 - 1 into whole numbers of words, so that its
    probabilities are exact fractions and an exp(epsilon) bound on their ratios is a comparison of integers. A float
    threshold would instead be off by up to 2^-53, which adds about 2^-53 / p to epsilon for an outcome of
    probability p.
    """
    import numpy as np

    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
