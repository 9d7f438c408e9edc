"""`Gaussian`: a released number with its noise by source, so that sums, differences and ratios know what they share.

Linear combinations of released numbers are Gaussian again. Two that read the same number share its noise exactly; what
two answers of one cube share is not known, and every standard deviation here is an upper bound then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import hypot, sqrt
from typing import NamedTuple


class NoiseSource(NamedTuple):
    """One released number as a source of noise."""

    cluster: int
    """Numbers of different clusters are independent."""
    number: int
    """In its cluster."""
    independent: bool = True
    """Whether it is independent of the others in its cluster."""


@dataclass(frozen=True)
class Gaussian:
    """A linear combination of released numbers."""

    exact: Fraction
    terms: Mapping[NoiseSource, float]
    """Coefficient times standard deviation, for each source."""

    @property
    def value(self) -> float:
        """The number as a float."""
        return float(self.exact)

    @cached_property
    def stddev(self) -> float:
        """The standard deviation of its noise; an upper bound if it shares noise in a way that is not known."""
        independent = (term for source, term in self.terms.items() if source.independent)
        return hypot(*independent, *self._dependent_sizes.values())

    @cached_property
    def _dependent_sizes(self) -> dict[int, float]:
        """The largest standard deviation of each cluster whose noise may be shared in any way."""
        sizes: dict[int, float] = {}
        for source, term in self.terms.items():
            if not source.independent:
                sizes[source.cluster] = sizes.get(source.cluster, 0.0) + abs(term)
        return sizes

    def plus(self, other: Gaussian) -> Gaussian:
        """Returns the sum."""
        return sum_gaussians((self, other))

    def scale_by(self, factor: Fraction) -> Gaussian:
        """Returns it times a constant."""
        number = float(factor)
        terms = {source: number * term for source, term in self.terms.items()} if factor else {}
        return Gaussian(factor * self.exact, terms)

    def covariance(self, other: Gaussian) -> float | None:
        """Returns the covariance of the noise of two numbers; None if it is not known."""
        if self._dependent_sizes.keys() & other._dependent_sizes.keys():
            return None
        few, many = sorted((self.terms, other.terms), key=len)
        return sum(term * many[source] for source, term in few.items() if source in many)


def make_constant(value: Fraction) -> Gaussian:
    """Returns a number without noise."""
    return Gaussian(value, {})


def sum_gaussians(numbers: Iterable[Gaussian]) -> Gaussian:
    """Returns the sum of some numbers: what they share is added once."""
    exact, terms = Fraction(0), dict[NoiseSource, float]()
    for number in numbers:
        exact += number.exact
        for source, term in number.terms.items():
            terms[source] = terms.get(source, 0.0) + term
    return Gaussian(exact, {source: term for source, term in terms.items() if term})


def list_running_stddevs(numbers: Iterable[Gaussian]) -> tuple[float, ...]:
    """Returns the standard deviations of the sums of the first 1, 2, ... numbers."""
    terms, sizes = dict[NoiseSource, float](), dict[int, float]()
    independent, stddevs = 0.0, []
    for number in numbers:
        for source, term in number.terms.items():
            before = terms.get(source, 0.0)
            terms[source] = before + term
            if source.independent:
                independent += terms[source] ** 2 - before**2
            else:
                sizes[source.cluster] = sizes.get(source.cluster, 0.0) + abs(terms[source]) - abs(before)
        stddevs.append(sqrt(max(0.0, independent) + sum(size * size for size in sizes.values())))
    return tuple(stddevs)
