"""Authentication, scopes and rate limits of requests, for the API and the web pages.

Each route declares the scope that it needs as a dependency (`MAY_ASK`, ...); a test reads these declarations. What
people, keys and sessions there are is kept by `auth`. `state_of` gives handlers the parts of the application.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from fastapi import Request

from noisebank.service.auth import Access
from noisebank.service.errors import Turned
from noisebank.service.limits import Pace, Room
from noisebank.service.roles import Caller, Scope
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.core.entropy import Entropy
    from noisebank.service.events import Streams
    from noisebank.service.learning import Learning
    from noisebank.service.logs import Log
    from noisebank.service.metrics import Metrics
    from noisebank.service.operations import Desk
    from noisebank.service.web.anchors import Anchored
    from noisebank.service.web.fees import Fees
    from noisebank.service.web.recent_answers import Shelf
    from noisebank.service.web.spending import Spendings
    from noisebank.service.web.verification import Checking

COOKIE = "noisebank_session"
READING = ("GET", "HEAD", "OPTIONS")
Result = TypeVar("Result")


class ServiceState(Protocol):
    """The parts of a running service, as `make_app` and `add_pages` put them into `app.state`."""

    settings: Settings
    log: Log
    metrics: Metrics
    entropy: Entropy
    access: Access
    gate: Gate
    desk: Desk
    room: Room
    streams: Streams
    learning: Learning
    spendings: Spendings
    checking: Checking
    shelf: Shelf
    fees: Fees
    anchored: tuple[float, Anchored] | None
    """What was last read about anchors, and when (monotonic seconds)."""


def state_of(request: Request) -> ServiceState:
    """Return the parts of the service that handles a request."""
    return cast(ServiceState, request.app.state)


class Gate:
    """Identifies the caller of every request and limits how fast they may send requests."""

    def __init__(self, access: Access, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self.access = access
        self._keyed = Pace(settings.rate, settings.burst, now)
        self._open = Pace(settings.open_rate, settings.open_burst, now)

    def caller(self, request: Request) -> Caller | None:
        """Return who sends a request, or None; raises above their rate. An invalid key is refused, not ignored."""
        secret = secret_of(request)
        caller = self.access.caller(secret) if secret else None
        if caller is None:
            self._open.take(request.client.host if request.client else "somewhere")
            if secret and _bearer(request):
                raise Turned("not-signed-in", "this key or session is unknown, revoked or has expired")
            return None
        self._keyed.take(f"{caller.person.name} {caller.key}")
        if not _bearer(request) and request.method not in READING and sent_from_elsewhere(request):
            raise Turned("not-allowed", "a page of another site has sent this")
        request.scope["state"]["caller"] = caller
        return caller

    def check_again(self, request: Request) -> None:
        """Raise if the caller's key or session has ended since the request was admitted."""
        if self.access.caller(secret_of(request) or "") is None:
            raise Turned("access-ended", "this key or session has ended while the request was worked on")

    def still_open(self, request: Request, work: Callable[[], Result]) -> Callable[[], Result]:
        """Return the work with a check of the caller's access before it begins and before its result is returned.

        Work that was charged is finished even if access ends meanwhile; the owner can read its answer.
        """

        def run_checked() -> Result:
            self.check_again(request)
            result = work()
            self.check_again(request)
            return result

        return run_checked


async def run_for(request: Request, work: Callable[[], Result]) -> Result:
    """Run blocking work on the worker pool for the caller of a request, as long as their access lasts."""
    state = state_of(request)
    return await state.room.run(state.gate.still_open(request, work))


def secret_of(request: Request) -> str | None:
    """Return the secret of the key or session that a request carries, as a bearer token or as a cookie."""
    return _bearer(request) or request.cookies.get(COOKIE)


def sent_from_elsewhere(request: Request) -> bool:
    """Whether the browser says that a page of another origin sent this request.

    SameSite cookies are also sent from other ports and subdomains, and a POST without a body needs no CORS preflight.
    """
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def _bearer(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if kind.lower() == "bearer" else None


class Opens:
    """A route's dependency: the scope that its caller needs. None: no key needed; "any": whoever is signed in."""

    def __init__(self, scope: Scope | str | None) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Any:
        """Check the request. Asynchronous, since FastAPI would run a plain function on another thread."""
        return self.check(request)

    def check(self, request: Request) -> Any:
        """Return the caller; raises if they lack the scope."""
        caller = state_of(request).gate.caller(request)
        if self.scope is None:
            return caller
        if caller is None:
            raise Turned("not-signed-in", "sign in, or send a key as a bearer token")
        if isinstance(self.scope, Scope) and self.scope not in caller.scopes:
            raise Turned("not-allowed", f"this needs a key that may {self.scope.value}")
        return caller


EVERYBODY, SIGNED_IN = Opens(None), Opens("any")
MAY_QUOTE, MAY_ASK, MAY_READ_STATEMENTS = Opens(Scope.QUOTE), Opens(Scope.ASK), Opens(Scope.STATEMENT)
MAY_READ_METRICS, MAY_MANAGE = Opens(Scope.METRICS), Opens(Scope.MANAGE)
