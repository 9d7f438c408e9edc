"""The network in numpy, in two parts: `FeatureExtractor` for the device, `Classifier` for the edge worker.

Two convolutions (3 x 3, padded), each followed by max-pooling; a normalisation of the features; fully connected
layers. A model is one vector of weights in a fixed order, so that models of all members can be averaged. The same
network in torch, for figures and for DP-SGD, is in `torch_network`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Floats = NDArray[np.float32]
KEEP = np.float32(0.9)
"""How much of a running statistic is left after each batch."""
TINY = np.float32(1e-6)
NORMS = ("bounded", "batch", "fixed")
"""bounded: each feature spread over [-B, B] by its smallest and largest value in the batch (the paper's own).
batch: mean 0, variance 1 over the batch (Jiang et al.). fixed: h / (1 + h), one image at a time, for DP-SGD."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    side: int
    channels: tuple[int, int]
    widths: tuple[int, ...]
    classes: int = 10

    @property
    def features(self) -> int:
        """Features of one image."""
        return self.channels[1] * (self.side // 4) ** 2

    @property
    def device_parts(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the device's weights, in order: two convolutions, two statistics of the normalisation."""
        first, second = self.channels
        return ((first, 1, 3, 3), (first,), (second, first, 3, 3), (second,), (self.features,), (self.features,))

    @property
    def edge_parts(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the edge worker's weights, in order."""
        sizes = (self.features, *self.widths, self.classes)
        return tuple(shape for i in range(len(sizes) - 1) for shape in ((sizes[i + 1], sizes[i]), (sizes[i + 1],)))

    @property
    def device_count(self) -> int:
        """Number of weights in the device's part."""
        return sum(int(np.prod(shape)) for shape in self.device_parts)

    @property
    def count(self) -> int:
        """Number of weights in a model."""
        return self.device_count + sum(int(np.prod(shape)) for shape in self.edge_parts)


PAPER = Shape(28, (30, 80), (32, 24, 16, 12))
"""P4, section 5.3.1: 3920 features, four hidden layers. Their widths are not printed; these give nearly its bytes."""
DIGITS = Shape(8, (8, 80), (64, 32))
SMALL = Shape(8, (4, 8), (16,))
SHAPES = {"paper": PAPER, "digits": DIGITS, "small": SMALL}


def initial(shape: Shape, norm: str, generator: Any) -> NDArray[np.float64]:
    """Return random weights: uniform within 1 / sqrt(inputs), as in torch; statistics 0 and 1."""
    parts, inputs = [], 1
    for index, size in enumerate((*shape.device_parts, *shape.edge_parts)):
        if index in (4, 5):  # the statistics of the normalisation
            parts.append(np.full(size, index - 4, dtype=np.float64))
            continue
        inputs = int(np.prod(size[1:])) if len(size) > 1 else inputs  # a bias has the inputs of its layer
        parts.append(generator.uniform(-1, 1, size) / np.sqrt(inputs))
    return np.concatenate([part.ravel() for part in parts])


def split(flat: NDArray[Any], shapes: tuple[tuple[int, ...], ...]) -> list[Floats]:
    """Return arrays of these shapes, copied from one vector."""
    arrays, start = [], 0
    for size in shapes:
        stop = start + int(np.prod(size))
        arrays.append(np.array(flat[start:stop], dtype=np.float32).reshape(size))
        start = stop
    return arrays


def joined(parts: list[Floats]) -> NDArray[np.float64]:
    """Return one vector of all the arrays' numbers."""
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


class Sgd:
    """Gradient descent with momentum; the gradient's norm is clipped."""

    def __init__(self, weights: list[Floats], rate: float, momentum: float, clip: float) -> None:
        self._weights, self._rate, self._momentum, self._clip = weights, rate, momentum, clip
        self._speed = [np.zeros_like(part) for part in weights]

    def step(self, gradients: list[Floats]) -> None:
        """Update the weights in place."""
        norm = float(np.sqrt(sum(float(np.vdot(part, part)) for part in gradients)))
        scale = np.float32(min(1.0, self._clip / (norm + 1e-6)))
        for weight, velocity, gradient in zip(self._weights, self._speed, gradients, strict=True):
            velocity *= np.float32(self._momentum)
            velocity += scale * gradient
            weight -= np.float32(self._rate) * velocity


class Extractor:
    """The device's part: images in, normalised features out. Remembers one forward pass for its gradients."""

    def __init__(self, shape: Shape, norm: str, bound: float, weights: list[Floats]) -> None:
        self.shape, self.norm, self.bound = shape, norm, np.float32(bound)
        self.weights = weights

    def features(self, images: Floats, training: bool) -> Floats:
        """Return the features without noise; each in [-bound, bound] unless the norm is `batch`."""
        self._one, self._one_columns = _convolved(images, self.weights[0], self.weights[1])
        pooled, self._one_best = _pooled(np.maximum(self._one, 0))
        self._two, self._two_columns = _convolved(pooled, self.weights[2], self.weights[3])
        pooled, self._two_best = _pooled(np.maximum(self._two, 0))
        self._raw = pooled.reshape(len(images), -1)
        return self._normalised(self._raw, training)

    def gradients(self, outer: Floats) -> list[Floats]:
        """Return the gradients of the four arrays of convolutions, from the gradient at the features."""
        at_raw = self._through_norm(outer).reshape(len(outer), self.shape.channels[1], self.shape.side // 4, -1)
        at_two = _unpooled(at_raw, self._two_best) * (self._two > 0)
        second, bias_two, at_pooled = _unconvolved(at_two, self._two_columns, self.weights[2])
        at_one = _unpooled(at_pooled, self._one_best) * (self._one > 0)
        first, bias_one, _ = _unconvolved(at_one, self._one_columns, self.weights[0], inner=False)
        return [first, bias_one, second, bias_two]

    def _normalised(self, raw: Floats, training: bool) -> Floats:
        low, high = self.weights[4], self.weights[5]
        if self.norm == "fixed":
            return (2 * raw / (1 + raw) - 1) * self.bound
        if training:
            now = (raw.min(0), raw.max(0)) if self.norm == "bounded" else (raw.mean(0), raw.var(0))
            for running, current in zip((low, high), now, strict=True):
                running *= KEEP
                running += (1 - KEEP) * current
            low, high = now
        self._low, self._high = low, high
        if self.norm == "batch":
            centred: Floats = (raw - low) / np.sqrt(high + TINY)
            return centred
        self._range = high - low + TINY
        return (2 * np.clip((raw - low) / self._range, 0, 1) - 1) * self.bound

    def _through_norm(self, outer: Floats) -> Floats:
        raw = self._raw
        if self.norm == "fixed":
            return outer * (2 * self.bound) / (1 + raw) ** 2
        if self.norm == "batch":
            spread = np.sqrt(self._high + TINY)
            centred = (raw - self._low) / spread
            through: Floats = (outer - outer.mean(0) - centred * (outer * centred).mean(0)) / spread
            return through
        inner = outer * (2 * self.bound)
        share = (raw - self._low) / self._range
        gradient = inner / self._range
        columns = np.arange(raw.shape[1])
        gradient[raw.argmin(0), columns] += ((share - 1) * inner).sum(0) / self._range
        gradient[raw.argmax(0), columns] -= (share * inner).sum(0) / self._range
        return gradient


class Classifier:
    """The edge worker's part: noisy features in, loss and their gradient out."""

    def __init__(self, weights: list[Floats]) -> None:
        self.weights = weights

    def scores(self, features: Floats) -> Floats:
        """Return the scores of the classes, before softmax."""
        self._inputs = [features]
        for index in range(0, len(self.weights), 2):
            output = self._inputs[-1] @ self.weights[index].T + self.weights[index + 1]
            last = index + 2 == len(self.weights)
            self._inputs.append(output if last else np.maximum(output, 0))
        return self._inputs[-1]

    def gradients(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, list[Floats], Floats]:
        """Return the loss, the gradients of the weights, and the gradient at the features."""
        scores = self.scores(features)
        shifted = np.exp(scores - scores.max(1, keepdims=True))
        probabilities = shifted / shifted.sum(1, keepdims=True)
        rows = np.arange(len(labels))
        loss = float(-np.log(probabilities[rows, labels] + 1e-12).mean())
        outer = probabilities
        outer[rows, labels] -= 1
        outer /= len(labels)
        gradients: list[Floats] = []
        for index in range(len(self.weights) - 2, -1, -2):
            inputs = self._inputs[index // 2]
            gradients[:0] = [outer.T @ inputs, outer.sum(0)]
            outer = outer @ self.weights[index]
            if index:
                outer = outer * (inputs > 0)
        return loss, gradients, outer


def _convolved(images: Floats, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    count, channels, height, width = windows.shape[:4]
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(count * height * width, channels * 9)
    output = columns @ weights.reshape(len(weights), -1).T + bias
    return output.reshape(count, height, width, -1).transpose(0, 3, 1, 2), columns


def _unconvolved(outer: Floats, columns: Floats, weights: Floats, inner: bool = True) -> tuple[Floats, Floats, Floats]:
    count, channels, height, width = outer.shape
    flat = outer.transpose(0, 2, 3, 1).reshape(-1, channels)
    at_weights = (flat.T @ columns).reshape(weights.shape)
    at_bias = flat.sum(0)
    if not inner:
        return at_weights, at_bias, outer
    spread = (flat @ weights.reshape(channels, -1)).reshape(count, height, width, weights.shape[1], 3, 3)
    padded = np.zeros((count, weights.shape[1], height + 2, width + 2), dtype=np.float32)
    for row in range(3):
        for column in range(3):
            part = spread[:, :, :, :, row, column].transpose(0, 3, 1, 2)
            padded[:, :, row : row + height, column : column + width] += part
    return at_weights, at_bias, padded[:, :, 1:-1, 1:-1]


def _pooled(images: Floats) -> tuple[Floats, NDArray[np.intp]]:
    count, channels, height, width = images.shape
    cut = images.reshape(count, channels, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    squares = cut.reshape(count, channels, height // 2, width // 2, 4)
    best = squares.argmax(-1)
    return np.take_along_axis(squares, best[..., None], -1)[..., 0], best


def _unpooled(outer: Floats, best: NDArray[np.intp]) -> Floats:
    count, channels, height, width = outer.shape
    squares = np.zeros((*outer.shape, 4), dtype=np.float32)
    np.put_along_axis(squares, best[..., None], outer[..., None], -1)
    cut = squares.reshape(count, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return cut.reshape(count, channels, 2 * height, 2 * width)
