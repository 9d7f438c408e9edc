"""Live balances as server-sent events. A stream is cheap, counted, and ends by itself."""

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
    """Counts streams; ends them when the service does."""

    def __init__(self, settings: Settings) -> None:
        self._most, self._seconds = settings.streams, settings.stream_seconds
        self._count, self._closed = 0, False

    def close(self) -> None:
        """All streams end soon."""
        self._closed = True

    def check(self) -> None:
        """Refuses one stream too many, before it begins."""
        if self._count >= self._most or self._closed:
            raise Turned("overloaded", "too many live streams; ask again later", 5.0)

    async def follow(
        self, look: Callable[[], dict[str, Any]], event: str, check: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """What `look` gives, now and whenever it changes, until `check` turns the caller away."""
        loop = asyncio.get_running_loop()
        self._count += 1
        try:
            until, last, said = loop.time() + self._seconds, None, loop.time()
            while not self._closed:
                try:
                    check()
                except Turned:
                    return
                found = look()
                if found != last:
                    last, said = found, loop.time()
                    yield f"event: {event}\ndata: {json.dumps(found)}\n\n".encode()
                elif loop.time() - said > QUIET:
                    said = loop.time()
                    yield b": still here\n\n"
                left = until - loop.time()
                if left <= 0:
                    return
                await asyncio.sleep(min(EVERY, left))
        finally:
            self._count -= 1
