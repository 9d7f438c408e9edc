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
    from noisebank.federated.blockfl.store import ContentStore
    from noisebank.federated.blockfl.terms import TaskTerms

ModelKey = tuple[int, bytes, str]
"""Round, digest and task of a model."""
MAX_CACHED_MODELS = 20_000


class ModelScores:
    """Accuracies by the digest of a model. A digest names the content, so a measured accuracy never changes."""

    def __init__(self, test_examples: str) -> None:
        self.test_examples, self.trouble = test_examples, ""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="scores")
        self._accuracies: dict[bytes, tuple[float, float] | None] = {}
        self._submitted: set[bytes] = set()
        self._examples: dict[int, Examples] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Wait for the measurement that runs; drop those that wait."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def get_accuracies(
        self, terms: TaskTerms, store: ContentStore, models: Iterable[ModelKey]
    ) -> tuple[dict[int, tuple[float, float]], bool]:
        """Return accuracies by round, without and with the terms' noise; and whether more are being measured."""
        if not self.test_examples or self.trouble:
            return {}, False
        accuracies: dict[int, tuple[float, float]] = {}
        pending = False
        with self._lock:
            for round, digest, task in models:
                known = self._accuracies.get(digest)
                if known is not None:
                    accuracies[round] = known
                elif digest not in self._accuracies:
                    pending = True
                    if digest not in self._submitted:
                        self._submitted.add(digest)
                        self._executor.submit(self._measure_model, terms, store, (round, digest, task))
        return accuracies, pending

    def _measure_model(self, terms: TaskTerms, store: ContentStore, key: ModelKey) -> None:
        from noisebank.federated.blockfl.device import measure_accuracy
        from noisebank.federated.blockfl.examples import read_examples
        from noisebank.federated.blockfl.models import BadModel, read_model

        round, digest, task = key
        measured: tuple[float, float] | None = None
        try:
            side = terms.shape.side
            if side not in self._examples:
                self._examples[side] = read_examples(self.test_examples, side)
            content = store.get(digest)
            if content is not None:
                model = read_model(content, task if round else "", round, "", terms.shape.weight_count)
                clean = measure_accuracy(terms, model.to_floats(), self._examples[side])
                measured = clean, measure_accuracy(terms, model.to_floats(), self._examples[side], noisy=True)
        except BadModel:
            pass  # no model: nothing to measure, and `verify` says so
        except (NoisebankError, IndexError, ValueError) as error:
            self.trouble = str(error)
        with self._lock:
            if len(self._accuracies) < MAX_CACHED_MODELS:
                self._accuracies[digest] = measured
