"""The device's half for Flower: a ClientApp that answers orders with noisy reports, on the device's own budget.

    app = client_app(lambda context: my_device)     # in a Flower app's client module

`my_device` is a `Device`, or anything of the user's own with `take_part(order) -> bytes`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from noisebank.errors import BadRequest, NoisebankError
from noisebank.federated.learning.device import Order
from noisebank.federated.learning.task import Task

if TYPE_CHECKING:
    from flwr.app import Context, Message, RecordDict
    from flwr.clientapp import ClientApp

MODEL, ORDER, REPORT, REFUSAL = "model", "order", "report", "refusal"
"""Names of the records in messages: the weights and the order out, a report or a refusal back."""


class TakesPart(Protocol):
    """A device as Flower's half sees it."""

    def take_part(self, order: Order) -> bytes:
        """The one report; `Refused` or `Misuse` if there is none."""
        ...


def client_app(device_of: Callable[[Context], TakesPart]) -> ClientApp:
    """A ClientApp whose `train` sends one report and nothing else."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        try:
            report = device_of(context).take_part(read_order(message.content))
            content = RecordDict({REPORT: ConfigRecord({"report": report})})
        except NoisebankError as error:  # said to the server, which goes on with the others
            words = ConfigRecord({"kind": type(error).__name__, "reason": str(error)})
            content = RecordDict({REFUSAL: words})
        return Message(content=content, reply_to=message)

    return app


def written_order(order: Order) -> RecordDict:
    """An order as the content of a Flower message."""
    from flwr.app import ArrayRecord, ConfigRecord, RecordDict

    words = ConfigRecord({"task": json.dumps(order.task.public()), "group": order.group})
    return RecordDict({MODEL: ArrayRecord([order.weights]), ORDER: words})


def read_order(content: RecordDict) -> Order:
    """The order in a message; anything else is refused."""
    try:
        words, arrays = content[ORDER], content[MODEL].to_numpy_ndarrays()
        task, group = Task.from_public(json.loads(words["task"])), words["group"]
        task.members(group)
        (weights,) = arrays
        return Order(task, group, weights)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise BadRequest("message", "without a readable order", "must hold a task, a group and a model") from None


def read_reply(content: RecordDict) -> tuple[bytes | None, str]:
    """The report in a reply; or None and why there is none."""
    try:
        if REPORT in content:
            report: Any = content[REPORT]["report"]
            return (report, "") if isinstance(report, bytes) else (None, "its report is not made of bytes")
        words = content[REFUSAL]
        return None, f"{words['kind']}: {words['reason']}"[:300]
    except (KeyError, TypeError, AttributeError):
        return None, "its reply holds neither a report nor a refusal"
