"""API routes for everybody about the ledger: entries, head, journal, receipts; and the statement for its readers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import EVERYBODY, MAY_READ_STATEMENTS, run_for, state_of
from noisebank.service.operations import MAX_PAGE_ROWS, PAGE_ROWS
from noisebank.service.roles import Caller
from noisebank.service.schemas import Checked, Entries, HeadOut, ReceiptIn, StatementOut

router = APIRouter(prefix="/v1", tags=["ledger"], responses=PROBLEM_RESPONSES)
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
StatementCaller = Annotated[Caller, Depends(MAY_READ_STATEMENTS)]
Cursor = Annotated[str | None, Query(max_length=20)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_ROWS)]


@router.get("/ledger/head", name="head", response_model=HeadOut)
async def get_head(request: Request, caller: AnyCaller) -> Response:
    """The newest block. Pin it: a history that is cut or rewritten can then be told."""
    return JSONResponse(state_of(request).operations.get_head())


@router.get(
    "/ledger/journal",
    name="journal",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {}}}},
)
async def get_journal(request: Request, caller: AnyCaller) -> Response:
    """The whole journal, to be checked with `noisebank verify` on another machine."""
    lines = state_of(request).operations.export_journal()
    return StreamingResponse(
        (line if line.endswith("\n") else line + "\n" for line in lines), media_type="application/x-ndjson",
        headers={"content-disposition": 'attachment; filename="journal.ndjson"'},
    )  # fmt: skip


@router.post("/receipts/check", name="check", response_model=Checked)
async def check_receipt(request: Request, body: ReceiptIn, caller: AnyCaller) -> Response:
    """Whether a receipt is on this ledger, in the block that it names."""
    return JSONResponse(state_of(request).operations.check_receipt(body.receipt))


@router.get("/datasets/{dataset}/entries", name="entries", response_model=Entries)
async def list_entries(
    request: Request, dataset: str, caller: AnyCaller, cursor: Cursor = None, limit: Limit = PAGE_ROWS
) -> Response:
    """An account's entries, newest first: amounts and salted digests, as the ledger has them."""
    return JSONResponse(state_of(request).operations.list_entries(dataset, cursor, limit))


@router.get("/datasets/{dataset}/statement", name="statement", response_model=StatementOut)
async def get_statement(
    request: Request, dataset: str, caller: StatementCaller, cursor: Cursor = None, limit: Limit = PAGE_ROWS
) -> Response:
    """The account's balance and history, with the questions: for its owner and its curator."""
    state = state_of(request)
    tag = state.operations.get_statement_tag(dataset, cursor, limit)
    if tag in [known.strip() for known in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers={"etag": tag})
    facts = await run_for(request, lambda: state.operations.get_statement(dataset, cursor, limit))
    return JSONResponse(facts, headers={"etag": tag, "cache-control": "private, no-cache"})
