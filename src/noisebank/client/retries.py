"""Retries: when to send the same request again, with the same idempotency key, and how long to wait before."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from noisebank.client.errors import PASSING, error_of, name_of
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import NoisebankError, Unreachable

FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0
GATEWAY = (502, 503, 504)
"""Sent by a proxy in front of the service, without a problem of the service."""


@dataclass(slots=True)
class Patience:
    """The waits of one request: exponential backoff with jitter, at most `seconds` in all."""

    seconds: float
    repeatable: bool
    """Whether the request may reach the service twice: it reads, or it has an idempotency key."""
    now: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    tries: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.begun = self.now()

    @property
    def left(self) -> float:
        """Seconds that are left for retries."""
        return self.begun + self.seconds - self.now()

    def after_loss(self, error: httpx.TransportError) -> float:
        """Returns the seconds to wait after a connection was refused or lost; raises if retrying cannot help."""
        unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        what = f"the service cannot be reached ({type(error).__name__})"
        if not (unsent or self.repeatable):
            raise Unreachable(f"{what}; the request may have arrived, and is not sent twice") from error
        return self._wait(0.0, Unreachable(f"{what}, tried for {self.seconds:g} seconds; ask again with the same key"))

    def after(self, response: httpx.Response) -> float | None:
        """Returns the seconds to wait after a response; None after success. Raises its error if a retry cannot help."""
        if response.status_code < 400:
            return None
        try:
            body = response.json()
        except ValueError:
            body = None
        name, error = name_of(body), error_of(response.status_code, body)
        passing = name in PASSING if name else response.status_code in GATEWAY and self.repeatable
        if not passing:
            raise error
        return self._wait(_asked_for(response), error)

    def _wait(self, least: float, error: NoisebankError) -> float:
        self.tries += 1
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0**self.tries)
        # Not all at the same moment: many clients may have lost the same service.
        wait = max(least, longest * (0.5 + SystemEntropy().token(1)[0] / 512))
        if wait >= self.left:
            raise error
        return wait


def _asked_for(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0.0
