"""DP-SGD under a poster that chooses the model and the terms: no example runs over past its clipping."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from math import sqrt
from unittest.mock import patch

import numpy as np
import pytest

from noisebank.federated.blockfl import dp_sgd, noisy_sum
from noisebank.federated.blockfl.terms import TaskTerms
from support.crowd_member import glyphs
from support.internals import Examples, NetworkShape

pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]
DEEP = NetworkShape(8, (4, 40), (160,) * 8, classes=4)
LARGEST = 127.99
TERMS = TaskTerms(
    "deep", DEEP, norm="fixed", mode="sound", epsilon="2", delta="1e-3", batch=17, epochs=1, rate="1e-6",
    momentum="0", clip="1e-3",
)  # fmt: skip
"""So slow that the weights stay what the poster has chosen."""


def trained(terms: TaskTerms, examples: Examples) -> np.ndarray:
    weights = np.full(terms.shape.weight_count, LARGEST)
    return dp_sgd.DpSgdTrainer(terms, examples, 1).train(weights, 1)


def test_one_example_that_runs_over_does_not_show():
    """Weights near 128 in nine layers: scores above 3e38, and a NaN in the sum of all gradients is past any noise."""
    examples = glyphs(1, 17)
    assert np.abs(trained(TERMS, examples) - LARGEST).max() < 0.01
    with patch.object(noisy_sum, "replace_nonfinite", lambda numbers: numbers.astype(np.float64)):
        assert np.abs(trained(TERMS, examples) - LARGEST).max() > 1


def test_labels_that_a_task_does_not_list_are_no_error():
    examples = glyphs(1, 17)
    other = Examples(examples.images, examples.labels + 60_000)
    shape = NetworkShape(8, (4, 8), (16,), classes=2)
    assert np.isfinite(trained(replace(TERMS, shape=shape), other)).all()


def test_what_one_example_can_move_is_its_clipping():
    """Without noise, one more example moves a step by at most clip/batch, however the weights are chosen."""
    import torch
    from opacus import GradSampleModule
    from torch.nn import functional

    from support.internals import TorchNetwork

    def step(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        network = TorchNetwork(DEEP, "fixed", 3.0, None, None)
        network.load_weights(np.full(DEEP.weight_count, LARGEST) * np.where(np.arange(DEEP.weight_count) % 3, 1, -1))
        single = GradSampleModule(network, loss_reduction="sum")
        scores = single(torch.as_tensor(images)[:, None])
        functional.cross_entropy(scores, torch.as_tensor(labels), reduction="sum").backward()
        gradients = [part.grad_sample.numpy() for part in single.parameters()]
        return (
            np.concatenate([part.ravel() for part in noisy_sum.compute_clipped_sum(gradients, 1.0)])
            / noisy_sum.STEPS_PER_CLIP
        )

    examples = glyphs(2, 5)
    for dark in (0.0, 1.0):
        images = examples.images.copy()
        images[4] = dark
        with_it, without = step(images, examples.labels), step(images[:4], examples.labels[:4])
        assert np.isfinite(with_it).all() and np.linalg.norm(with_it - without) <= 1.0 + 2.0**-10


SHARP = replace(
    TERMS, shape=NetworkShape(8, (2, 2), (4,), classes=2), epsilon="8", batch=8, rate="1", clip="1e-2"
)  # fmt: skip
"""A rate of 1: the poster reads the noisy sum itself off the trained weights."""
TRAININGS = 500
"""With and without the example, each."""


def train_once(trainer: dp_sgd.DpSgdTrainer, members: np.ndarray) -> np.ndarray:
    """What a poster sees of one step in which exactly these examples take part."""
    trainer._trained_rounds.clear()
    with patch.object(dp_sgd, "sample_batch", lambda examples, batches: members):
        return trainer.train(np.full(trainer.terms.shape.weight_count, 0.1), 1)


def measure_mu() -> tuple[float, float]:
    """How far apart the models with and without one example lie, in standard deviations; and the error of that.

    The poster knows all other examples, so it knows in which direction the one that it looks for moves the weights.
    """
    trainer = dp_sgd.DpSgdTrainer(SHARP, glyphs(1, 8), 1)
    everybody, others = np.arange(8), np.arange(7)
    with patch.object(trainer, "noise_multiplier", 0.0):
        direction = train_once(trainer, everybody) - train_once(trainer, others)
    seen = [
        np.array([train_once(trainer, members) @ direction for _ in range(TRAININGS)])
        for members in (everybody, others)
    ]
    spread = sqrt((seen[0].var(ddof=1) + seen[1].var(ddof=1)) / 2)
    mu = (seen[0].mean() - seen[1].mean()) / spread
    return mu, sqrt(2 / TRAININGS + mu * mu / (4 * TRAININGS))


def clip_each_parameter(
    gradients: list[np.ndarray], clip: float, noise: float, honest: Callable[..., list[np.ndarray]]
) -> list[np.ndarray]:
    """Planted: an example may move every layer by the clipping norm, instead of all layers together."""
    return [honest([part], clip, noise)[0] for part in gradients]


def test_trained_models_tell_an_example_apart_as_little_as_the_noise_says():
    """A step is a Gaussian mechanism with mu = 1 / noise multiplier. The judgement is wrong once in 3 million runs."""
    honest_sum, honest_noise = noisy_sum.compute_noisy_sum, dp_sgd.calibrate_noise
    claimed = 1 / honest_noise(SHARP, 8, 1)
    planted = [
        nullcontext(),
        patch.object(dp_sgd, "calibrate_noise", lambda *of: 0.7 * honest_noise(*of)),
        patch.object(
            dp_sgd, "compute_noisy_sum", lambda parts, clip, noise: clip_each_parameter(parts, clip, noise, honest_sum)
        ),
    ]
    excess = []
    for bug in planted:
        with bug:
            mu, error = measure_mu()
        excess.append((mu - claimed) / error)
    assert excess[0] < 5, f"{excess[0]:.1f} standard errors more than claimed"
    assert excess[0] > -5, "the poster looks in the wrong direction: this test would see nothing"
    assert min(excess[1:]) > 5, f"a planted bug was missed: {excess}"
