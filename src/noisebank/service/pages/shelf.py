"""The shelf: answers that were just shown, for their tables and receipts to be downloaded. Bounded; nothing is lost
when it forgets, as every answer can be read again from the vault."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from noisebank.service.problems import Turned

MOST = 500


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as it was shown, and to whom."""

    person: str
    dataset: str
    answer: dict[str, Any]


class Shelf:
    """The newest answers, by the key that they were asked with."""

    def __init__(self) -> None:
        self._shown: OrderedDict[str, Shown] = OrderedDict()
        self._access = threading.Lock()

    def put(self, key: str, shown: Shown) -> None:
        """Remembers an answer."""
        with self._access:
            self._shown[key] = shown
            while len(self._shown) > MOST:
                self._shown.popitem(last=False)

    def get(self, key: str, person: str, dataset: str) -> dict[str, Any]:
        """One's own answer of a moment ago."""
        with self._access:
            found = self._shown.get(key)
        if found is None or (found.person, found.dataset) != (person, dataset):
            raise Turned(
                "not-found", "this answer is no longer at hand; ask again, which is free, or look into history"
            )
        return found.answer
