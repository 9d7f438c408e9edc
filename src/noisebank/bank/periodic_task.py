"""`PeriodicTask`: a thread that calls a function every few seconds until it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from noisebank.core.errors import NoisebankError

PATIENCE = 5.0
"""Seconds to wait for a call that is under way when the task is stopped."""


class PeriodicTask:
    """Calls `task` every `seconds`. Ignores errors of this package: whoever acts on what was read meets them again."""

    def __init__(self, task: Callable[[], None], seconds: float) -> None:
        self._task, self._seconds = task, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="noisebank watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops calling. Does not wait longer than `PATIENCE` for a call that is under way."""
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            with suppress(NoisebankError):
                self._task()
