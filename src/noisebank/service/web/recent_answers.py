"""The shelf: answers that were just shown, for their tables and receipts to be downloaded. Bounded; nothing is lost
when it forgets, as every answer can be read again from the vault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noisebank.core.caches import BoundedCache
from noisebank.service.errors import Turned

SHELF_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer as it was shown, and to whom."""

    person: str
    dataset: str
    answer: dict[str, Any]


class Shelf:
    """The newest answers, by the key that they were asked with."""

    def __init__(self) -> None:
        self._shown: BoundedCache[str, Shown] = BoundedCache(SHELF_BYTES)

    def put(self, key: str, shown: Shown) -> None:
        """Remembers an answer."""
        self._shown.put(key, shown)

    def get(self, key: str, person: str, dataset: str) -> dict[str, Any]:
        """One's own answer of a moment ago."""
        found = self._shown.get(key)
        if found is None or (found.person, found.dataset) != (person, dataset):
            raise Turned(
                "not-found", "this answer is no longer at hand; ask again, which is free, or look into history"
            )
        return found.answer
