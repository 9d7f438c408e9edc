"""Accuracy of each round's model on test examples that the operator chooses (setting `learning_test`).

Measured once per model, on a thread beside the requests. Used by `blockfl_tasks`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from noisebank.core.errors import NoisebankError

if TYPE_CHECKING:
    from noisebank.federated.blockfl.device import Examples
    from noisebank.federated.blockfl.store import Store
    from noisebank.federated.blockfl.terms import Terms

Wanted = tuple[int, bytes, str]
"""Round, digest and task of a model."""
MOST_KNOWN = 20_000


class Scores:
    """Accuracies by the digest of a model. A digest names the content, so a measured accuracy never changes."""

    def __init__(self, test: str) -> None:
        self.test, self.trouble = test, ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scores")
        self._known: dict[bytes, tuple[float, float] | None] = {}
        self._asked: set[bytes] = set()
        self._examples: dict[int, Examples] = {}
        self._access = threading.Lock()

    def close(self) -> None:
        """Wait for the measurement that runs; drop those that wait."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def of(self, terms: Terms, store: Store, models: Iterable[Wanted]) -> tuple[dict[int, tuple[float, float]], bool]:
        """Return accuracies by round, without and with the terms' noise; and whether more are being measured."""
        if not self.test or self.trouble:
            return {}, False
        accuracies: dict[int, tuple[float, float]] = {}
        pending = False
        with self._access:
            for round, digest, task in models:
                known = self._known.get(digest)
                if known is not None:
                    accuracies[round] = known
                elif digest not in self._known:
                    pending = True
                    if digest not in self._asked:
                        self._asked.add(digest)
                        self._thread.submit(self._measure, terms, store, (round, digest, task))
        return accuracies, pending

    def _measure(self, terms: Terms, store: Store, wanted: Wanted) -> None:
        from noisebank.federated.blockfl.device import accuracy
        from noisebank.federated.blockfl.examples import read_examples
        from noisebank.federated.blockfl.models import BadModel, read_model

        round, digest, task = wanted
        measured: tuple[float, float] | None = None
        try:
            side = terms.shape.side
            if side not in self._examples:
                self._examples[side] = read_examples(self.test, side)
            content = store.get(digest)
            if content is not None:
                model = read_model(content, task if round else "", round, "", terms.shape.count)
                clean = accuracy(terms, model.floats(), self._examples[side])
                measured = clean, accuracy(terms, model.floats(), self._examples[side], noisy=True)
        except BadModel:
            pass  # no model: nothing to measure, and `verify` says so
        except (NoisebankError, IndexError, ValueError) as error:
            self.trouble = str(error)
        with self._access:
            if len(self._known) < MOST_KNOWN:
                self._known[digest] = measured
