"""A thread that looks again and again, until it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from noisebank.core.errors import NoisebankError

PATIENCE = 5.0
"""Seconds for a look that is under way when it is stopped."""


class Watch:
    """Calls `look` every so many seconds. Errors of ours are left to whoever acts on what was seen."""

    def __init__(self, look: Callable[[], None], seconds: float) -> None:
        self._look, self._seconds = look, seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="noisebank watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """From now on it looks no more; a look that takes long is not waited for."""
        self._stop.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            with suppress(NoisebankError):
                self._look()
