"""Tasks of a crowd (BlockFL), read from their registry on a chain, as JSON for the API and the pages.

The chain is followed on a thread beside the requests: no page waits long for a node that does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadLedger, NoisebankError
from noisebank.ledger.node import Node, NodeError
from noisebank.service.errors import ApiError
from noisebank.service.model_scores import ModelScores
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.federated.blockfl.books import TaskBooks
    from noisebank.federated.blockfl.registry import ModelRegistry
    from noisebank.federated.blockfl.terms import TaskTerms
    from noisebank.federated.blockfl.verification import TaskReport
    from noisebank.ledger.follower import Follower

REFRESH_SECONDS, RETRY_SECONDS = 2.0, 60.0
"""Seconds between two reads of the chain; between two searches for a registry where there is none."""
FIRST_WAIT_SECONDS, WAIT_SECONDS = 5.0, 0.3
MAX_BLOCKS_PER_READ = 20_000
"""Blocks that are read before what is known so far is shown."""
MAX_SCORED_MODELS = 60


class BackgroundTask:
    """Work on a daemon thread of its own: neither callers nor the end of the process have to wait for it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="crowd", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether the work is done."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


class CrowdTasks:
    """The tasks of one registry. Read-only; safe for many threads."""

    def __init__(self, settings: Settings, own_chain: str) -> None:
        from noisebank.federated.blockfl.chain_reader import ReadOnlyStore

        self._settings, self._uses_own_chain = settings, not settings.learning
        self.chain_address = settings.learning or own_chain
        self.store, self.scores = ReadOnlyStore(settings.learning_models), ModelScores(settings.learning_test)
        self.trouble = ""
        self._registry: ModelRegistry | None = None
        self._budget_followers: dict[str, Follower] = {}
        self._refresh: BackgroundTask | None = None
        self._next_refresh, self._has_refreshed, self._closed, self._lock = 0.0, False, False, threading.Lock()

    def close(self) -> None:
        """Stop following the chain. Nothing was written."""
        self._closed = True
        if self._refresh is not None:
            self._refresh.wait(FIRST_WAIT_SECONDS)
        self.scores.close()

    def list_tasks(self) -> list[dict[str, Any]]:
        """Return a summary of every task, newest first."""
        from noisebank.federated.blockfl.views import find_terms, summarize_task

        with self._hold_books() as books_by_task:
            return [summarize_task(books, find_terms(books, self.store)) for books in reversed(books_by_task.values())]

    def find_task(self, id: bytes) -> dict[str, Any] | None:
        """Return one task, or None if the registry does not have it."""
        from noisebank.federated.blockfl.views import describe_task, find_terms

        with self._hold_books() as books_by_task:
            if id not in books_by_task:
                return None
            books = books_by_task[id]
            terms = find_terms(books, self.store)
            plain = describe_task(books, terms)
            models = self._scored_models(books)
        accuracies, pending = self.scores.get_accuracies(terms, self.store, models) if terms else ({}, False)
        for row in plain["rounds"]:
            row["accuracy"], row["accuracy_with_noise"] = accuracies.get(row["round"], (None, None))
        registry = self._registry
        return plain | {
            "contract": registry.contract if registry else "",
            "chain_id": registry.chain_id if registry else 0,
            "initial_accuracy": accuracies.get(0, (None, None))[0],
            "measuring": pending,
            "test": Path(self.scores.test_examples).name or None,  # a path is nobody's business
            "test_trouble": self.scores.trouble.replace(
                self.scores.test_examples, Path(self.scores.test_examples).name
            ),
            "spending": self._device_spending(terms, id) if terms and terms.mode == "sound" else None,
        }

    def get_round(self, id: bytes, number: int) -> dict[str, Any]:
        """Return one round of a task in full."""
        from noisebank.federated.blockfl.views import describe_round, find_terms

        with self._hold_books() as books_by_task:
            books = books_by_task.get(id)
            if books is None or not 1 <= number <= len(books.rounds):
                raise ApiError("not-found", "this task has no such round")
            return describe_round(books, find_terms(books, self.store), self.store, number)

    def verify(self, id: bytes, progress: Callable[[int, int], None]) -> TaskReport:
        """Re-run the task from the chain and the stored models, independently of what the pages have read."""
        from noisebank.federated.blockfl.charges import find_unpaid_models
        from noisebank.federated.blockfl.verification import verify_task
        from noisebank.federated.blockfl.views import find_terms

        registry = self._open_registry()

        def list_unpaid(books: TaskBooks) -> list[str]:
            terms = find_terms(books, self.store)
            return find_unpaid_models(registry.node, terms, books) if terms else ["the terms are not stored here"]

        try:
            return verify_task(registry, self.store, id, None, progress, list_unpaid)
        except NodeError as error:
            raise BadLedger(str(error)) from None

    # -- parts ---------------------------------------------------------------------------------

    @contextmanager
    def _hold_books(self) -> Iterator[dict[bytes, TaskBooks]]:
        """Yield the books by task, as new as possible without a long wait; they do not change meanwhile."""
        with self._lock:
            if self._refresh_is_due():
                self._refresh = BackgroundTask(self._read_chain)
            errand, first = self._refresh, not self._has_refreshed
        if errand is not None:
            errand.wait(FIRST_WAIT_SECONDS if first else WAIT_SECONDS)
        if self._registry is None:
            yield {}
            return
        with self._registry.followed_lock:
            yield self._registry.followed_books

    def _refresh_is_due(self) -> bool:
        idle = self._refresh is None or self._refresh.wait(0)
        return bool(self.chain_address) and idle and not self._closed and time.monotonic() >= self._next_refresh

    def _read_chain(self) -> None:
        """Read the blocks that are new. Runs on a thread of its own, one at a time."""
        pause = REFRESH_SECONDS
        try:
            if self._registry is None:
                self._registry = self._open_registry()
            self._registry.follow_tasks(MAX_BLOCKS_PER_READ)
            while self._registry.blocks_behind and not self._closed:
                self.trouble, self._has_refreshed = (
                    f"{self._registry.blocks_behind} of its blocks are still to be read",
                    True,
                )
                self._registry.follow_tasks(MAX_BLOCKS_PER_READ)
            for follower in list(self._budget_followers.values()):
                follower.sync(3.0)
            self.trouble = ""
        except (NoisebankError, NodeError) as error:
            if self._uses_own_chain and self._registry is None and isinstance(error, BadLedger):
                pause = RETRY_SECONDS  # the bank's own chain has no registry, or its address is not set
            else:
                self.trouble = str(error).replace(self.chain_address, Path(self.chain_address).name)
        self._next_refresh, self._has_refreshed = time.monotonic() + pause, True

    def _open_registry(self) -> ModelRegistry:
        from noisebank.federated.blockfl.chain_reader import FolderNode
        from noisebank.federated.blockfl.registry import ModelRegistry

        node = Node(self.chain_address, 5.0) if "://" in self.chain_address else FolderNode(Path(self.chain_address))
        try:
            return ModelRegistry(node, self._settings.learning_contract or None)
        except NodeError as error:
            raise BadLedger(str(error)) from None

    def _scored_models(self, books: TaskBooks) -> list[tuple[int, bytes, str]]:
        """Return round, digest and task of the initial model and of the newest averages."""
        task = books.setup.task_id.hex()
        finished = [
            (round.number, round.model_digest, task) for round in books.rounds if round.model_digest is not None
        ]
        return [(0, books.setup.initial_model, ""), *finished[-MAX_SCORED_MODELS:]]

    def _device_spending(self, terms: TaskTerms, id: bytes) -> list[dict[str, Any]] | None:
        """Return what the task has charged each device; None if the budget ledger cannot be read."""
        from noisebank.federated.blockfl.charges import follow_budget_ledger, list_device_charges

        assert self._registry is not None
        try:
            if terms.ledger not in self._budget_followers:
                if self.trouble:  # do not wait for a node that does not answer
                    return None
                self._budget_followers[terms.ledger] = follow_budget_ledger(self._registry.node, terms)
            spenders = list_device_charges(self._budget_followers[terms.ledger], terms, id)
        except (NoisebankError, NodeError):  # the terms may name any ledger
            return None
        with self._registry.followed_lock:
            members = set(self._registry.followed_books[id].members)
        return [
            {
                "member": device.state.owner,
                "account": device.state.account.hex(),
                "charged": device.reservation.target.to_decimal() if device.reservation else None,
                "block": device.reservation.block if device.reservation else None,
                "delta": terms.delta,
                "spent": device.state.spent.to_decimal(),
                "budget": device.state.budget.to_decimal(),
            }
            for device in spenders
            if device.state.owner in members
        ]
