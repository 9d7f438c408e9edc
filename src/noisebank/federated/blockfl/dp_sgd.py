"""The sound mode: DP-SGD through Opacus on the device (extra `[federated]`). No edge worker: it would see features.

Every example's gradient is clipped, Gaussian noise is added to their sum, examples are drawn by Poisson sampling: in
whole numbers, with the operating system's randomness (`noisy_sum`). Opacus gives the gradient of each example, and its
Rényi accountant sizes the noise before the first batch, so that all rounds of the task together cost the terms'
(epsilon, delta); training stops where that number of steps ends.
"""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.errors import BadRequest, Refused
from noisebank.core.units import exact
from noisebank.federated.blockfl.device import Examples, Progress
from noisebank.federated.blockfl.noisy_sum import chosen_examples, noisy_gradients
from noisebank.federated.blockfl.terms import Terms

ACCOUNTANT = "rdp"
NOISE_MARGIN = 1 + 2.0**-10
"""On the noise: gradients are computed in 32-bit floats, whose last bits depend on how many examples a batch has."""
_QUIET = threading.Lock()
"""Filters of warnings belong to the whole process: one thread at a time may change them."""


class SoundTrainer:
    """One member's DP-SGD over a whole task."""

    def __init__(self, terms: Terms, examples: Examples, rounds: int) -> None:
        if terms.mode != "sound":
            raise BadRequest("mode", terms.mode, "DP-SGD is for sound tasks")
        if len(examples) < terms.batch:
            raise BadRequest("examples", len(examples), f"a batch has {terms.batch}")
        self.terms, self.examples, self.rounds = terms, examples.within(terms.shape.classes), rounds
        self.batches = math.ceil(len(examples) / terms.batch)
        """A pass; each example is in each batch with probability 1 / batches."""
        self.noise = noise_multiplier(terms, len(examples), rounds)
        self._trained: set[int] = set()

    def train(
        self, weights: NDArray[np.float64], round: int, progress: Progress = lambda done, total: None
    ) -> NDArray[np.float64]:
        """New weights for a round; a second training of the same round would not be paid for."""
        if round in self._trained or not 1 <= round <= self.rounds:
            raise Refused(f"round {round} was trained before, or is not part of what was charged")
        self._trained.add(round)
        import torch
        from opacus import GradSampleModule

        from noisebank.federated.blockfl.torch_network import Network

        torch.set_num_threads(1)
        terms = self.terms
        network = Network(terms.shape, terms.norm, terms.bound, None, None)
        network.load(weights)
        network.train()
        rate, momentum = float(exact(terms.rate, "rate")), float(exact(terms.momentum, "momentum"))
        descent = torch.optim.SGD(network.parameters(), lr=rate, momentum=momentum)
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            single = GradSampleModule(network, loss_reduction="sum")
            for step in range(terms.epochs * self.batches):
                progress(step, terms.epochs * self.batches)
                self._step(single, descent, chosen_examples(len(self.examples), self.batches))
        progress(1, 1)
        return network.flat()

    def _step(self, network: Any, descent: Any, chosen: NDArray[np.int64]) -> None:
        """One step on these examples; with none of them it is noise alone, like any other to whoever looks on."""
        import torch
        from torch.nn import functional

        parameters = list(network.parameters())
        gradients = [np.zeros((0, *part.shape), dtype=np.float32) for part in parameters]
        if len(chosen):
            images, labels = self.examples.images[chosen][:, None], self.examples.labels[chosen]
            network.zero_grad()
            scores = network(torch.as_tensor(images))
            functional.cross_entropy(scores, torch.as_tensor(labels), reduction="sum").backward()
            gradients = [part.grad_sample.numpy() for part in parameters]
        noisy = noisy_gradients(gradients, float(exact(self.terms.clip, "clip")), self.noise)
        for part, gradient in zip(parameters, noisy, strict=True):
            part.grad = torch.as_tensor(gradient / (len(self.examples) / self.batches), dtype=part.dtype)
        descent.step()


def noise_multiplier(terms: Terms, examples: int, rounds: int) -> float:
    """Standard deviation over clipping norm that makes the whole task cost no more than the terms' epsilon."""
    from opacus.accountants.utils import get_noise_multiplier

    batches = math.ceil(examples / terms.batch)
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: float = get_noise_multiplier(
                target_epsilon=float(exact(terms.epsilon, "epsilon")),
                target_delta=float(exact(terms.delta, "delta")),
                sample_rate=1 / batches,
                steps=rounds * terms.epochs * batches,
                accountant=ACCOUNTANT,
            )
        except ValueError:
            raise Refused("no noise makes this task cost as little as its epsilon") from None
    return found * NOISE_MARGIN


def spent_epsilon(terms: Terms, examples: int, rounds: int, noise: float) -> float:
    """What these rounds cost with this noise, by the same accountant."""
    from opacus.accountants import RDPAccountant

    batches = math.ceil(examples / terms.batch)
    accountant = RDPAccountant()
    accountant.history = [(noise, 1 / batches, rounds * terms.epochs * batches)]
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(float(exact(terms.delta, "delta"))))
