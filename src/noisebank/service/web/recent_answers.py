"""A bounded cache of the answers shown last, so that their tables and receipts can be downloaded.

Nothing is lost when it forgets one: every answer can be read again from the vault.
"""

from __future__ import annotations

from dataclasses import dataclass

from noisebank.core.caches import BoundedCache
from noisebank.core.result import Result
from noisebank.service.errors import ApiError

CACHE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """An answer as it was shown, and to whom."""

    person: str
    dataset: str
    result: Result


class RecentAnswers:
    """The newest answers, by their idempotency key."""

    def __init__(self) -> None:
        self._answers: BoundedCache[str, RecentAnswer] = BoundedCache(CACHE_BYTES)

    def put(self, key: str, answer: RecentAnswer) -> None:
        """Remember an answer."""
        self._answers.put(key, answer)

    def get(self, key: str, person: str, dataset: str) -> Result:
        """Return a recent answer of this person; raises not-found for others and for those no longer cached."""
        recent = self._answers.get(key)
        if recent is None or (recent.person, recent.dataset) != (person, dataset):
            raise ApiError(
                "not-found", "this answer is no longer at hand; ask again, which is free, or look into history"
            )
        return recent.result
