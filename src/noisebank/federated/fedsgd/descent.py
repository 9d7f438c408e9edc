"""The server's gradient descent: one step per group's mean report. Sees reports only; adds no noise itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.core.units import exact
from noisebank.federated.fedsgd.task import STEP_FIELDS, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Descent:
    """Projected gradient descent. Leading axes run several descents at once: everything acts on the last axis."""

    def __init__(
        self, start: Floats, steps: int, rate: float = 1.0, shrink: float = 1e-4, radius: float = 10.0,
        tolerance: float = 0.0,
    ) -> None:  # fmt: skip
        self.weights = np.array(start, dtype=np.float64)
        self.steps, self.rate, self.shrink, self.radius, self.tolerance = steps, rate, shrink, radius, tolerance
        self.taken = 0
        self.settled = False
        """The last step moved the weights by no more than the tolerance."""
        self._sum, self._summed = np.zeros_like(self.weights), 0

    @staticmethod
    def of(task: Task) -> Descent:
        """Returns the descent that a task describes, from zero."""
        rate, shrink, radius, tolerance = (float(exact(getattr(task, name), name)) for name in STEP_FIELDS)
        return Descent(np.zeros(task.dimension), task.groups, rate, shrink, radius, tolerance)

    def step(self, gradient: Floats) -> None:
        """Take one step by a group's mean report. Finite numbers only: a bad one would spoil the model silently."""
        if gradient.shape != self.weights.shape or not np.isfinite(gradient).all():
            raise BadRequest("gradient", f"shape {gradient.shape}", f"must be finite, shape {self.weights.shape}")
        self.taken += 1
        updated = self.weights - self.rate / np.sqrt(self.taken) * (gradient + self.shrink * self.weights)
        norms = np.linalg.norm(updated, axis=-1, keepdims=True)
        updated *= np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        self.settled = bool((np.linalg.norm(updated - self.weights, axis=-1) <= self.tolerance).all())
        self.weights = updated
        if self.taken > self.steps // 2:
            self._sum += updated
            self._summed += 1

    @property
    def model(self) -> Floats:
        """The finished model: the mean over the second half of the steps; before that, the current weights."""
        return self._sum / self._summed if self._summed else self.weights
