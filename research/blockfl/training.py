"""Federated training as in chapter 5 of P4, in one process: what its figures 5.3 to 5.8 are made of.

The members' models are averaged by the product's own fixed-point arithmetic; only the network runs in torch. Each
member of each round draws from a stream of its own, so that a training that was interrupted goes on to the same result.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng, torch_simulation_rng
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.models import FIXED_POINT_SCALE, average_weights, to_fixed_point
from noisebank.federated.blockfl.network import NetworkShape, initialize_weights

CHECKPOINT_SECONDS = 20.0
OPTIMISERS = ("momentum", "sgd", "adam")
"""Descent with momentum 0.9, plain descent, Adam. The thesis prints a rate and names none."""
MOMENTUM = 0.9


@dataclass(frozen=True)
class Setting:
    """One training: what varies over the figures, and what the thesis leaves open."""

    norm: str
    epsilon: float | None
    batch: int = 64
    local_epochs: int = 20
    global_epochs: int = 2
    members: int = 5
    images: int = 288
    """Of each member."""
    optimiser: str = "momentum"
    rate: float = 0.05
    clip: float | None = 5.0
    """Of a gradient's norm."""
    divided: bool = True
    """Whether the layers behind the noise see features over their bound sqrt(N - 1); the thesis says nothing of it."""

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


@dataclass
class _Progress:
    """How far a training is: written now and then, if there is a file for it."""

    flat: NDArray[np.float64]
    parts: list[NDArray[np.int64]] = field(default_factory=list)
    clean: list[float] = field(default_factory=list)
    noisy: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def write(self, path: Path) -> None:
        beside = path.with_suffix(".part.npz")
        parts = np.stack(self.parts) if self.parts else np.zeros((0, len(self.flat)), dtype=np.int64)
        np.savez(beside, flat=self.flat, parts=parts, clean=self.clean, noisy=self.noisy, seconds=self.seconds)
        beside.replace(path)

    @classmethod
    def read(cls, path: Path) -> _Progress:
        with np.load(path) as file:
            return cls(
                file["flat"], list(file["parts"]), file["clean"].tolist(), file["noisy"].tolist(),
                float(file["seconds"]),
            )  # fmt: skip


def train(
    shape: NetworkShape,
    data: tuple[Examples, Examples],
    setting: Setting,
    seed: int,
    tested: int = 10_000,
    checkpoint: Path | None = None,
    threads: int = 1,
) -> Trained:
    """All members, all global epochs. With `checkpoint` it goes on where it was interrupted."""
    import torch

    torch.set_num_threads(threads)
    training, testing = data
    network = _build_network(shape, setting)
    if checkpoint is not None and checkpoint.is_file():
        at = _Progress.read(checkpoint)
    else:
        at = _Progress(initialize_weights(shape, setting.norm, simulation_rng(seed + 1)))
    shares = simulation_rng(seed).permutation(len(training.labels))[: setting.members * setting.images]
    written = time.monotonic()
    while len(at.clean) < setting.global_epochs:
        number = len(at.clean)
        for own in shares.reshape(setting.members, -1)[len(at.parts) :]:
            began = time.process_time()
            network.load_weights(at.flat)
            _train_member(network, training, own, setting, (seed * 1_000 + number) * 1_000 + len(at.parts))
            at.parts.append(to_fixed_point(network.export_weights()))
            at.seconds += time.process_time() - began
            if checkpoint is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
                at.write(checkpoint)
                written = time.monotonic()
        at.flat, at.parts = average_weights(at.parts) / FIXED_POINT_SCALE, []
        network.load_weights(at.flat)
        network.generator = torch_simulation_rng(seed + 1_000_003 * (number + 1))
        at.clean.append(_measure_accuracy(network, testing, False, tested))
        noiseless = setting.epsilon is None
        at.noisy.append(at.clean[-1] if noiseless else _measure_accuracy(network, testing, True, tested))
    passes = setting.global_epochs * setting.members * setting.local_epochs
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return Trained(setting, seed, tuple(at.clean), tuple(at.noisy), at.seconds / passes, 4 * shape.weight_count)


def _build_network(shape: NetworkShape, setting: Setting) -> Any:
    import torch

    from noisebank.federated.blockfl.torch_network import TorchNetwork

    class Multiplied(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
        """Undoes the product's division of the features by their bound."""

        def forward(self, features: Any) -> Any:
            return features * bound

    bound = float((setting.batch - 1) ** 0.5)
    network = TorchNetwork(shape, setting.norm, bound, setting.epsilon, None)
    if not setting.divided:
        network.layers.insert(0, Multiplied())
    return network.to(memory_format=torch.channels_last)  # a third faster on a processor


def _train_member(network: Any, examples: Examples, own: NDArray[np.int64], setting: Setting, stream: int) -> None:
    import torch
    from torch.nn import functional

    images, labels = torch.as_tensor(examples.images)[:, None], torch.as_tensor(examples.labels)
    shuffling, network.generator = simulation_rng(stream), torch_simulation_rng(stream)
    network.train()
    if setting.optimiser == "adam":
        descent: Any = torch.optim.Adam(network.parameters(), lr=setting.rate)
    else:
        momentum = MOMENTUM if setting.optimiser == "momentum" else 0.0
        descent = torch.optim.SGD(network.parameters(), lr=setting.rate, momentum=momentum)
    for _ in range(setting.local_epochs):
        order = shuffling.permutation(own)
        for start in range(0, len(order) - setting.batch + 1, setting.batch):
            batch = torch.as_tensor(order[start : start + setting.batch])
            descent.zero_grad()
            functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            if setting.clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), setting.clip)
            descent.step()


def _measure_accuracy(network: Any, data: Examples, noise: bool, tested: int) -> float:
    import torch

    network.eval()
    right, count = 0, min(tested, len(data.labels))
    with torch.no_grad():
        for start in range(0, count, 500):
            images = torch.as_tensor(data.images[start : min(count, start + 500)])[:, None]
            found = network(images, noise=noise).argmax(1).numpy()
            right += int((found == data.labels[start : min(count, start + 500)]).sum())
    return right / count
