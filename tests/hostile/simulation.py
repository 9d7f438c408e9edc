"""A network, a clock and threads for a member, simulated: what happens when follows from a seed and from nothing else.

Threads are greenlets. One runs at a time, until it waits; the seed says which of those that can go on is next. Time
passes only when none can, and then jumps to the next deadline. However busy the machine is, a conversation is the same
every time.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

from noisebank.core.errors import NoisebankError, OutcomeUnknown, Refused
from noisebank.federated.relay.transport import (
    CLOSE_SECONDS,
    MAX_MESSAGE,
    MAX_REASON,
    Handle,
    PeerUnreachable,
    Tap,
    parse_endpoint,
)

Job = TypeVar("Job")
FIRST_PORT = 40_000


class Stuck(AssertionError):
    """Every thread waits for what will never happen."""


@dataclass(eq=False)
class _Waiting:
    """A thread that does not run: when it can go on, and until when it waits."""

    thread: Any
    ready: Callable[[], bool]
    deadline: float


class Simulation:
    """A `Runtime`. Whoever makes it is its first thread, and calls `finish` at the end."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._clock = 0.0
        self._first, self._scheduler, self._stuck = getcurrent(), greenlet(self._schedule), False
        self._waiting: list[_Waiting] = []
        self._alive = 0
        self._errors: list[Exception] = []
        self._listeners: dict[int, SimulatedListener] = {}
        self._ports = 0

    def listen(
        self, endpoint: str, handle: Handle, patience: float, tap: Tap = lambda to, raw: None
    ) -> SimulatedListener:
        host, _ = parse_endpoint(endpoint)
        self._ports += 1
        port = FIRST_PORT + self._ports
        self._listeners[port] = SimulatedListener(self, host, port, handle, tap)
        return self._listeners[port]

    def ask(self, to: str, raw: bytes, patience: float, tap: Tap = lambda to, raw: None) -> bytes:
        """Names of machines count for nothing: there is one."""
        tap(to, raw)
        request = Request(self._listeners.get(parse_endpoint(to)[1]), raw)
        self.start_thread(request.answer)
        if not self.block(lambda: request.ended, patience):
            raise OutcomeUnknown(f"{to} did not answer (TimeoutError)")
        if request.reply is None:
            raise PeerUnreachable(f"nobody listens at {to}") if request.refusal is None else Refused(request.refusal)
        return request.reply

    def start_thread(self, work: Callable[[], None]) -> SimulatedThread:
        self._alive += 1
        thread = SimulatedThread(self)

        def run() -> None:
            try:
                work()
            except Exception as error:  # `finish` raises it
                self._errors.append(error)
            self._alive -= 1
            thread.ended = True

        self._waiting.append(_Waiting(greenlet(run, parent=self._scheduler), lambda: True, inf))
        return thread

    def monotonic(self) -> float:
        return self._clock

    def wait_for_event(self, event: threading.Event, seconds: float) -> bool:
        return self.block(event.is_set, seconds)

    def take_job(self, jobs: queue.Queue[Job]) -> Job:
        self.block(lambda: not jobs.empty())
        return jobs.get_nowait()

    def block(self, ready: Callable[[], bool], seconds: float = inf) -> bool:
        """Lets the others run until `ready`, or for so many simulated seconds; says which."""
        self._waiting.append(_Waiting(getcurrent(), ready, self._clock + seconds))
        self._scheduler.switch()
        if self._stuck:
            raise Stuck(f"{len(self._waiting)} more threads wait for ever")
        return ready()

    def finish(self) -> None:
        """Runs everything else to its end; raises what a thread has raised."""
        self.block(lambda: self._alive == 0)
        if self._errors:
            raise self._errors[0]

    def close(self, listener: SimulatedListener) -> None:
        """As a server closes: nothing more gets in, and replies under way have a moment."""
        self._listeners.pop(listener.port, None)
        self.block(lambda: listener.in_work == 0, CLOSE_SECONDS)

    def _schedule(self) -> None:
        """Runs one of those that wait, until it waits again or ends; then the next."""
        while True:
            chosen = self._chance.choice(self._runnable())
            self._waiting.remove(chosen)
            chosen.thread.switch()

    def _runnable(self) -> list[_Waiting]:
        if ready := [one for one in self._waiting if one.ready()]:
            return ready
        deadline = min(one.deadline for one in self._waiting)
        if deadline == inf:
            self._stuck = True
            return [one for one in self._waiting if one.thread is self._first]
        self._clock = deadline
        return [one for one in self._waiting if one.deadline <= deadline]


@dataclass
class SimulatedThread:
    """A `Worker`."""

    simulation: Simulation
    ended: bool = False

    def join(self, timeout: float | None = None) -> None:
        self.simulation.block(lambda: self.ended, inf if timeout is None else timeout)


class SimulatedListener:
    """A `Listener`."""

    def __init__(self, simulation: Simulation, host: str, port: int, handle: Handle, tap: Tap) -> None:
        self.endpoint, self.port, self.max_message = f"{host}:{port}", port, MAX_MESSAGE
        self.handle, self.tap, self.in_work, self.closed = handle, tap, 0, False
        self._simulation = simulation

    def __enter__(self) -> SimulatedListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True
        self._simulation.close(self)


@dataclass
class Request:
    """One message on its way; the words of a refusal are those of `transport.MessageServer`."""

    listener: SimulatedListener | None
    raw: bytes
    reply: bytes | None = None
    refusal: str | None = None
    ended: bool = False

    def answer(self) -> None:
        if self.listener is not None and not self.listener.closed:
            self.listener.in_work += 1
            try:
                self._handle(self.listener)
            finally:
                self.listener.in_work -= 1
        self.ended = True

    def _handle(self, listener: SimulatedListener) -> None:
        if len(self.raw) > listener.max_message:
            self.refusal = "too long"
        else:
            try:
                self.reply = listener.handle(self.raw)
            except NoisebankError as error:
                self.refusal = str(error)[:MAX_REASON]
            except Exception:  # as behind a socket: what went wrong stays there
                self.refusal = "could not be handled"
        listener.tap("reply", (self.refusal or "").encode() if self.reply is None else self.reply)
