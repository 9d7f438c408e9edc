"""Server-sent events: streams of live balances, limited in number and in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from noisebank.service.errors import ApiError
from noisebank.service.settings import Settings

POLL_SECONDS = 0.25
KEEP_ALIVE_SECONDS = 15.0


class EventStreams:
    """Limits how many streams are open, and ends them when the service stops."""

    def __init__(self, settings: Settings) -> None:
        self._max_streams, self._seconds = settings.streams, settings.stream_seconds
        self._count, self._closed = 0, False

    def close(self) -> None:
        """End all streams soon."""
        self._closed = True

    def check_capacity(self) -> None:
        """Raise if no further stream may be opened."""
        if self._count >= self._max_streams or self._closed:
            raise ApiError("overloaded", "too many live streams; ask again later", 5.0)

    async def stream_changes(
        self, read_facts: Callable[[], dict[str, Any]], event: str, check_access: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """Yield what `read_facts` returns, now and whenever it changes, until `check_access` raises."""
        loop = asyncio.get_running_loop()
        self._count += 1
        try:
            until, last, sent_at = loop.time() + self._seconds, None, loop.time()
            while not self._closed:
                try:
                    check_access()
                except ApiError:
                    return
                facts = read_facts()
                if facts != last:
                    last, sent_at = facts, loop.time()
                    yield f"event: {event}\ndata: {json.dumps(facts)}\n\n".encode()
                elif loop.time() - sent_at > KEEP_ALIVE_SECONDS:
                    sent_at = loop.time()
                    yield b": still here\n\n"
                left = until - loop.time()
                if left <= 0:
                    return
                await asyncio.sleep(min(POLL_SECONDS, left))
        finally:
            self._count -= 1
