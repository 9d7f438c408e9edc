"""The sound mode: DP-SGD through Opacus on the device (extra `[federated]`). No edge worker: it would see features.

Every example's gradient is clipped, Gaussian noise is added to their sum, examples are drawn by Poisson sampling. The
noise is sized before the first batch so that all rounds of the task together cost the terms' (epsilon, delta) by
Opacus's Rényi accountant; training stops where that number of steps ends.
"""

from __future__ import annotations

import math
import threading
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.entropy import torch_noise
from noisebank.errors import BadRequest, Refused
from noisebank.federated.crowd.device import Examples, Progress
from noisebank.federated.crowd.terms import Terms
from noisebank.units import exact

ACCOUNTANT = "rdp"
MOST_GRADIENT = 1e6
"""Of one example and weight, before clipping; squares of a million of them still fit 32-bit floats."""
NOISE_MARGIN = 1 + 2.0**-10
"""On the noise: norms are computed in 32-bit floats, and a clipped gradient may be too long by their rounding."""
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
        from opacus import PrivacyEngine
        from torch.nn import functional
        from torch.utils.data import DataLoader, TensorDataset

        from noisebank.federated.crowd.torch_network import Network

        torch.set_num_threads(1)
        terms = self.terms
        network = Network(terms.shape, terms.norm, terms.bound, None, None)
        network.load(weights)
        network.train()
        rate, momentum = float(exact(terms.rate, "rate")), float(exact(terms.momentum, "momentum"))
        data = TensorDataset(torch.as_tensor(self.examples.images)[:, None], torch.as_tensor(self.examples.labels))
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # secure mode needs a library that is not maintained; docs/crowd.md says so
            private, descent, loader = PrivacyEngine(accountant=ACCOUNTANT).make_private(
                module=network,
                optimizer=torch.optim.SGD(network.parameters(), lr=rate, momentum=momentum),
                data_loader=DataLoader(data, batch_size=terms.batch, generator=torch_noise()),
                noise_multiplier=self.noise,
                max_grad_norm=float(exact(terms.clip, "clip")),
                noise_generator=torch_noise(),
            )
            for epoch in range(terms.epochs):
                for number, (images, labels) in enumerate(loader):
                    progress(epoch * self.batches + number, terms.epochs * self.batches)
                    descent.zero_grad()
                    functional.cross_entropy(private(images), labels).backward()
                    tame_gradients(private)
                    descent.step()
        progress(1, 1)
        return network.flat()


def tame_gradients(network: Any) -> None:
    """Every example's gradient finite, before it is clipped: the weights are a poster's choice, and one example whose
    gradient runs over would make the whole sum NaN, past any noise. Example by example, so that clipping still bounds
    what each can do."""
    import torch

    for parameter in network.parameters():
        if parameter.grad_sample is not None:
            finite = torch.nan_to_num(parameter.grad_sample, nan=0.0, posinf=0.0, neginf=0.0)
            parameter.grad_sample = finite.clamp(-MOST_GRADIENT, MOST_GRADIENT)


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
