"""A device: its records, its own budget, and the one report that it makes for a task.

What a device needs from outside is an order: the task, its group's number, and the model as it stands. What it gives is
a report of a few bytes. It decides by itself whether the task is worth it, and never forgets what it answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisebank.digests import keccak, tagged
from noisebank.errors import AlreadyTookPart, BadRequest, KeyReused
from noisebank.federated.enrolment import LocalAccount
from noisebank.federated.learning.task import Task
from noisebank.federated.local.mechanism import clean
from noisebank.opening import Rooms
from noisebank.units import Exact, exact
from noisebank.vault.vault import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ASKED_BY = "learning"
"""Under this name the vault keeps the orders that a device has answered."""


@dataclass(frozen=True)
class Order:
    """What the server sends to the devices of a group."""

    task: Task
    group: int
    weights: Floats

    @property
    def digest(self) -> bytes:
        """Tells two orders apart, down to the last bit of the model."""
        model = keccak(np.ascontiguousarray(self.weights, dtype=">f8").tobytes())
        return tagged("learning order 1", {"task": self.task.digest.hex(), "group": self.group, "model": model.hex()})


class Device:
    """Takes part in a task once, on its own budget. Several records of its owner are protected together.

    `most_epsilon` is what its owner agrees to give away in one task.
    """

    def __init__(
        self, rooms: Rooms, account: LocalAccount, records: Sequence[Mapping[str, object]], most_epsilon: Exact
    ) -> None:  # fmt: skip
        if not records:
            raise BadRequest("records", "none", "a device needs at least one")
        self.account, self.records, self.most_epsilon = account, records, exact(most_epsilon, "most epsilon")
        self._vault = rooms.vault

    def take_part(self, order: Order) -> bytes:
        """The report: charged on the ledger first, then drawn, sealed before it leaves.

        The same order again gives the same bits. Another order of the same task is `AlreadyTookPart`, whatever budget
        is left; an epsilon above the owner's is refused. Nothing is charged then.
        """
        task = order.task
        if exact(task.epsilon, "epsilon") > self.most_epsilon:
            raise BadRequest("epsilon", task.epsilon, f"the owner of this device gives at most {self.most_epsilon}")
        gradient = self.gradient(order)
        key, id = task.digest.hex(), tagged("learning request 1", [self.account.id.hex(), order.digest.hex()])
        asked = Request(id, self.account.id, ASKED_BY, key, {"order": order.digest.hex(), "task": key})
        try:
            self._vault.save_request(asked)  # from here on no other order of this task is answered
        except KeyReused:
            raise AlreadyTookPart(f"this device took part in {task.name} already; nothing more is sent") from None
        record = {part.name: float(g) for part, g in zip(task.gradient_schema.attributes, gradient, strict=True)}
        return self.account.report(
            f"learning {key}", record, task.gradient_schema, task.epsilon, task.mechanism, task.levels
        )

    def gradient(self, order: Order) -> Floats:
        """The mean gradient over the device's records, clipped to [-1, 1]. Stays on the device.

        Whoever has another model of the same dimension overrides this: nothing else depends on what is differentiated.
        """
        task, weights = order.task, np.asarray(order.weights, dtype=np.float64)
        if weights.shape != (task.dimension,) or not np.isfinite(weights).all():
            raise BadRequest("model", f"shape {weights.shape}", f"must be {task.dimension} finite numbers")
        found = [task.design.row(record) for record in self.records]
        rows, targets = np.stack([row for row, _ in found]), np.array([target for _, target in found])
        slopes = task.kind.slopes(rows @ weights, targets)
        return clean((slopes[:, None] * rows).mean(axis=0))
