"""API routes for analysts: quotes, answers, receipts, their own history, live balance.

Requests for answers take a fast path past FastAPI's routing and validation, see `FastPath`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from noisebank.core.problems import PROBLEM_MEDIA_TYPE
from noisebank.service.answering import PendingAsk
from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import MAY_ASK, MAY_QUOTE, SIGNED_IN, read_secret, run_for, state_of
from noisebank.service.errors import build_problem
from noisebank.service.limits import overload_error
from noisebank.service.operations import MAX_PAGE_ROWS, PAGE_ROWS, RequestTime
from noisebank.service.result_schemas import ResultOut
from noisebank.service.roles import Caller
from noisebank.service.schemas import AskIn, Balance, History, QuoteIn, QuoteOut

Model = TypeVar("Model", bound=BaseModel)
router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["asking"], responses=PROBLEM_RESPONSES)
QuoteCaller = Annotated[Caller, Depends(MAY_QUOTE)]
AskCaller = Annotated[Caller, Depends(MAY_ASK)]
SignedInCaller = Annotated[Caller, Depends(SIGNED_IN)]
IdempotencyKey = Annotated[
    str, Header(alias="Idempotency-Key", min_length=1, max_length=160, examples=["7f3c-retry-me"])
]
ErrorHandler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
"""Turns an error into a response."""
REQUEST_ID_PLACEHOLDER = "(which request)"
ANSWERS_PATH = re.compile("/v1/datasets/([^/]+)/answers")
KEY_ADAPTER = TypeAdapter[str](Annotated[str, StringConstraints(min_length=1, max_length=160)])
Cursor = Annotated[str | None, Query(max_length=20)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_ROWS)]


@router.post("/quotes", name="quote", response_model=QuoteOut)
async def post_quote(request: Request, dataset: str, body: QuoteIn, caller: QuoteCaller) -> Response:
    """What an answer would cost now. Free, and opens no data."""
    state = state_of(request)
    return JSONResponse(await run_for(request, lambda: state.operations.quote(dataset, caller, body)))


async def post_answer(request: Request, dataset: str, body: AskIn, caller: AskCaller, key: IdempotencyKey) -> Response:
    """An answer: reserved on the ledger, measured, sealed, published, shown. The same key gives the same answer."""
    state = state_of(request)
    clock = RequestTime(time.time(), state.settings.skew_seconds)
    ask = PendingAsk(caller, read_secret(request) or "", body, key, clock)
    return Response(await state.answers.answer_one(dataset, ask), media_type="application/json")


async def parse_and_answer(request: Request) -> Response:
    """Parse a request for `post_answer` by hand, the caller first: FastAPI's validation takes longer than a reused
    answer. Mistakes are reported in FastAPI's form, as the API's description says.
    """
    caller = MAY_ASK.check_request(request)
    mistakes: list[Any] = []
    key, body = parse_key(request, mistakes), await parse_body(request, AskIn, mistakes)
    if key is None or body is None:
        raise_mistakes(mistakes)
    return await post_answer(request, request.path_params["dataset"], body, caller, key)


def parse_key(request: Request, mistakes: list[Any]) -> str | None:
    """Return the idempotency key of a request; None, and what is wrong with it, if it has none."""
    try:
        return KEY_ADAPTER.validate_python(request.headers.get("idempotency-key"))
    except ValidationError as error:
        missing = {} if "idempotency-key" in request.headers else {"type": "missing", "msg": "Field required"}
        mistakes += [{**mistake, "loc": ("header", "Idempotency-Key"), **missing} for mistake in error.errors()]
        return None


async def parse_body(request: Request, model: type[Model], mistakes: list[Any]) -> Model | None:
    """Return the body of a request; None, and what is wrong with it, if it does not have the model's form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        mistakes.append({"type": "media", "loc": ("body",), "msg": "must be JSON"})
        return None
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        mistakes += [{**mistake, "loc": ("body", *mistake["loc"])} for mistake in error.errors()]
        return None


def raise_mistakes(mistakes: list[Any]) -> NoReturn:
    """Raise the mistakes of a request that was parsed by hand, as FastAPI would."""
    raise RequestValidationError(mistakes)


class HandParsedRoute(APIRoute):
    """The route of `post_answer`, parsed by hand."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return parse_and_answer


router.add_api_route(
    "/answers",
    post_answer,
    name="answer",
    methods=["POST"],
    response_model=ResultOut,
    route_class_override=HandParsedRoute,
)
ANSWERS_ROUTE = router.routes[-1]


class FastPath:
    """Handles requests for answers without the framework, which would try all other routes first."""

    def __init__(self, error_handlers: Mapping[type[Exception], ErrorHandler]) -> None:
        self._error_handlers = error_handlers
        _, body, self._overload_headers = build_problem(overload_error(), REQUEST_ID_PLACEHOLDER)
        self._overload_body = json.dumps(body).encode()

    @staticmethod
    def handles_request(scope: Scope) -> bool:
        """Whether a request is one for an answer."""
        return (
            scope["type"] == "http" and scope["method"] == "POST" and ANSWERS_PATH.fullmatch(scope["path"]) is not None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        dataset = scope["path"].split("/")[3]
        scope["route"], scope["path_params"] = ANSWERS_ROUTE, {"dataset": dataset}
        request = Request(scope, receive, send)
        if state_of(request).answers.is_full(dataset):  # refused before the caller is identified and the body is read
            await self._overload_response(request)(scope, receive, send)
            return
        try:
            response = await parse_and_answer(request)
        except tuple(self._error_handlers) as error:
            handle = next(handler for kind, handler in self._error_handlers.items() if isinstance(error, kind))
            response = await handle(request, error)
        await response(scope, receive, send)

    def _overload_response(self, request: Request) -> Response:
        """Return the problem for a full queue, encoded beforehand: refusing must cost little when many come."""
        facts = request.scope["state"]
        facts["problem"] = "overloaded"
        state_of(request).metrics.problems.labels("overloaded").inc()
        return Response(
            self._overload_body.replace(REQUEST_ID_PLACEHOLDER.encode(), facts["request"].encode()),
            503,
            self._overload_headers,
            PROBLEM_MEDIA_TYPE,
        )


@router.get("/answers", name="answers", response_model=History)
async def list_answers(
    request: Request, dataset: str, caller: AskCaller, cursor: Cursor = None, limit: Limit = PAGE_ROWS
) -> Response:
    """One's own answers, newest first."""
    state = state_of(request)
    return JSONResponse(await run_for(request, lambda: state.operations.list_answers(dataset, caller, cursor, limit)))


@router.get("/answers/{id}", name="recalled", response_model=ResultOut)
async def get_answer(request: Request, dataset: str, id: str, caller: AskCaller) -> Response:
    """One's own answer again, with its receipt. Nothing is spent."""
    state = state_of(request)
    result = await run_for(request, lambda: state.operations.recall_answer(dataset, caller, id))
    return JSONResponse(result.to_json())


@router.get("/balance", name="balance", response_model=Balance)
async def get_balance(request: Request, dataset: str, caller: SignedInCaller) -> Response:
    """What is left in the account, and in one's own view."""
    return JSONResponse(state_of(request).operations.get_balance(dataset, caller))


@router.get(
    "/events", name="events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def stream_balance(request: Request, dataset: str, caller: SignedInCaller) -> Response:
    """The balance now and whenever it changes, as server-sent events. Ends with the key or session."""
    state = state_of(request)
    state.operations.find_account(dataset)
    state.streams.check_capacity()
    stream = state.streams.stream_changes(
        lambda: state.operations.get_balance(dataset, caller),
        "balance",
        lambda: state.authenticator.check_still_allowed(request),
    )
    return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})
