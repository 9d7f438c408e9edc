"""Quantiles, ends, modes, frequencies and variances made of a cube's answers, which share noise: they cover.

What is known of ten bins comes from real measurements in a posterior, in ways that relate the bins' errors very
differently. Noise is seeded; thresholds are 5 standard deviations of the binomial count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import sqrt

import numpy as np
import pytest

from noisebank import Precision
from statistical.test_derivation_coverage import COLUMNS, CONFIDENCE, RANKS, data_of, histogram, item, part
from support.derived_values import derive_values
from support.internals import (
    ZERO_PRECISION,
    Answer,
    Axis,
    CellRun,
    CubePosterior,
    CubeStatistic,
    Group,
    GroupedAnswer,
    Inference,
    InferencePlan,
    LinearEstimate,
    LinearQuery,
    Look,
    MeasuredLook,
    QueryMeasurement,
    find_strategy,
    query_from_weights,
    range_query,
    ratio_interval,
    simulation_rng,
)

BINS = 10
FINE, ROUGH = Precision(10**18), Precision(4 * 10**16)
"""Noise of standard deviation 1, and of 5."""
FROM = Inference(("x",), 1, False, ZERO_PRECISION)


def cell(place: int) -> LinearQuery:
    return range_query(BINS, place, place + 1)


def apart() -> list[tuple[LinearQuery, Precision]]:
    """Every bin by itself: independent."""
    return [(cell(place), ROUGH) for place in range(BINS)]


def ladder() -> list[tuple[LinearQuery, Precision]]:
    """The first bins, and their differences: neighbours err in opposite directions."""
    return [(range_query(BINS, 0, place + 1), ROUGH) for place in range(BINS)]


def together() -> list[tuple[LinearQuery, Precision]]:
    """One bin roughly, and how the others differ from it: all share one error, so sums of k err k times as much."""
    one = [0] * BINS
    rows = [[*one[:place], 1, *one[place + 1 :]] for place in range(1, BINS)]
    return [(cell(0), ROUGH), *((query_from_weights([-1, *row[1:]])[0], FINE) for row in rows)]


def opposed() -> list[tuple[LinearQuery, Precision]]:
    """The lower half shares one error, the upper half has its negative: what is below the median is known least."""
    signs = [-1] * (BINS // 2) + [1] * (BINS // 2)
    rows = [[signs[place], *(int(n == place) for n in range(1, BINS))] for place in range(1, BINS)]
    return [(cell(0), ROUGH), *((query_from_weights(row)[0], FINE) for row in rows)]


def mixed() -> list[tuple[LinearQuery, Precision]]:
    """Ranges and weights after a first look."""
    draw = simulation_rng(3)
    ranges = [sorted(draw.choice(BINS + 1, 2, replace=False).tolist()) for _ in range(6)]
    return [*((range_query(BINS, low, high), ROUGH) for low, high in ranges), *together()[3:6]]


DESIGNS = {"apart": apart, "ladder": ladder, "together": together, "opposed": opposed, "mixed": mixed}


def learned(design: str, values: Sequence[float]) -> CubePosterior:
    """After all measurements of the design came out like this; `mixed` begins with a first look."""
    knowledge, rest = (
        CubePosterior(CubeStatistic((Axis(BINS, True),)), False),
        list(values),
    )
    if design == "mixed":
        rows = [rest.pop(0) for _ in range(BINS)]
        knowledge.add_look(MeasuredLook(first_look(), np.array(rows)), (CellRun(0, BINS),))
    for (query, precision), value in zip(DESIGNS[design](), rest, strict=True):
        knowledge.restore_measurement(QueryMeasurement(query, value, precision), precision)
    return knowledge


def first_look() -> Look:
    strategy = find_strategy((Axis(BINS, True),), (True,))
    return Look(strategy, ROUGH, np.zeros((0, BINS), dtype=object), ())


def bins_of(knowledge: CubePosterior) -> list[LinearEstimate]:
    return [
        knowledge.estimate_planned(InferencePlan(cell(n), FINE, ZERO_PRECISION, ZERO_PRECISION, ()))
        for n in range(BINS)
    ]


@dataclass(frozen=True)
class Bench:
    """A design, and the posterior's estimates as the linear map that they are, found by one measurement at a time."""

    rows: np.ndarray
    """What each measurement measures."""
    noise: np.ndarray
    map: np.ndarray
    running: np.ndarray
    stddev: float

    def draw(self, bins: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        return self.map @ (self.rows @ bins + self.noise * noise.standard_normal(len(self.noise)))

    def counts(self, bins: np.ndarray, noise: np.random.Generator) -> GroupedAnswer:
        """As the bank makes it: the largest standard deviation, and those of running sums."""
        groups = tuple(Group((str(n),), float(v), Fraction(float(v))) for n, v in enumerate(self.draw(bins, noise)))
        common = {name: getattr(part(0.0, self.stddev), name) for name in Answer.__slots__}
        return GroupedAnswer(
            **{**common, "inferred": FROM}, by=("x",), groups=groups, running_stddevs=tuple(self.running.tolist())
        )


@cache
def bench(design: str) -> Bench:
    rows, noise = [], []
    if design == "mixed":
        look = first_look()
        rows.extend(look.rows_over_cells())
        noise.extend([1 / sqrt(float(look.precision))] * BINS)
    for query, precision in DESIGNS[design]():
        rows.append(query.dense_weights)
        noise.append(query.max_weight / sqrt(float(precision)))
    units = np.eye(len(rows))
    found = np.array([[bin.value for bin in bins_of(learned(design, unit))] for unit in units.tolist()]).T
    knowledge = learned(design, [0.0] * len(rows))
    running = np.sqrt(knowledge.running_variances([(cell(place), Fraction(1)) for place in range(BINS)]))
    stddev = max(bin.stddev for bin in bins_of(knowledge))
    return Bench(np.array(rows), np.array(noise), found, running, stddev)


@pytest.mark.parametrize("design", DESIGNS)
def test_running_sums_err_as_they_say(design: str) -> None:
    """Each of them, over runs: the true scale is accepted, 1.3 and 0.7 times it are not."""
    bins, noise, runs = histogram(data_of("normal")), simulation_rng(21), 2_000
    scores = []
    for _ in range(runs):
        scores.append((np.cumsum(bench(design).draw(bins, noise)) - np.cumsum(bins)) / bench(design).running)
    squares = np.mean(np.square(scores), axis=0)
    reach = 5 * sqrt(2 / runs)
    assert np.all(np.abs(squares - 1) < reach)
    assert np.all(1.3**2 * squares > 1 + reach) and np.all(0.7**2 * squares < 1 - reach)


@pytest.mark.parametrize("design", ["ladder", "together", "opposed"])
def test_the_formula_for_independent_noise_would_be_seen(design: str) -> None:
    """The square roots of 1, 2, ... are for bins that err by themselves."""
    bins, noise, runs = histogram(data_of("normal")), simulation_rng(21), 2_000
    answer = bench(design).counts(bins, noise)
    wrong = answer.stddev * np.sqrt(np.arange(1, len(answer.groups) + 1))
    scores = [(np.cumsum(bench(design).draw(bins, noise)) - np.cumsum(bins)) / wrong for _ in range(runs)]
    assert np.any(np.abs(np.mean(np.square(scores), axis=0) - 1) > 5 * sqrt(2 / runs))


def covered(design: str, kind: str, change: Callable[[GroupedAnswer], GroupedAnswer], runs: int) -> dict[str, int]:
    """How often each rank's interval holds its true value."""
    data, noise = data_of(kind), simulation_rng(22)
    bins = histogram(data)
    held = dict.fromkeys((rank.sql for rank in RANKS), 0)
    for _ in range(runs):
        answer = change(bench(design).counts(bins, noise))
        for rank in RANKS:
            (found,), true = derive_values(item(rank.sql), [answer], CONFIDENCE), rank.true(data)
            held[rank.sql] += found.low <= true[0] and true[1] <= found.high
    return held


def least(runs: int) -> float:
    return runs * CONFIDENCE - 5 * sqrt(runs * CONFIDENCE * (1 - CONFIDENCE))


@pytest.mark.parametrize("kind", ["normal", "two ends", "edge", "few"])
@pytest.mark.parametrize("design", DESIGNS)
def test_ranks_cover_however_the_bins_share_noise(design: str, kind: str) -> None:
    runs = 60
    assert min(covered(design, kind, lambda answer: answer, runs).values()) >= least(runs)


def too_small(answer: GroupedAnswer) -> GroupedAnswer:
    """Planted: standard deviations that are a fifth of the true ones."""
    return replace(
        answer, running_stddevs=tuple(stddev / 5 for stddev in answer.running_stddevs), stddev=answer.stddev / 5
    )


def test_a_variance_that_is_too_small_would_be_seen() -> None:
    runs = 100
    seen = [covered("opposed", kind, too_small, runs)["MEDIAN(x)"] for kind in ("two ends", "far apart")]
    assert max(seen) < least(runs)


def test_without_running_sums_standard_deviations_add_up() -> None:
    """An answer that was sealed before they were: what it says holds however its noise is shared."""
    runs = 60
    for design in DESIGNS:
        found = covered(design, "normal", lambda answer: replace(answer, running_stddevs=()), runs)
        assert min(found.values()) >= least(runs)


def most_frequent(design: str, scale: float, runs: int) -> int:
    """How often the largest count's interval holds its bin's true count, all bins being alike."""
    bins, noise = np.full(BINS, 100.0), simulation_rng(23)
    held = 0
    for _ in range(runs):
        answer = bench(design).counts(bins, noise)
        (found,) = derive_values(item("MODE(k)"), [replace(answer, stddev=scale * answer.stddev)], CONFIDENCE)
        held += found.low <= 100.0 <= found.high
    return held


@pytest.mark.parametrize("design", DESIGNS)
def test_the_most_frequent_count_is_covered(design: str) -> None:
    runs = 200
    assert most_frequent(design, 1.0, runs) >= least(runs)
    assert most_frequent(design, 0.4, runs) < least(runs)  # planted: noise said to be less than half of what it is


def frequency(top: float, rest: float, shared: bool, runs: int = 600) -> int:
    """Two counts of one cube of which one is known as a sum less the other: they err in opposite directions."""
    noise, held = simulation_rng(24), 0
    bins = np.array([top, rest])
    both, first = query_from_weights([2, 1])[0], range_query(2, 0, 1)
    whole = range_query(2, 0, 2)
    for _ in range(runs):
        knowledge = CubePosterior(CubeStatistic((Axis(2, False),)), False)
        for query, precision in ((first, ROUGH), (both, Precision(4 * 10**20))):
            value = query.dot(bins) + noise.standard_normal() * query.max_weight / sqrt(float(precision))
            knowledge.restore_measurement(QueryMeasurement(query, value, precision), precision)
        found = [
            knowledge.estimate_planned(InferencePlan(q, FINE, ZERO_PRECISION, ZERO_PRECISION, ()))
            for q in (first, whole)
        ]
        ends = [number for one in found for number in (one.value, one.stddev)]
        low, high = ratio_interval(ends[0], ends[1], ends[2], ends[3], CONFIDENCE, shared)
        held += low <= top / (top + rest) <= high
    return held


@pytest.mark.parametrize(("top", "rest"), [(100.0, 10.0), (60.0, 60.0), (5.0, 200.0), (0.0, 60.0)])
def test_frequencies_of_one_cube_cover(top: float, rest: float) -> None:
    assert frequency(top, rest, True) >= least(600)


def test_fieller_for_independent_noise_would_be_seen() -> None:
    assert frequency(100.0, 10.0, False) < least(600)


def test_both_kinds_of_ratios_agree_where_only_the_top_is_noisy() -> None:
    assert ratio_interval(30.0, 2.0, 10.0, 0.0, 0.9, True) == pytest.approx(ratio_interval(30.0, 2.0, 10.0, 0.0, 0.9))
    assert ratio_interval(-30.0, 2.0, 10.0, 0.0, 0.9, True) == pytest.approx(ratio_interval(-30.0, 2.0, 10.0, 0.0, 0.9))
    assert ratio_interval(1.0, 1.0, 3.0, 2.0, 0.95, True) == (-np.inf, np.inf)


@pytest.mark.parametrize("sql", ["VARIANCE(x)", "STDDEV(x)"])
@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_variances_cover_with_sums_and_counts_from_a_cube(sql: str, scale: float) -> None:
    """Squares are measured plainly; the sum and the count come from two posteriors. Planted: a fifth of the noise."""
    data, noise, runs, held = data_of("normal"), simulation_rng(25), 200, 0
    places = np.digitize(data, COLUMNS["x"].bins)
    sums = np.bincount(places, weights=data, minlength=BINS)
    true = float(np.var(data)) if sql.startswith("VAR") else float(np.std(data))
    for _ in range(runs):
        parts = [part(float(np.sum(data**2)) + 14_400 * noise.standard_normal(), scale * 14_400.0)]
        for bins, reach in ((sums, 120.0), (histogram(data), 1.0)):
            found, stddev = bench("together").draw(bins / reach, noise).sum(), bench("together").running[-1]
            parts.append(replace(part(reach * float(found), scale * reach * float(stddev)), inferred=FROM))
        (estimate,) = derive_values(item(sql), parts, CONFIDENCE)
        held += estimate.low - 1e-9 <= true <= estimate.high + 1e-9
    assert (held >= least(runs)) == (scale == 1.0)
