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
from noisebank.service import serializers as shown
from noisebank.service.errors import Turned
from noisebank.service.model_scores import Scores
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.federated.blockfl.books import TaskBooks
    from noisebank.federated.blockfl.registry import Registry
    from noisebank.federated.blockfl.terms import Terms
    from noisebank.federated.blockfl.verification import TaskReport
    from noisebank.ledger.follower import Follower

FRESH, AGAIN = 2.0, 60.0
"""Seconds between two reads of the chain; between two searches for a registry where there is none."""
FIRST_WAIT, WAIT = 5.0, 0.3
AT_ONCE = 20_000
"""Blocks that are read before what is known so far is shown."""
MOST_SCORED = 60


class Errand:
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
        from noisebank.federated.blockfl.chain_reader import ReadStore

        self._settings, self._own = settings, not settings.learning
        self.where = settings.learning or own_chain
        self.store, self.scores = ReadStore(settings.learning_models), Scores(settings.learning_test)
        self.trouble = ""
        self._registry: Registry | None = None
        self._budgets: dict[str, Follower] = {}
        self._errand: Errand | None = None
        self._next, self._looked, self._closed, self._access = 0.0, False, False, threading.Lock()

    def close(self) -> None:
        """Stop following the chain. Nothing was written."""
        self._closed = True
        if self._errand is not None:
            self._errand.wait(FIRST_WAIT)
        self.scores.close()

    def briefs(self) -> list[dict[str, Any]]:
        """Return a summary of every task, newest first."""
        from noisebank.federated.blockfl.views import brief, stored_terms

        with self._books() as books_by_task:
            return [brief(books, stored_terms(books, self.store)) for books in reversed(books_by_task.values())]

    def task(self, id: bytes) -> dict[str, Any] | None:
        """Return one task, or None if the registry does not have it."""
        from noisebank.federated.blockfl.views import described, stored_terms

        with self._books() as books_by_task:
            if id not in books_by_task:
                return None
            books = books_by_task[id]
            terms = stored_terms(books, self.store)
            plain = described(books, terms)
            models = self._models(books)
        accuracies, pending = self.scores.of(terms, self.store, models) if terms else ({}, False)
        for row in plain["rounds"]:
            row["accuracy"], row["accuracy_with_noise"] = accuracies.get(row["round"], (None, None))
        registry = self._registry
        return plain | {
            "contract": registry.contract if registry else "",
            "chain_id": registry.chain_id if registry else 0,
            "initial_accuracy": accuracies.get(0, (None, None))[0],
            "measuring": pending,
            "test": Path(self.scores.test).name or None,  # a path is nobody's business
            "test_trouble": self.scores.trouble.replace(self.scores.test, Path(self.scores.test).name),
            "spending": self._spending(terms, id) if terms and terms.mode == "sound" else None,
        }

    def round(self, id: bytes, number: int) -> dict[str, Any]:
        """Return one round of a task in full."""
        from noisebank.federated.blockfl.views import round_in_full, stored_terms

        with self._books() as books_by_task:
            books = books_by_task.get(id)
            if books is None or not 1 <= number <= len(books.rounds):
                raise Turned("not-found", "this task has no such round")
            return round_in_full(books, stored_terms(books, self.store), self.store, number)

    def verify(self, id: bytes, progress: Callable[[int, int], None]) -> TaskReport:
        """Re-run the task from the chain and the stored models, independently of what the pages have read."""
        from noisebank.federated.blockfl.charges import unpaid
        from noisebank.federated.blockfl.verification import verify_task
        from noisebank.federated.blockfl.views import stored_terms

        registry = self._opened()

        def list_unpaid(books: TaskBooks) -> list[str]:
            terms = stored_terms(books, self.store)
            return unpaid(registry.node, terms, books) if terms else ["the terms are not stored here"]

        try:
            return verify_task(registry, self.store, id, None, progress, list_unpaid)
        except NodeError as error:
            raise BadLedger(str(error)) from None

    # -- parts ---------------------------------------------------------------------------------

    @contextmanager
    def _books(self) -> Iterator[dict[bytes, TaskBooks]]:
        """Yield the books by task, as new as possible without a long wait; they do not change meanwhile."""
        with self._access:
            if self._due():
                self._errand = Errand(self._look)
            errand, first = self._errand, not self._looked
        if errand is not None:
            errand.wait(FIRST_WAIT if first else WAIT)
        if self._registry is None:
            yield {}
            return
        with self._registry.turn:
            yield self._registry.known

    def _due(self) -> bool:
        idle = self._errand is None or self._errand.wait(0)
        return bool(self.where) and idle and not self._closed and time.monotonic() >= self._next

    def _look(self) -> None:
        """Read the blocks that are new. Runs on a thread of its own, one at a time."""
        pause = FRESH
        try:
            if self._registry is None:
                self._registry = self._opened()
            self._registry.follow(AT_ONCE)
            while self._registry.behind and not self._closed:
                self.trouble, self._looked = f"{self._registry.behind} of its blocks are still to be read", True
                self._registry.follow(AT_ONCE)
            for follower in list(self._budgets.values()):
                follower.sync(3.0)
            self.trouble = ""
        except (NoisebankError, NodeError) as error:
            if self._own and self._registry is None and isinstance(error, BadLedger):
                pause = AGAIN  # the bank's own chain has no registry, or its address is not set
            else:
                self.trouble = str(error).replace(self.where, Path(self.where).name)
        self._next, self._looked = time.monotonic() + pause, True

    def _opened(self) -> Registry:
        from noisebank.federated.blockfl.chain_reader import FolderNode
        from noisebank.federated.blockfl.registry import Registry

        node = Node(self.where, 5.0) if "://" in self.where else FolderNode(Path(self.where))
        try:
            return Registry(node, self._settings.learning_contract or None)
        except NodeError as error:
            raise BadLedger(str(error)) from None

    def _models(self, books: TaskBooks) -> list[tuple[int, bytes, str]]:
        """Return round, digest and task of the initial model and of the newest averages."""
        task = books.posted.task.hex()
        finished = [(round.number, round.model, task) for round in books.rounds if round.model is not None]
        return [(0, books.posted.model, ""), *finished[-MOST_SCORED:]]

    def _spending(self, terms: Terms, id: bytes) -> list[dict[str, Any]] | None:
        """Return what the task has charged each device; None if the budget ledger cannot be read."""
        from noisebank.federated.blockfl.charges import budget_follower, devices

        assert self._registry is not None
        try:
            if terms.ledger not in self._budgets:
                if self.trouble:  # do not wait for a node that does not answer
                    return None
                self._budgets[terms.ledger] = budget_follower(self._registry.node, terms)
            spenders = devices(self._budgets[terms.ledger], terms, id)
        except (NoisebankError, NodeError):  # the terms may name any ledger
            return None
        with self._registry.turn:
            members = set(self._registry.known[id].members)
        return [
            {
                "member": device.state.owner,
                "account": device.state.account.hex(),
                "charged": shown.amount(device.charge.wanted) if device.charge else None,
                "block": device.charge.block if device.charge else None,
                "delta": terms.delta,
                "spent": shown.amount(device.state.spent),
                "budget": shown.amount(device.state.budget),
            }
            for device in spenders
            if device.state.owner in members
        ]
