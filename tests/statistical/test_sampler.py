"""The sampler must have the right scale, and the tests must notice a wrong one."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from support.internals import MAX_NOISE_SCALE, SystemEntropy

DRAWS, SMALL_DRAWS = 6_000, 8_000
CHANCE = 1e-7
"""A right sampler fails a test this rarely."""
MANY = 40_000
SMALL, LARGE = 3.0, 2.0**26
WRONG = (0.7, 1.1, 1.3)


@cache
def sample(scale: float, size: int = DRAWS) -> np.ndarray:
    entropy = SystemEntropy()
    return np.array([entropy.discrete_gaussian(scale) for _ in range(size)], dtype=np.int64)


def discrete_pmf(scale: float, reach: int) -> np.ndarray:
    """P(t) for t = -reach .. reach, normalised over a span beyond which nothing is left."""
    span = np.arange(-int(60 * scale), int(60 * scale) + 1)
    weights = np.exp(-(span.astype(float) ** 2) / (2 * scale**2))
    return (weights / weights.sum())[np.abs(span) <= reach]


def fits_discrete(draws: np.ndarray, scale: float) -> float:
    """Chi-square p-value against the exact discrete Gaussian, tails pooled."""
    reach = int(3 * scale)
    middle = discrete_pmf(scale, reach)
    tail = (1 - middle.sum()) / 2
    expected = np.concatenate([[tail], middle, [tail]]) * len(draws)
    clipped = np.clip(draws, -reach - 1, reach + 1) + reach + 1
    return float(stats.chisquare(np.bincount(clipped, minlength=len(expected)), expected).pvalue)


def fits_variance(draws: np.ndarray, scale: float) -> float:
    """Two-sided p-value of the sum of squares, which is scale^2 chi^2(n)."""
    total = float(np.sum((draws / scale) ** 2))
    return float(2 * min(stats.chi2.cdf(total, len(draws)), stats.chi2.sf(total, len(draws))))


def fits_shape(draws: np.ndarray, scale: float) -> float:
    """Kolmogorov-Smirnov p-value: at 2^26 steps the discrete noise is as good as continuous."""
    return float(stats.kstest(draws / scale, "norm").pvalue)


def test_small_noise_has_the_exact_distribution():
    assert fits_discrete(sample(SMALL, SMALL_DRAWS), SMALL) > CHANCE


@pytest.mark.parametrize("factor", WRONG)
def test_chi_square_rejects_another_scale(factor):
    assert fits_discrete(sample(SMALL, SMALL_DRAWS), SMALL / factor) < CHANCE


def test_noise_as_we_draw_it_has_the_right_scale_and_shape():
    assert fits_variance(sample(LARGE), LARGE) > CHANCE
    assert fits_shape(sample(LARGE), LARGE) > CHANCE


@pytest.mark.parametrize("factor", WRONG)
def test_variance_rejects_another_scale(factor):
    assert fits_variance(sample(LARGE), LARGE / factor) < CHANCE


@pytest.mark.parametrize("factor", (0.7, 1.3))
def test_shape_rejects_another_scale(factor):
    assert fits_shape(sample(LARGE), LARGE / factor) < CHANCE


@pytest.mark.parametrize("factor", [1.1, *(pytest.param(factor, marks=pytest.mark.slow) for factor in (0.7, 1.3))])
def test_a_planted_sampler_of_another_scale_is_caught(factor):
    assert fits_variance(sample(LARGE * factor), LARGE) < CHANCE


def test_rejects_noise_of_the_right_scale_and_another_shape():
    laplace = np.random.default_rng(1).laplace(scale=LARGE / math.sqrt(2), size=DRAWS)
    assert fits_shape(laplace, LARGE) < CHANCE
    rounded = np.rint(np.random.default_rng(1).laplace(scale=SMALL / math.sqrt(2), size=DRAWS)).astype(np.int64)
    assert fits_discrete(rounded, SMALL) < CHANCE


def test_draws_are_centred_and_independent():
    draws = sample(LARGE) / LARGE
    assert abs(draws.mean()) * math.sqrt(DRAWS) < 5.5
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) * math.sqrt(DRAWS) < 5.5
    assert len(set(sample(LARGE).tolist())) > 0.999 * DRAWS


def test_the_extremes_of_the_range_work():
    entropy = SystemEntropy()
    largest = [entropy.discrete_gaussian(MAX_NOISE_SCALE) for _ in range(300)]
    assert max(map(abs, largest)) < 2**62
    assert fits_variance(np.array(largest, dtype=float), MAX_NOISE_SCALE) > CHANCE
    assert {entropy.discrete_gaussian(1e-3) for _ in range(50)} == {0}


@pytest.mark.parametrize(
    "bad", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, math.nextafter(MAX_NOISE_SCALE, math.inf), 1e300]
)
def test_refuses_scales_that_are_none(bad):
    with pytest.raises(ValueError, match="outside"):
        SystemEntropy().discrete_gaussian(bad)


def test_tokens_are_fresh():
    entropy = SystemEntropy()
    tokens = {entropy.token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {32}
    assert len(entropy.token(7)) == 7


def distinguishing_advantage(zero: np.ndarray, one: np.ndarray) -> float:
    """How much "is a multiple of 2^-53" tells outputs on 1 from outputs on 0."""
    on_grid = lambda values: np.mean(values * 2.0**53 == np.rint(values * 2.0**53))  # noqa: E731
    return float(on_grid(one) - on_grid(zero))


def test_float_noise_gives_low_bits_away():
    generator = np.random.default_rng(7)
    zero, one = 0.0 + generator.normal(size=400_000), 1.0 + generator.normal(size=400_000)
    assert distinguishing_advantage(zero, one) == pytest.approx(0.258, abs=0.005)


def test_our_noise_has_no_low_bits():
    entropy, shift = SystemEntropy(), 26
    draws = [entropy.discrete_gaussian(float(2**shift)) for _ in range(600)]
    assert {type(draw) for draw in draws} == {int}
    zero, one = np.array(draws[:300]), np.array(draws[300:]) + (1 << shift)
    assert distinguishing_advantage(zero / 2**shift, one / 2**shift) == 0.0


def test_low_bits_are_uniform_whatever_the_true_value_is():
    draws = sample(LARGE)
    for true_value in (0, 1, 12_345):
        answers = draws + (true_value << 26)
        for bits in (1, 4):
            counts = np.bincount(answers % 2**bits, minlength=2**bits)
            assert stats.chisquare(counts).pvalue > CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0])
def test_exact_distribution_at_many_scales(scale):
    draws = sample(scale, MANY)
    reach = max(2, int(3 * scale))
    middle = discrete_pmf(scale, reach)
    counts = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    expected = middle.copy()
    expected[[0, -1]] += (1 - middle.sum()) / 2
    assert stats.chisquare(counts, expected * len(draws)).pvalue > CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.7 * LARGE, MAX_NOISE_SCALE])
def test_five_percent_of_scale_are_noticed(scale):
    draws = sample(scale, MANY)
    assert fits_variance(draws, scale) > CHANCE
    assert fits_shape(draws, scale) > CHANCE
    for factor in (0.95, 1.05):
        assert fits_variance(draws, scale / factor) < CHANCE


def test_many_draws_at_once_have_the_same_law():
    draws = np.array(SystemEntropy().discrete_gaussians(SMALL, SMALL_DRAWS), dtype=np.int64)
    assert fits_discrete(draws, SMALL) > CHANCE
    assert fits_discrete(draws, SMALL / 1.1) < CHANCE
    assert SystemEntropy().discrete_gaussians(SMALL, 0) == []
    for scale in (0.0, -1.0, math.nan, math.inf, MAX_NOISE_SCALE * 1.01):
        with pytest.raises(ValueError):
            SystemEntropy().discrete_gaussians(scale, 3)
