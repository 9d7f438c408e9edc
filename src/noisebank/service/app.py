"""Builds the FastAPI application of one bank: its routes, pages, middleware and error handlers.

`server` runs it; tests build one per bank.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from noisebank import __version__
from noisebank.bank.bank import Bank
from noisebank.core.entropy import Entropy, SystemEntropy
from noisebank.core.errors import NoisebankError
from noisebank.core.problems import PROBLEM_MEDIA_TYPE
from noisebank.service.answering import AnswerBatches
from noisebank.service.api import analysts, answers, batches, learning, ledger, public, sessions, sign_in
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.authenticator import Authenticator, ServiceState, state_of
from noisebank.service.errors import ApiError
from noisebank.service.events import EventStreams
from noisebank.service.learning import LearningMonitor
from noisebank.service.limits import WorkerPool
from noisebank.service.logs import RequestLog
from noisebank.service.metrics import Metrics
from noisebank.service.middleware import RequestMiddleware
from noisebank.service.operations import Operations
from noisebank.service.problem_reports import report_problem
from noisebank.service.settings import Settings
from noisebank.service.tour import TourStop
from noisebank.service.web import add_pages
from noisebank.service.web.rendering import problem_page, static_problem_page, wants_page

DESCRIPTION = """A privacy bank: statistical questions, noisy answers, an enforced budget, books that anyone can check.

Send a key as `Authorization: Bearer nbk_...`. Whatever spends needs an `Idempotency-Key`. Errors are
`application/problem+json` with stable types. Amounts are precision (Delta²/sigma²), exact decimals as text."""


class Application(FastAPI):
    """FastAPI, and beside it a fast path for requests for answers. Both are wrapped in the middleware."""

    fast_path: RequestMiddleware

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if answers.FastPath.handles_request(scope):
            scope["app"] = self
            await self.fast_path(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def make_app(
    bank: Bank,
    settings: Settings,
    log: RequestLog | None = None,
    entropy: Entropy | None = None,
    access: AccessControl | None = None,
    tour: Sequence[TourStop] = (),
) -> FastAPI:
    """Return the application for an open bank. Its shutdown waits until every reservation is finished."""
    entropy, log, metrics = entropy or SystemEntropy(), log or RequestLog(), Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        state.streams.close()
        state.verifications.close()
        state.learning.close()
        state.answers.close()  # what is reserved is finished first
        state.workers.close()
        state.access.close()
        log.flush()

    app = Application(
        title="noisebank", version=__version__, description=DESCRIPTION, lifespan=lifespan,
        openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    state = cast(ServiceState, app.state)
    state.settings, state.log, state.metrics, state.entropy = settings, log, metrics, entropy
    state.access = access or AccessControl(bank.folder / ACCESS_FILE, entropy)
    state.authenticator, state.operations = Authenticator(state.access, settings), Operations(bank)
    state.access.view_limits = state.operations.get_view_limits
    state.workers, state.streams = WorkerPool(settings.threads, settings.queue), EventStreams(settings)
    state.answers = AnswerBatches(state.operations, state.access, metrics, settings)
    state.learning, state.tour = LearningMonitor(bank, settings), tour
    for routes in (public, answers, batches, ledger, learning, analysts, sessions, sign_in):
        app.include_router(routes.router)
    add_pages(app)
    for kind, handler in ERROR_HANDLERS.items():
        app.add_exception_handler(kind, handler)
    options: dict[str, Any] = {
        "max_body": lambda path: settings.max_batch_body if path.endswith(":batch") else settings.max_body,
        "entropy": entropy, "log": log, "metrics": metrics,
        "error_page": lambda path: static_problem_page() if wants_page(path) else None,
    }  # fmt: skip
    app.add_middleware(RequestMiddleware, **options)
    app.fast_path = RequestMiddleware(answers.FastPath(ERROR_HANDLERS), **options)
    return app


async def _problem_response(request: Request, error: Exception) -> Response:
    problem, body, headers = report_problem(state_of(request), error, request.scope["state"]["request"])
    request.scope["state"]["problem"] = problem.name
    if wants_page(request.url.path):
        return problem_page(request, problem, body, headers)
    return JSONResponse(body, problem.status, headers, PROBLEM_MEDIA_TYPE)


async def _http_problem_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    names = {404: "not-found", 405: "method-not-allowed", 413: "too-large", 415: "wrong-media"}
    if isinstance(error.__cause__, ApiError):  # of ours, raised while the framework read the body
        return await _problem_response(request, error.__cause__)
    response = await _problem_response(request, ApiError(names.get(error.status_code, "bad-body"), str(error.detail)))
    if error.headers:
        response.headers.update(error.headers)
    return response


async def _validation_problem_response(request: Request, error: Exception) -> Response:
    """Return what is wrong with the request, field by field; never quotes a value that was sent."""
    assert isinstance(error, RequestValidationError)
    first: Any = error.errors()[0]
    if first["type"] in ("missing",) and first["loc"][:2] == ("header", "Idempotency-Key"):
        return await _problem_response(
            request, ApiError("key-missing", "send an Idempotency-Key: a retry with it is charged once")
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method in ("POST", "PUT", "PATCH") and kind != "application/json":
        return await _problem_response(
            request, ApiError("wrong-media", "send JSON, with content-type application/json")
        )
    mistakes = [f"{'.'.join(map(str, mistake['loc']))}: {mistake['msg']}" for mistake in error.errors()[:8]]
    return await _problem_response(request, ApiError("bad-body", "; ".join(mistakes)))


ERROR_HANDLERS = {
    NoisebankError: _problem_response,
    HTTPException: _http_problem_response,
    RequestValidationError: _validation_problem_response,
}
"""How each kind of error becomes a response; of several that fit, the first."""
