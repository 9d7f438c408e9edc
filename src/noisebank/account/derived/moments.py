"""Variances, covariances, correlations and slopes from noisy sums, with intervals. Post-processing: costs nothing.

Each statistic is the solution of an equation that is linear in the sums, A = statistic * B, whose coefficients depend
on the means (and for a correlation on the variances). With the right coefficients, A - statistic * B is noise of a
known variance, so Fieller's method gives an interval. The coefficients are not known, but a small mistake in them does
not matter: the derivatives vanish at the truth. So a tenth of the permitted error goes to intervals for means and
variances, and the stated interval is the union over those. Proof: docs/proofs/moments.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import inf, isfinite, sqrt

from noisebank.core.intervals import quantile_bound
from noisebank.queries.derived import Derivation

NUISANCE_SHARE = 0.1
"""Of the permitted error: for the coefficients."""
Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class NoisySum:
    """A released sum and the standard deviation of its noise; 0 if it is public."""

    value: float
    stddev: float

    def scale_by(self, units: Sequence[float]) -> NoisySum:
        """Returns it in other units: divided by each of them."""
        value, stddev = self.value, self.stddev
        for unit in units:
            value, stddev = value / unit, stddev / unit
        return NoisySum(value, stddev)


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over the rows in which x and y are both known. Without y, those of x alone."""

    rows: NoisySum
    x: NoisySum
    xx: NoisySum = NoisySum(0.0, 0.0)
    y: NoisySum = NoisySum(0.0, 0.0)
    yy: NoisySum = NoisySum(0.0, 0.0)
    xy: NoisySum = NoisySum(0.0, 0.0)
    share_noise: bool = False
    """Whether their noise may be related in a way that is not known."""

    @property
    def all_sums(self) -> tuple[NoisySum, ...]:
        """The sums, in the order of the coefficients below."""
        return self.rows, self.x, self.xx, self.y, self.yy, self.xy


@dataclass(frozen=True, slots=True)
class Solution:
    """A statistic and its interval."""

    value: float
    low: float
    high: float

    def map_by(self, function: Callable[[float], float]) -> Solution:
        """Returns a rising function of it."""
        return Solution(function(self.value), function(self.low), function(self.high))

    def clip_to(self, least: float, most: float) -> Solution:
        """Returns it inside of public bounds. An interval beyond them says nothing: it becomes all of them."""
        low, high = (self.low, self.high) if self.high > least and self.low < most else (least, most)
        return Solution(*(min(max(number, least), most) for number in (self.value, low, high)))


Coefficients = tuple[float, float, float, float, float, float]
"""Of rows, x, xx, y, yy, xy."""
Equation = Callable[[Sequence[float]], tuple[Coefficients, Coefficients]]
"""From means (and variances) to the coefficients of A and B."""


def solve_statistic(
    derivation: Derivation, moments: Moments, bounds: Range, y_bounds: Range, confidence: float, sample: bool
) -> Solution:
    """Returns one of the statistics of `queries.derived.STATISTICS`; with `sample`, divided by one row less."""
    if derivation is Derivation.VARIANCE:
        return variance_of_x(moments, bounds, confidence, sample)
    if derivation is Derivation.STDDEV:
        return variance_of_x(moments, bounds, confidence, sample).map_by(sqrt)
    if derivation is Derivation.COVARIANCE:
        return covariance(moments, bounds, y_bounds, confidence, sample)
    if derivation is Derivation.SLOPE:
        return slope(moments, bounds, y_bounds, confidence)
    if derivation is Derivation.INTERCEPT:
        return intercept(moments, bounds, y_bounds, confidence)
    number = correlation(moments, bounds, y_bounds, confidence)
    if derivation is Derivation.CORRELATION:
        return number
    ends = sorted((number.low**2, number.high**2))
    return Solution(number.value**2, 0.0 if number.low <= 0 <= number.high else ends[0], ends[1])


def mean_of_x(moments: Moments, confidence: float) -> Solution:
    """Returns the mean: Fieller's interval, exact whatever the number of rows is."""
    return _solve_equation(moments, lambda _: ((0, 1, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0)), [()], confidence)


def variance_of_x(moments: Moments, bounds: Range, confidence: float, sample: bool = False) -> Solution:
    """Returns the variance of the population (or of a sample), with x inside of its public bounds."""
    main, rest = _split_confidence(confidence, 2)
    mean = _limit_ends(mean_of_x(moments, rest), bounds)
    solution = _solve_equation(moments, _variance_equation, _list_corners([mean]), main)
    solution = solution.clip_to(0.0, (bounds[1] - bounds[0]) ** 2 / 4)  # Popoviciu: no bounded variance is larger
    return _correct_sample(solution, moments.rows, rest) if sample else solution


def covariance(moments: Moments, bounds: Range, y_bounds: Range, confidence: float, sample: bool = False) -> Solution:
    """Returns the covariance of the population (or of a sample)."""
    main, rest = _split_confidence(confidence, 3)
    means = _both_means(moments, bounds, y_bounds, rest)
    most = (bounds[1] - bounds[0]) * (y_bounds[1] - y_bounds[0]) / 4
    solution = _solve_equation(moments, _covariance_equation, _list_corners(means), main).clip_to(-most, most)
    return _correct_sample(solution, moments.rows, rest) if sample else solution


def slope(moments: Moments, bounds: Range, y_bounds: Range, confidence: float) -> Solution:
    """Returns the least-squares slope of y on x; infinite ends if x may be constant."""
    main, rest = _split_confidence(confidence, 2)
    means = _both_means(moments, bounds, y_bounds, rest)
    return _solve_equation(moments, _slope_equation, _list_corners(means), main)


def correlation(moments: Moments, bounds: Range, y_bounds: Range, confidence: float) -> Solution:
    """Returns the correlation; from -1 to 1 if a variance may be 0."""
    main, rest = _split_confidence(confidence, 4)
    means = _both_means(moments, bounds, y_bounds, rest)
    variances = [variance_of_x(moments, bounds, rest), variance_of_x(_swap_columns(moments), y_bounds, rest)]
    if min(each.value for each in variances) <= 0:
        return Solution(0.0, -1.0, 1.0)
    corners = _list_corners([*means, *variances])
    if min(each.low for each in variances) <= 0:
        estimate = _solve_equation(moments, _correlation_equation, corners[:1], main)
        return replace(estimate, low=-1.0, high=1.0).clip_to(-1.0, 1.0)
    return _solve_equation(moments, _correlation_equation, corners, main).clip_to(-1.0, 1.0)


def intercept(moments: Moments, bounds: Range, y_bounds: Range, confidence: float) -> Solution:
    """Returns the intercept of the least-squares line: a bound from the intervals of slope and means (Bonferroni)."""
    single = 1 - (1 - confidence) / 3
    steepness = slope(moments, bounds, y_bounds, single)
    mean, y_mean = _both_means(moments, bounds, y_bounds, single)
    if not isfinite(steepness.low):
        return Solution(y_mean.value - steepness.value * mean.value, -inf, inf)
    products = [x * t for x in (mean.low, mean.high) for t in (steepness.low, steepness.high)]
    value = y_mean.value - steepness.value * mean.value
    return Solution(value, y_mean.low - max(products), y_mean.high - min(products))


def _variance_equation(point: Sequence[float]) -> tuple[Coefficients, Coefficients]:
    (mean,) = point
    return (mean * mean, -2 * mean, 1, 0, 0, 0), (1, 0, 0, 0, 0, 0)


def _covariance_equation(point: Sequence[float]) -> tuple[Coefficients, Coefficients]:
    mean, y_mean = point
    return (mean * y_mean, -y_mean, 0, -mean, 0, 1), (1, 0, 0, 0, 0, 0)


def _slope_equation(point: Sequence[float]) -> tuple[Coefficients, Coefficients]:
    mean, _ = point
    return _covariance_equation(point)[0], (mean * mean, -2 * mean, 1, 0, 0, 0)


def _correlation_equation(point: Sequence[float]) -> tuple[Coefficients, Coefficients]:
    mean, y_mean, variance, y_variance = point
    scale, x_part, y_part = 1 / sqrt(variance * y_variance), 1 / (2 * variance), 1 / (2 * y_variance)
    top = (mean * y_mean * scale, -y_mean * scale, 0, -mean * scale, 0, scale)
    rows = mean * mean * x_part + y_mean * y_mean * y_part
    return top, (rows, -2 * mean * x_part, x_part, -2 * y_mean * y_part, y_part, 0)


def _solve_equation(
    moments: Moments, equation: Equation, corners: Sequence[Sequence[float]], confidence: float
) -> Solution:
    """Returns the solution at the first corner, which is the estimate, and the union of the intervals of all."""
    z, sums = _find_quantile(confidence), moments.all_sums
    if moments.share_noise:  # the standard deviation of k terms is at most sqrt(k) times that of independent ones
        z *= sqrt(sum(each.stddev > 0 for each in sums))
    value, low, high = 0.0, inf, -inf
    for number, corner in enumerate(corners):
        top, bottom = equation(corner)
        a, b = (sum(c * each.value for c, each in zip(row, sums, strict=True)) for row in (top, bottom))
        weights = [(s * each.stddev, t * each.stddev) for s, t, each in zip(top, bottom, sums, strict=True)]
        if number == 0:
            value = a / b if b > 0 else 0.0
        ends = solve_fieller(a, b, weights, z)
        low, high = min(low, ends[0]), max(high, ends[1])
    return Solution(value, low, high)


def solve_fieller(a: float, b: float, weights: Sequence[tuple[float, float]], z: float) -> Range:
    """Returns the t with |a - t b| <= z sd(a - t b), where each source of noise adds the weights to a and b.

    Fieller (1954). The whole line if b may be 0.
    """
    aa, ab, bb = (sum(term) for term in zip(*((s * s, s * t, t * t) for s, t in weights), strict=True))
    square = b * b - z * z * bb
    if b <= 0 or square <= 0:
        return -inf, inf
    middle = a * b - z * z * ab
    root = sqrt(max(0.0, middle * middle - square * (a * a - z * z * aa)))
    return (middle - root) / square, (middle + root) / square


def _list_corners(ranges: Sequence[Solution]) -> list[tuple[float, ...]]:
    """Returns the estimates, then the corners of the box of intervals, then the middles of its sides."""
    centre = tuple(each.value for each in ranges)
    sides: Iterator[tuple[float, ...]] = (
        tuple(end if index == number else each for index, each in enumerate(centre))
        for number, side in enumerate(ranges)
        for end in (side.low, side.high)
    )
    return [centre, *product(*((each.low, each.high) for each in ranges)), *sides]


def _split_confidence(confidence: float, nuisances: int) -> tuple[float, float]:
    """Returns the confidence of the statistic, and that of each nuisance: together they fail as rarely as requested."""
    error = 1 - confidence
    return 1 - error * (1 - NUISANCE_SHARE), 1 - error * NUISANCE_SHARE / nuisances


def _both_means(moments: Moments, bounds: Range, y_bounds: Range, confidence: float) -> list[Solution]:
    own, other = mean_of_x(moments, confidence), mean_of_x(_swap_columns(moments), confidence)
    return [_limit_ends(own, bounds), _limit_ends(other, y_bounds)]


def _limit_ends(solution: Solution, bounds: Range) -> Solution:
    return solution.clip_to(*bounds) if isfinite(solution.low) else Solution(solution.value, *bounds).clip_to(*bounds)


def _correct_sample(solution: Solution, rows: NoisySum, confidence: float) -> Solution:
    """Returns what divides by one row less. Of a single row there is no such statistic, so there are at least two."""
    off = _find_quantile(confidence) * rows.stddev
    value, most, least = (1 + 1 / (max(count, 2.0) - 1) for count in (rows.value, rows.value - off, rows.value + off))
    low, high = (
        solution.low * (least if solution.low > 0 else most),
        solution.high * (most if solution.high > 0 else least),
    )
    return Solution(solution.value * value, low, high)


def _find_quantile(confidence: float) -> float:
    return float(quantile_bound(Fraction(confidence).limit_denominator(10**12)))


def _swap_columns(moments: Moments) -> Moments:
    return Moments(moments.rows, moments.y, moments.yy, moments.x, moments.xx, moments.xy, moments.share_noise)
