"""Training on a device in the paper's mode: `SplitTrainer` extracts features, adds noise, leaves the rest to `edge`.

Also the `Trainer` protocol that `member` uses, and `measure_accuracy`. DP-SGD is in `dp_sgd`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import uniform_words
from noisebank.core.units import parse_exact
from noisebank.federated.blockfl.edge import EdgeSession, LocalSession
from noisebank.federated.blockfl.network import (
    Classifier,
    FeatureExtractor,
    Floats,
    MomentumSgd,
    join_weights,
    split_weights,
)
from noisebank.federated.blockfl.terms import TaskTerms

RandomWords = Callable[[int], NDArray[np.uint64]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Examples:
    """Images in [0, 1], (count, side, side), and their labels."""

    images: Floats
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def clamp_labels(self, classes: int) -> Examples:
        """Replace labels that a task does not list by its last one: a poster's list must not decide who can train."""
        return Examples(self.images, np.minimum(self.labels, classes - 1))


class Trainer(Protocol):
    """Trains a model on a member's own examples."""

    def train(self, weights: NDArray[np.float64], round: int, progress: Progress) -> NDArray[np.float64]:
        """Return the weights after training one round from `weights`."""
        ...


def sample_laplace(shape: tuple[int, ...], scale: float, words: RandomWords = uniform_words) -> Floats:
    """Draw zero-mean Laplace noise from the operating system's randomness, in floats as in the paper's experiment.

    Floats leak through their low bits, which an exact sampler does not (Mironov 2012): good enough for the paper's
    mode, which claims little, and used nowhere else.
    """
    count = int(np.prod(shape))
    drawn = words(count)
    sign = np.where(drawn & np.uint64(1), 1.0, -1.0)
    chance = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return (sign * -scale * np.log(chance)).reshape(shape).astype(np.float32)


class SplitTrainer:
    """Split training of chapter 5: feature extractor here, noise on its output, classifier at the edge worker."""

    def __init__(self, terms: TaskTerms, examples: Examples, edge: str, words: RandomWords = uniform_words) -> None:
        """`edge` is the worker's host:port; empty: no worker, everything in this process (simulations only)."""
        self.terms, self.examples, self.edge, self._words = (
            terms,
            examples.clamp_labels(terms.shape.classes),
            edge,
            words,
        )
        self.losses: list[float] = []

    def train(
        self, weights: NDArray[np.float64], round: int, progress: Progress = lambda done, total: None
    ) -> NDArray[np.float64]:
        """Return the weights after training one round from `weights`."""
        terms, shape = self.terms, self.terms.shape
        rate, momentum, clip = (float(parse_exact(text, "number")) for text in (terms.rate, terms.momentum, terms.clip))
        own_weights = split_weights(weights[: shape.device_weight_count], shape.device_shapes)
        extractor = FeatureExtractor(shape, terms.norm, terms.feature_bound, own_weights)
        descent = MomentumSgd(own_weights[:4], rate, momentum, clip)
        edge_weights = weights[shape.device_weight_count :].astype(np.float32)
        session = (
            EdgeSession(self.edge, shape, edge_weights, rate, momentum, clip)
            if self.edge
            else LocalSession(shape, edge_weights, rate, momentum, clip)
        )
        batches = max(1, len(self.examples) // terms.batch)
        for epoch in range(terms.epochs):
            order = np.argsort(self._words(len(self.examples)), kind="stable")
            for number in range(batches):
                chosen = order[number * terms.batch : (number + 1) * terms.batch]
                progress(epoch * batches + number, terms.epochs * batches)
                features = extractor.extract_features(self.examples.images[chosen][:, None], training=True)
                noisy = features + sample_feature_noise(terms, features.shape, self._words)
                loss, gradient = session.train_batch(noisy / extractor.bound, self.examples.labels[chosen])
                self.losses.append(loss)
                descent.step(extractor.compute_gradients(gradient / extractor.bound))
        progress(1, 1)
        return np.concatenate([join_weights(own_weights), session.finish()])


def sample_feature_noise(terms: TaskTerms, shape: tuple[int, ...], words: RandomWords = uniform_words) -> Any:
    """Draw Laplace noise of scale 2 sqrt(N - 1) / epsilon for each feature in the paper's mode, else return 0."""
    if terms.mode != "paper":
        return np.float32(0)
    return sample_laplace(shape, 2 * terms.feature_bound / float(parse_exact(terms.epsilon, "epsilon")), words)


def measure_accuracy(
    terms: TaskTerms,
    weights: NDArray[np.float64],
    examples: Examples,
    noisy: bool = False,
    words: RandomWords = uniform_words,
) -> float:
    """Return the share of right labels; `noisy` adds the terms' noise to the features as in training."""
    shape = terms.shape
    extractor = FeatureExtractor(
        shape, terms.norm, terms.feature_bound, split_weights(weights[: shape.device_weight_count], shape.device_shapes)
    )
    classifier = Classifier(split_weights(weights[shape.device_weight_count :], shape.edge_shapes))
    right = 0
    for start in range(0, len(examples), 500):
        images, labels = examples.images[start : start + 500], examples.labels[start : start + 500]
        features = extractor.extract_features(images[:, None], training=False)
        if noisy:
            features = features + sample_feature_noise(terms, features.shape, words)
        right += int((classifier.compute_scores(features / extractor.bound).argmax(1) == labels).sum())
    return right / max(1, len(examples))
