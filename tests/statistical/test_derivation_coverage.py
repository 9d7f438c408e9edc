"""Intervals of derived answers hold what they promise, and tests that would see it if they did not.

All noise is seeded, so nothing here fails by chance; the thresholds are such that a new seed would fail with a
probability below 1e-6: 5 standard deviations of the binomial count, and more where a line says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, sqrt
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from noisebank import Account, Policy, Receipt
from support.banks import memory_account, write_people
from support.derived_values import derive_values, parse_aggregate
from support.internals import (
    ZERO_PRECISION,
    Aggregate,
    Answer,
    Case,
    Column,
    Group,
    GroupedAnswer,
    Kind,
    Neighbours,
    Row,
    ratio_interval,
    simulation_rng,
)

RUNS, CONFIDENCE = 1_200, 0.9
SLACK = 5 * sqrt(RUNS * CONFIDENCE * (1 - CONFIDENCE))
LEAST, MOST = RUNS * CONFIDENCE - SLACK, RUNS * CONFIDENCE + SLACK
KEYS = tuple(f"{number:02}" for number in range(50))
BINS = tuple(range(-60, 101, 20))
COLUMNS = {
    "x": Column("x", Kind.INTEGER, low=-80, high=120, bins=BINS),
    "k": Column("k", Kind.TEXT, keys=KEYS),
    "b": Column("b", Kind.BOOLEAN),
}
ADD = Policy("t", Path("/t"), Neighbours.ADD_REMOVE, 10**6, MappingProxyType(COLUMNS), Fraction(1), Fraction(1, 10**6))
RECEIPT = Receipt(b"", b"", {}, b"", 1, "", 1, b"")


@cache
def item(sql: str) -> Aggregate:
    return parse_aggregate(f"SELECT {sql} FROM t", ADD)


def part(value: float, stddev: float) -> Answer:
    return Answer(value, stddev, Case.FIRST, ZERO_PRECISION, ZERO_PRECISION, ZERO_PRECISION, "", Fraction(0), RECEIPT)


def counts(values: Sequence[float], stddev: float) -> GroupedAnswer:
    groups = tuple(Group((str(place),), float(value), Fraction(float(value))) for place, value in enumerate(values))
    common = {name: getattr(part(0.0, stddev), name) for name in Answer.__slots__}
    return GroupedAnswer(**common, by=("x",), groups=groups)


def held(runs: Callable[[np.random.Generator], tuple[float, float, float]], seed: int, count: int = RUNS) -> int:
    """How often (low, true, high) are in this order."""
    noise = simulation_rng(seed)
    return sum(low <= true <= high for low, true, high in (runs(noise) for _ in range(count)))


# -- Fieller: exact, so neither too narrow nor too wide ----------------------------------------------------

RATIOS = [
    # true top, its noise, true bottom, its noise
    (300.0, 20.0, 100.0, 5.0),
    (300.0, 100.0, 100.0, 10.0),
    (-50.0, 30.0, 40.0, 6.0),
    (0.0, 10.0, 30.0, 3.0),
    (5000.0, 1.0, 100.0, 12.0),
    (80.0, 300.0, 1000.0, 1.0),
]


def fieller(case: tuple[float, float, float, float], scale: float = 1.0, seed: int = 1) -> int:
    top, top_sd, bottom, bottom_sd = case

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        a, b = scale * noise.standard_normal(2)
        low, high = ratio_interval(top + a * top_sd, top_sd, bottom + b * bottom_sd, bottom_sd, CONFIDENCE)
        return low, top / bottom, high

    return held(run, seed)


@pytest.mark.parametrize("case", RATIOS)
def test_fieller_covers_exactly(case):
    assert LEAST <= fieller(case) <= MOST


@pytest.mark.parametrize("case", RATIOS)
def test_a_wrong_scale_would_be_seen(case):
    assert fieller(case, 1.3) < LEAST
    assert fieller(case, 0.7) > MOST


def test_the_plain_interval_of_a_ratio_would_be_seen():
    """Why Fieller: the delta method without the bottom's noise covers too little."""

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        top, bottom = 5000 + noise.standard_normal(), 100 + 12 * noise.standard_normal()
        low, high = ratio_interval(top, 1.0, bottom, 0.0, CONFIDENCE)
        return low, 50.0, high

    assert held(run, 2) < LEAST / 2


@pytest.mark.parametrize("bottom", [0.0, 0.5, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("top", [0.0, 3.0, 40.0])
def test_averages_of_few_or_nobody_cover(top, bottom):
    """Bottom within its noise of zero: the average (any number for nobody) is covered, whatever is shown."""
    asked, mean = item("AVG(x)"), (top / bottom if bottom else 50.0)
    if not -80 <= mean <= 120:
        return

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        a, b = noise.standard_normal(2)
        (found,) = derive_values(asked, [part(top + 30 * a, 30.0), part(bottom + b, 1.0)], CONFIDENCE)
        return found.low, mean, found.high

    assert held(run, 3) >= LEAST


def test_frequencies_near_the_ends_cover():
    asked = item("AVG(b)")
    for share in (0.0, 0.01, 0.99, 1.0):

        def run(noise: np.random.Generator, share: float = share) -> tuple[float, float, float]:
            a, b = noise.standard_normal(2)
            (found,) = derive_values(asked, [part(100 * share + 5 * a, 5.0), part(100 + 5 * b, 5.0)], CONFIDENCE)
            return found.low, share, found.high

        assert held(run, 4) >= LEAST


# -- variances ----------------------------------------------------------------------------------------------


def data_of(kind: str, size: int = 400) -> np.ndarray:
    draw = simulation_rng(7)
    made = {
        "uniform": draw.uniform(-80, 120, size),
        "normal": draw.normal(30, 20, size),
        "two ends": np.where(np.arange(size) % 2, 120.0, -80.0),
        "constant": np.full(size, 39.0),
        "edge": np.full(size, 40.0),
        "upper edges": np.array([*([39.0] * (size // 2)), *([99.0] * (size - size // 2))]),
        "far apart": np.array([*([-79.0] * (size // 2)), *([119.0] * (size - size // 2))]),
        "skewed": np.minimum(120.0, -80 + draw.exponential(15, size)),
        "one person": np.array([17.0]),
        "few": np.array([-80.0, 0.0, 1.0, 2.0, 120.0]),
    }[kind]
    return np.clip(np.round(made), -80, 120)


@pytest.mark.parametrize("sql", ["VARIANCE(x)", "STDDEV(x)"])
@pytest.mark.parametrize("kind", ["uniform", "normal", "two ends", "constant", "few"])
@pytest.mark.parametrize("noise_sd", [0.5, 20.0])
def test_variances_cover(sql, kind, noise_sd):
    data, asked = data_of(kind), item(sql)
    true = float(np.var(data, ddof=1)) if sql.startswith("VAR") else float(np.std(data, ddof=1))
    facts = [(float(np.sum(data**2)), 14_400 * noise_sd), (float(np.sum(data)), 120 * noise_sd), (len(data), noise_sd)]

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        draws = noise.standard_normal(3)
        (found,) = derive_values(
            asked, [part(v + sd * z, sd) for (v, sd), z in zip(facts, draws, strict=True)], CONFIDENCE
        )
        return found.low - 1e-9, true, found.high + 1e-9

    assert held(run, 5, 500) >= 500 * CONFIDENCE - 5 * sqrt(500 * 0.09)


def test_variances_of_far_more_noise_would_be_seen():
    data, asked = data_of("normal"), item("VARIANCE(x)")
    true = float(np.var(data))

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        a, b, c = 4 * noise.standard_normal(3)
        parts = [part(float(np.sum(data**2)) + 14_400 * a, 14_400.0), part(float(np.sum(data)) + 120 * b, 120.0)]
        (found,) = derive_values(asked, [*parts, part(len(data) + c, 1.0)], CONFIDENCE)
        return found.low, true, found.high

    assert held(run, 6, 500) < 500 * CONFIDENCE - 5 * sqrt(500 * 0.09)


# -- quantiles, ends, the most frequent ----------------------------------------------------------------------


@dataclass(frozen=True)
class Rank:
    """What is asked, and the smallest and the largest number that may be called its true value."""

    sql: str
    rank: float

    def true(self, data: np.ndarray) -> tuple[float, float]:
        ordered = np.sort(data)
        low = ordered[max(0, ceil(self.rank * len(data)) - 1)]
        high = ordered[min(len(data) - 1, int(self.rank * len(data)))]
        return float(low), float(high)


RANKS = [
    Rank("MEDIAN(x)", 0.5),
    Rank("QUANTILE(x, 0.1)", 0.1),
    Rank("QUANTILE(x, 0.9)", 0.9),
    Rank("QUANTILE(x, 0)", 0.0),
    Rank("QUANTILE(x, 1)", 1.0),
    Rank("MIN(x)", 0.0),
    Rank("MAX(x)", 1.0),
]
KINDS = ["uniform", "normal", "two ends", "constant", "edge", "upper edges", "far apart", "skewed", "one person", "few"]


def histogram(data: np.ndarray) -> np.ndarray:
    return np.bincount(np.digitize(data, BINS), minlength=len(BINS) + 1).astype(float)


def ranked(rank: Rank, kind: str, noise_sd: float, scale: float = 1.0, runs: int = 200) -> int:
    data, asked = data_of(kind), item(rank.sql)
    true, bins, noise = rank.true(data), histogram(data_of(kind)), simulation_rng(8)
    covered = 0
    for _ in range(runs):
        noisy = bins + scale * noise_sd * noise.standard_normal(len(bins))
        (found,) = derive_values(asked, [counts(noisy, noise_sd)], CONFIDENCE)
        covered += found.low <= true[0] and true[1] <= found.high
    return covered


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", RANKS, ids=lambda rank: rank.sql)
def test_ranks_cover_wherever_in_a_bin_people_are(rank, kind):
    """Also with empty bins, everybody in one bin, at its last value or at its first."""
    for noise_sd in (0.3, 8.0, 60.0):
        runs = 80
        assert ranked(rank, kind, noise_sd, runs=runs) >= runs * CONFIDENCE - 5 * sqrt(runs * 0.09)


def test_ranks_of_far_more_noise_would_be_seen():
    runs = 120
    seen = [ranked(Rank("MEDIAN(x)", 0.5), kind, 8.0, 40.0, runs) for kind in ("constant", "normal", "skewed")]
    assert min(seen) < runs * CONFIDENCE - 5 * sqrt(runs * 0.09)


def test_ranks_of_many_people_are_told_to_a_bin():
    """Coverage alone would allow to say nothing: little noise gives one bin, or the two beside an edge."""
    noise = simulation_rng(9)
    for kind in ("uniform", "normal", "constant", "skewed"):
        bins = 100 * histogram(data_of(kind))
        (found,) = derive_values(item("MEDIAN(x)"), [counts(bins + noise.standard_normal(len(bins)), 1.0)], CONFIDENCE)
        assert found.high - found.low <= 40


@pytest.mark.parametrize("size", [2, 10, 50])
def test_the_most_frequent_count_is_covered(size):
    """All keys as frequent as each other: the largest of the noisy counts is biased, its interval must know."""
    asked = item("MODE(k)")

    def run(noise: np.random.Generator) -> tuple[float, float, float]:
        (found,) = derive_values(asked, [counts(100 + 7 * noise.standard_normal(size), 7.0)], CONFIDENCE)
        return found.low, 100.0, found.high

    assert held(run, 10) >= LEAST


def test_the_most_frequent_key_is_found():
    noise, right = simulation_rng(11), 0
    for _ in range(200):
        values = 50 + 5 * noise.standard_normal(50)
        values[17] += 60
        best = max(counts(values, 5.0).groups, key=lambda group: group.exact)
        right += best.keys == ("17",)
    assert right == 200  # 60 above is more than 8 standard deviations of a difference


# -- through the whole bank ----------------------------------------------------------------------------------


class Seeded:
    """Repeatable noise."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def discrete_gaussian(self, scale: float) -> int:
        return round(self.random.gauss(0.0, scale))

    def token(self, size: int = 32) -> bytes:
        return self.random.randbytes(size)


class Wrong(Seeded):
    """The same with 2.5 times the noise that is written down."""

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [self.discrete_gaussian(scale) for _ in range(count)]

    def discrete_gaussian(self, scale: float) -> int:
        return round(2.5 * self.random.gauss(0.0, scale))


def bank(folder: Path, entropy: Any) -> Account:
    path = write_people(folder, rows=2_000, epsilon="30", neighbours="add-remove")
    path.write_text(path.read_text().replace("row_cap = 1000", "row_cap = 5000"))
    return memory_account(path, entropy)


def covered(account: Account, runs: int = 60) -> int:
    """Averages of different queries with one true value: nobody earns 900 or more, all are younger than 90."""
    true = sum(i * 37 % 900 for i in range(2_000) if i % 3) / sum(1 for i in range(2_000) if i % 3)
    found = 0
    for number in range(runs):
        sql = f"SELECT AVG(income) FROM people WHERE smoker AND income < {900 + number}"
        low, high = account.ask(sql, epsilon="0.3", delta="1e-6", confidence=CONFIDENCE).interval(CONFIDENCE)
        found += low <= true <= high
    return found


def test_averages_through_the_bank_cover(tmp_path):
    assert covered(bank(tmp_path, Seeded(1))) >= 43  # 5 standard deviations below 54


def test_too_much_noise_in_the_bank_would_be_seen(tmp_path):
    assert covered(bank(tmp_path, Wrong(1))) < 43  # expected: 29


def grouped_estimates(account: Account) -> list[Row]:
    sql = "SELECT town, AVG(age) FROM people GROUP BY town"
    return list(account.ask(sql, epsilon="1", delta="1e-6", confidence="0.999"))


def test_averages_of_groups_cover(tmp_path):
    found = grouped_estimates(bank(tmp_path, Seeded(4)))
    for estimate, odd in zip(found, (1, 0), strict=True):  # north are the odd ones
        ages = [20 + i % 60 for i in range(2_000) if i % 2 == odd]
        assert estimate.low <= sum(ages) / len(ages) <= estimate.high
        assert estimate.high - estimate.low < 60
