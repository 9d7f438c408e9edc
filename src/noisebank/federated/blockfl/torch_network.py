"""The network of `network` in torch (extra `[federated]`): for DP-SGD with Opacus, and quick training for figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from noisebank.federated.blockfl.network import NetworkShape

TINY = 1e-6
STATISTIC_DECAY = 0.9


class TorchNetwork(nn.Module):  # type: ignore[misc]  # torch is not looked into
    """Convolutions, normalisation, Laplace noise (none if `epsilon` is None), fully connected layers."""

    def __init__(self, shape: NetworkShape, norm: str, bound: float, epsilon: float | None, generator: Any) -> None:
        super().__init__()
        self.shape, self.norm, self.bound, self.epsilon, self.generator = shape, norm, bound, epsilon, generator
        self.first = nn.Conv2d(1, shape.channels[0], 3, padding=1)
        self.second = nn.Conv2d(shape.channels[0], shape.channels[1], 3, padding=1)
        sizes = (shape.feature_count, *shape.widths, shape.classes)
        layers: list[nn.Module] = []
        for index in range(len(sizes) - 1):
            layers += [nn.Linear(sizes[index], sizes[index + 1]), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])
        self.register_buffer("low", torch.zeros(shape.feature_count))
        self.register_buffer("high", torch.ones(shape.feature_count))

    def forward(self, images: torch.Tensor, noise: bool = True) -> torch.Tensor:
        """Return the scores of the classes."""
        inner = functional.max_pool2d(functional.relu(self.first(images)), 2)
        raw = functional.max_pool2d(functional.relu(self.second(inner)), 2).flatten(1)
        features = self._normalize_features(raw)
        if noise and self.epsilon is not None:
            scale = 2 * self.bound / self.epsilon
            half = torch.rand(features.shape, generator=self.generator) - 0.5
            features = features - scale * half.sign() * torch.log1p(-2 * half.abs().clamp(max=0.4999999))
        scores: torch.Tensor = self.layers(features / self.bound)
        return scores

    def _normalize_features(self, raw: torch.Tensor) -> torch.Tensor:
        if self.norm == "fixed":
            return (2 * raw / (1 + raw) - 1) * self.bound
        low: torch.Tensor = self.low
        high: torch.Tensor = self.high
        if self.training:
            if self.norm == "bounded":
                low, high = raw.min(0)[0], raw.max(0)[0]
            else:
                low, high = raw.mean(0), raw.var(0, unbiased=False)
            with torch.no_grad():
                self.low.mul_(STATISTIC_DECAY).add_((1 - STATISTIC_DECAY) * low.detach())
                self.high.mul_(STATISTIC_DECAY).add_((1 - STATISTIC_DECAY) * high.detach())
        if self.norm == "batch":
            return (raw - low) / (high + TINY).sqrt()
        return (2 * ((raw - low) / (high - low + TINY)).clamp(0, 1) - 1) * self.bound

    def _list_tensors(self) -> list[torch.Tensor]:
        """Return all weights in the order of `NetworkShape`: convolutions, statistics, layers."""
        front = [self.first.weight, self.first.bias, self.second.weight, self.second.bias, self.low, self.high]
        return front + list(self.layers.parameters())

    def export_weights(self) -> NDArray[np.float64]:
        """Return all weights as one vector."""
        return np.concatenate([part.detach().double().numpy().ravel() for part in self._list_tensors()])

    def load_weights(self, weights: NDArray[np.float64]) -> None:
        """Set all weights from one vector."""
        start = 0
        with torch.no_grad():
            for part in self._list_tensors():
                stop = start + part.numel()
                part.copy_(torch.as_tensor(weights[start:stop]).reshape(part.shape))
                start = stop
