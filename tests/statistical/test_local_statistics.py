"""What comes out of the samplers follows their laws, and a wrong scale, law or epsilon is noticed.

False alarms: below 1e-7 a test.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from noisebank.federated.ldp import audit_epsilon, make_mechanism
from support.internals import (
    MECHANISM_NAMES,
    Category,
    FrequencyOracle,
    Number,
    QuantizedMixture,
    Schema,
    choose_coordinates,
    estimate_attributes,
    make_published_vector_mechanism,
    make_report,
    make_vector_mechanism,
)

CHANCE = 1e-8
SIGMAS = 6.0
DRAWS = 400_000
X = 0.37


@cache
def sample(name: str, epsilon: float = 1.0, x: float = X) -> np.ndarray:
    return make_mechanism(name, epsilon).perturb(np.full(DRAWS, x))


def fits_law(codes: np.ndarray, probabilities: np.ndarray, cells: int = 60) -> float:
    """Chi-square p-value; neighbouring codes are pooled into cells of about the same probability."""
    cell = np.minimum((np.cumsum(probabilities) - probabilities / 2) * cells, cells - 1).astype(int)
    names, cell = np.unique(cell, return_inverse=True)
    expected = np.bincount(cell, weights=probabilities, minlength=len(names)) * len(codes)
    found = np.bincount(cell[codes], minlength=len(names))
    alive = expected > 0
    assert found[~alive].sum() == 0
    return float(stats.chisquare(found[alive], expected[alive] * len(codes) / expected[alive].sum()).pvalue)


def mean_error(values: np.ndarray, mean: float) -> float:
    """In standard errors."""
    return abs(values.mean() - mean) / (values.std() / math.sqrt(len(values)))


def variance_error(values: np.ndarray, mean: float, variance: float) -> float:
    """In standard errors."""
    squares = (values - mean) ** 2
    return abs(squares.mean() - variance) / max(squares.std() / math.sqrt(len(values)), 1e-9 * variance)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", MECHANISM_NAMES)
def test_codes_follow_the_exact_law(name, epsilon):
    made = make_mechanism(name, epsilon)
    codes = made.draw_codes(np.full(DRAWS, X))
    assert fits_law(codes, np.array(made.output_law(X).to_probabilities())) > CHANCE
    if made.code_count > 3 or epsilon == 4.0:
        assert fits_law(codes, np.array(made.output_law(X - 0.1).to_probabilities())) < CHANCE


@pytest.mark.parametrize("name", MECHANISM_NAMES)
@pytest.mark.parametrize("x", [X, 1.0])
def test_reports_are_unbiased_with_the_promised_variance(name, x):
    made, values = make_mechanism(name, 1.0), sample(name, 1.0, x)
    assert mean_error(values, x) < SIGMAS
    assert variance_error(values, x, made.variance(x)) < SIGMAS
    assert mean_error(values * 1.1, x) > SIGMAS or x == X
    for wrong in (0.9, 1.1):
        assert variance_error(x + (values - x) * wrong, x, made.variance(x)) > SIGMAS
    assert mean_error(values + 0.05, x) > SIGMAS


@pytest.mark.parametrize("m", [1, 10])
def test_levels_follow_their_law(m):
    levels = QuantizedMixture(make_mechanism("hm-tp", 2.0), m)
    codes = levels.draw_codes(np.full(DRAWS, X))
    assert fits_law(codes, np.array(levels.output_law(X).to_probabilities())) > CHANCE
    assert fits_law(codes, np.array(levels.output_law(-X).to_probabilities())) < CHANCE
    values = levels.to_values(codes)
    assert mean_error(values, X) < SIGMAS
    assert variance_error(values, X, levels.variance(X)) < SIGMAS
    assert variance_error(1.1 * (values - X) + X, X, levels.variance(X)) > SIGMAS


@pytest.mark.parametrize("name", MECHANISM_NAMES)
def test_the_audit_accepts_the_truth_and_rejects_ten_percent_less(name):
    perturb = make_mechanism(name, 1.0).perturb
    assert not audit_epsilon(perturb, 1.0, samples=600_000).is_refuted
    assert audit_epsilon(perturb, 0.9, samples=600_000).is_refuted


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISM_NAMES)
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_the_audit_at_other_epsilons(name, epsilon):
    perturb = make_mechanism(name, epsilon).perturb
    assert not audit_epsilon(perturb, epsilon, samples=4_000_000).is_refuted
    assert audit_epsilon(perturb, 0.9 * epsilon, samples=4_000_000).is_refuted


def test_the_audit_rejects_a_mechanism_run_with_more_epsilon_than_it_says():
    assert audit_epsilon(make_mechanism("best", 1.0 / 0.9).perturb, 1.0, samples=600_000).is_refuted


@pytest.mark.parametrize("size", [3, 40])
def test_oracles_are_unbiased_with_the_promised_variance(size):
    oracle = FrequencyOracle(1.0, size)
    values = oracle.to_indicators(oracle.draw_flags(np.full(60_000, 1)))
    for place, share in ((0, 0.0), (1, 1.0), (size - 1, 0.0)):
        assert mean_error(values[:, place], share) < SIGMAS
        assert variance_error(values[:, place], share, oracle.variance(share)) < SIGMAS
        assert variance_error(1.1 * values[:, place], 1.1 * share, oracle.variance(share)) > SIGMAS
    assert mean_error(values[:, 0], 0.1) > SIGMAS


def test_every_set_of_coordinates_is_equally_likely():
    chosen = np.sort(choose_coordinates(150_000, 5, 2), axis=1)
    counts = np.bincount(chosen[:, 0] * 5 + chosen[:, 1], minlength=25)
    found = counts[[a * 5 + b for a in range(5) for b in range(a + 1, 5)]]
    assert found.sum() == 150_000
    assert stats.chisquare(found).pvalue > CHANCE
    found[0], found[1] = found[0] + 1500, found[1] - 1500  # one set a tenth too often
    assert stats.chisquare(found).pvalue < CHANCE


@pytest.mark.parametrize("name", ["pm", "three-outputs", "best"])
def test_vectors_are_unbiased_with_the_promised_variance(name):
    truth = np.array([-1.0, -0.2, 0.0, 0.5, 0.9])
    for made in (make_vector_mechanism(name, 3.0, 5, 2), make_published_vector_mechanism(name, 3.0, 5)):
        rows = made.perturb(np.tile(truth, (120_000, 1)))
        for place, x in enumerate(truth):
            assert mean_error(rows[:, place], x) < SIGMAS
            assert variance_error(rows[:, place], x, made.variance(x)) < SIGMAS
            assert variance_error(x + 1.15 * (rows[:, place] - x), x, made.variance(x)) > SIGMAS


def test_intervals_cover_and_are_not_too_wide():
    schema = Schema((Number("x", 0, 10), Category("c", ("a", "b", "c", "d"))))
    hits, tight, rounds = 0, 0, 120
    for turn in range(rounds):
        people = [{"x": (turn + i) % 11, "c": "abbcccdddd"[i % 10]} for i in range(220)]
        found = estimate_attributes([make_report(person, schema, 3.0) for person in people], schema)
        truths = [(found["x"], float(np.mean([person["x"] for person in people])))]
        truths += [(found["c"][value], share) for value, share in zip("abcd", (0.1, 0.2, 0.3, 0.4), strict=True)]
        for got, truth in truths:
            hits += got.interval[0] <= truth <= got.interval[1]
            tight += abs(got.value - truth) <= 0.5 * (got.interval[1] - got.value)
    tests = 5 * rounds
    assert stats.binom.sf(tests - hits, tests, 0.09) > CHANCE  # at least about 95%, and they share reports
    assert stats.binom.sf(tests - tight, tests, 0.09) < CHANCE  # half as wide covers about 77%, and is noticed
    assert stats.binom.cdf(tests - tight, tests, 0.15) > CHANCE  # twice as wide: 95% of half of it
