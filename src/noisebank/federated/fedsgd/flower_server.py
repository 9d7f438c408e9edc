"""Flower server of LDP-FedSGD: a Strategy that asks each node once, in groups, and steps by their mean report.

strategy = LdpFedSgd(task)                      # in a Flower app's server module
result = strategy.start(grid)                   # result.arrays: the finished model
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result, Strategy

from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.fedsgd.collection import collect_reports
from noisebank.federated.fedsgd.descent import Descent
from noisebank.federated.fedsgd.device import Order
from noisebank.federated.fedsgd.flower_client import read_reply, written_order
from noisebank.federated.fedsgd.simulation import Learned
from noisebank.federated.fedsgd.task import Task

if TYPE_CHECKING:
    from flwr.app import Context

POLL = 0.2
"""Seconds between checks for connected nodes."""


class LdpFedSgd(Strategy):  # type: ignore[misc]
    """LDP-FedSGD (Algorithm 1). A node is asked once, whatever it replies; a group goes on without nodes that fail.

    Devices refuse a second report even if a server asks for one (`Device.take_part`). Reports that no device could have
    sent, and replies of nodes that were not asked, are left out and named in `left_out`.
    """

    def __init__(self, task: Task, least: int = 1, patience: float = 60.0) -> None:
        if not 1 <= least <= task.group:
            raise BadRequest("least", least, f"must lie in 1 .. {task.group}: reports that a step needs")
        self.task, self.least, self.patience = task, least, patience
        self.descent = Descent.of(task)
        self.asked: set[int] = set()
        self.counted = 0
        self.left_out: dict[str, str] = {}
        self._group: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns orders for the next nodes that were never asked, with the strategy's own weights, not `arrays`."""
        if self.descent.settled:
            self._group = set()
            return []
        self._group = set(self._fresh_nodes(grid))
        self.asked |= self._group
        order = Order(self.task, server_round - 1, self.descent.weights)
        return [Message(written_order(order), dst_node_id=node, message_type=MessageType.TRAIN)
                for node in sorted(self._group)]  # fmt: skip

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take one step by the mean of the reports, if there are enough of them."""
        reports: dict[str, bytes] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            report, why = (None, f"failed: {reply.error.reason}") if reply.has_error() else read_reply(reply.content)
            if node not in self._group:
                report, why = None, "replied without being asked, or twice"
            self._group.discard(node)
            if report is None:
                self.left_out[str(node)] = why
            else:
                reports[str(node)] = report
        self.left_out |= {str(node): "did not reply" for node in self._group}
        collected = collect_reports(self.task, reports)
        self.left_out |= collected.left_out
        if collected.counted < self.least:
            return None, None
        self.descent.step(collected.mean)
        self.counted += collected.counted
        metrics = MetricRecord({"reports": collected.counted, "left_out": len(self.left_out)})
        return ArrayRecord([self.descent.weights]), metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns no messages: an evaluation on devices would be a second, uncharged look at their data."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """See `configure_evaluate`."""
        return None

    def summary(self) -> None:
        """Write the task and its guarantee to Flower's log."""
        from logging import INFO

        from flwr.common.logger import log

        log(INFO, "\t├──> %s: %s model, %s numbers", self.task.name, self.task.model, self.task.dimension)
        log(INFO, "\t└──> %s", self.task.guarantee)

    def start(self, grid: Grid, *arguments: Any, **options: Any) -> Result:
        """Run all groups from zero, unless the arguments say otherwise; the result's arrays are the finished model."""
        if not arguments:
            options.setdefault("initial_arrays", ArrayRecord([self.descent.weights]))
        if len(arguments) < 2:
            options.setdefault("num_rounds", self.task.groups)
        result = super().start(grid, *arguments, **options)
        result.arrays = ArrayRecord([self.descent.model])
        return result

    @property
    def learned(self) -> Learned:
        """The finished model, with the number of steps and reports."""
        return Learned(self.task, np.array(self.descent.model), self.descent.taken, self.counted)

    def _fresh_nodes(self, grid: Grid) -> list[int]:
        """Returns the nodes of the next group, never asked before: a full group, or after `patience` seconds fewer."""
        deadline = time.monotonic() + self.patience
        while True:
            fresh = sorted(set(grid.get_node_ids()) - self.asked)
            if len(fresh) >= self.task.group:
                return fresh[: self.task.group]
            if time.monotonic() > deadline:
                if len(fresh) < self.least:
                    raise Refused(f"{len(fresh)} nodes are left that have not taken part; a step needs {self.least}")
                return fresh
            time.sleep(POLL)


def server_app(task: Task, finished: Callable[[LdpFedSgd, Result], None], **settings: Any) -> ServerApp:
    """Returns a ServerApp that runs the task and calls `on_finished` with the strategy and its result."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        strategy = LdpFedSgd(task, **settings)
        finished(strategy, strategy.start(grid))

    return app
