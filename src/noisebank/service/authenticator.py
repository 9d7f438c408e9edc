"""The gate: who is it, may they, and not too fast. A route says which scope it needs; the test of roles reads that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request

from noisebank.service.auth import Access
from noisebank.service.errors import Turned
from noisebank.service.limits import Pace
from noisebank.service.roles import Caller, Scope
from noisebank.service.settings import Settings

COOKIE = "noisebank_session"
READING = ("GET", "HEAD", "OPTIONS")
Result = TypeVar("Result")


class Gate:
    """Looks at every request's key, session and pace."""

    def __init__(self, access: Access, settings: Settings, now: Callable[[], float] = time.monotonic) -> None:
        self.access = access
        self._keyed = Pace(settings.rate, settings.burst, now)
        self._open = Pace(settings.open_rate, settings.open_burst, now)

    def caller(self, request: Request) -> Caller | None:
        """Whoever it is, at the pace that they may have. A key that opens nothing is refused, not ignored."""
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
        """Once more, after a wait: whoever was let in may have been shut out meanwhile."""
        if self.access.caller(secret_of(request) or "") is None:
            raise Turned("access-ended", "this key or session has ended while the request was worked on")

    def still_open(self, request: Request, work: Callable[[], Result]) -> Callable[[], Result]:
        """Work that begins only if its caller may still come in when its turn comes, and whose result they see only if
        they may when it is done. What was charged meanwhile is finished all the same, and the owner's to read."""

        def checked() -> Result:
            self.check_again(request)
            made = work()
            self.check_again(request)
            return made

        return checked


async def run_for(request: Request, work: Callable[[], Result]) -> Result:
    """Work in the room for whoever sent the request, as long as they may come in."""
    state = request.app.state
    made: Result = await state.room.run(state.gate.still_open(request, work))
    return made


def secret_of(request: Request) -> str | None:
    """The key or session that a request came with."""
    return _bearer(request) or request.cookies.get(COOKIE)


def sent_from_elsewhere(request: Request) -> bool:
    """Whether a browser says that a page of another origin sends this. A cookie comes along from other ports and
    subdomains, SameSite or not, and a POST without a body needs nobody's leave."""
    return request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


def _bearer(request: Request) -> str | None:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() or None if kind.lower() == "bearer" else None


class Opens:
    """A dependency of a route: everybody may (None), whoever is signed in ("any"), or who has a scope."""

    def __init__(self, scope: Scope | str | None) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Any:
        """Not a plain function: those are sent to another thread, and this one never waits for long."""
        return self.check(request)

    def check(self, request: Request) -> Any:
        """Who it is; raises if they may not."""
        gate: Gate = request.app.state.gate
        caller = gate.caller(request)
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
