"""Retries: when to send the same request again, with the same idempotency key, and how long to wait before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from noisebank.client.errors import TRANSIENT, error_from_problem, problem_name
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import NoisebankError, Unreachable

FIRST_WAIT, MAX_WAIT = 0.05, 5.0
GATEWAY_STATUSES = (502, 503, 504)
"""Sent by a proxy in front of the service, without a problem of the service."""


@dataclass(slots=True)
class RetrySchedule:
    """The waits of one request: exponential backoff with jitter, at most `seconds` in all."""

    seconds: float
    repeatable: bool
    """Whether the request may reach the service twice: it reads, or it has an idempotency key."""
    clock: Callable[[], float] = time.monotonic
    started: float = field(init=False)
    attempts: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def seconds_left(self) -> float:
        """Seconds that are left for retries."""
        return self.started + self.seconds - self.clock()

    def wait_after_loss(self, error: httpx.TransportError) -> float:
        """Returns the seconds to wait after a connection was refused or lost; raises if retrying cannot help."""
        unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        what = f"the service cannot be reached ({type(error).__name__})"
        if not (unsent or self.repeatable):
            raise Unreachable(f"{what}; the request may have arrived, and is not sent twice") from error
        return self._next_wait(
            0.0, Unreachable(f"{what}, tried for {self.seconds:g} seconds; ask again with the same key")
        )

    def wait_after_response(self, response: httpx.Response) -> float | None:
        """Returns the seconds to wait after a response; None after success. Raises its error if a retry cannot help."""
        if response.status_code < 400:
            return None
        try:
            body = response.json()
        except ValueError:
            body = None
        name, error = problem_name(body), error_from_problem(response.status_code, body)
        passing = name in TRANSIENT if name else response.status_code in GATEWAY_STATUSES and self.repeatable
        if not passing:
            raise error
        return self._next_wait(_retry_after(response), error)

    def _next_wait(self, min_wait: float, error: NoisebankError) -> float:
        self.attempts += 1
        longest = min(MAX_WAIT, FIRST_WAIT * 2.0**self.attempts)
        # Not all at the same moment: many clients may have lost the same service.
        wait = max(min_wait, longest * (0.5 + SystemEntropy().token(1)[0] / 512))
        if wait >= self.seconds_left:
            raise error
        return wait


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
