"""Derived answers: ratios, variances, quantiles and modes, made of released answers only.

Post-processing costs nothing and can leak nothing. What needs care is honesty: intervals hold for the noise of all
parts together, also where a count may be zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, nan, sqrt

from noisebank.account.answers import Answer, Group, GroupedAnswer, Quote, Receipt
from noisebank.core.intervals import interval, quantile_bound
from noisebank.core.records import Case
from noisebank.core.units import NOTHING, Precision
from noisebank.queries.derived import Derivation, Item
from noisebank.queries.groups import parts_of

RANKING = (Case.FIRST, Case.REFINE, Case.INFER, Case.BLUR, Case.REPEAT)
"""Of a group of answers, the case that says most about its price comes first."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One derived number, and where the truth lies with the confidence asked for."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DerivedAnswer:
    """An answer made of several. It reads like an answer, and keeps its parts with their receipts."""

    name: str
    how: Derivation
    sql: str
    parts: tuple[Answer, ...]
    item: Item

    @property
    def value(self) -> float:
        """The best guess; not a number for grouped ones, see `groups`."""
        return nan if self.by else self._estimates(0.95)[0].value

    @property
    def stddev(self) -> float:
        """Half the width of the 68% interval: near the standard deviation where the noise is small."""
        found = self._estimates(0.6827)[0]
        return (found.high - found.low) / 2

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that it is grouped by."""
        first = self.parts[0]
        return first.by if isinstance(first, GroupedAnswer) and self.how not in COUNTED else ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """Of a grouped answer, a value for every declared combination."""
        first = self.parts[0]
        if not self.by or not isinstance(first, GroupedAnswer):
            return ()
        found = self._estimates(0.95)
        return tuple(Group(group.keys, one.value, Fraction(0)) for group, one in zip(first.groups, found, strict=True))

    @property
    def key(self) -> str:
        """The most frequent key, or the bin that a quantile lies in."""
        first = self.parts[0]
        assert isinstance(first, GroupedAnswer)
        return first.most_frequent().keys[0] if self.how is Derivation.MODE else _bin_label(self)

    @property
    def case(self) -> Case:
        """The dearest case among the parts."""
        return min((part.case for part in self.parts), key=RANKING.index)

    @property
    def cost(self) -> Precision:
        """Of all parts together; one that is used twice is paid once."""
        return sum({id(part): part.cost for part in self.parts}.values(), NOTHING)

    @property
    def remaining(self) -> Precision:
        """In the account, afterwards."""
        return self.parts[-1].remaining

    @property
    def receipt(self) -> Receipt:
        """Of the last part; each part has its own."""
        return self.parts[-1].receipt

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Where the true value lies with at least this confidence."""
        found = self._estimates(confidence)[0]
        return found.low, found.high

    def intervals(self, confidence: float = 0.95) -> tuple[tuple[float, float], ...]:
        """The same for each group, each by itself."""
        return tuple((found.low, found.high) for found in self._estimates(confidence))

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"DerivedAnswer({self.name} = {self.value:.6g}, 95% in [{low:.6g}, {high:.6g}], cost {self.cost})"

    def _estimates(self, confidence: float) -> list[Estimate]:
        return estimates(self.item, self.parts, confidence)


COUNTED = (Derivation.QUANTILE, Derivation.MINIMUM, Derivation.MAXIMUM, Derivation.MODE)
"""Made of the counts of one column's bins or keys."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Several results of one SELECT: priced and reserved together, shown apart."""

    sql: str
    items: tuple[Answer | DerivedAnswer, ...]
    names: tuple[str, ...]
    cost: Precision
    """Of all results together."""

    @property
    def remaining(self) -> Precision:
        """In the account, afterwards."""
        return self.items[-1].remaining

    def __getitem__(self, name: str) -> Answer | DerivedAnswer:
        return self.items[self.names.index(name)]

    def __repr__(self) -> str:
        shown = (f"{name}: {item.value:.6g}" for name, item in zip(self.names, self.items, strict=True))
        return f"Answers({', '.join(shown)}; cost {self.cost})"


def together(sql: str, parts: Sequence[Quote], cost: Precision, share_after: float) -> Quote:
    """One price for an answer that is made of several."""
    first = parts[0]
    return Quote(
        sql=sql,
        case=min((part.case for part in parts), key=RANKING.index),
        wanted=sum((part.wanted for part in parts), NOTHING),
        cost=cost,
        left=first.left,
        stddev=nan,
        reused_stddev=None,
        share_now=first.share_now,
        share_after=share_after,
        parts=tuple(parts),
    )


def estimates(item: Item, parts: Sequence[Answer], confidence: float) -> list[Estimate]:
    """The derived number (of each group), with an interval that holds for the noise of all parts together."""
    if item.how in COUNTED:
        return [_ranked(item, parts[0], confidence)]
    groups = [_numbers(part) for part in parts]
    return [_made(item, parts, numbers, confidence) for numbers in zip(*groups, strict=True)]


def ratio(
    top: float, top_sd: float, bottom: float, bottom_sd: float, confidence: float, shared: bool = False
) -> tuple[float, float]:
    """Fieller's interval for a ratio of two normal means; infinite where the bottom may be zero.

    Fieller (1954): the ratios r for which |top - r bottom| <= z sd(top - r bottom). Its coverage is
    exact for independent normal noise, whatever the true bottom is. Where they may have `shared` some of it, that
    standard deviation is at most sd(top) + |r| sd(bottom), and the coverage at least what is asked for.
    """
    if bottom <= 0:
        return -inf, inf  # a count below zero is noise alone
    z = float(quantile_bound(Fraction(confidence).limit_denominator(10**9)))
    # In units of the top's own size: products of very small or large numbers would vanish or overflow.
    scale = max(abs(top), top_sd) or 1.0
    top, top_sd = top / scale, top_sd / scale
    if shared:
        return _related(top, z * top_sd, bottom, z * bottom_sd, scale)
    square = bottom * bottom - z * z * bottom_sd * bottom_sd
    if square <= 0:
        return -inf, inf
    middle = top * bottom
    inside = middle * middle - square * (top * top - z * z * top_sd * top_sd)
    root = sqrt(max(inside, 0.0))
    return scale * ((middle - root) / square), scale * ((middle + root) / square)


def _related(top: float, top_off: float, bottom: float, bottom_off: float, scale: float) -> tuple[float, float]:
    """The ratios r with |top - r bottom| <= top_off + |r| bottom_off, times the scale."""
    if bottom <= bottom_off:
        return -inf, inf
    low, high = top - top_off, top + top_off
    return (
        scale * (low / (bottom + bottom_off if low > 0 else bottom - bottom_off)),
        scale * (high / (bottom - bottom_off if high > 0 else bottom + bottom_off)),
    )


def _made(item: Item, parts: Sequence[Answer], numbers: Sequence[float], confidence: float) -> Estimate:
    low, high = _bounds(item)
    if item.how is Derivation.RATIO:
        # Two counts of one cube may share noise; sums and counts are measured apart.
        shared = item.column is None and _of_one_cube(parts)
        ends = ratio(numbers[0], parts[0].stddev, numbers[1], parts[1].stddev, confidence, shared)
        return _quotient(numbers[0], numbers[1], ends, low, high)
    squares, total = numbers[0], numbers[1]
    rows, rows_sd = (float(item.rows), 0.0) if item.rows is not None else (numbers[2], parts[2].stddev)
    # Both ratios hold together with the confidence asked for (Bonferroni), so whatever follows from them does.
    each = 1 - (1 - confidence) / 2
    top = max(low * low, high * high)
    square = _quotient(squares, rows, ratio(squares, parts[0].stddev, rows, rows_sd, each), 0.0, top)
    mean = _quotient(total, rows, ratio(total, parts[1].stddev, rows, rows_sd, each), low, high)
    least = 0.0 if mean.low <= 0 <= mean.high else min(mean.low**2, mean.high**2)
    most = (high - low) ** 2 / 4  # Popoviciu: no variance of bounded values is larger
    found = _within(
        square.value - mean.value**2, square.low - max(mean.low**2, mean.high**2), square.high - least, 0.0, most
    )
    if item.how is Derivation.VARIANCE:
        return found
    return Estimate(sqrt(found.value), sqrt(found.low), sqrt(found.high))


def _quotient(top: float, bottom: float, ends: tuple[float, float], least: float, most: float) -> Estimate:
    """A ratio and its interval inside the bounds that are public anyway; the middle of them if nothing is known."""
    return _within(top / bottom if bottom > 0 else (least + most) / 2, *ends, least, most)


def _within(value: float, low: float, high: float, least: float, most: float) -> Estimate:
    """Inside the bounds. An interval that misses all of them says that the noise was unusual, and nothing of the value:
    cut off at a bound it would have no width, so then everything is possible."""
    if not isfinite(low) or not isfinite(high) or high <= least or low >= most:
        low, high = least, most
    return Estimate(*(min(max(number, least), most) for number in (value, low, high)))


def _ranked(item: Item, counts: Answer, confidence: float) -> Estimate:
    """A quantile from cumulative noisy counts over the declared bins, straight lines inside a bin."""
    assert isinstance(counts, GroupedAnswer) and item.column is not None
    if item.how is Derivation.MODE:
        best = counts.most_frequent()
        # The winner is one of many: all intervals hold together, or its own would not (Bonferroni).
        each = 1 - (1 - confidence) / len(counts.groups)
        return Estimate(best.value, *interval(best.value, counts.stddev, each))
    edges = _edges(item)
    sums, total = [0.0], 0.0
    for group in counts.groups:
        total += group.value
        sums.append(total)
    rank = {Derivation.MINIMUM: Fraction(0), Derivation.MAXIMUM: Fraction(1)}.get(item.how, item.rank)
    target = float(rank) * total
    # All cumulative counts at once: Bonferroni over the bins, which asks nothing of how their noise is related.
    each = 1 - (1 - confidence) / len(counts.groups)
    z = float(quantile_bound(Fraction(each).limit_denominator(10**12)))
    spread = [0.0, *(z * stddev for stddev in counts.spread)]
    slack = float(rank) * spread[-1]
    margin = z * counts.stddev
    if item.how is Derivation.MINIMUM:
        target = margin
    elif item.how is Derivation.MAXIMUM:
        target = total - margin
    place, share = _crossing(sums, target)
    value = edges[place] + share * (edges[place + 1] - edges[place])
    # Where in a bin people are, nobody has said: the ends of the interval are ends of bins.
    first, _ = _crossing([total + extra for total, extra in zip(sums, spread, strict=True)], target - slack)
    last, _ = _crossing([total - extra for total, extra in zip(sums, spread, strict=True)], target + slack)
    low = edges[0] if item.how is Derivation.MINIMUM else edges[min(first, place)]
    high = edges[-1] if item.how is Derivation.MAXIMUM else edges[max(last, place) + 1]
    return Estimate(value, low, high)


def _crossing(sums: Sequence[float], target: float) -> tuple[int, float]:
    """The bin in which cumulative counts first reach the target, and how far in. A running maximum makes them rise."""
    reached = sums[0]
    for place in range(len(sums) - 1):
        nearer = max(reached, sums[place + 1])
        if nearer >= target and nearer > reached:
            return place, min(max((target - reached) / (nearer - reached), 0.0), 1.0)
        reached = nearer
    return len(sums) - 2, 1.0


def _edges(item: Item) -> list[float]:
    assert item.column is not None
    starts = [float(part.runs[0][0] * item.column.step) for part in parts_of(item.column)]
    return [*starts, float(item.column.bounds[1] * item.column.step)]


def _bin_label(answer: DerivedAnswer) -> str:
    first = answer.parts[0]
    assert isinstance(first, GroupedAnswer)
    edges = _edges(answer.item)
    place = next((number for number in range(len(edges) - 1) if answer.value <= edges[number + 1]), len(edges) - 2)
    return first.groups[place].keys[0]


def _bounds(item: Item) -> tuple[float, float]:
    if item.column is None:
        return 0.0, 1.0
    low, high = item.column.bounds
    return float(low * item.column.step), float(high * item.column.step)


def _of_one_cube(parts: Sequence[Answer]) -> bool:
    cubes = {None if part.inferred is None else part.inferred.cube for part in parts}
    return len(cubes) == 1 and None not in cubes


def _numbers(answer: Answer) -> list[float]:
    return [group.value for group in answer.groups] if isinstance(answer, GroupedAnswer) else [answer.value]
