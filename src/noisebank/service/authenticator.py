"""Authentication, scopes and rate limits of requests, for the API and the web pages.

Each route declares the scope that it needs as a dependency (`MAY_ASK`, ...); a test reads these declarations. What
people, keys and sessions there are is kept by `auth`. `state_of` gives handlers the parts of the application.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from fastapi import Request

from noisebank.service.auth import AccessControl
from noisebank.service.errors import ApiError
from noisebank.service.limits import RateLimiter, WorkerPool
from noisebank.service.roles import Caller, Scope
from noisebank.service.settings import Settings

if TYPE_CHECKING:
    from noisebank.core.entropy import Entropy
    from noisebank.service.answering import AnswerBatches
    from noisebank.service.events import EventStreams
    from noisebank.service.learning import LearningMonitor
    from noisebank.service.logs import RequestLog
    from noisebank.service.metrics import Metrics
    from noisebank.service.operations import Operations
    from noisebank.service.tour import TourStop
    from noisebank.service.web.anchors import AnchorReport
    from noisebank.service.web.fees import FeeCache
    from noisebank.service.web.recent_answers import RecentAnswers
    from noisebank.service.web.spending import SpendingCache
    from noisebank.service.web.verification import Verifications

SESSION_COOKIE = "noisebank_session"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
Result = TypeVar("Result")


class ServiceState(Protocol):
    """The parts of a running service, as `make_app` and `add_pages` put them into `app.state`."""

    settings: Settings
    log: RequestLog
    metrics: Metrics
    entropy: Entropy
    access: AccessControl
    authenticator: Authenticator
    operations: Operations
    workers: WorkerPool
    answers: AnswerBatches
    streams: EventStreams
    learning: LearningMonitor
    tour: Sequence[TourStop]
    spending_totals: SpendingCache
    verifications: Verifications
    recent_answers: RecentAnswers
    fees: FeeCache
    anchored: tuple[float, AnchorReport] | None
    """What was last read about anchors, and when (monotonic seconds)."""


def state_of(request: Request) -> ServiceState:
    """Return the parts of the service that handles a request."""
    return cast(ServiceState, request.app.state)


class Authenticator:
    """Identifies the caller of every request and limits how fast they may send requests."""

    def __init__(self, access: AccessControl, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self.access = access
        self._key_limiter = RateLimiter(settings.rate, settings.burst, now)
        self._address_limiter = RateLimiter(settings.open_rate, settings.open_burst, now)

    def authenticate(self, request: Request) -> Caller | None:
        """Return who sends a request, or None; raises above their rate. An invalid key is refused, not ignored."""
        token = _bearer_token(request)
        secret = token or request.cookies.get(SESSION_COOKIE)
        caller = self.access.find_caller(secret) if secret else None
        if caller is None:
            self._address_limiter.take_token(request.client.host if request.client else "somewhere")
            if token:
                raise ApiError("not-signed-in", "this key or session is unknown, revoked or has expired")
            return None
        self._key_limiter.take_token(_limiter_name(caller))
        if not token and request.method not in SAFE_METHODS and is_cross_origin(request):
            raise ApiError("not-allowed", "a page of another site has sent this")
        request.scope["state"]["caller"] = caller
        return caller

    def count_questions(self, caller: Caller, count: int) -> None:
        """Count the questions of a batch as so many requests; the batch itself was counted as the first one."""
        self._key_limiter.owe_tokens(_limiter_name(caller), count - 1)

    def check_still_allowed(self, request: Request) -> None:
        """Raise if the caller's key or session has ended since the request was admitted."""
        if self.access.find_caller(read_secret(request) or "") is None:
            raise ApiError("access-ended", "this key or session has ended while the request was worked on")

    def guard_work(self, request: Request, work: Callable[[], Result]) -> Callable[[], Result]:
        """Return the work with a check of the caller's access before it begins and before its result is returned.

        Work that was charged is finished even if access ends meanwhile; the owner can read its answer.
        """

        def run_checked() -> Result:
            self.check_still_allowed(request)
            result = work()
            self.check_still_allowed(request)
            return result

        return run_checked


async def run_for(request: Request, work: Callable[[], Result]) -> Result:
    """Run blocking work on the worker pool for the caller of a request, as long as their access lasts."""
    state = state_of(request)
    return await state.workers.run(state.authenticator.guard_work(request, work))


def read_secret(request: Request) -> str | None:
    """Return the secret of the key or session that a request carries, as a bearer token or as a cookie."""
    return _bearer_token(request) or request.cookies.get(SESSION_COOKIE)


def _limiter_name(caller: Caller) -> str:
    return f"{caller.person.name} {caller.key_id}"


def is_cross_origin(request: Request) -> bool:
    """Whether the browser says that a page of another origin sent this request.

    SameSite cookies are also sent from other ports and subdomains, and a POST without a body needs no CORS preflight.
    """
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def _bearer_token(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if kind.lower() == "bearer" else None


class Requires:
    """A route's dependency: the scope that its caller needs. None: no key needed; "any": whoever is signed in."""

    def __init__(self, scope: Scope | str | None) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Any:
        """Check the request. Asynchronous, since FastAPI would run a plain function on another thread."""
        return self.check_request(request)

    def check_request(self, request: Request) -> Any:
        """Return the caller; raises if they lack the scope."""
        caller = state_of(request).authenticator.authenticate(request)
        if self.scope is None:
            return caller
        if caller is None:
            raise ApiError("not-signed-in", "sign in, or send a key as a bearer token")
        if isinstance(self.scope, Scope) and self.scope not in caller.scopes:
            raise ApiError("not-allowed", f"this needs a key that may {self.scope.value}")
        return caller


EVERYBODY, SIGNED_IN = Requires(None), Requires("any")
MAY_QUOTE, MAY_ASK, MAY_READ_STATEMENTS = Requires(Scope.QUOTE), Requires(Scope.ASK), Requires(Scope.STATEMENT)
MAY_READ_METRICS, MAY_MANAGE = Requires(Scope.METRICS), Requires(Scope.MANAGE)
