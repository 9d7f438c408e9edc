"""When to ask again: the same request, with the same idempotency key, for as long as the caller is patient."""

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
"""From a proxy in front of the service, without a problem of ours."""


@dataclass(slots=True)
class Patience:
    """One request's waits. Each is longer than the one before, none passes the end of all patience."""

    seconds: float
    repeatable: bool
    """Whether the request may reach the service twice: reading may, and so may whatever has an idempotency key."""
    now: Callable[[], float] = time.monotonic
    begun: float = field(init=False)
    tries: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.begun = self.now()

    @property
    def left(self) -> float:
        """Seconds of patience that are left."""
        return self.begun + self.seconds - self.now()

    def after_loss(self, error: httpx.TransportError) -> float:
        """The wait after a connection was refused or lost; raises when there is nothing to wait for."""
        unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        what = f"the service cannot be reached ({type(error).__name__})"
        if not (unsent or self.repeatable):
            raise Unreachable(f"{what}; the request may have arrived, and is not sent twice") from error
        return self._wait(0.0, Unreachable(f"{what}, tried for {self.seconds:g} seconds; ask again with the same key"))

    def after(self, response: httpx.Response) -> float | None:
        """The wait after a response; None if it is the answer. Raises what it stands for if waiting does not help."""
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
