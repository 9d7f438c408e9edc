"""Derived answers: ratios, variances, quantiles and modes, computed from released answers only.

Post-processing costs nothing and leaks nothing. What needs care are the intervals: they hold for the noise of all
parts together, also where a count may be zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, sqrt

from noisebank.account.answers import Answer, GroupedAnswer
from noisebank.core.charges import rank_cases
from noisebank.core.intervals import confidence_interval, quantile_bound
from noisebank.core.quote import Quote
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.queries.derived import Derivation, SelectItem
from noisebank.queries.groups import column_groups


@dataclass(frozen=True, slots=True)
class BoundedValue:
    """A derived number, and the interval that holds the true value with the requested confidence."""

    value: float
    low: float
    high: float


FROM_COUNTS = (Derivation.QUANTILE, Derivation.MINIMUM, Derivation.MAXIMUM, Derivation.MODE)
"""Derivations from the counts of one column's bins or keys."""


def combine_quotes(sql: str, parts: Sequence[Quote], cost: Precision, share_after: float) -> Quote:
    """Returns one quote for an answer that is computed from several."""
    first = parts[0]
    return Quote(
        sql=sql,
        case=rank_cases(part.case for part in parts),
        target=sum((part.target for part in parts), ZERO_PRECISION),
        cost=cost,
        left=first.left,
        budget=first.budget,
        delta=first.delta,
        stddev=None,
        reused_stddev=None,
        share_now=first.share_now,
        share_after=share_after,
        parts=tuple(parts),
        confidence=first.confidence,
        why="; ".join(dict.fromkeys(part.why for part in parts)),
    )


def derive_values(item: SelectItem, parts: Sequence[Answer], confidence: float) -> list[BoundedValue]:
    """Returns the derived number (of each group), with an interval that holds for the noise of all parts together."""
    if item.derivation in FROM_COUNTS:
        return [_value_from_counts(item, parts[0], confidence)]
    groups = [_group_values(part) for part in parts]
    return [_derive_value(item, parts, numbers, confidence) for numbers in zip(*groups, strict=True)]


def ratio_interval(
    top: float, top_sd: float, bottom: float, bottom_sd: float, confidence: float, shared: bool = False
) -> tuple[float, float]:
    """Returns Fieller's interval for a ratio of two normal means; infinite where the bottom may be zero.

    Fieller (1954): the ratios r for which |top - r bottom| <= z sd(top - r bottom). Its coverage is
    exact for independent normal noise, whatever the true bottom is. If they may share noise (`shared`), that
    standard deviation is at most sd(top) + |r| sd(bottom), and the coverage at least the requested one.
    """
    if bottom <= 0:
        return -inf, inf  # a count below zero is noise alone
    z = float(quantile_bound(Fraction(confidence).limit_denominator(10**9)))
    # In units of the top's own size: products of very small or large numbers would vanish or overflow.
    scale = max(abs(top), top_sd) or 1.0
    top, top_sd = top / scale, top_sd / scale
    if shared:
        return _shared_noise_interval(top, z * top_sd, bottom, z * bottom_sd, scale)
    square = bottom * bottom - z * z * bottom_sd * bottom_sd
    if square <= 0:
        return -inf, inf
    middle = top * bottom
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


def _derive_value(
    item: SelectItem, parts: Sequence[Answer], numbers: Sequence[float], confidence: float
) -> BoundedValue:
    low, high = _public_bounds(item)
    if item.derivation is Derivation.RATIO:
        # Two counts of one cube may share noise; sums and counts are measured apart.
        shared = item.column is None and _share_one_cube(parts)
        ends = ratio_interval(numbers[0], parts[0].stddev, numbers[1], parts[1].stddev, confidence, shared)
        return _bound_ratio(numbers[0], numbers[1], ends, low, high)
    squares, total = numbers[0], numbers[1]
    rows, rows_sd = (float(item.public_rows), 0.0) if item.public_rows is not None else (numbers[2], parts[2].stddev)
    # Both ratios hold together with the requested confidence (Bonferroni), so whatever follows from them does.
    single = 1 - (1 - confidence) / 2
    top = max(low * low, high * high)
    square = _bound_ratio(squares, rows, ratio_interval(squares, parts[0].stddev, rows, rows_sd, single), 0.0, top)
    mean = _bound_ratio(total, rows, ratio_interval(total, parts[1].stddev, rows, rows_sd, single), low, high)
    least = 0.0 if mean.low <= 0 <= mean.high else min(mean.low**2, mean.high**2)
    most = (high - low) ** 2 / 4  # Popoviciu: no variance of bounded values is larger
    variance = _clip_value(
        square.value - mean.value**2, square.low - max(mean.low**2, mean.high**2), square.high - least, 0.0, most
    )
    if item.derivation is Derivation.VARIANCE:
        return variance
    return BoundedValue(sqrt(variance.value), sqrt(variance.low), sqrt(variance.high))


def _bound_ratio(top: float, bottom: float, ends: tuple[float, float], least: float, most: float) -> BoundedValue:
    """Clips a ratio and its interval to the public bounds; their middle if nothing is known."""
    return _clip_value(top / bottom if bottom > 0 else (least + most) / 2, *ends, least, most)


def _clip_value(value: float, low: float, high: float, least: float, most: float) -> BoundedValue:
    """Clips to the bounds. An interval that lies outside of them shows unusual noise and says nothing about the value:
    clipped it would have no width, so it becomes the whole range."""
    if not isfinite(low) or not isfinite(high) or high <= least or low >= most:
        low, high = least, most
    return BoundedValue(*(min(max(number, least), most) for number in (value, low, high)))


def _value_from_counts(item: SelectItem, counts: Answer, confidence: float) -> BoundedValue:
    """BoundedValues a mode from noisy counts, or a quantile from cumulative ones, linear inside a bin."""
    assert isinstance(counts, GroupedAnswer) and item.column is not None
    if item.derivation is Derivation.MODE:
        best = counts.most_frequent()
        # The winner is one of many: its interval holds only if all hold together (Bonferroni).
        single = 1 - (1 - confidence) / len(counts.groups)
        return BoundedValue(best.value, *confidence_interval(best.value, counts.stddev, single))
    edges = _bin_edges(item)
    sums, total = [0.0], 0.0
    for group in counts.groups:
        total += group.value
        sums.append(total)
    rank = {Derivation.MINIMUM: Fraction(0), Derivation.MAXIMUM: Fraction(1)}.get(item.derivation, item.rank)
    target = float(rank) * total
    # All cumulative counts at once: Bonferroni over the bins, valid however their noise is related.
    single = 1 - (1 - confidence) / len(counts.groups)
    z = float(quantile_bound(Fraction(single).limit_denominator(10**12)))
    spread = [0.0, *(z * stddev for stddev in counts.max_running_stddevs)]
    slack = float(rank) * spread[-1]
    margin = z * counts.stddev
    if item.derivation is Derivation.MINIMUM:
        target = margin
    elif item.derivation is Derivation.MAXIMUM:
        target = total - margin
    crossed, share = _find_crossing(sums, target)
    value = edges[crossed] + share * (edges[crossed + 1] - edges[crossed])
    # Where in a bin the values lie is unknown: the ends of the interval are ends of bins.
    first, _ = _find_crossing([total + extra for total, extra in zip(sums, spread, strict=True)], target - slack)
    last, _ = _find_crossing([total - extra for total, extra in zip(sums, spread, strict=True)], target + slack)
    low = edges[0] if item.derivation is Derivation.MINIMUM else edges[min(first, crossed)]
    high = edges[-1] if item.derivation is Derivation.MAXIMUM else edges[max(last, crossed) + 1]
    return BoundedValue(value, low, high)


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


def _bin_edges(item: SelectItem) -> list[float]:
    assert item.column is not None
    starts = [float(part.ranges[0][0] * item.column.step) for part in column_groups(item.column)]
    return [*starts, float(item.column.bounds[1] * item.column.step)]


def derived_label(item: SelectItem, counts: Answer, value: float) -> str | None:
    """Returns the most frequent key, or the bin that a quantile lies in; None for other derivations."""
    if item.derivation not in FROM_COUNTS:
        return None
    assert isinstance(counts, GroupedAnswer)
    if item.derivation is Derivation.MODE:
        return counts.most_frequent().keys[0]
    edges = _bin_edges(item)
    index = next((number for number in range(len(edges) - 1) if value <= edges[number + 1]), len(edges) - 2)
    return counts.groups[index].keys[0]


def _public_bounds(item: SelectItem) -> tuple[float, float]:
    if item.column is None:
        return 0.0, 1.0
    low, high = item.column.bounds
    return float(low * item.column.step), float(high * item.column.step)


def _share_one_cube(parts: Sequence[Answer]) -> bool:
    cubes = {None if part.inferred is None else part.inferred.cube for part in parts}
    return len(cubes) == 1 and None not in cubes


def _group_values(answer: Answer) -> list[float]:
    return [group.value for group in answer.groups] if isinstance(answer, GroupedAnswer) else [answer.value]
