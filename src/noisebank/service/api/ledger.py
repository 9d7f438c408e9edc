"""API routes for everybody about the ledger: entries, head, journal, receipts; and the statement for its readers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import EVERYBODY, MAY_READ_STATEMENTS, run_for, state_of
from noisebank.service.operations import MOST_ROWS, PAGE
from noisebank.service.roles import Caller
from noisebank.service.schemas import Checked, Entries, HeadOut, ReceiptIn, StatementOut

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEMS)
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Reader = Annotated[Caller, Depends(MAY_READ_STATEMENTS)]
Cursor = Annotated[str | None, Query(max_length=20)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]


@router.get("/ledger/head", name="head", response_model=HeadOut)
async def head(request: Request, caller: Anybody) -> Response:
    """The newest block. Pin it: a history that is cut or rewritten can then be told."""
    return JSONResponse(state_of(request).desk.head())


@router.get(
    "/ledger/journal",
    name="journal",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {}}}},
)
async def journal(request: Request, caller: Anybody) -> Response:
    """The whole journal, to be checked with `noisebank verify` on another machine."""
    lines = state_of(request).desk.journal()
    return StreamingResponse(
        (line if line.endswith("\n") else line + "\n" for line in lines), media_type="application/x-ndjson",
        headers={"content-disposition": 'attachment; filename="journal.ndjson"'},
    )  # fmt: skip


@router.post("/receipts/check", name="check", response_model=Checked)
async def check(request: Request, body: ReceiptIn, caller: Anybody) -> Response:
    """Whether a receipt is on this ledger, in the block that it names."""
    return JSONResponse(state_of(request).desk.check_receipt(body.receipt))


@router.get("/datasets/{dataset}/entries", name="entries", response_model=Entries)
async def entries(
    request: Request, dataset: str, caller: Anybody, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """An account's entries, newest first: amounts and salted digests, as the ledger has them."""
    return JSONResponse(state_of(request).desk.entries(dataset, cursor, limit))


@router.get("/datasets/{dataset}/statement", name="statement", response_model=StatementOut)
async def statement(
    request: Request, dataset: str, caller: Reader, cursor: Cursor = None, limit: Limit = PAGE
) -> Response:
    """The account's balance and history, with the questions: for its owner and its curator."""
    state = state_of(request)
    tag = state.desk.statement_tag(dataset, cursor, limit)
    if tag in [known.strip() for known in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"etag": tag})
    facts = await run_for(request, lambda: state.desk.statement(dataset, cursor, limit))
    return JSONResponse(facts, headers={"etag": tag, "cache-control": "private, no-cache"})
