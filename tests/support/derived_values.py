"""Derived numbers from made-up answers, for tests of their arithmetic and of their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.account.derived.aggregates import BoundedValue, NoisyPart, derive_value
from noisebank.account.derived.gaussians import Gaussian, NoiseSource
from noisebank.policy.model import Policy
from noisebank.queries.derived import Aggregate
from noisebank.queries.selects import parse_select_aggregates


def parse_aggregate(sql: str, policy: Policy) -> Aggregate:
    """Returns the one aggregate of a SELECT without groups."""
    (aggregate,) = parse_select_aggregates(sql, policy)
    return aggregate


def derive_values(aggregate: Aggregate, parts: Sequence[Answer], confidence: float) -> list[BoundedValue]:
    """Returns the aggregate's number from answers to its questions, as the bank computes it."""
    return [derive_value(aggregate, [make_part(part, index) for index, part in enumerate(parts)], confidence)]


def make_part(answer: Answer, cluster: int) -> NoisyPart:
    """Returns an answer as one row's part; answers from a cube may share noise in any way."""
    independent = answer.inferred is None
    cluster = cluster if independent else -1
    if not isinstance(answer, GroupedAnswer):
        return NoisyPart((make_number(answer.value, answer.stddev, NoiseSource(cluster, 0, independent)),))
    numbers = [
        make_number(group.exact, answer.stddev, NoiseSource(cluster, index, independent))
        for index, group in enumerate(answer.groups)
    ]
    return NoisyPart(tuple(numbers), answer.running_stddevs)


def make_number(value: float | Fraction, stddev: float, source: NoiseSource) -> Gaussian:
    """Returns a released number."""
    return Gaussian(Fraction(value), {source: stddev} if stddev else {})
