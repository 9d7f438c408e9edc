"""The request log: one JSON line per request with caller, route, time taken and outcome.

Never contains a secret, a question, a value or noise.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from noisebank.core.errors import kind_of


class Log:
    """Writes whole lines, from any thread."""

    def __init__(self, stream: TextIO | None = None, every: float = 0.0) -> None:
        """With `delay_seconds`, lines of requests are written together, that long after the first of them."""
        self._stream, self._lock, self._every = stream or sys.stderr, threading.Lock(), every
        self._lines: list[str] = []

    def line(self, event: str, **facts: Any) -> None:
        """Write one event as a line of JSON."""
        when = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"time": when, "event": event, **facts}, default=str) + "\n"
        with self._lock:
            self._lines.append(text)
            first = len(self._lines) == 1
        if not self._every or event != "request":
            self.flush()
        elif first:
            asyncio.get_running_loop().call_later(self._every, self.flush)

    def flush(self) -> None:
        """Write the lines that wait."""
        with self._lock:
            self._stream.write("".join(self._lines))
            self._lines.clear()
            self._stream.flush()

    def failure(self, request: str, error: BaseException) -> None:
        """Write where an unexpected error happened. Messages of foreign errors may quote data, so they stay out."""
        frames = traceback.extract_tb(error.__traceback__)
        self.line(
            "failure", request=request, error=kind_of(error),
            at=[f"{frame.filename.rpartition('noisebank/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
        )  # fmt: skip
