"""What a member runs on: a network, a clock and threads. The system's, or a simulation of them.

Everything that a member waits for goes through here: whoever brings another runtime decides how long that takes.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from noisebank.federated.relay import transport

if TYPE_CHECKING:
    import queue
    from collections.abc import Callable

    from noisebank.federated.relay.transport import Handle, Tap

Job = TypeVar("Job")


class Listener(Protocol):
    """Answers messages at `endpoint` until its block ends. `max_message` is the longest message in bytes."""

    endpoint: str
    max_message: int

    def __enter__(self) -> Listener: ...

    def __exit__(self, *_: object) -> None: ...


class Worker(Protocol):
    """A thread that was started."""

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for `timeout` seconds."""
        ...


class Runtime(Protocol):
    """The network, the clock and the threads of one process. Times are in seconds."""

    def listen(self, endpoint: str, handle: Handle, patience: float, tap: Tap) -> Listener:
        """Answer with `handle` whatever is sent to `endpoint`, each message on a thread of its own."""
        ...

    def ask(self, to: str, raw: bytes, patience: float, tap: Tap) -> bytes:
        """Send `raw`; returns the reply. `Refused` if the other side refuses, `OutcomeUnknown` if none came in time."""
        ...

    def start_thread(self, work: Callable[[], None]) -> Worker:
        """Run `work` on a thread of its own."""
        ...

    def monotonic(self) -> float:
        """Returns the time of a clock that never goes back."""
        ...

    def wait_for_event(self, event: threading.Event, seconds: float) -> bool:
        """Returns whether the event was set within so many seconds."""
        ...

    def take_job(self, jobs: queue.Queue[Job]) -> Job:
        """Returns the next job, as soon as there is one."""
        ...


class SystemRuntime:
    """The real thing: sockets, the monotonic clock, threads."""

    def listen(self, endpoint: str, handle: Handle, patience: float, tap: Tap) -> Listener:
        return transport.MessageServer(endpoint, handle, patience, tap)

    def ask(self, to: str, raw: bytes, patience: float, tap: Tap) -> bytes:
        return transport.ask(to, raw, patience, tap)

    def start_thread(self, work: Callable[[], None]) -> Worker:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def monotonic(self) -> float:
        return time.monotonic()

    def wait_for_event(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)

    def take_job(self, jobs: queue.Queue[Job]) -> Job:
        return jobs.get()
