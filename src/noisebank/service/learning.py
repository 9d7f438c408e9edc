"""Federated learning tasks for the API and the pages: of a crowd, and of devices charged on this bank's ledger.

Joins `blockfl_tasks` and `fedsgd_tasks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noisebank.bank.bank import Bank
from noisebank.ledger.rpc import ChainLedger
from noisebank.service import fedsgd_tasks
from noisebank.service.errors import ApiError
from noisebank.service.relay_reports import RelayReports
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.federated.blockfl.verification import TaskReport
    from noisebank.service.blockfl_tasks import CrowdTasks


class LearningMonitor:
    """All tasks that this service can see. Read-only."""

    def __init__(self, bank: Bank, settings: Settings) -> None:
        self._bank, own = bank, bank.ledger.url if isinstance(bank.ledger, ChainLedger) else ""
        self.relays = RelayReports(settings.learning_reports)
        self.crowd: CrowdTasks | None = None
        if settings.learning or own:
            from noisebank.service.blockfl_tasks import CrowdTasks

            self.crowd = CrowdTasks(settings, own)

    def close(self) -> None:
        """Stop following the chain."""
        if self.crowd is not None:
            self.crowd.close()

    def list_tasks(self) -> dict[str, Any]:
        """Return a summary of every task, newest first, and why some may be missing."""
        accounts = reversed(fedsgd_tasks.list_sgd_tasks(self._bank).values())
        tasks = [fedsgd_tasks.summarize_task(self._bank, account) for account in accounts]
        if self.crowd is not None:
            tasks = self.crowd.list_tasks() + tasks
        return {"tasks": tasks, "trouble": self.trouble}

    def get_task(self, id: str) -> dict[str, Any]:
        """Return one task by its id: that of the registry, or of its account on the ledger."""
        raw = _parse_task_id(id)
        account = fedsgd_tasks.list_sgd_tasks(self._bank).get(raw)
        if account is not None:
            return fedsgd_tasks.describe_task(self._bank, account)
        task = self.crowd.find_task(raw) if self.crowd is not None else None
        if task is None:
            raise ApiError("not-found", "there is no task of this id")
        return task

    def get_round(self, id: str, number: int) -> dict[str, Any]:
        """Return one round of a crowd's task in full."""
        if self.crowd is None:
            raise ApiError("not-found", "there is no task of this id")
        return self.crowd.get_round(_parse_task_id(id), number)

    def read_weights(self, id: str) -> dict[str, float]:
        """Return the current weights of a task on the bank's own ledger."""
        return fedsgd_tasks.read_weights(fedsgd_tasks.list_sgd_tasks(self._bank)[_parse_task_id(id)])

    def verify(self, id: str, progress: Callable[[int, int], None]) -> TaskReport:
        """Re-run a crowd's task and report what does not agree."""
        assert self.crowd is not None
        return self.crowd.verify(_parse_task_id(id), progress)

    @property
    def trouble(self) -> str:
        """Say why a crowd's tasks may be missing or old; empty if they are not."""
        return self.crowd.trouble if self.crowd is not None else ""


def _parse_task_id(id: str) -> bytes:
    try:
        raw = bytes.fromhex(id)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise ApiError("not-found", "a task's id has 64 hexadecimal digits")
    return raw
