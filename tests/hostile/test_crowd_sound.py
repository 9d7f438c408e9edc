"""DP-SGD under a poster that chooses the model and the terms: no example runs over past its clipping."""

from __future__ import annotations

from dataclasses import replace
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
