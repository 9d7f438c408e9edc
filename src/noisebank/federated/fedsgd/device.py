"""A device of LDP-FedSGD: its records, its own budget, and the one report that it makes for a task.

A device gets an order (the task, its group's number, the current model) and returns a report of a few bytes. It decides
by itself whether to answer and remembers every order that it answered. Whether it answers depends on the order and on
its ledger, never on its records: those are read after the charge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from noisebank.bank.folder import BankParts
from noisebank.core.digests import digest_tagged, keccak
from noisebank.core.errors import AlreadyTookPart, BadRequest, KeyReused
from noisebank.core.units import Exact, parse_exact
from noisebank.federated.enrolment import LocalAccount, RoundOrder
from noisebank.federated.fedsgd.task import Task
from noisebank.federated.ldp import Schema
from noisebank.federated.ldp.mechanism import clip_values
from noisebank.vault.vault import Request

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

REQUESTER = "learning"
"""The vault stores the orders that a device has answered under this requester."""
NORM_ROUNDING = Fraction(1, 10**9)
"""Relative to the radius: how much float rounding may add to the norm of weights projected into the ball."""


@dataclass(frozen=True)
class TrainingOrder:
    """What the server sends to the devices of a group. The constructor checks it, by itself alone.

    Guarantees: the weights are the task's number of finite floats, and no longer than the task's radius R (at most
    1e9). Every row x of a record lies in [-1, 1]^d, so |w·x| <= R sqrt(d), and neither a score, a slope nor a gradient
    can overflow or become NaN, whatever the record is.
    """

    task: Task
    group: int
    weights: Floats

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise BadRequest("task", type(self.task).__name__, "must be a task")
        self.task.group_range(self.group)
        object.__setattr__(self, "weights", _check_weights(self.task, self.weights))

    @property
    def digest(self) -> bytes:
        """Identifies the order, down to the last bit of the model."""
        model = keccak(np.ascontiguousarray(self.weights, dtype=">f8").tobytes())
        return digest_tagged(
            "learning order 1", {"task": self.task.digest.hex(), "group": self.group, "model": model.hex()}
        )


def _check_weights(task: Task, weights: object) -> Floats:
    """Returns the weights as a read-only copy; BadRequest if an honest server cannot have sent them."""
    if not isinstance(weights, np.ndarray) or weights.dtype.kind != "f" or weights.dtype.itemsize > 8:
        raise BadRequest("model", type(weights).__name__, "must be an array of floats")
    if weights.shape != (task.dimension,) or not np.isfinite(weights).all():
        raise BadRequest("model", f"shape {weights.shape}", f"must be {task.dimension} finite numbers")
    # In fractions: a float sum of squares would overflow for exactly those weights that must be refused.
    square, radius = sum(Fraction(float(weight)) ** 2 for weight in weights), parse_exact(task.radius, "radius")
    if square > (radius * (1 + NORM_ROUNDING)) ** 2:
        raise BadRequest("model", "its norm", f"must be at most {task.radius}, the task's radius")
    checked = np.array(weights, dtype=np.float64) + 0.0  # -0.0 becomes 0.0: one number, one representation
    checked.flags.writeable = False
    return checked


class Device:
    """Takes part in a task once, on its own budget. Several records of its owner are protected together.

    `max_epsilon` is the most that its owner spends on one task, `agreed` (optional) the only schema, with its ranges
    and values, that the owner agrees to be asked about.
    """

    def __init__(
        self, rooms: BankParts, account: LocalAccount, records: Sequence[Mapping[str, object]], max_epsilon: Exact,
        agreed: Schema | None = None,
    ) -> None:  # fmt: skip
        if not records:
            raise BadRequest("records", "none", "a device needs at least one")
        self.account, self.records, self.max_epsilon = account, records, parse_exact(max_epsilon, "most epsilon")
        self.agreed = agreed
        self._vault = rooms.vault

    def take_part(self, order: TrainingOrder) -> bytes:
        """Returns the report: charged on the ledger first, then the records are read, the report drawn and sealed.

        The same order again returns the same bytes. Another order of the same task is `AlreadyTookPart`, whatever
        budget is left; an epsilon above the owner's is refused. Refusals charge nothing and never depend on records.
        """
        task = order.task
        if parse_exact(task.epsilon, "epsilon") > self.max_epsilon:
            raise BadRequest("epsilon", task.epsilon, f"the owner of this device gives at most {self.max_epsilon}")
        if self.agreed is not None and task.design.schema != self.agreed:
            raise BadRequest("attributes", "of the task", "are not those that the owner of this device agreed to")
        key, id = task.digest.hex(), digest_tagged("learning request 1", [self.account.id.hex(), order.digest.hex()])
        epsilon = parse_exact(task.epsilon, "epsilon")
        round_order = RoundOrder(f"learning {key}", task.gradient_schema, epsilon, task.mechanism, task.levels)
        request = Request(id, self.account.id, REQUESTER, key, {"order": order.digest.hex(), "task": key})
        try:
            self._vault.save_request(request)  # from here on no other order of this task is answered
        except KeyReused:
            raise AlreadyTookPart(f"this device took part in {task.name} already; nothing more is sent") from None
        return self.account.answer_order(round_order, lambda: self.gradient(order).tolist())

    def gradient(self, order: TrainingOrder) -> Floats:
        """Returns the mean gradient over the device's records, clipped to [-1, 1]. Stays on the device.

        Override it for another model of the same dimension: nothing else depends on what is differentiated. It is
        called after the charge. If it fails, or returns anything but finite numbers, zeros are reported.
        """
        task = order.task
        pairs = [task.design.build_row(record) for record in self.records]
        rows, targets = np.stack([row for row, _ in pairs]), np.array([target for _, target in pairs])
        slopes = task.model_kind.loss_slopes(rows @ order.weights, targets)
        return clip_values((slopes[:, None] * rows).mean(axis=0))
