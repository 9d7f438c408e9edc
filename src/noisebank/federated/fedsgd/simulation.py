"""Run a whole task in one process: every row of a table is a device. Vectorised; with a ledger or without.

With a ledger only the devices are simulated: each group is charged before its reports are drawn, the mean report is
sealed and published, and an interrupted task resumes with the same bits and the same table: another table, or the
same rows in another order, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.digests import keccak
from noisebank.core.entropy import simulation_rng
from noisebank.core.errors import BadRequest
from noisebank.federated.fedsgd.descent import GradientDescent
from noisebank.federated.fedsgd.gradients import ExactMean, GradientNoise, task_noise
from noisebank.federated.fedsgd.models import SgdModel
from noisebank.federated.fedsgd.participation import LearningAccount
from noisebank.federated.fedsgd.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """A finished model: its weights in the order of `Design.column_names`, and how many took part."""

    task: Task
    weights: Floats
    group_count: int
    device_count: int
    """Devices that took part."""

    def compute_scores(self, rows: Floats) -> Floats:
        """Returns w·x for each row."""
        return np.asarray(rows @ self.weights)

    def mean_error(self, rows: Floats, targets: Floats) -> float:
        """Returns the misclassification rate or mean squared error over these rows."""
        return float(self.task.model_kind.prediction_errors(self.compute_scores(rows), targets).mean())

    def to_json(self) -> dict[str, Any]:
        """Returns what --json prints."""
        weights = dict(zip(self.task.design.column_names, map(float, self.weights), strict=True))
        return {"model": self.task.model, "weights": weights, "groups": self.group_count, "devices": self.device_count}


def learn_model(
    task: Task, rows: Floats, targets: Floats, account: LearningAccount | None = None,
    progress: Progress = lambda done, total: None, source_digest: bytes = b"",
) -> LearnedModel:  # fmt: skip
    """Run the task over a table whose rows are the devices; without an account nothing is charged: a rehearsal.

    `source_digest` is that of the file the rows come from: it also distinguishes tables whose rows look alike.
    """
    if rows.shape != (task.devices, task.dimension) or targets.shape != (task.devices,):
        raise BadRequest("table", f"{rows.shape}", f"must have {task.devices} rows of {task.dimension} numbers")
    if not (np.abs(rows).max() <= 1.0 and np.abs(targets).max() <= 1.0):  # also refuses NaN
        raise BadRequest("table", "its numbers", "must lie in [-1, 1], as `Design.build_rows` makes them")
    if account is not None:
        if account.task.digest != task.digest:
            raise BadRequest("account", account.task.name, "is another task's")
        account.bind_table(keccak(_to_bytes(rows), keccak(_to_bytes(targets)), keccak(source_digest)))
    noise, descent = task_noise(task), GradientDescent.from_task(task)
    order = (
        simulation_rng(int.from_bytes(task.digest)).permutation(task.devices)
        if account is None
        else account.device_order()
    )
    for group in range(task.group_count):
        start, stop = task.group_range(group)

        def draw_mean(start: int = start, stop: int = stop) -> Floats:
            chosen = order[start:stop]
            return noisy_mean(task.model_kind, noise, descent.weights, rows[chosen], targets[chosen])

        descent.step(draw_mean() if account is None else account.group_mean(start, stop, draw_mean))
        progress(group + 1, task.group_count)
        if descent.has_converged:
            break
    return LearnedModel(task, descent.averaged_weights, descent.steps_taken, descent.steps_taken * task.group)


def _to_bytes(numbers: Floats) -> bytes:
    """Returns floats as bytes, the same on every machine."""
    return np.ascontiguousarray(numbers, dtype=">f8").tobytes()


def rebuild_model(account: LearningAccount) -> LearnedModel:
    """Returns the model after the groups that have reported, from the sealed reports alone: no device is asked."""
    descent = GradientDescent.from_task(account.task)
    for mean in account.published_means():
        descent.step(mean)
    return LearnedModel(
        account.task, descent.averaged_weights, descent.steps_taken, descent.steps_taken * account.task.group
    )


def noisy_mean(
    kind: SgdModel, noise: GradientNoise | ExactMean, weights: Floats, rows: Floats, targets: Floats
) -> Floats:  # fmt: skip
    """Returns the mean of one report per row's device on its gradient at these weights."""
    return noise.mean_gradient(kind.loss_slopes(rows @ weights, targets), rows)
