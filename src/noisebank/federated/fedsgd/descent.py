"""The server's gradient descent: one step per group's mean report. Sees reports only; adds no noise itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.core.units import parse_exact
from noisebank.federated.fedsgd.task import STEP_FIELDS, Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class GradientDescent:
    """Projected gradient descent. Leading axes run several descents at once: everything acts on the last axis."""

    def __init__(
        self, start: Floats, planned_steps: int, rate: float = 1.0, shrink: float = 1e-4, radius: float = 10.0,
        tolerance: float = 0.0,
    ) -> None:  # fmt: skip
        self.weights = np.array(start, dtype=np.float64)
        self.planned_steps, self.rate, self.shrink, self.radius, self.tolerance = (
            planned_steps,
            rate,
            shrink,
            radius,
            tolerance,
        )
        self.steps_taken = 0
        self.has_converged = False
        """The last step moved the weights by no more than the tolerance. With a tolerance of 0 that is never said: the
        noise of a small group can add up to exactly 0."""
        self._sum, self._sum_count = np.zeros_like(self.weights), 0

    @staticmethod
    def from_task(task: Task) -> GradientDescent:
        """Returns the descent that a task describes, from zero."""
        rate, shrink, radius, tolerance = (float(parse_exact(getattr(task, name), name)) for name in STEP_FIELDS)
        return GradientDescent(np.zeros(task.dimension), task.group_count, rate, shrink, radius, tolerance)

    def step(self, gradient: Floats) -> None:
        """Take one step by a group's mean report. Finite numbers only: a bad one would spoil the model silently."""
        if gradient.shape != self.weights.shape or not np.isfinite(gradient).all():
            raise BadRequest("gradient", f"shape {gradient.shape}", f"must be finite, shape {self.weights.shape}")
        self.steps_taken += 1
        updated = self.weights - self.rate / np.sqrt(self.steps_taken) * (gradient + self.shrink * self.weights)
        norms = np.linalg.norm(updated, axis=-1, keepdims=True)
        updated *= np.minimum(1.0, self.radius / np.maximum(norms, 1e-300))
        moved = np.linalg.norm(updated - self.weights, axis=-1)
        self.has_converged = self.tolerance > 0 and bool((moved <= self.tolerance).all())
        self.weights = updated
        if self.steps_taken > self.planned_steps // 2:
            self._sum += updated
            self._sum_count += 1

    @property
    def averaged_weights(self) -> Floats:
        """The finished model: the mean over the second half of the steps; before that, the current weights."""
        return self._sum / self._sum_count if self._sum_count else self.weights
