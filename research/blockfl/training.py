"""Federated training as in chapter 5 of P4, in one process: what its figures 5.3 to 5.8 are made of.

The members' models are averaged by the product's own fixed-point arithmetic; only the network runs in torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from noisebank.core.entropy import simulation_rng, torch_simulation_rng
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.models import FIXED_POINT_SCALE, average_weights, to_fixed_point
from noisebank.federated.blockfl.network import NetworkShape, initialize_weights

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Setting:
    """One training: what varies over the figures."""

    norm: str
    epsilon: float | None
    batch: int = 64
    local_epochs: int = 20
    global_epochs: int = 2
    members: int = 5
    images: int = 288
    """Of each member."""
    rate: float = 0.05
    momentum: float = 0.9
    clip: float = 5.0

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Trained:
    """Accuracies on clean and on noisy test features after each global epoch, and what it took."""

    setting: Setting
    seed: int
    clean: tuple[float, ...]
    noisy: tuple[float, ...]
    seconds_per_epoch: float
    """CPU seconds of one member's pass over its own images."""
    model_bytes: int


def train(
    shape: NetworkShape, data: tuple[Examples, Examples], setting: Setting, seed: int, tested: int = 10_000
) -> Trained:
    """All members, all global epochs."""
    import torch
    from torch.nn import functional

    from noisebank.federated.blockfl.torch_network import TorchNetwork

    torch.set_num_threads(1)
    generator, shuffling = torch_simulation_rng(seed), simulation_rng(seed)
    bound = float((setting.batch - 1) ** 0.5)
    training, testing = data
    images, labels = torch.as_tensor(training.images)[:, None], torch.as_tensor(training.labels)
    chosen = shuffling.permutation(len(labels))[: setting.members * setting.images].reshape(setting.members, -1)
    flat = initialize_weights(shape, setting.norm, simulation_rng(seed + 1))
    clean: list[float] = []
    noisy: list[float] = []
    began = time.process_time()
    network = TorchNetwork(shape, setting.norm, bound, setting.epsilon, generator)
    for _ in range(setting.global_epochs):
        parts = []
        for own in chosen:
            network.load_weights(flat)
            network.train()
            descent = torch.optim.SGD(network.parameters(), lr=setting.rate, momentum=setting.momentum)
            for _ in range(setting.local_epochs):
                order = shuffling.permutation(own)
                for start in range(0, len(order) - setting.batch + 1, setting.batch):
                    batch = torch.as_tensor(order[start : start + setting.batch])
                    descent.zero_grad()
                    functional.cross_entropy(network(images[batch]), labels[batch]).backward()
                    torch.nn.utils.clip_grad_norm_(network.parameters(), setting.clip)
                    descent.step()
            parts.append(to_fixed_point(network.export_weights()))
        flat = average_weights(parts) / FIXED_POINT_SCALE
        spent = time.process_time() - began
        network.load_weights(flat)
        network.eval()
        for noise, row in ((False, clean), (True, noisy)):
            row.append(_accuracy(network, testing, noise, tested))
        began += time.process_time() - began - spent  # testing is not training
    epochs = setting.global_epochs * setting.members * setting.local_epochs
    return Trained(
        setting, seed, tuple(clean), tuple(noisy), (time.process_time() - began) / epochs, 4 * shape.weight_count
    )  # fmt: skip


def _accuracy(network: Any, data: Examples, noise: bool, tested: int) -> float:
    import torch

    right, count = 0, min(tested, len(data.labels))
    with torch.no_grad():
        for start in range(0, count, 500):
            images = torch.as_tensor(data.images[start : min(count, start + 500)])[:, None]
            found = network(images, noise=noise).argmax(1).numpy()
            right += int((found == data.labels[start : min(count, start + 500)]).sum())
    return right / count
