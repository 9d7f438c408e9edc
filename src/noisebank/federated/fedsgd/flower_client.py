"""Flower client of LDP-FedSGD: a ClientApp that answers orders with noisy reports, on the device's own budget.

    app = client_app(lambda context: my_device)     # in a Flower app's client module

`my_device` is a `Device`, or anything of the user's own with `take_part(order) -> bytes`.

The server sees refusals, so a refusal is one of a few fixed texts: no amount, no name, no text of an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from noisebank.core.errors import AlreadyTookPart, BadRequest, BudgetExhausted, NoisebankError
from noisebank.federated.fedsgd.device import TrainingOrder
from noisebank.federated.fedsgd.task import Task

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp

MODEL, ORDER, REPORT, REFUSAL = "model", "order", "report", "refusal"
"""Names of the records in messages: the weights and the order out, a report or a refusal back."""
REFUSALS: dict[type[NoisebankError], str] = {
    BadRequest: "the order is not one that this device answers",
    AlreadyTookPart: "this device took part already",
    BudgetExhausted: "its owner's budget does not allow it",
}
"""All that a server learns of an error; anything else is `Failed`."""
MAX_TASK_LENGTH = 1 << 20
"""Characters of a task's description."""


class Participant(Protocol):
    """A device as the Flower client uses it."""

    def take_part(self, order: TrainingOrder) -> bytes:
        """Returns the one report; raises `Refused` or `Misuse` if there is none."""
        ...


def client_app(get_device: Callable[[Context], Participant]) -> ClientApp:
    """Returns a ClientApp whose `train` sends one report and nothing else."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        name, words = answer_order(lambda: get_device(context), message.content)
        return Message(content=RecordDict({name: ConfigRecord(words)}), reply_to=message)

    return app


def answer_order(get_device: Callable[[], Participant], content: RecordDict) -> tuple[str, dict[str, Any]]:
    """Returns all that a device replies: the name and content of a Flower record. Never raises a device's error."""
    try:
        return REPORT, {"report": get_device().take_part(read_order(content))}
    except Exception as error:  # the server gets a refusal and goes on with the others
        return REFUSAL, dict(describe_refusal(error))


def describe_refusal(error: Exception) -> dict[str, str]:
    """Returns what the server learns of an error: one of a few kinds. Flower itself would send the error's text."""
    for kind, reason in REFUSALS.items():
        if isinstance(error, kind):
            return {"kind": kind.kind, "reason": reason}
    return {"kind": "Failed", "reason": "this device sends no report"}


def write_order(order: TrainingOrder) -> RecordDict:
    """Returns an order as the content of a Flower message."""
    from flwr.app import ArrayRecord, ConfigRecord, RecordDict

    words = ConfigRecord({"task": json.dumps(order.task.to_json()), "group": order.group})
    return RecordDict({MODEL: ArrayRecord([order.weights]), ORDER: words})


def read_order(content: RecordDict) -> TrainingOrder:
    """Returns the order in a message; anything else is refused. No record is open yet: only the message can fail."""
    try:
        words, arrays = content[ORDER], content[MODEL].to_numpy_ndarrays()
        text, (weights,) = words["task"], arrays
        if len(text) > MAX_TASK_LENGTH:
            raise ValueError
        return TrainingOrder(Task.from_json(json.loads(text)), words["group"], weights)
    except Exception:
        raise BadRequest("message", "without a readable order", "must hold a task, a group and a model") from None


def read_reply(content: RecordDict) -> tuple[bytes | None, str]:
    """Returns the report in a reply and ""; or None and why there is none."""
    try:
        if REPORT in content:
            report: Any = content[REPORT]["report"]
            return (report, "") if isinstance(report, bytes) else (None, "its report is not made of bytes")
        words = content[REFUSAL]
        return None, f"{words['kind']}: {words['reason']}"[:300]
    except (KeyError, TypeError, AttributeError):
        return None, "its reply holds neither a report nor a refusal"
