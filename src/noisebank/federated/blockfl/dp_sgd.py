"""DP-SGD on the device for sound tasks, with Opacus (extra `[federated]`). No edge worker: it would see features.

Every example's gradient is clipped, Gaussian noise is added to their sum, batches are Poisson samples: in integers,
with the operating system's randomness (`noisy_sum`). Opacus computes the gradient of each example, and its Rényi
accountant sizes the noise before the first batch, so that all rounds of the task together cost the terms'
(epsilon, delta). Training stops after that number of steps.
"""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.errors import BadRequest, Refused
from noisebank.core.units import parse_exact
from noisebank.federated.blockfl.device import Examples, Progress
from noisebank.federated.blockfl.noisy_sum import compute_noisy_sum, sample_batch
from noisebank.federated.blockfl.terms import TaskTerms

ACCOUNTANT = "rdp"
NOISE_MARGIN = 1 + 2.0**-10
"""Extra noise: gradients are computed in 32-bit floats, whose last bits depend on the size of the batch."""
_WARNINGS_LOCK = threading.Lock()
"""Warning filters belong to the whole process: one thread at a time may change them."""


class DpSgdTrainer:
    """One member's DP-SGD over a whole task."""

    def __init__(self, terms: TaskTerms, examples: Examples, round_count: int) -> None:
        if terms.mode != "sound":
            raise BadRequest("mode", terms.mode, "DP-SGD is for sound tasks")
        if len(examples) < terms.batch:
            raise BadRequest("examples", len(examples), f"a batch has {terms.batch}")
        self.terms, self.examples, self.round_count = terms, examples.clamp_labels(terms.shape.classes), round_count
        self.batches_per_epoch = math.ceil(len(examples) / terms.batch)
        """Batches per epoch; each example is in each of them with probability 1 / this."""
        self.noise_multiplier = calibrate_noise(terms, len(examples), round_count)
        self._trained_rounds: set[int] = set()

    def train(
        self, weights: NDArray[np.float64], round: int, progress: Progress = lambda done, total: None
    ) -> NDArray[np.float64]:
        """Return the weights after one round. Refuses to train a round twice: the second time would not be paid for."""
        if round in self._trained_rounds or not 1 <= round <= self.round_count:
            raise Refused(f"round {round} was trained before, or is not part of what was charged")
        self._trained_rounds.add(round)
        import torch
        from opacus import GradSampleModule

        from noisebank.federated.blockfl.torch_network import TorchNetwork

        torch.set_num_threads(1)
        terms = self.terms
        network = TorchNetwork(terms.shape, terms.norm, terms.feature_bound, None, None)
        network.load_weights(weights)
        network.train()
        rate, momentum = float(parse_exact(terms.rate, "rate")), float(parse_exact(terms.momentum, "momentum"))
        optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=momentum)
        with _WARNINGS_LOCK, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            per_example = GradSampleModule(network, loss_reduction="sum")
            for step in range(terms.epochs * self.batches_per_epoch):
                progress(step, terms.epochs * self.batches_per_epoch)
                self._take_step(per_example, optimizer, sample_batch(len(self.examples), self.batches_per_epoch))
        progress(1, 1)
        return network.export_weights()

    def _take_step(self, network: Any, optimizer: Any, indices: NDArray[np.int64]) -> None:
        """Take one step on these examples. Without any it is noise alone, which nobody can tell from other steps."""
        import torch
        from torch.nn import functional

        parameters = list(network.parameters())
        gradients = [np.zeros((0, *part.shape), dtype=np.float32) for part in parameters]
        if len(indices):
            images, labels = self.examples.images[indices][:, None], self.examples.labels[indices]
            network.zero_grad()
            scores = network(torch.as_tensor(images))
            functional.cross_entropy(scores, torch.as_tensor(labels), reduction="sum").backward()
            gradients = [part.grad_sample.numpy() for part in parameters]
        noisy = compute_noisy_sum(gradients, float(parse_exact(self.terms.clip, "clip")), self.noise_multiplier)
        for part, gradient in zip(parameters, noisy, strict=True):
            part.grad = torch.as_tensor(gradient / (len(self.examples) / self.batches_per_epoch), dtype=part.dtype)
        optimizer.step()


def calibrate_noise(terms: TaskTerms, example_count: int, round_count: int) -> float:
    """Return the noise multiplier (standard deviation / clipping norm) for the terms' epsilon over the whole task."""
    from opacus.accountants.utils import get_noise_multiplier

    batches = math.ceil(example_count / terms.batch)
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            multiplier: float = get_noise_multiplier(
                target_epsilon=float(parse_exact(terms.epsilon, "epsilon")),
                target_delta=float(parse_exact(terms.delta, "delta")),
                sample_rate=1 / batches,
                steps=round_count * terms.epochs * batches,
                accountant=ACCOUNTANT,
            )
        except ValueError:
            raise Refused("no noise makes this task cost as little as its epsilon") from None
    return multiplier * NOISE_MARGIN


def compute_epsilon(terms: TaskTerms, example_count: int, round_count: int, multiplier: float) -> float:
    """Return the epsilon of these rounds with this noise multiplier, by the same accountant."""
    from opacus.accountants import RDPAccountant

    batches = math.ceil(example_count / terms.batch)
    accountant = RDPAccountant()
    accountant.history = [(multiplier, 1 / batches, round_count * terms.epochs * batches)]
    with _WARNINGS_LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(float(parse_exact(terms.delta, "delta"))))
