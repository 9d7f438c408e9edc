"""Three linear models (linear, logistic, hinge) with their losses, slopes and errors.

A score is w·x, with x in [-1, 1]^d (the last number is 1: the intercept). The gradient of a record is slope · x. The
regulariser is no part of it: it is public, so the server adds it without noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MAX_SCORE = 30.0
"""Larger scores make no difference to a logistic slope; exp of more would overflow."""


class SgdModel(ABC):
    """A loss of (score, target), and the error measure of the finished model."""

    name: str
    error_name: str
    is_classifier: bool

    def default_rate(self, dimension: int) -> str:
        """Returns a safe first learning rate: slopes of a classifier are at most 1, whatever the weights are."""
        return "1"

    @abstractmethod
    def loss_slopes(self, scores: Floats, targets: Floats) -> Floats:
        """Returns d loss / d score. Arrays of any shapes that broadcast."""

    @abstractmethod
    def loss_values(self, scores: Floats, targets: Floats) -> Floats:
        """Returns the loss itself: for tests and reports."""

    @abstractmethod
    def prediction_errors(self, scores: Floats, targets: Floats) -> Floats:
        """Returns the error of each record: 0 or 1 for a class, a squared difference for a number."""


class Linear(SgdModel):
    """(score - target)^2 / 2, target in [-1, 1]."""

    name, error_name, is_classifier = "linear", "mean squared error", False

    def default_rate(self, dimension: int) -> str:
        """The curvature of the loss is |x|^2, at most d: steps much larger than 1/d overshoot."""
        return f"{1.5 / dimension:.4g}"

    def loss_slopes(self, scores: Floats, targets: Floats) -> Floats:
        return scores - targets

    def loss_values(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.square(scores - targets) / 2.0)

    def prediction_errors(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.square(scores - targets))


class _Classifier(SgdModel):
    """Targets are -1 and 1."""

    error_name, is_classifier = "misclassification rate", True

    def prediction_errors(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(((scores > 0.0) != (targets > 0.0)).astype(np.float64))


class Logistic(_Classifier):
    """ln(1 + exp(-target · score))."""

    name = "logistic"

    def loss_slopes(self, scores: Floats, targets: Floats) -> Floats:
        margins = np.clip(scores * targets, -MAX_SCORE, MAX_SCORE)
        return np.asarray(-targets / (1.0 + np.exp(margins)))

    def loss_values(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.logaddexp(0.0, -scores * targets))


class Hinge(_Classifier):
    """max(0, 1 - target · score): a support vector machine."""

    name = "hinge"

    def loss_slopes(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(-targets * (scores * targets < 1.0))

    def loss_values(self, scores: Floats, targets: Floats) -> Floats:
        return np.asarray(np.maximum(0.0, 1.0 - scores * targets))


MODELS: dict[str, SgdModel] = {model.name: model for model in (Linear(), Logistic(), Hinge())}


def get_model(name: str) -> SgdModel:
    """Returns the model of this name."""
    if name not in MODELS:
        raise BadRequest("model", name, f"must be one of {', '.join(MODELS)}")
    return MODELS[name]
