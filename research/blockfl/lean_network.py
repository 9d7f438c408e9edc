"""The network of `torch_network` in numpy, arranged so that digits of 8 x 8 train several times as fast as in torch.

Positions are kept in the order of pooling (four neighbours together), and columns of the first convolution are made
once for all images. A test holds scores and gradients to torch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from noisebank.federated.blockfl.network import Floats, NetworkShape

TINY = np.float32(1e-6)
DECAY = np.float32(0.9)
Positions = NDArray[np.int64]
Draw = Callable[[tuple[int, ...]], Floats]
"""Noise of scale 1 and this shape."""


class LeanNetwork:
    """Weights in arrays of their own order; `flat` has them as one vector, for averages."""

    def __init__(self, shape: NetworkShape, norm: str, bound: float, epsilon: float | None, divided: bool) -> None:
        self.shape, self.norm, self.bound, self.epsilon = shape, norm, np.float32(bound), epsilon
        self.divisor = np.float32(bound if divided else 1.0)
        first, second = shape.channels
        sizes = (shape.feature_count, *shape.widths, shape.classes)
        self.sizes = [(9, first), (first,), (9 * first, second), (second,)]
        self.sizes += [size for i in range(len(sizes) - 1) for size in ((sizes[i], sizes[i + 1]), (sizes[i + 1],))]
        count = shape.feature_count
        self.flat = np.zeros(sum(int(np.prod(size)) for size in self.sizes) + 2 * count, dtype=np.float32)
        self.weights, self.low, self.high = self.views(self.flat)
        half = shape.side // 2
        self._neighbours = _neighbours(half)

    def views(self, flat: Floats) -> tuple[list[Floats], Floats, Floats]:
        """Arrays that share the memory of a vector: weights, then the two statistics of the normalisation."""
        arrays, start = [], 0
        for size in self.sizes:
            stop = start + int(np.prod(size))
            arrays.append(flat[start:stop].reshape(size))
            start = stop
        count = self.shape.feature_count
        return arrays, flat[start : start + count], flat[start + count :]

    def initialize(self, generator: Any) -> None:
        """Random weights: uniform within 1 / sqrt(inputs), as in torch; statistics 0 and 1."""
        for weights, biases in zip(self.weights[::2], self.weights[1::2], strict=True):
            limit = len(weights) ** -0.5
            weights[:], biases[:] = (generator.uniform(-limit, limit, part.shape) for part in (weights, biases))
        self.low[:], self.high[:] = 0, 1

    def prepare(self, images: Floats) -> Floats:
        """The columns of the first convolution, in the order of pooling: images x positions x 9."""
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
        windows = sliding_window_view(padded, (3, 3), axis=(1, 2)).reshape(len(images), -1, 9)
        return np.ascontiguousarray(windows[:, _pooled_order(self.shape.side)])

    def compute_scores(self, columns: Floats, training: bool, noise: Draw | None) -> Floats:
        """Scores of the classes. `noise` draws it, or is None; what `compute_gradients` needs is remembered."""
        count, half = len(columns), self.shape.side // 2
        w1, b1, w2, b2, *layers = self.weights
        self._columns1 = columns.reshape(-1, 9)
        self._out1 = (self._columns1 @ w1).reshape(count * half * half, 4, -1)
        self._top1 = _maximum(self._out1)
        inner = np.maximum(self._top1 + b1, 0)
        self._inner = inner
        padded = np.zeros((count, half * half + 1, inner.shape[1]), dtype=np.float32)
        padded[:, :-1] = inner.reshape(count, half * half, -1)
        self._columns2 = padded[:, self._neighbours].reshape(count * half * half, -1)
        self._out2 = (self._columns2 @ w2).reshape(count * (half // 2) ** 2, 4, -1)
        self._top2 = _maximum(self._out2)
        self._raw = np.maximum(self._top2 + b2, 0).reshape(count, -1)
        features = self._normalise(training)
        if noise is not None and self.epsilon is not None:
            scale = np.float32(2 * self.bound / self.epsilon)
            features = features + scale * noise(features.shape)
        outer = features / self.divisor if self.divisor != 1 else features
        self._inputs = [outer]
        for index in range(0, len(layers), 2):
            outer = outer @ layers[index] + layers[index + 1]
            if index + 2 < len(layers):
                outer = np.maximum(outer, 0)
            self._inputs.append(outer)
        return outer

    def compute_gradients(self, columns: Floats, labels: NDArray[np.int64], noise: Draw | None, into: Floats) -> None:
        """The mean loss' gradient, written into a vector like `flat`; statistics have none."""
        scores = self.compute_scores(columns, True, noise)
        outer: Floats = np.exp(scores - scores.max(1, keepdims=True))
        outer /= outer.sum(1, keepdims=True)
        outer[np.arange(len(labels)), labels] -= 1
        outer /= np.float32(len(labels))
        arrays, _, _ = self.views(into)
        layers = self.weights[4:]
        for index in range(len(layers) - 2, -1, -2):
            inputs = self._inputs[index // 2]
            np.matmul(inputs.T, outer, out=arrays[4 + index])
            arrays[5 + index][:] = outer.sum(0)
            outer = outer @ layers[index].T
            if index:
                outer *= inputs > 0
        if self.divisor != 1:
            outer /= self.divisor
        self._convolutions(self._through_norm(outer), arrays)

    def _convolutions(self, at_raw: Floats, arrays: list[Floats]) -> None:
        count, half = len(at_raw), self.shape.side // 2
        at_top = at_raw.reshape(self._top2.shape) * (self._raw.reshape(self._top2.shape) > 0)
        arrays[3][:] = at_top.sum(0)
        at_out = _to_first_maximum(at_top, self._out2, self._top2)
        np.matmul(self._columns2.T, at_out, out=arrays[2])
        spread = (at_out @ self.weights[2].T).reshape(count, half * half, 9, -1)
        at_inner = np.zeros((count, half * half + 1, spread.shape[3]), dtype=np.float32)
        for tap in range(9):  # within one tap no position occurs twice, but for the one beyond the edge
            at_inner[:, self._neighbours[:, tap]] += spread[:, :, tap]
        at_top = at_inner[:, :-1].reshape(self._top1.shape) * (self._inner > 0)
        arrays[1][:] = at_top.sum(0)
        np.matmul(self._columns1.T, _to_first_maximum(at_top, self._out1, self._top1), out=arrays[0])

    def _normalise(self, training: bool) -> Floats:
        raw, low, high = self._raw, self.low, self.high
        if training:
            now = (raw.min(0), raw.max(0)) if self.norm == "bounded" else (raw.mean(0), raw.var(0))
            for running, current in zip((low, high), now, strict=True):
                running *= DECAY
                running += (1 - DECAY) * current
            low, high = now
        if self.norm == "batch":
            self._spread = np.sqrt(high + TINY)
            centred: Floats = (raw - low) / self._spread
            self._share = centred
            return centred
        self._spread = high - low + TINY
        self._share = share = (raw - low) / self._spread
        spread: Floats = (2 * np.clip(share, 0, 1) - 1) * self.bound
        return spread

    def _through_norm(self, outer: Floats) -> Floats:
        if self.norm == "batch":
            through: Floats = (outer - outer.mean(0) - self._share * (outer * self._share).mean(0)) / self._spread
            return through
        inner = outer * (2 * self.bound) / self._spread
        at_raw: Floats = inner.copy()
        places = np.arange(inner.shape[1])
        shared = (self._share * inner).sum(0)
        turned = np.ascontiguousarray(self._raw.T)
        at_raw[turned.argmin(1), places] += shared - inner.sum(0)
        at_raw[turned.argmax(1), places] -= shared
        return at_raw


def _pooled_order(side: int) -> Positions:
    """Positions of a square, row by row, so that the four of each pooled one are together."""
    grid = np.arange(side * side).reshape(side // 2, 2, side // 2, 2)
    return grid.transpose(0, 2, 1, 3).ravel()


def _neighbours(side: int) -> Positions:
    """By position, in the order of pooling: its nine neighbours row by row; `side`^2 stands for beyond the edge."""
    grid = np.full((side + 2, side + 2), side * side)
    grid[1:-1, 1:-1] = np.arange(side * side).reshape(side, side)
    return sliding_window_view(grid, (3, 3)).reshape(-1, 9)[_pooled_order(side)]


def _maximum(out: Floats) -> Floats:
    """Of four neighbours."""
    top: Floats = np.maximum(np.maximum(out[:, 0], out[:, 1]), np.maximum(out[:, 2], out[:, 3]))
    return top


def _to_first_maximum(at_top: Floats, out: Floats, top: Floats) -> Floats:
    """A gradient at maxima, at the first of what they are the maxima of: in blank corners all are equal."""
    at_out = np.empty_like(out)
    rest = at_top
    for place in range(4):
        here = out[:, place] == top
        np.multiply(rest, here, out=at_out[:, place])
        if place < 3:
            rest = rest * ~here
    return at_out.reshape(-1, out.shape[2])


class Descent:
    """Steps down a gradient, as torch's optimisers of the same names take them, on one vector."""

    def __init__(self, optimiser: str, rate: float, momentum: float, clip: float | None, count: int) -> None:
        self._optimiser, self._rate, self._clip = optimiser, rate, clip
        self._momentum = np.float32(momentum if optimiser == "momentum" else 0.0)
        self._first, self._second = np.zeros((2, count), dtype=np.float32)
        self._steps = 0

    def step(self, weights: Floats, gradient: Floats) -> None:
        """Changes the weights in place, and the gradient."""
        if self._clip is not None:
            norm = float(np.sqrt(np.vdot(gradient, gradient)))
            gradient *= np.float32(min(1.0, self._clip / (norm + 1e-6)))
        self._steps += 1
        if self._optimiser == "adam":
            self._first += np.float32(0.1) * (gradient - self._first)
            self._second += np.float32(0.001) * (gradient * gradient - self._second)
            rate = self._rate * (1 - 0.999**self._steps) ** 0.5 / (1 - 0.9**self._steps)
            tiny = np.float32(1e-8 * (1 - 0.999**self._steps) ** 0.5)
            weights -= np.float32(rate) * self._first / (np.sqrt(self._second) + tiny)
            return
        self._first *= self._momentum
        self._first += gradient
        weights -= np.float32(self._rate) * self._first


def laplace(generator: Any) -> Draw:
    """Draws of scale 1: an exponential with a random sign."""

    def draw(size: tuple[int, ...]) -> Floats:
        signs = generator.random(size, dtype=np.float32) - np.float32(0.5)
        noise: Floats = np.copysign(generator.standard_exponential(size, dtype=np.float32), signs)
        return noise

    return draw
