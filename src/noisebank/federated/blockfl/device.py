"""The device's side of training: features from raw images, noise on them, everything else at the edge worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from noisebank.core.entropy import uniform_words
from noisebank.core.units import exact
from noisebank.federated.blockfl.edge import EdgeSession, NearSession
from noisebank.federated.blockfl.network import Classifier, Extractor, Floats, Sgd, joined, split
from noisebank.federated.blockfl.terms import Terms

Words = Callable[[int], NDArray[np.uint64]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Examples:
    """Images in [0, 1], (count, side, side), and their labels."""

    images: Floats
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def within(self, classes: int) -> Examples:
        """Labels that a task does not list become its last: what a poster lists must not decide who can train."""
        return Examples(self.images, np.minimum(self.labels, classes - 1))


class Trainer(Protocol):
    """Trains a model on a member's own examples."""

    def train(self, weights: NDArray[np.float64], round: int, progress: Progress) -> NDArray[np.float64]:
        """New weights for a round."""
        ...


def laplace(shape: tuple[int, ...], scale: float, words: Words = uniform_words) -> Floats:
    """Zero-mean Laplace noise of the operating system's randomness, in floats as the paper's experiment has it.

    Floats leave traces that an exact sampler does not (Mironov 2012): good enough for the paper's mode, which claims
    little, and not used anywhere else.
    """
    count = int(np.prod(shape))
    drawn = words(count)
    sign = np.where(drawn & np.uint64(1), 1.0, -1.0)
    chance = ((drawn >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return (sign * -scale * np.log(chance)).reshape(shape).astype(np.float32)


class SplitTrainer:
    """Chapter 5: extractor here, classifier there, noise in between."""

    def __init__(self, terms: Terms, examples: Examples, edge: str, words: Words = uniform_words) -> None:
        """`edge` is the worker's address; empty: no worker, everything here (simulations only)."""
        self.terms, self.examples, self.edge, self._words = terms, examples.within(terms.shape.classes), edge, words
        self.losses: list[float] = []

    def train(
        self, weights: NDArray[np.float64], round: int, progress: Progress = lambda done, total: None
    ) -> NDArray[np.float64]:
        """New weights for a round."""
        terms, shape = self.terms, self.terms.shape
        rate, momentum, clip = (float(exact(text, "number")) for text in (terms.rate, terms.momentum, terms.clip))
        own = split(weights[: shape.device_count], shape.device_parts)
        extractor = Extractor(shape, terms.norm, terms.bound, own)
        descent = Sgd(own[:4], rate, momentum, clip)
        far = weights[shape.device_count :].astype(np.float32)
        session = (
            EdgeSession(self.edge, shape, far, rate, momentum, clip)
            if self.edge
            else NearSession(shape, far, rate, momentum, clip)
        )
        batches = max(1, len(self.examples) // terms.batch)
        for epoch in range(terms.epochs):
            order = np.argsort(self._words(len(self.examples)), kind="stable")
            for number in range(batches):
                chosen = order[number * terms.batch : (number + 1) * terms.batch]
                progress(epoch * batches + number, terms.epochs * batches)
                features = extractor.features(self.examples.images[chosen][:, None], training=True)
                noisy = features + noise_for(terms, features.shape, self._words)
                loss, gradient = session.step(noisy / extractor.bound, self.examples.labels[chosen])
                self.losses.append(loss)
                descent.step(extractor.gradients(gradient / extractor.bound))
        progress(1, 1)
        return np.concatenate([joined(own), session.finish()])


def noise_for(terms: Terms, shape: tuple[int, ...], words: Words = uniform_words) -> Any:
    """Laplace noise of scale 2 sqrt(N - 1) / epsilon on each feature in the paper's mode, else nothing."""
    if terms.mode != "paper":
        return np.float32(0)
    return laplace(shape, 2 * terms.bound / float(exact(terms.epsilon, "epsilon")), words)


def accuracy(
    terms: Terms, weights: NDArray[np.float64], examples: Examples, noisy: bool = False, words: Words = uniform_words
) -> float:
    """Share of right labels; `noisy` adds the terms' noise to the features as in training."""
    shape = terms.shape
    extractor = Extractor(shape, terms.norm, terms.bound, split(weights[: shape.device_count], shape.device_parts))
    classifier = Classifier(split(weights[shape.device_count :], shape.edge_parts))
    right = 0
    for start in range(0, len(examples), 500):
        images, labels = examples.images[start : start + 500], examples.labels[start : start + 500]
        features = extractor.features(images[:, None], training=False)
        if noisy:
            features = features + noise_for(terms, features.shape, words)
        right += int((classifier.scores(features / extractor.bound).argmax(1) == labels).sum())
    return right / max(1, len(examples))
