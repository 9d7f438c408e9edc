"""What analysts do: quotes, answers, receipts, their own history, live balance."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.service import shown
from noisebank.service.access import Caller
from noisebank.service.desk import MOST_ROWS, PAGE, Clock
from noisebank.service.gate import MAY_ASK, MAY_QUOTE, SIGNED_IN
from noisebank.service.routes_public import PROBLEMS
from noisebank.service.wire import AnswerOut, AskIn, Balance, History, QuoteOut, WishIn

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["asking"], responses=PROBLEMS)
Quoter = Annotated[Caller, Depends(MAY_QUOTE)]
Asker = Annotated[Caller, Depends(MAY_ASK)]
Somebody = Annotated[Caller, Depends(SIGNED_IN)]
IdempotencyKey = Annotated[
    str, Header(alias="Idempotency-Key", min_length=1, max_length=160, examples=["7f3c-retry-me"])
]
Cursor = Annotated[str | None, Query(max_length=20)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]


@router.post("/quotes", response_model=QuoteOut)
async def quote(request: Request, dataset: str, asked: WishIn, caller: Quoter) -> Response:
    """What an answer would cost now. Free, and opens no data."""
    state = request.app.state
    return JSONResponse(await state.room.run(lambda: state.desk.quote(dataset, caller, asked)))


@router.post("/answers", response_model=AnswerOut)
async def answer(request: Request, dataset: str, asked: AskIn, caller: Asker, key: IdempotencyKey) -> Response:
    """An answer: reserved on the ledger, measured, sealed, published, shown. The same key gives the same answer."""
    state = request.app.state
    clock = Clock(time.time(), state.settings.skew_seconds)

    def work() -> dict[str, object]:
        made = state.desk.ask(dataset, caller, asked, key, clock)
        plain = shown.result(made)
        state.metrics.answers.labels(dataset, plain.get("case") or "several").inc()
        return plain

    return JSONResponse(await state.room.run(work))


@router.get("/answers", response_model=History)
async def answers(
    request: Request, dataset: str, caller: Asker, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """One's own answers, newest first."""
    state = request.app.state
    return JSONResponse(await state.room.run(lambda: state.desk.history(dataset, caller, cursor, limit)))


@router.get("/answers/{id}", response_model=AnswerOut)
async def recalled(request: Request, dataset: str, id: str, caller: Asker) -> Response:
    """One's own answer again, with its receipt. Nothing is spent."""
    state = request.app.state
    return JSONResponse(await state.room.run(lambda: state.desk.recall(dataset, caller, id)))


@router.get("/balance", response_model=Balance)
async def balance(request: Request, dataset: str, caller: Somebody) -> Response:
    """What is left in the account, and in one's own view."""
    return JSONResponse(request.app.state.desk.balance(dataset, caller))


@router.get("/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}})
async def events(request: Request, dataset: str, caller: Somebody) -> Response:
    """The balance now and whenever it changes, as server-sent events."""
    state = request.app.state
    state.desk.account(dataset)
    state.streams.check()
    stream = state.streams.follow(lambda: state.desk.balance(dataset, caller), "balance")
    return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})
