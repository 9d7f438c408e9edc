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
STATISTIC_DECAY = np.float32(0.9)
"""How much of a running statistic is left after each batch."""
TINY = np.float32(1e-6)
NORMS = ("bounded", "batch", "fixed")
"""bounded: each feature spread over [-B, B] by its smallest and largest value in the batch (the paper's own).
batch: mean 0, variance 1 over the batch (Jiang et al.). fixed: h / (1 + h), one image at a time, for DP-SGD."""


@dataclass(frozen=True)
class NetworkShape:
    """Sizes of a network."""

    side: int
    channels: tuple[int, int]
    widths: tuple[int, ...]
    classes: int = 10

    @property
    def feature_count(self) -> int:
        """Features of one image."""
        return self.channels[1] * (self.side // 4) ** 2

    @property
    def device_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the device's weights, in order: two convolutions, two statistics of the normalisation."""
        first, second = self.channels
        return (
            (first, 1, 3, 3),
            (first,),
            (second, first, 3, 3),
            (second,),
            (self.feature_count,),
            (self.feature_count,),
        )

    @property
    def edge_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the edge worker's weights, in order."""
        sizes = (self.feature_count, *self.widths, self.classes)
        return tuple(shape for i in range(len(sizes) - 1) for shape in ((sizes[i + 1], sizes[i]), (sizes[i + 1],)))

    @property
    def device_weight_count(self) -> int:
        """Number of weights in the device's part."""
        return sum(int(np.prod(shape)) for shape in self.device_shapes)

    @property
    def weight_count(self) -> int:
        """Number of weights in a model."""
        return self.device_weight_count + sum(int(np.prod(shape)) for shape in self.edge_shapes)


PAPER_SHAPE = NetworkShape(28, (30, 80), (32, 24, 16, 12))
"""P4, section 5.3.1: 3920 features, four hidden layers. Their widths are not printed; these give nearly its bytes."""
DIGITS_SHAPE = NetworkShape(8, (8, 80), (64, 32))
SMALL_SHAPE = NetworkShape(8, (4, 8), (16,))
SHAPES = {"paper": PAPER_SHAPE, "digits": DIGITS_SHAPE, "small": SMALL_SHAPE}


def initialize_weights(shape: NetworkShape, norm: str, generator: Any) -> NDArray[np.float64]:
    """Return random weights: uniform within 1 / sqrt(inputs), as in torch; statistics 0 and 1."""
    parts, inputs = [], 1
    for index, size in enumerate((*shape.device_shapes, *shape.edge_shapes)):
        if index in (4, 5):  # the statistics of the normalisation
            parts.append(np.full(size, index - 4, dtype=np.float64))
            continue
        inputs = int(np.prod(size[1:])) if len(size) > 1 else inputs  # a bias has the inputs of its layer
        parts.append(generator.uniform(-1, 1, size) / np.sqrt(inputs))
    return np.concatenate([part.ravel() for part in parts])


def split_weights(flat: NDArray[Any], shapes: tuple[tuple[int, ...], ...]) -> list[Floats]:
    """Return arrays of these shapes, copied from one vector."""
    arrays, start = [], 0
    for size in shapes:
        stop = start + int(np.prod(size))
        arrays.append(np.array(flat[start:stop], dtype=np.float32).reshape(size))
        start = stop
    return arrays


def join_weights(parts: list[Floats]) -> NDArray[np.float64]:
    """Return one vector of all the arrays' numbers."""
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


class MomentumSgd:
    """Gradient descent with momentum; the gradient's norm is clipped."""

    def __init__(self, weights: list[Floats], rate: float, momentum: float, clip: float) -> None:
        self._weights, self._rate, self._momentum, self._clip = weights, rate, momentum, clip
        self._velocity = [np.zeros_like(part) for part in weights]

    def step(self, gradients: list[Floats]) -> None:
        """Update the weights in place."""
        norm = float(np.sqrt(sum(float(np.vdot(part, part)) for part in gradients)))
        scale = np.float32(min(1.0, self._clip / (norm + 1e-6)))
        for weight, velocity, gradient in zip(self._weights, self._velocity, gradients, strict=True):
            velocity *= np.float32(self._momentum)
            velocity += scale * gradient
            weight -= np.float32(self._rate) * velocity


class FeatureExtractor:
    """The device's part: images in, normalised features out. Remembers one forward pass for its gradients."""

    def __init__(self, shape: NetworkShape, norm: str, bound: float, weights: list[Floats]) -> None:
        self.shape, self.norm, self.bound = shape, norm, np.float32(bound)
        self.weights = weights

    def extract_features(self, images: Floats, training: bool) -> Floats:
        """Return the features without noise; each in [-bound, bound] unless the norm is `batch`."""
        self._first_output, self._first_columns = _convolve_images(images, self.weights[0], self.weights[1])
        pooled, self._first_maxima = _pool_maxima(np.maximum(self._first_output, 0))
        self._second_output, self._second_columns = _convolve_images(pooled, self.weights[2], self.weights[3])
        pooled, self._second_maxima = _pool_maxima(np.maximum(self._second_output, 0))
        self._raw = pooled.reshape(len(images), -1)
        return self._normalize_features(self._raw, training)

    def compute_gradients(self, output_gradient: Floats) -> list[Floats]:
        """Return the gradients of the four arrays of convolutions, from the gradient at the features."""
        at_raw = self._backpropagate_norm(output_gradient).reshape(
            len(output_gradient), self.shape.channels[1], self.shape.side // 4, -1
        )
        at_two = _backpropagate_pooling(at_raw, self._second_maxima) * (self._second_output > 0)
        second, bias_two, at_pooled = _backpropagate_convolution(at_two, self._second_columns, self.weights[2])
        at_one = _backpropagate_pooling(at_pooled, self._first_maxima) * (self._first_output > 0)
        first, bias_one, _ = _backpropagate_convolution(at_one, self._first_columns, self.weights[0], needs_input=False)
        return [first, bias_one, second, bias_two]

    def _normalize_features(self, raw: Floats, training: bool) -> Floats:
        low, high = self.weights[4], self.weights[5]
        if self.norm == "fixed":
            return (2 * raw / (1 + raw) - 1) * self.bound
        if training:
            now = (raw.min(0), raw.max(0)) if self.norm == "bounded" else (raw.mean(0), raw.var(0))
            for running, current in zip((low, high), now, strict=True):
                running *= STATISTIC_DECAY
                running += (1 - STATISTIC_DECAY) * current
            low, high = now
        self._low, self._high = low, high
        if self.norm == "batch":
            centred: Floats = (raw - low) / np.sqrt(high + TINY)
            return centred
        self._range = high - low + TINY
        return (2 * np.clip((raw - low) / self._range, 0, 1) - 1) * self.bound

    def _backpropagate_norm(self, output_gradient: Floats) -> Floats:
        raw = self._raw
        if self.norm == "fixed":
            return output_gradient * (2 * self.bound) / (1 + raw) ** 2
        if self.norm == "batch":
            spread = np.sqrt(self._high + TINY)
            centred = (raw - self._low) / spread
            through: Floats = (
                output_gradient - output_gradient.mean(0) - centred * (output_gradient * centred).mean(0)
            ) / spread
            return through
        inner = output_gradient * (2 * self.bound)
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

    def compute_scores(self, features: Floats) -> Floats:
        """Return the scores of the classes, before softmax."""
        self._inputs = [features]
        for index in range(0, len(self.weights), 2):
            output = self._inputs[-1] @ self.weights[index].T + self.weights[index + 1]
            last = index + 2 == len(self.weights)
            self._inputs.append(output if last else np.maximum(output, 0))
        return self._inputs[-1]

    def compute_gradients(self, features: Floats, labels: NDArray[np.int64]) -> tuple[float, list[Floats], Floats]:
        """Return the loss, the gradients of the weights, and the gradient at the features."""
        scores = self.compute_scores(features)
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


def _convolve_images(images: Floats, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    count, channels, height, width = windows.shape[:4]
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(count * height * width, channels * 9)
    output = columns @ weights.reshape(len(weights), -1).T + bias
    return output.reshape(count, height, width, -1).transpose(0, 3, 1, 2), columns


def _backpropagate_convolution(
    output_gradient: Floats, columns: Floats, weights: Floats, needs_input: bool = True
) -> tuple[Floats, Floats, Floats]:
    count, channels, height, width = output_gradient.shape
    flat = output_gradient.transpose(0, 2, 3, 1).reshape(-1, channels)
    at_weights = (flat.T @ columns).reshape(weights.shape)
    at_bias = flat.sum(0)
    if not needs_input:
        return at_weights, at_bias, output_gradient
    spread = (flat @ weights.reshape(channels, -1)).reshape(count, height, width, weights.shape[1], 3, 3)
    padded = np.zeros((count, weights.shape[1], height + 2, width + 2), dtype=np.float32)
    for row in range(3):
        for column in range(3):
            part = spread[:, :, :, :, row, column].transpose(0, 3, 1, 2)
            padded[:, :, row : row + height, column : column + width] += part
    return at_weights, at_bias, padded[:, :, 1:-1, 1:-1]


def _pool_maxima(images: Floats) -> tuple[Floats, NDArray[np.intp]]:
    count, channels, height, width = images.shape
    cut = images.reshape(count, channels, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    squares = cut.reshape(count, channels, height // 2, width // 2, 4)
    best = squares.argmax(-1)
    return np.take_along_axis(squares, best[..., None], -1)[..., 0], best


def _backpropagate_pooling(output_gradient: Floats, maxima: NDArray[np.intp]) -> Floats:
    count, channels, height, width = output_gradient.shape
    squares = np.zeros((*output_gradient.shape, 4), dtype=np.float32)
    np.put_along_axis(squares, maxima[..., None], output_gradient[..., None], -1)
    cut = squares.reshape(count, channels, height, width, 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return cut.reshape(count, channels, 2 * height, 2 * width)
