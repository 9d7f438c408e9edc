"""Federated training as in chapter 5 of P4, in one process: what its figures 5.3 to 5.8 are made of.

The members' models are averaged by the product's own fixed-point arithmetic. Each
member of each round draws from a stream of its own, so that a training that was interrupted goes on to the same result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import simulation_rng, torch_simulation_rng
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.models import FIXED_POINT_SCALE, average_weights, to_fixed_point
from noisebank.federated.blockfl.network import NetworkShape, initialize_weights
from research.blockfl.lean_network import Descent, LeanNetwork, laplace

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
    checkpoint: Path | None = None,
    threads: int = 1,
) -> Trained:
    """All members, all global epochs. With `checkpoint` it goes on where it was interrupted."""
    learner = make_learner(shape, data, setting, threads)
    at = _begin(checkpoint, learner, seed)
    shares = simulation_rng(seed).permutation(len(data[0].labels))[: setting.members * setting.images]
    written = time.monotonic()
    while len(at.clean) < setting.global_epochs:
        number = len(at.clean)
        for own in shares.reshape(setting.members, -1)[len(at.parts) :]:
            began = time.process_time()
            learner.load(at.flat)
            learner.train_member(own, (seed * 1_000 + number) * 1_000 + len(at.parts))
            at.parts.append(to_fixed_point(learner.export()))
            at.seconds += time.process_time() - began
            if checkpoint is not None and time.monotonic() - written > CHECKPOINT_SECONDS:
                at.write(checkpoint)
                written = time.monotonic()
        at.flat, at.parts = average_weights(at.parts) / FIXED_POINT_SCALE, []
        learner.load(at.flat)
        stream = seed + 1_000_003 * (number + 1)
        at.clean.append(learner.measure_accuracy(False, stream))
        noiseless = setting.epsilon is None
        at.noisy.append(at.clean[-1] if noiseless else learner.measure_accuracy(True, stream))
    passes = setting.global_epochs * setting.members * setting.local_epochs
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return Trained(setting, seed, tuple(at.clean), tuple(at.noisy), at.seconds / passes, 4 * shape.weight_count)


def make_learner(
    shape: NetworkShape, data: tuple[Examples, Examples], setting: Setting, threads: int = 1
) -> LeanLearner | TorchLearner:
    """The faster one for images of this size."""
    return LeanLearner(shape, data, setting) if shape.side <= 8 else TorchLearner(shape, data, setting, threads)


def _begin(checkpoint: Path | None, learner: LeanLearner | TorchLearner, seed: int) -> _Progress:
    if checkpoint is not None and checkpoint.is_file():
        return _Progress.read(checkpoint)
    learner.initialize(simulation_rng(seed + 1))
    return _Progress(learner.export())


class LeanLearner:
    """In numpy."""

    def __init__(self, shape: NetworkShape, data: tuple[Examples, Examples], setting: Setting) -> None:
        bound = float((setting.batch - 1) ** 0.5)
        self.network = LeanNetwork(shape, setting.norm, bound, setting.epsilon, setting.divided)
        self._setting = setting
        self._columns, self._tests = (self.network.prepare(part.images) for part in data)
        self._labels, self._test_labels = (part.labels for part in data)
        self.initialize = self.network.initialize

    def load(self, flat: NDArray[np.float64]) -> None:
        """Sets all weights."""
        self.network.flat[:] = flat

    def export(self) -> NDArray[np.float64]:
        """All weights as one vector."""
        return self.network.flat.astype(np.float64)

    def train_member(self, own: NDArray[np.int64], stream: int) -> None:
        """One member's local epochs."""
        setting, network, source = self._setting, self.network, simulation_rng(stream)
        count = len(network.flat) - 2 * network.shape.feature_count
        gradient, noise = np.zeros_like(network.flat), laplace(source)
        descent = Descent(setting.optimiser, setting.rate, MOMENTUM, setting.clip, count)
        for batch in list_batches(own, setting, source):
            network.compute_gradients(self._columns[batch], self._labels[batch], noise, gradient)
            descent.step(network.flat[:count], gradient[:count])

    def measure_accuracy(self, noise: bool, stream: int) -> float:
        """Share of the test images that are classified rightly."""
        draw = laplace(simulation_rng(stream)) if noise else None
        right = self.network.compute_scores(self._tests, False, draw).argmax(1) == self._test_labels
        return float(right.mean())


class TorchLearner:
    """In torch: for images of 28 x 28."""

    def __init__(self, shape: NetworkShape, data: tuple[Examples, Examples], setting: Setting, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._setting, self._shape = setting, shape
        self.network = _build_network(shape, setting)
        self._images, self._tests = (torch.as_tensor(part.images)[:, None] for part in data)
        self._labels, self._test_labels = (torch.as_tensor(part.labels) for part in data)

    def initialize(self, generator: Any) -> None:
        """Random weights."""
        self.load(initialize_weights(self._shape, self._setting.norm, generator))

    def load(self, flat: NDArray[np.float64]) -> None:
        """Sets all weights."""
        self.network.load_weights(flat)

    def export(self) -> NDArray[np.float64]:
        """All weights as one vector."""
        flat: NDArray[np.float64] = self.network.export_weights()
        return flat

    def train_member(self, own: NDArray[np.int64], stream: int) -> None:
        """One member's local epochs."""
        import torch
        from torch.nn import functional

        setting, network, source = self._setting, self.network, simulation_rng(stream)
        network.generator = torch_simulation_rng(stream)
        network.train()
        if setting.optimiser == "adam":
            descent: Any = torch.optim.Adam(network.parameters(), lr=setting.rate)
        else:
            momentum = MOMENTUM if setting.optimiser == "momentum" else 0.0
            descent = torch.optim.SGD(network.parameters(), lr=setting.rate, momentum=momentum)
        for batch in map(torch.as_tensor, list_batches(own, setting, source)):
            descent.zero_grad()
            functional.cross_entropy(network(self._images[batch]), self._labels[batch]).backward()
            if setting.clip is not None:
                torch.nn.utils.clip_grad_norm_(network.parameters(), setting.clip)
            descent.step()

    def measure_accuracy(self, noise: bool, stream: int) -> float:
        """Share of the test images that are classified rightly."""
        import torch

        self.network.generator = torch_simulation_rng(stream)
        self.network.eval()
        right = 0
        with torch.no_grad():
            for images, labels in zip(self._tests.split(500), self._test_labels.split(500), strict=True):
                right += int((self.network(images, noise=noise).argmax(1) == labels).sum())
        return right / len(self._test_labels)


def list_batches(own: NDArray[np.int64], setting: Setting, source: Any) -> Iterator[NDArray[np.int64]]:
    """Full batches of a member's images, in a new order in each local epoch."""
    for _ in range(setting.local_epochs):
        order = source.permutation(own)
        for start in range(0, len(order) - setting.batch + 1, setting.batch):
            yield order[start : start + setting.batch]


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
