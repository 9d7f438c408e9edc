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
from noisebank.core.entropy import simulation
from noisebank.core.errors import BadRequest
from noisebank.federated.fedsgd.descent import Descent
from noisebank.federated.fedsgd.gradients import ExactMean, GradientNoise, task_noise
from noisebank.federated.fedsgd.models import Model
from noisebank.federated.fedsgd.participation import LearningAccount
from noisebank.federated.fedsgd.task import Task

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Learned:
    """A finished model: its weights in the order of `Design.column_names`, and how many took part."""

    task: Task
    weights: Floats
    groups: int
    devices: int
    """Devices that took part."""

    def scores(self, rows: Floats) -> Floats:
        """Returns w·x for each row."""
        return np.asarray(rows @ self.weights)

    def error(self, rows: Floats, targets: Floats) -> float:
        """Returns the misclassification rate or mean squared error over these rows."""
        return float(self.task.kind.errors(self.scores(rows), targets).mean())

    def plain(self) -> dict[str, Any]:
        """Returns what --json prints."""
        weights = dict(zip(self.task.design.columns, map(float, self.weights), strict=True))
        return {"model": self.task.model, "weights": weights, "groups": self.groups, "devices": self.devices}


def learn(
    task: Task, rows: Floats, targets: Floats, account: LearningAccount | None = None,
    progress: Progress = lambda done, total: None, source: bytes = b"",
) -> Learned:  # fmt: skip
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
        account.keep_table(keccak(_spelled(rows), keccak(_spelled(targets)), keccak(source)))
    noise, descent = task_noise(task), Descent.of(task)
    order = simulation(int.from_bytes(task.digest)).permutation(task.devices) if account is None else account.order()
    for group in range(task.groups):
        start, stop = task.members(group)

        def draw(start: int = start, stop: int = stop) -> Floats:
            chosen = order[start:stop]
            return noisy_mean(task.kind, noise, descent.weights, rows[chosen], targets[chosen])

        descent.step(draw() if account is None else account.group_mean(start, stop, draw))
        progress(group + 1, task.groups)
        if descent.settled:
            break
    return Learned(task, descent.model, descent.taken, descent.taken * task.group)


def _spelled(numbers: Floats) -> bytes:
    """Returns floats as bytes, the same on every machine."""
    return np.ascontiguousarray(numbers, dtype=">f8").tobytes()


def learned_so_far(account: LearningAccount) -> Learned:
    """Returns the model after the groups that have reported, from the sealed reports alone: no device is asked."""
    descent = Descent.of(account.task)
    for mean in account.means():
        descent.step(mean)
    return Learned(account.task, descent.model, descent.taken, descent.taken * account.task.group)


def noisy_mean(
    kind: Model, noise: GradientNoise | ExactMean, weights: Floats, rows: Floats, targets: Floats
) -> Floats:  # fmt: skip
    """Returns the mean of one report per row's device on its gradient at these weights."""
    return noise.mean(kind.slopes(rows @ weights, targets), rows)
