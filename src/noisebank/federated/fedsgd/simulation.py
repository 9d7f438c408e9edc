"""A whole task in one process: every row of a table is a device. Vectorised; with a ledger or without.

With a ledger it is the real thing but for the devices: each group is charged before its reports are drawn, the mean
report is sealed and published, and a task that was cut off goes on where it stopped, with the same bits and the same
table: another one, or the same rows in another order, is refused.
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
    """A finished model: its weights in the order of `columns`, and what it took."""

    task: Task
    weights: Floats
    groups: int
    devices: int
    """That took part."""

    def scores(self, rows: Floats) -> Floats:
        """w·x for each row."""
        return np.asarray(rows @ self.weights)

    def error(self, rows: Floats, targets: Floats) -> float:
        """Misclassification rate or mean squared error over these rows."""
        return float(self.task.kind.errors(self.scores(rows), targets).mean())

    def plain(self) -> dict[str, Any]:
        """For --json, and for whoever wants to use the model."""
        named = dict(zip(self.task.design.columns, map(float, self.weights), strict=True))
        return {"model": self.task.model, "weights": named, "groups": self.groups, "devices": self.devices}


def learn(
    task: Task, rows: Floats, targets: Floats, account: LearningAccount | None = None,
    progress: Progress = lambda done, total: None, source: bytes = b"",
) -> Learned:  # fmt: skip
    """Runs the task over a table whose rows are the devices; without an account nothing is charged: a rehearsal.

    `source` is a digest of where the rows come from (a file), so that people whose rows look alike are told apart too.
    """
    if rows.shape != (task.devices, task.dimension) or targets.shape != (task.devices,):
        raise BadRequest("table", f"{rows.shape}", f"must have {task.devices} rows of {task.dimension} numbers")
    if not (np.abs(rows).max() <= 1.0 and np.abs(targets).max() <= 1.0):  # NaN is not, either
        raise BadRequest("table", "its numbers", "must lie in [-1, 1], as `Design.rows` makes them")
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
    """Floats as bytes, the same on every machine."""
    return np.ascontiguousarray(numbers, dtype=">f8").tobytes()


def learned_so_far(account: LearningAccount) -> Learned:
    """The model after the groups that have reported, from the sealed reports alone: nobody is asked anything."""
    descent = Descent.of(account.task)
    for mean in account.means():
        descent.step(mean)
    return Learned(account.task, descent.model, descent.taken, descent.taken * account.task.group)


def noisy_mean(
    kind: Model, noise: GradientNoise | ExactMean, weights: Floats, rows: Floats, targets: Floats
) -> Floats:  # fmt: skip
    """One report from each row's device on its gradient at these weights; their mean."""
    return noise.mean(kind.slopes(rows @ weights, targets), rows)
