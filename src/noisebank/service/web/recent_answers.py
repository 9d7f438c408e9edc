"""A bounded cache of the answers shown last, so that their tables and receipts can be downloaded.

Nothing is lost when it forgets one: every answer can be read again from the vault.
"""

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
    """The newest answers, by their idempotency key."""

    def __init__(self) -> None:
        self._shown: BoundedCache[str, Shown] = BoundedCache(SHELF_BYTES)

    def put(self, key: str, shown: Shown) -> None:
        """Remember an answer."""
        self._shown.put(key, shown)

    def get(self, key: str, person: str, dataset: str) -> dict[str, Any]:
        """Return a recent answer of this person; raises not-found for others and for those no longer cached."""
        recent = self._shown.get(key)
        if recent is None or (recent.person, recent.dataset) != (person, dataset):
            raise Turned(
                "not-found", "this answer is no longer at hand; ask again, which is free, or look into history"
            )
        return recent.answer
