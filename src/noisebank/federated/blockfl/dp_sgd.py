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
from noisebank.core.units import exact
from noisebank.federated.blockfl.device import Examples, Progress
from noisebank.federated.blockfl.noisy_sum import chosen_examples, noisy_gradients
from noisebank.federated.blockfl.terms import Terms

ACCOUNTANT = "rdp"
NOISE_MARGIN = 1 + 2.0**-10
"""Extra noise: gradients are computed in 32-bit floats, whose last bits depend on the size of the batch."""
_QUIET = threading.Lock()
"""Warning filters belong to the whole process: one thread at a time may change them."""


class SoundTrainer:
    """One member's DP-SGD over a whole task."""

    def __init__(self, terms: Terms, examples: Examples, rounds: int) -> None:
        if terms.mode != "sound":
            raise BadRequest("mode", terms.mode, "DP-SGD is for sound tasks")
        if len(examples) < terms.batch:
            raise BadRequest("examples", len(examples), f"a batch has {terms.batch}")
        self.terms, self.examples, self.rounds = terms, examples.within(terms.shape.classes), rounds
        self.batches = math.ceil(len(examples) / terms.batch)
        """Batches per epoch; each example is in each of them with probability 1 / this."""
        self.noise = noise_multiplier(terms, len(examples), rounds)
        self._trained: set[int] = set()

    def train(
        self, weights: NDArray[np.float64], round: int, progress: Progress = lambda done, total: None
    ) -> NDArray[np.float64]:
        """Return the weights after one round. Refuses to train a round twice: the second time would not be paid for."""
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
        optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=momentum)
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            per_example = GradSampleModule(network, loss_reduction="sum")
            for step in range(terms.epochs * self.batches):
                progress(step, terms.epochs * self.batches)
                self._step(per_example, optimizer, chosen_examples(len(self.examples), self.batches))
        progress(1, 1)
        return network.flat()

    def _step(self, network: Any, descent: Any, chosen: NDArray[np.int64]) -> None:
        """Take one step on these examples. Without any it is noise alone, which nobody can tell from other steps."""
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
    """Return the noise multiplier (standard deviation / clipping norm) for the terms' epsilon over the whole task."""
    from opacus.accountants.utils import get_noise_multiplier

    batches = math.ceil(examples / terms.batch)
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            multiplier: float = get_noise_multiplier(
                target_epsilon=float(exact(terms.epsilon, "epsilon")),
                target_delta=float(exact(terms.delta, "delta")),
                sample_rate=1 / batches,
                steps=rounds * terms.epochs * batches,
                accountant=ACCOUNTANT,
            )
        except ValueError:
            raise Refused("no noise makes this task cost as little as its epsilon") from None
    return multiplier * NOISE_MARGIN


def spent_epsilon(terms: Terms, examples: int, rounds: int, noise: float) -> float:
    """Return the epsilon of these rounds with this noise multiplier, by the same accountant."""
    from opacus.accountants import RDPAccountant

    batches = math.ceil(examples / terms.batch)
    accountant = RDPAccountant()
    accountant.history = [(noise, 1 / batches, rounds * terms.epochs * batches)]
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(float(exact(terms.delta, "delta"))))
