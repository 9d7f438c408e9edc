"""Frequency oracles: categorical answers under eps-LDP by k-ary randomised response or optimised unary encoding.

The two standard frequency oracles of Wang, Blocki, Li and Jha, "Locally Differentially Private Protocols for Frequency
Estimation", USENIX Security 2017; per-report variance (e^eps + k - 2) / (e^eps - 1)^2 and 4 e^eps / (e^eps - 1)^2 for
a rare value, so randomised response is better up to about 3 e^eps + 2 values. Probabilities are whole numbers of
2^64-ths, rounded so that no ratio exceeds e^eps.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, expm1
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.alias import WORDS
from noisebank.federated.ldp.law import exp_lower_bound
from noisebank.federated.ldp.parameters import check_epsilon

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

HALF = np.uint64(1 << 63)


class FrequencyOracle:
    """Reports one of `size` values (0 .. size - 1) under epsilon-LDP.

    A report is a row of `size` flags. Unary encoding: the true value's flag is set with probability 1/2, every other
    one with probability q. Randomised response: exactly one flag is set. In both, P(flag of v | v) = p and
    P(flag of w | v) = q, so (flag - q) / (p - q) is an unbiased report on "is it v".
    """

    def __init__(self, epsilon: float, size: int) -> None:
        self.epsilon = check_epsilon(epsilon)
        if isinstance(size, bool) or not isinstance(size, int) or size < 2:
            raise BadRequest("values", size, "a categorical attribute needs at least two")
        self.size = size
        c = exp_lower_bound(self.epsilon)
        self.is_unary = unary_variance(self.epsilon) < response_variance(self.epsilon, size)
        if self.is_unary:
            self.other_weight = int(-(-WORDS // (c + 1)))  # up: (2^64 - other) <= c other
            self.own_weight, self.total_weight = WORDS // 2, WORDS
        else:
            self.other_weight = int(WORDS / (c + size - 1))
            self.own_weight = int(c * self.other_weight)  # down: own <= c other
            self.total_weight = self.own_weight + (size - 1) * self.other_weight

    @property
    def kind(self) -> str:
        """The name of the protocol in use."""
        return "unary encoding" if self.is_unary else "randomised response"

    @property
    def p(self) -> Fraction:
        """P(flag of v | v)."""
        return Fraction(self.own_weight, self.total_weight)

    @property
    def q(self) -> Fraction:
        """P(flag of w | v), w another value."""
        return Fraction(self.other_weight, self.total_weight)

    def likelihood_ratio(self) -> Fraction:
        """Returns the largest likelihood ratio of a report between two true values, exactly."""
        return self.p * (1 - self.q) / (self.q * (1 - self.p)) if self.is_unary else self.p / self.q

    def variance(self, frequency: float = 0.0) -> float:
        """Returns the variance of one report on a value that this share of the people has."""
        p, q = float(self.p), float(self.q)
        return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / (p - q) ** 2

    def draw_flags(self, values: ArrayLike) -> NDArray[np.uint8]:
        """Returns one row of flags per value."""
        array = np.asarray(values)
        inside = array.dtype.kind in "iu" and (not array.size or (array.min() >= 0 and array.max() < self.size))
        if array.ndim != 1 or not inside:
            raise BadRequest("values", "of a category", f"must be whole numbers in 0 .. {self.size - 1}")
        array = array.astype(np.int64)
        return self._draw_unary(array) if self.is_unary else self._draw_response(array)

    def _draw_unary(self, values: NDArray[np.int64]) -> NDArray[np.uint8]:
        words = uniform_words(len(values) * self.size).reshape(len(values), self.size)
        flags = words < np.uint64(self.other_weight)
        rows = np.arange(len(values))
        flags[rows, values] = words[rows, values] < HALF
        return flags.view(np.uint8)

    def _draw_response(self, values: NDArray[np.int64]) -> NDArray[np.uint8]:
        responses = self._randomize_values(values)
        flags = np.zeros((len(values), self.size), dtype=np.uint8)
        flags[np.arange(len(values)), responses] = 1
        return flags

    def _randomize_values(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the true value with probability p, else one of the others; words beyond the total are drawn again."""
        words = uniform_words(len(values))
        lie = ((words - np.uint64(self.own_weight)) // np.uint64(self.other_weight)).view(np.int64)
        lie += lie >= values
        responses = np.where(words < np.uint64(self.own_weight), values, lie)
        again = (
            np.flatnonzero(words >= np.uint64(self.total_weight))
            if self.total_weight < WORDS
            else np.empty(0, np.int64)
        )
        if len(again):
            responses[again] = self._randomize_values(values[again])
        return responses

    def to_indicators(self, flags: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of each value's indicator, one row per report."""
        p, q = float(self.p), float(self.q)
        return (np.asarray(flags, dtype=np.float64) - q) / (p - q)


def response_variance(epsilon: float, size: int) -> float:
    """Returns the variance of randomised response for a rare value: (e^eps + k - 2) / (e^eps - 1)^2."""
    return (exp(epsilon) + size - 2) / expm1(epsilon) ** 2


def unary_variance(epsilon: float) -> float:
    """Returns the variance of optimised unary encoding for a rare value: 4 e^eps / (e^eps - 1)^2, for any k."""
    return 4.0 * exp(epsilon) / expm1(epsilon) ** 2
