"""Federated learning tasks for the API and the pages: of a crowd, and of devices charged on this bank's ledger.

Joins `blockfl_tasks` and `fedsgd_tasks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from noisebank.bank.bank import Bank
from noisebank.ledger.rpc import RpcChain
from noisebank.service import fedsgd_tasks as sgd_tasks
from noisebank.service.errors import Turned
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.federated.blockfl.verification import TaskReport
    from noisebank.service.blockfl_tasks import CrowdTasks


class Learning:
    """All tasks that this service can see. Read-only."""

    def __init__(self, bank: Bank, settings: Settings) -> None:
        self._bank, own = bank, bank.ledger.url if isinstance(bank.ledger, RpcChain) else ""
        self.crowd: CrowdTasks | None = None
        if settings.learning or own:
            from noisebank.service.blockfl_tasks import CrowdTasks

            self.crowd = CrowdTasks(settings, own)

    def close(self) -> None:
        """Stop following the chain."""
        if self.crowd is not None:
            self.crowd.close()

    def briefs(self) -> dict[str, Any]:
        """Return a summary of every task, newest first, and why some may be missing."""
        accounts = reversed(sgd_tasks.sgd_tasks(self._bank).values())
        tasks = [sgd_tasks.brief(self._bank, account) for account in accounts]
        if self.crowd is not None:
            tasks = self.crowd.briefs() + tasks
        return {"tasks": tasks, "trouble": self.trouble}

    def task(self, id: str) -> dict[str, Any]:
        """Return one task by its id: that of the registry, or of its account on the ledger."""
        raw = _raw(id)
        account = sgd_tasks.sgd_tasks(self._bank).get(raw)
        if account is not None:
            return sgd_tasks.described(self._bank, account)
        task = self.crowd.task(raw) if self.crowd is not None else None
        if task is None:
            raise Turned("not-found", "there is no task of this id")
        return task

    def round(self, id: str, number: int) -> dict[str, Any]:
        """Return one round of a crowd's task in full."""
        if self.crowd is None:
            raise Turned("not-found", "there is no task of this id")
        return self.crowd.round(_raw(id), number)

    def weights(self, id: str) -> dict[str, float]:
        """Return the current weights of a task on the bank's own ledger."""
        return sgd_tasks.weights(sgd_tasks.sgd_tasks(self._bank)[_raw(id)])

    def verify(self, id: str, progress: Callable[[int, int], None]) -> TaskReport:
        """Re-run a crowd's task and report what does not agree."""
        assert self.crowd is not None
        return self.crowd.verify(_raw(id), progress)

    @property
    def trouble(self) -> str:
        """Say why a crowd's tasks may be missing or old; empty if they are not."""
        return self.crowd.trouble if self.crowd is not None else ""


def _raw(id: str) -> bytes:
    try:
        raw = bytes.fromhex(id)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise Turned("not-found", "a task's id has 64 hexadecimal digits")
    return raw
