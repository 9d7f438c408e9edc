"""Server-sent events: streams of live balances, limited in number and in time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from noisebank.service.errors import Turned
from noisebank.service.settings import Settings

EVERY = 0.25
QUIET = 15.0


class Streams:
    """Limits how many streams are open, and ends them when the service stops."""

    def __init__(self, settings: Settings) -> None:
        self._most, self._seconds = settings.streams, settings.stream_seconds
        self._count, self._closed = 0, False

    def close(self) -> None:
        """End all streams soon."""
        self._closed = True

    def check(self) -> None:
        """Raise if no further stream may be opened."""
        if self._count >= self._most or self._closed:
            raise Turned("overloaded", "too many live streams; ask again later", 5.0)

    async def follow(
        self, look: Callable[[], dict[str, Any]], event: str, check: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """Yield what `read_facts` returns, now and whenever it changes, until `check_access` raises."""
        loop = asyncio.get_running_loop()
        self._count += 1
        try:
            until, last, sent_at = loop.time() + self._seconds, None, loop.time()
            while not self._closed:
                try:
                    check()
                except Turned:
                    return
                facts = look()
                if facts != last:
                    last, sent_at = facts, loop.time()
                    yield f"event: {event}\ndata: {json.dumps(facts)}\n\n".encode()
                elif loop.time() - sent_at > QUIET:
                    sent_at = loop.time()
                    yield b": still here\n\n"
                left = until - loop.time()
                if left <= 0:
                    return
                await asyncio.sleep(min(EVERY, left))
        finally:
            self._count -= 1
