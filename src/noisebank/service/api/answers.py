"""API routes for analysts: quotes, answers, receipts, their own history, live balance.

Requests for answers take a fast path past FastAPI's routing and validation, see `FastPath`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import StringConstraints, TypeAdapter, ValidationError
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from noisebank.account.derived import Answers
from noisebank.service import serializers as shown
from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import MAY_ASK, MAY_QUOTE, SIGNED_IN, run_for, state_of
from noisebank.service.errors import MEDIA, body_of
from noisebank.service.limits import overloaded
from noisebank.service.operations import MOST_ROWS, PAGE, Clock
from noisebank.service.roles import Caller
from noisebank.service.schemas import AnswerOut, AskIn, Balance, History, QuoteOut, WishIn

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["asking"], responses=PROBLEMS)
Quoter = Annotated[Caller, Depends(MAY_QUOTE)]
Asker = Annotated[Caller, Depends(MAY_ASK)]
Somebody = Annotated[Caller, Depends(SIGNED_IN)]
IdempotencyKey = Annotated[
    str, Header(alias="Idempotency-Key", min_length=1, max_length=160, examples=["7f3c-retry-me"])
]
Problem = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
"""Turns an error into a response."""
LONG = 1_000
"""A longer question is parsed on a thread of its own, so that other requests do not wait for it."""
WHICH = "(which request)"
PATH_OF_ANSWERS = re.compile("/v1/datasets/([^/]+)/answers")
KEY_FORM = TypeAdapter[str](Annotated[str, StringConstraints(min_length=1, max_length=160)])
Cursor = Annotated[str | None, Query(max_length=20)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]


@router.post("/quotes", name="quote", response_model=QuoteOut)
async def quote(request: Request, dataset: str, body: WishIn, caller: Quoter) -> Response:
    """What an answer would cost now. Free, and opens no data."""
    state = state_of(request)
    return JSONResponse(await run_for(request, lambda: state.desk.quote(dataset, caller, body)))


async def answer(request: Request, dataset: str, body: AskIn, caller: Asker, key: IdempotencyKey) -> Response:
    """An answer: reserved on the ledger, measured, sealed, published, shown. The same key gives the same answer."""
    state = state_of(request)
    clock = Clock(time.time(), state.settings.skew_seconds)

    def work() -> bytes:
        result = state.desk.ask(dataset, caller, body, key, clock)
        state.metrics.answers.labels(dataset, "several" if isinstance(result, Answers) else result.case.name).inc()
        return shown.spelled(result)

    is_slow = len(body.sql) > LONG or state.desk.account(dataset).cubes.numbers  # to parse; to plan
    guarded = state.gate.still_open(request, work)
    return Response(await (state.room.run if is_slow else state.room.walk)(guarded), media_type="application/json")


async def straight(request: Request) -> Response:
    """Parse a request for `post_answer` by hand, the caller first: FastAPI's validation takes longer than a reused
    answer. Mistakes are reported in FastAPI's form, as the API's description says.
    """
    caller = MAY_ASK.check(request)
    mistakes: list[Any] = []
    try:
        key = KEY_FORM.validate_python(request.headers.get("idempotency-key"))
    except ValidationError as error:
        missing = {} if "idempotency-key" in request.headers else {"type": "missing", "msg": "Field required"}
        mistakes = [{**mistake, "loc": ("header", "Idempotency-Key"), **missing} for mistake in error.errors()]
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        mistakes.append({"type": "media", "loc": ("body",), "msg": "must be JSON"})
    else:
        try:
            body = AskIn.model_validate_json(await request.body())
        except ValidationError as error:
            mistakes += [{**mistake, "loc": ("body", *mistake["loc"])} for mistake in error.errors()]
    if mistakes:
        raise RequestValidationError(mistakes)
    return await answer(request, request.path_params["dataset"], body, caller, key)


class Straight(APIRoute):
    """The route of `post_answer`, parsed by hand."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        return straight


router.add_api_route(
    "/answers", answer, name="answer", methods=["POST"], response_model=AnswerOut, route_class_override=Straight
)
ANSWERS = router.routes[-1]


class ShortCut:
    """Handles requests for answers without the framework, which would try all other routes first."""

    def __init__(self, problems: Mapping[type[Exception], Problem]) -> None:
        self._problems = problems
        _, body, self._headers = body_of(overloaded(), WHICH)
        self._away = json.dumps(body).encode()

    @staticmethod
    def takes(scope: Scope) -> bool:
        """Whether a request is one for an answer."""
        return (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and PATH_OF_ANSWERS.fullmatch(scope["path"]) is not None
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"], scope["path_params"] = ANSWERS, {"dataset": scope["path"].split("/")[3]}
        request = Request(scope, receive, send)
        if state_of(request).room.full:  # refused before the caller is identified and the body is read
            await self._turned_away(request)(scope, receive, send)
            return
        try:
            response = await straight(request)
        except tuple(self._problems) as error:
            handle = next(handler for kind, handler in self._problems.items() if isinstance(error, kind))
            response = await handle(request, error)
        await response(scope, receive, send)

    def _turned_away(self, request: Request) -> Response:
        """Return the problem for a full queue, encoded beforehand: refusing must cost little when many come."""
        facts = request.scope["state"]
        facts["problem"] = "overloaded"
        state_of(request).metrics.problems.labels("overloaded").inc()
        return Response(self._away.replace(WHICH.encode(), facts["request"].encode()), 503, self._headers, MEDIA)


@router.get("/answers", name="answers", response_model=History)
async def answers(
    request: Request, dataset: str, caller: Asker, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """One's own answers, newest first."""
    state = state_of(request)
    return JSONResponse(await run_for(request, lambda: state.desk.history(dataset, caller, cursor, limit)))


@router.get("/answers/{id}", name="recalled", response_model=AnswerOut)
async def recalled(request: Request, dataset: str, id: str, caller: Asker) -> Response:
    """One's own answer again, with its receipt. Nothing is spent."""
    state = state_of(request)
    return JSONResponse(await run_for(request, lambda: state.desk.recall(dataset, caller, id)))


@router.get("/balance", name="balance", response_model=Balance)
async def balance(request: Request, dataset: str, caller: Somebody) -> Response:
    """What is left in the account, and in one's own view."""
    return JSONResponse(state_of(request).desk.balance(dataset, caller))


@router.get(
    "/events", name="events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def events(request: Request, dataset: str, caller: Somebody) -> Response:
    """The balance now and whenever it changes, as server-sent events. Ends with the key or session."""
    state = state_of(request)
    state.desk.account(dataset)
    state.streams.check()
    stream = state.streams.follow(
        lambda: state.desk.balance(dataset, caller), "balance", lambda: state.gate.check_again(request)
    )
    return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})
