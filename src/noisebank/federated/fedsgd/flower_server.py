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
from noisebank.federated.fedsgd.descent import GradientDescent
from noisebank.federated.fedsgd.device import TrainingOrder
from noisebank.federated.fedsgd.flower_client import read_reply, write_order
from noisebank.federated.fedsgd.simulation import LearnedModel
from noisebank.federated.fedsgd.task import Task

if TYPE_CHECKING:
    from flwr.app import Context

POLL_SECONDS = 0.2
"""Seconds between checks for connected nodes."""


class LdpFedSgd(Strategy):  # type: ignore[misc]
    """LDP-FedSGD (Algorithm 1). A node is asked once, whatever it replies; a group goes on without nodes that fail.

    Devices refuse a second report even if a server asks for one (`Device.take_part`). Reports that no device could have
    sent, and replies of nodes that were not asked, are left out and named in `left_out`.
    """

    def __init__(self, task: Task, min_reports: int = 1, patience: float = 60.0) -> None:
        if not 1 <= min_reports <= task.group:
            raise BadRequest("least", min_reports, f"must lie in 1 .. {task.group}: reports that a step needs")
        self.task, self.min_reports, self.patience = task, min_reports, patience
        self.descent = GradientDescent.from_task(task)
        self.asked_nodes: set[int] = set()
        self.report_count = 0
        self.left_out: dict[str, str] = {}
        self._group_nodes: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Returns orders for the next nodes that were never asked, with the strategy's own weights, not `arrays`."""
        if self.descent.has_converged:
            self._group_nodes = set()
            return []
        self._group_nodes = set(self._wait_for_nodes(grid))
        self.asked_nodes |= self._group_nodes
        order = TrainingOrder(self.task, server_round - 1, self.descent.weights)
        return [Message(write_order(order), dst_node_id=node, message_type=MessageType.TRAIN)
                for node in sorted(self._group_nodes)]  # fmt: skip

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take one step by the mean of the reports, if there are enough of them."""
        reports: dict[str, bytes] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            report, why = (None, f"failed: {reply.error.reason}") if reply.has_error() else read_reply(reply.content)
            if node not in self._group_nodes:
                report, why = None, "replied without being asked, or twice"
            self._group_nodes.discard(node)
            if report is None:
                self.left_out[str(node)] = why
            else:
                reports[str(node)] = report
        self.left_out |= {str(node): "did not reply" for node in self._group_nodes}
        collected = collect_reports(self.task, reports)
        self.left_out |= collected.left_out
        if collected.report_count < self.min_reports:
            return None, None
        self.descent.step(collected.mean)
        self.report_count += collected.report_count
        metrics = MetricRecord({"reports": collected.report_count, "left_out": len(self.left_out)})
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
            options.setdefault("num_rounds", self.task.group_count)
        result = super().start(grid, *arguments, **options)
        result.arrays = ArrayRecord([self.descent.averaged_weights])
        return result

    @property
    def learned_model(self) -> LearnedModel:
        """The finished model, with the number of steps and reports."""
        return LearnedModel(
            self.task, np.array(self.descent.averaged_weights), self.descent.steps_taken, self.report_count
        )

    def _wait_for_nodes(self, grid: Grid) -> list[int]:
        """Returns the nodes of the next group, never asked before: a full group, or after `patience` seconds fewer."""
        deadline = time.monotonic() + self.patience
        while True:
            fresh = sorted(set(grid.get_node_ids()) - self.asked_nodes)
            if len(fresh) >= self.task.group:
                return fresh[: self.task.group]
            if time.monotonic() > deadline:
                if len(fresh) < self.min_reports:
                    raise Refused(
                        f"{len(fresh)} nodes are left that have not taken part; a step needs {self.min_reports}"
                    )
                return fresh
            time.sleep(POLL_SECONDS)


def server_app(task: Task, on_finished: Callable[[LdpFedSgd, Result], None], **settings: Any) -> ServerApp:
    """Returns a ServerApp that runs the task and calls `on_finished` with the strategy and its result."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        strategy = LdpFedSgd(task, **settings)
        on_finished(strategy, strategy.start(grid))

    return app
