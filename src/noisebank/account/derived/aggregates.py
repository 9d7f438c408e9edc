"""Derived aggregates: averages, variances, quantiles and modes, computed from released answers only.

Post-processing costs nothing and leaks nothing. What needs care are the intervals: they hold for the noise of all
parts together, also where a count may be zero. What a SELECT computes from aggregates: `expressions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations
from math import inf, isfinite, sqrt

from noisebank.account.derived.gaussians import Gaussian, list_running_stddevs
from noisebank.account.derived.moments import Moments, NoisySum, solve_statistic
from noisebank.core.intervals import confidence_interval, quantile_bound
from noisebank.policy.model import Column
from noisebank.queries.derived import FROM_COUNTS, MOMENTS, Aggregate, Derivation
from noisebank.queries.groups import column_groups, column_labels


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A derived number, and the interval that holds the true value with the requested confidence."""

    value: float
    low: float
    high: float
    label: str | None = None
    """The most frequent key, or the bin that a quantile lies in."""


@dataclass(frozen=True, slots=True)
class NoisyPart:
    """What one row has of one question: a released number, or one per key or bin of the aggregate's column."""

    numbers: tuple[Gaussian, ...]
    running_stddevs: tuple[float, ...] = ()
    """Of the sums of the first 1, 2, ... numbers, where they are known better than from the numbers alone."""

    @property
    def number(self) -> Gaussian:
        """The number, if it is one."""
        (number,) = self.numbers
        return number

    @property
    def max_running_stddevs(self) -> tuple[float, ...]:
        """Upper bounds of the standard deviations of the sums of the first 1, 2, ... numbers."""
        if self.running_stddevs:
            return self.running_stddevs
        return list_running_stddevs(self.numbers)


def derive_value(aggregate: Aggregate, parts: Sequence[NoisyPart], confidence: float) -> BoundedValue:
    """Returns the derived number of one row, with an interval that holds for the noise of all parts together."""
    if aggregate.derivation in FROM_COUNTS:
        return _value_from_counts(aggregate, parts[0], confidence)
    numbers = [part.number for part in parts]
    if aggregate.derivation is Derivation.RATIO:
        ends = gaussian_ratio_interval(numbers[0], numbers[1], confidence)
        return _bound_ratio(numbers[0], numbers[1], ends, *_public_bounds(aggregate))
    return _derive_statistic(aggregate, numbers, confidence)


def gaussian_ratio_interval(top: Gaussian, bottom: Gaussian, confidence: float) -> tuple[float, float]:
    """Returns Fieller's interval for the ratio of two released numbers; infinite where the bottom may be zero."""
    covariance = top.covariance(bottom)
    shared = covariance is None
    numbers = top.value, top.stddev, bottom.value, bottom.stddev
    return ratio_interval(*numbers, confidence, shared, covariance or 0.0)


def ratio_interval(
    top: float, top_sd: float, bottom: float, bottom_sd: float, confidence: float, shared: bool = False,
    covariance: float = 0.0,
) -> tuple[float, float]:  # fmt: skip
    """Returns Fieller's interval for a ratio of two normal means; infinite where the bottom may be zero.

    Fieller (1954): the ratios r for which |top - r bottom| <= z sd(top - r bottom). Its coverage is exact for normal
    noise with a known covariance, whatever the true bottom is. If they may share noise in any way (`shared`), that
    standard deviation is at most sd(top) + |r| sd(bottom), and the coverage at least the requested one.
    Proof: docs/proofs/ratios.md.
    """
    if bottom <= 0:
        return -inf, inf  # a count below zero is noise alone
    z = float(quantile_bound(Fraction(confidence).limit_denominator(10**9)))
    # In units of the top's own size: products of very small or large numbers would vanish or overflow.
    scale = max(abs(top), top_sd) or 1.0
    top, top_sd, covariance = top / scale, top_sd / scale, covariance / scale
    if shared:
        return _shared_noise_interval(top, z * top_sd, bottom, z * bottom_sd, scale)
    square = bottom * bottom - z * z * bottom_sd * bottom_sd
    if square <= 0:
        return -inf, inf
    middle = top * bottom - z * z * covariance
    inside = middle * middle - square * (top * top - z * z * top_sd * top_sd)
    root = sqrt(max(inside, 0.0))
    return scale * ((middle - root) / square), scale * ((middle + root) / square)


def _shared_noise_interval(
    top: float, top_off: float, bottom: float, bottom_off: float, scale: float
) -> tuple[float, float]:
    """Returns the ratios r with |top - r bottom| <= top_off + |r| bottom_off, times the scale."""
    if bottom <= bottom_off:
        return -inf, inf
    low, high = top - top_off, top + top_off
    return (
        scale * (low / (bottom + bottom_off if low > 0 else bottom - bottom_off)),
        scale * (high / (bottom - bottom_off if high > 0 else bottom + bottom_off)),
    )


def _derive_statistic(aggregate: Aggregate, numbers: Sequence[Gaussian], confidence: float) -> BoundedValue:
    """Returns what is computed from sums of values, squares and products."""
    assert aggregate.column is not None
    bounds = _column_bounds(aggregate.column)
    y_bounds = bounds if aggregate.second_column is None else _column_bounds(aggregate.second_column)
    # In units of the largest values: products of very small or large numbers would vanish or overflow.
    size, y_size = (max(abs(low), abs(high)) for low, high in (bounds, y_bounds))
    sums = {
        name: NoisySum(number.value, number.stddev).scale_by([size if letter == "x" else y_size for letter in powers])
        for (name, number) in zip(MOMENTS[aggregate.derivation], numbers, strict=False)
        for powers in ["" if name == "rows" else name]
    }
    if aggregate.public_rows is not None:
        sums["rows"] = NoisySum(float(aggregate.public_rows), 0.0)
    shared = any(first.covariance(second) != 0 for first, second in combinations(numbers, 2))
    ranges = [(low / each, high / each) for (low, high), each in ((bounds, size), (y_bounds, y_size))]
    moments = Moments(**sums, share_noise=shared)
    solution = solve_statistic(aggregate.derivation, moments, ranges[0], ranges[1], confidence, aggregate.is_sample)
    unit = {
        Derivation.VARIANCE: size * size, Derivation.STDDEV: size, Derivation.COVARIANCE: size * y_size,
        Derivation.SLOPE: y_size / size, Derivation.INTERCEPT: y_size,
    }.get(aggregate.derivation, 1.0)  # fmt: skip
    return BoundedValue(solution.value * unit, solution.low * unit, solution.high * unit)


def _bound_ratio(top: Gaussian, bottom: Gaussian, ends: tuple[float, float], least: float, most: float) -> BoundedValue:
    """Clips a ratio and its interval to the public bounds; their middle if nothing is known."""
    return _clip_value(top.value / bottom.value if bottom.value > 0 else (least + most) / 2, *ends, least, most)


def _clip_value(value: float, low: float, high: float, least: float, most: float) -> BoundedValue:
    """Clips to the bounds. An interval that lies outside of them shows unusual noise and says nothing about the value:
    clipped it would have no width, so it becomes the whole range."""
    if not isfinite(low) or not isfinite(high) or high <= least or low >= most:
        low, high = least, most
    inside = [min(max(number, least), most) for number in (value, low, high)]
    return BoundedValue(inside[0], inside[1], inside[2])


def _value_from_counts(aggregate: Aggregate, counts: NoisyPart, confidence: float) -> BoundedValue:
    """Returns a mode from noisy counts, or a quantile from cumulative ones, linear inside a bin."""
    assert aggregate.column is not None
    numbers, labels = counts.numbers, column_labels(aggregate.column)
    # The winner is one of many, and all cumulative counts hold at once: Bonferroni, valid however noise is related.
    single = 1 - (1 - confidence) / len(numbers)
    if aggregate.derivation is Derivation.MODE:
        index, best = max(enumerate(numbers), key=lambda pair: pair[1].exact)
        return BoundedValue(best.value, *confidence_interval(best.value, best.stddev, single), labels[index])
    edges = _bin_edges(aggregate)
    sums = [0.0, *accumulate(number.value for number in numbers)]
    total = sums[-1]
    rank = {Derivation.MINIMUM: Fraction(0), Derivation.MAXIMUM: Fraction(1)}.get(aggregate.derivation, aggregate.rank)
    target = float(rank) * total
    z = float(quantile_bound(Fraction(single).limit_denominator(10**12)))
    spread = [0.0, *(z * stddev for stddev in counts.max_running_stddevs)]
    slack = float(rank) * spread[-1]
    margin = z * max(number.stddev for number in numbers)
    if aggregate.derivation is Derivation.MINIMUM:
        target = margin
    elif aggregate.derivation is Derivation.MAXIMUM:
        target = total - margin
    crossed, share = _find_crossing(sums, target)
    value = edges[crossed] + share * (edges[crossed + 1] - edges[crossed])
    # Where in a bin the values lie is unknown: the ends of the interval are ends of bins.
    first, _ = _find_crossing([total + extra for total, extra in zip(sums, spread, strict=True)], target - slack)
    last, _ = _find_crossing([total - extra for total, extra in zip(sums, spread, strict=True)], target + slack)
    low = edges[0] if aggregate.derivation is Derivation.MINIMUM else edges[min(first, crossed)]
    high = edges[-1] if aggregate.derivation is Derivation.MAXIMUM else edges[max(last, crossed) + 1]
    inside = next((number for number in range(len(edges) - 1) if value <= edges[number + 1]), len(edges) - 2)
    return BoundedValue(value, low, high, labels[inside])


def _find_crossing(sums: Sequence[float], target: float) -> tuple[int, float]:
    """Returns the bin in which cumulative counts first reach the target, and how far in, from 0 to 1.

    Noisy sums may fall; their running maximum is used instead.
    """
    before = sums[0]
    for index in range(len(sums) - 1):
        after = max(before, sums[index + 1])
        if after >= target and after > before:
            return index, min(max((target - before) / (after - before), 0.0), 1.0)
        before = after
    return len(sums) - 2, 1.0


def _bin_edges(aggregate: Aggregate) -> list[float]:
    assert aggregate.column is not None
    step = aggregate.column.step
    starts = [float(part.ranges[0][0] * step) for part in column_groups(aggregate.column)]
    return [*starts, float(aggregate.column.bounds[1] * step)]


def _public_bounds(aggregate: Aggregate) -> tuple[float, float]:
    if aggregate.column is None:
        return 0.0, 1.0
    return _column_bounds(aggregate.column)


def _column_bounds(column: Column) -> tuple[float, float]:
    low, high = column.bounds
    return float(low * column.step), float(high * column.step)
