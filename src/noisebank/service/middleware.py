"""ASGI middleware: gives every request an id, a bounded body, security headers, metrics and a log line.

Whatever fails becomes a problem (see `service.errors`), or an error page at addresses of the web pages.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from noisebank.core.entropy import Entropy
from noisebank.core.problems import PROBLEM_MEDIA_TYPE
from noisebank.service.errors import ApiError, build_problem
from noisebank.service.logs import RequestLog
from noisebank.service.metrics import Metrics
from noisebank.service.roles import Caller

SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"x-frame-options": b"DENY",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
}
"""On every response. Scripts and styles are our own files: nothing inline, nothing from other hosts."""


class RequestMiddleware:
    """Wraps an ASGI application.

    `max_body` returns how many bytes a body at a path may have; `error_page` HTML for unexpected errors at a path, or
    None for JSON.
    """

    def __init__(
        self, app: ASGIApp, max_body: Callable[[str], int], entropy: Entropy, log: RequestLog, metrics: Metrics,
        error_page: Callable[[str], bytes | None] = lambda path: None,
    ) -> None:  # fmt: skip
        self._error_page = error_page
        self._app, self._max_body, self._log, self._metrics = app, max_body, log, metrics
        # Request ids are names, not secrets. Drawing each from the system would release the interpreter each time, and
        # requests would come to the ledger one by one instead of many at once.
        self._id_prefix, self._numbers = entropy.token(4).hex(), count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, began = f"{self._id_prefix}{next(self._numbers):08x}", time.perf_counter()
        state = scope.setdefault("state", {})
        state["request"] = request
        status, begun = 500, False

        async def send_with_headers(message: Message) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                present = {name for name, _ in message["headers"]}
                extra = [pair for pair in SECURITY_HEADERS.items() if pair[0] not in present]
                message["headers"] = [*message["headers"], *extra, (b"x-request-id", request.encode())]
            await send(message)

        try:
            await self._app(scope, self._limit_body(scope, receive), send_with_headers)
        except Exception as error:
            if begun:
                self._log.write_failure(request, error)
            else:
                await self.send_problem(error, request, send_with_headers, scope["path"])
        finally:
            route = _route_pattern(scope)
            took = time.perf_counter() - began
            self._metrics.count_request(route, status, took)
            caller: Caller | None = state.get("caller")
            self._log.write_event(
                "request", request=request, method=scope["method"], route=route, status=status,
                ms=round(took * 1e3, 2), who=caller.person.name if caller else None,
                key=caller.key_id if caller else None, problem=state.get("problem"),
            )  # fmt: skip

    async def send_problem(self, error: Exception, request: str, send: Send, path: str = "") -> None:
        """Send the problem for an error. Errors that are not ours are logged and not quoted."""
        problem, body, headers = build_problem(error, request)
        if problem.status >= 500 and problem.name in ("failed", "tampered"):
            self._log.write_failure(request, error)
        self._metrics.problems.labels(problem.name).inc()
        raw = json.dumps(body).encode()
        page = self._error_page(path)
        media_type, raw = (PROBLEM_MEDIA_TYPE, raw) if page is None else ("text/html; charset=utf-8", page)
        headers = {"content-type": media_type, "content-length": str(len(raw)), **headers}
        await send(
            {
                "type": "http.response.start",
                "status": problem.status,
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await send({"type": "http.response.body", "body": raw})

    def _limit_body(self, scope: Scope, receive: Receive) -> Receive:
        """Return a `receive` that raises once the body is larger than allowed, whatever its Content-Length says."""
        max_body = self._max_body(scope["path"])
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > max_body:
            raise ApiError("too-large", f"a request's body has at most {max_body} bytes")
        seen = 0

        async def receive_bounded() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > max_body:
                raise ApiError("too-large", f"a request's body has at most {max_body} bytes")
            return message

        return receive_bounded


def _route_pattern(scope: Scope) -> str:
    """Return the route's pattern. Paths hold names and ids: too many different ones for a metric's label."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or ("/static" if scope["path"].startswith("/static/") else "(none)")
