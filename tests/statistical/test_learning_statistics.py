"""Mean reports against their expectation and spread, with scales that must be rejected; and what learning achieves."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from support.internals import MECHANISM_NAMES, ExactMean, GradientNoise, learn_model, published_noise
from support.learning import table, task

DEVICES, RUNS, FAR = 2_000, 60, 5.5
"""FAR: in standard errors; one of the 90 comparisons under the true scale exceeds it with probability 1e-4."""


def distances(noise: GradientNoise, factor: float = 1.0) -> np.ndarray:
    """How far the mean over many runs is from the mean clipped gradient, in standard errors; `factor` plants a bug."""
    generator = np.random.default_rng(11)
    slopes, rows = generator.normal(0, 1.5, DEVICES), generator.uniform(-1, 1, (DEVICES, 5))
    rows[:, 4] = 1.0
    rows[:, 0] = np.abs(rows[:, 0])
    slopes = np.abs(slopes)  # a mean far from 0, so that a wrong scale shows
    truth = ExactMean().mean_gradient(slopes, rows)
    drawn = factor * np.stack([noise.mean_gradient(slopes, rows) for _ in range(RUNS)])
    return np.asarray(np.abs(drawn.mean(axis=0) - truth) / (drawn.std(axis=0, ddof=1) / sqrt(RUNS)))


@pytest.mark.parametrize("name", MECHANISM_NAMES)
def test_mean_reports_are_unbiased_and_a_wrong_scale_is_noticed(name: str) -> None:
    for levels in (0, 5):
        noise = published_noise(name, 4.0, 5, levels)
        assert distances(noise).max() < FAR
        for wrong in (1.3, 0.7):
            assert distances(noise, wrong).max() > FAR, f"scale {wrong} was not noticed"


def test_the_spread_of_a_mean_is_the_worst_case_at_most_and_not_much_less() -> None:
    """Gradients of 1 everywhere: Duchi's worst case is 0, so take the middle; its variance is known."""
    noise = published_noise("duchi", 1.0, 5)
    rows = np.zeros((DEVICES, 5))
    drawn = np.stack([noise.mean_gradient(np.ones(DEVICES), rows) for _ in range(200)])
    expected = noise.vector.variance(0.0) / DEVICES
    found = float(np.square(drawn).mean())
    assert found == pytest.approx(expected, rel=5 * sqrt(2 / drawn.size))
    for wrong in (1.3, 0.7):
        assert wrong**2 * found != pytest.approx(expected, rel=5 * sqrt(2 / drawn.size))


@pytest.mark.parametrize("model", ["logistic", "hinge"])
def test_a_task_learns_what_can_be_learned(model: str) -> None:
    rows, targets = table(20_000)
    found = learn_model(task(model=model, epsilon="4", group=1000, devices=20_000), rows, targets)
    exact = np.mean(targets > 0)
    assert found.mean_error(*table(4_000, seed=2)) < 0.13 < min(exact, 1 - exact)
