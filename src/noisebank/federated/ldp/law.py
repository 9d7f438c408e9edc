"""Exact output laws of mechanisms, in integers: what "exactly eps-LDP" is computed from.

A law gives each output code a weight, an integer; its probability is weight / total. Codes that follow each other with
the same weight form one run, so that a law over millions of codes stays short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

PRECISION_BITS = 256
"""Working precision of the bound on e^eps."""


@dataclass(frozen=True, slots=True)
class Law:
    """Run i covers the codes starts[i] .. starts[i+1] - 1 (the last: up to `code_count` - 1), each of weights[i]."""

    starts: tuple[int, ...]
    weights: tuple[int, ...]
    code_count: int

    @property
    def total_weight(self) -> int:
        """The sum of all weights."""
        ends = (*self.starts[1:], self.code_count)
        return sum(w * (stop - start) for w, start, stop in zip(self.weights, self.starts, ends, strict=True))

    def iter_runs(self) -> Iterable[tuple[int, int, int]]:
        """Yields (first code, code after the last, weight) of each run."""
        return zip(self.starts, (*self.starts[1:], self.code_count), self.weights, strict=True)

    def to_probabilities(self) -> list[float]:
        """Returns the probability of every code as a float: for display and for tests."""
        total = self.total_weight
        return [weight / total for start, stop, weight in self.iter_runs() for _ in range(stop - start)]

    def mix_with(self, other: Law, numerator: int, denominator: int) -> Law:
        """Returns the mixture: `other` with probability numerator / denominator, else this law. Totals must agree."""
        starts = tuple(sorted({*self.starts, *other.starts}))
        own_weights, other_weights = self._weights_at(starts), other._weights_at(starts)
        weights = tuple(
            (denominator - numerator) * a + numerator * b for a, b in zip(own_weights, other_weights, strict=True)
        )
        return Law(starts, weights, self.code_count)

    def _weights_at(self, starts: Sequence[int]) -> list[int]:
        """Returns the weight of each of these codes, given in ascending order."""
        weights, run = [], 0
        for start in starts:
            while run + 1 < len(self.starts) and self.starts[run + 1] <= start:
                run += 1
            weights.append(self.weights[run])
        return weights


def likelihood_ratio(laws: Sequence[Law]) -> Fraction | float:
    """Returns the largest P(code | x) / P(code | x') over all codes and pairs of these laws; infinite if some code is
    possible under one and impossible under another.

    Exact: integers and fractions throughout. A mechanism is eps-LDP on these inputs when this is at most e^eps.
    """
    starts = tuple(sorted({start for law in laws for start in law.starts}))
    totals = [law.total_weight for law in laws]
    common = math.lcm(*totals)
    scaled = [
        [weight * (common // total) for weight in law._weights_at(starts)]
        for law, total in zip(laws, totals, strict=True)
    ]
    worst = Fraction(1)
    for column in zip(*scaled, strict=True):
        highest, lowest = max(column), min(column)
        if highest and not lowest:
            return math.inf
        if highest * worst.denominator > worst.numerator * lowest:
            worst = Fraction(highest, lowest)
    return worst


@lru_cache(maxsize=1024)
def exp_lower_bound(epsilon: float) -> Fraction:
    """Returns a fraction at most e^eps and within 2^-100 of it (ball arithmetic): weights are rounded down to it."""
    from flint import arb, ctx, fmpq

    with ctx.workprec(PRECISION_BITS):
        exact = Fraction(epsilon)
        power = (arb(fmpq(exact.numerator, exact.denominator)).exp() * 2**100).lower().floor().unique_fmpz()
    if power is None:  # pragma: no cover - the ball is 2^-150 wide
        raise ArithmeticError("e^epsilon could not be bounded")
    return Fraction(int(power), 2**100)
