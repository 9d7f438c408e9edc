"""A load generator: requests at a fixed rate over kept connections, in a process of its own.

Arrivals are scheduled beforehand and never wait for answers (an open loop); latency counts from the scheduled time, so
that a server which falls behind cannot hide it. Without a rate, each connection asks again as soon as it has its answer
(a closed loop): that is how much so many clients reach. Run as a script, it reads a `Load` as JSON and writes what came
of it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

MOST_WAITING = 60.0
"""Seconds to wait for the last answers."""
ANSWER_OF_BATCH = b'{"answer":{'
"""Begins each answer of a batch; a receipt within it has an "answer" as well, but not as its first field."""


@dataclass(frozen=True, slots=True)
class Load:
    """What to ask, how often, over how many connections."""

    port: int
    mix: str
    """health: the bare endpoint; reuse, mixed or paid: questions that cost nothing, every tenth new, all new."""
    connections: int
    seconds: float
    rate: float = 0.0
    """Arrivals a second; 0 for a closed loop."""
    keys: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    """Bodies of questions that were answered before."""
    fresh: str = ""
    """A body with places for two numbers; each pair is a question that nobody asked yet."""
    first: int = 0
    """Number of the first request: new questions and idempotency keys are made from it."""
    span: int = 1_000
    """How many values each of the two numbers has."""
    batch: int = 0
    """Questions of a request to the batch endpoint; 0: one by one."""


@dataclass(slots=True)
class Came:
    """What came of a load."""

    asked: int = 0
    seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    answers: int = 0
    """Answers in responses with status 200: one each, or those of a batch."""
    lost: int = 0
    """Requests without any response."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0

    @property
    def answered(self) -> int:
        """Requests with status 200."""
        return self.statuses["200"]

    @property
    def per_s(self) -> float:
        """Answers a second, until the last one."""
        return self.answers / self.seconds if self.seconds else 0.0


class Wire(asyncio.Protocol):
    """One kept connection; one request at a time on it."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd, self._buffer, self._missing = crowd, bytearray(), -1
        self._transport: asyncio.Transport | None = None
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is one by its methods only
        self._crowd.opened(self)
        self._crowd.free(self)

    def close(self) -> None:
        """Hangs up."""
        if self._transport is not None:
            self._transport.close()

    def ask(self, request: bytes, due: float) -> None:
        """Sends a request that was due then."""
        assert self._transport is not None
        self._due, self._buffer, self._missing = due, bytearray(), -1
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._missing < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            place = head.find(b"content-length:")
            stop = head.find(b"\r\n", place)
            chunked = place < 0  # a long batch comes as its parts are done
            self._missing = 0 if chunked else end + 4 + int(head[place + 15 : stop if stop > 0 else None])
        if len(self._buffer) >= self._missing if self._missing else self._buffer.endswith(b"\r\n0\r\n\r\n"):
            self._crowd.answered(self._due, bytes(self._buffer))
            self._due = 0.0
            self._crowd.free(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.gone(self, bool(self._due))


class Crowd:
    """All connections, and what waits for one of them."""

    def __init__(self, load: Load, request: Callable[[int], bytes]) -> None:
        self._load, self._request = load, request
        self._idle: deque[Wire] = deque()
        self._waiting: deque[float] = deque()
        self._wires: list[Wire] = []
        self._number, self._opening = load.first, 0
        self._until = 0.0
        self._latencies: list[float] = []
        self.came = Came()
        self.last = 0.0

    async def run(self) -> Came:
        """Until everything is answered, or nothing comes any more."""
        loop = asyncio.get_running_loop()
        begun = time.perf_counter()
        self._until = begun + self._load.seconds
        if self._load.rate:
            await self._arrivals(begun)
        else:
            for _ in range(self._load.connections):
                self._opening += 1
                await loop.create_connection(lambda: Wire(self), "127.0.0.1", self._load.port)
            await asyncio.sleep(max(0.0, self._until - time.perf_counter()))
        patience = time.perf_counter() + MOST_WAITING
        while self._pending() and time.perf_counter() < patience:
            await asyncio.sleep(0.01)
        self.came.lost += self._pending()
        for wire in self._wires:
            wire.close()
        await asyncio.sleep(0.01)
        self.came.seconds = max(self.last - begun, 1e-9)
        ordered = sorted(self._latencies) or [0.0]
        self.came.p50_ms = round(ordered[len(ordered) // 2] * 1e3, 2)
        self.came.p99_ms = round(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3, 2)
        return self.came

    def opened(self, wire: Wire) -> None:
        """A connection is there."""
        self._wires.append(wire)

    def free(self, wire: Wire) -> None:
        """A connection has nothing to do."""
        if self._load.rate:
            if self._waiting:
                self._send(wire, self._waiting.popleft())
            else:
                self._idle.append(wire)
        elif time.perf_counter() < self._until:
            self._send(wire, time.perf_counter())

    def answered(self, due: float, response: bytes) -> None:
        """A whole response is here."""
        now = time.perf_counter()
        self.last = now
        status = response[9:12].decode()
        self.came.statuses[status] += 1
        if status == "200":
            self._latencies.append(now - due)
            self.came.answers += response.count(ANSWER_OF_BATCH) if self._load.batch else 1
            place = response.find(b'"case":')
            if place > 0:
                self.came.cases[response[place + 7 : place + 18].split(b'"')[1].decode()] += 1

    def gone(self, wire: Wire, asked: bool) -> None:
        """A connection was closed by the other side."""
        self.came.lost += asked
        if wire in self._idle:
            self._idle.remove(wire)

    def _pending(self) -> int:
        return self.came.asked - sum(self.came.statuses.values()) - self.came.lost + len(self._waiting)

    async def _arrivals(self, begun: float) -> None:
        loop = asyncio.get_running_loop()
        count = int(self._load.rate * self._load.seconds)
        opened: set[asyncio.Task[Any]] = set()
        for place in range(count):
            due = begun + place / self._load.rate
            if (ahead := due - time.perf_counter()) > 0:
                await asyncio.sleep(ahead)
            elif place % 32 == 0:
                await asyncio.sleep(0)  # late: answers must be read all the same
            if self._idle:
                self._send(self._idle.popleft(), due)
                continue
            self._waiting.append(due)
            if self._opening < self._load.connections:
                self._opening += 1
                opened.add(
                    asyncio.ensure_future(loop.create_connection(lambda: Wire(self), "127.0.0.1", self._load.port))
                )
        await asyncio.gather(*opened, return_exceptions=True)

    def _send(self, wire: Wire, due: float) -> None:
        self.came.asked += 1
        wire.ask(self._request(self._number), due)
        self._number += 1


def requests_of(load: Load) -> Callable[[int], bytes]:
    """The request with a number, ready to send."""
    if load.mix == "health":
        raw = f"GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1:{load.port}\r\n\r\n".encode()
        return lambda number: raw
    new = {"reuse": 0, "mixed": 10, "paid": 1}[load.mix]
    verb = "answers:batch" if load.batch else "answers"
    heads = [
        f"POST /v1/datasets/readings/{verb} HTTP/1.1\r\nhost: 127.0.0.1:{load.port}\r\nauthorization: Bearer {key}\r\n"
        "content-type: application/json\r\n"
        for key in load.keys
    ]

    def question(number: int) -> str:
        if new and number % new == 0:
            first, second = divmod(number, load.span)
            return load.fresh % (first % load.span + 1, second + 1)
        return load.known[number % len(load.known)]

    def made(number: int) -> bytes:
        if load.batch:
            start = load.first + (number - load.first) * load.batch
            own = range(start, start + load.batch)
            body = f'{{"questions": [{", ".join(map(question, own))}]}}'
        else:
            body = question(number)
        head = heads[number % len(heads)]
        return f"{head}idempotency-key: load-{number}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()

    return made


def main() -> None:
    """One load from standard input; what came of it to standard output."""
    import uvloop

    given = json.load(sys.stdin)
    load = Load(**{**given, "keys": tuple(given["keys"]), "known": tuple(given["known"])})
    came = uvloop.run(Crowd(load, requests_of(load)).run())
    json.dump({name: getattr(came, name) for name in Came.__slots__}, sys.stdout)


if __name__ == "__main__":
    main()
