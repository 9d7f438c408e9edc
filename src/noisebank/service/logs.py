"""The request log: one JSON line per request with caller, route, time taken and outcome.

Never contains a secret, a question, a value or noise.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from noisebank.core.errors import kind_of

encode_event = json.JSONEncoder(default=str).encode

QUOTED_LIBRARY = "uvicorn"
"""The server's messages are sentences of its own. Those of other libraries may quote a request: a byte of a form."""


class RequestLog:
    """Writes whole lines, from any thread."""

    def __init__(self, stream: TextIO | None = None, delay_seconds: float = 0.0) -> None:
        """With `delay_seconds`, lines of requests are written together, that long after the first of them."""
        self._stream, self._lock, self._delay_seconds = stream or sys.stderr, threading.Lock(), delay_seconds
        self._lines: list[str] = []

    def write_event(self, event: str, **facts: Any) -> None:
        """Write one event as a line of JSON."""
        when = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        text = encode_event({"time": when, "event": event, **facts}) + "\n"
        with self._lock:
            self._lines.append(text)
            first = len(self._lines) == 1
        if not self._delay_seconds or event != "request":
            self.flush()
        elif first:
            asyncio.get_running_loop().call_later(self._delay_seconds, self.flush)

    def flush(self) -> None:
        """Write the lines that wait."""
        with self._lock:
            self._stream.write("".join(self._lines))
            self._lines.clear()
            self._stream.flush()

    def write_failure(self, request: str, error: BaseException) -> None:
        """Write where an unexpected error happened. Messages of foreign errors may quote data, so they stay out."""
        frames = traceback.extract_tb(error.__traceback__)
        self.write_event(
            "failure", request=request, error=kind_of(error),
            at=[f"{frame.filename.rpartition('noisebank/')[2]}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
        )  # fmt: skip


class LibraryLog(logging.Handler):
    """Writes what libraries log as events: who, how severe and where, and no message that may quote a request."""

    def __init__(self, log: RequestLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. Its traceback stays out, like those of other errors."""
        text = record.msg if record.name.partition(".")[0] == QUOTED_LIBRARY else None  # without its arguments
        self._log.write_event(
            "library", logger=record.name, level=record.levelname.lower(), at=f"{record.module}:{record.lineno}",
            text=text,
        )  # fmt: skip
