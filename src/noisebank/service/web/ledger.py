"""The ledger page, for everybody: entries, head, anchors, the verifier's report, and a check of receipts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from noisebank.account.account import Account
from noisebank.ledger.rpc import ChainLedger
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.operations import PAGE_ROWS
from noisebank.service.roles import Caller
from noisebank.service.web.anchors import read_anchors
from noisebank.service.web.rendering import (
    is_htmx,
    load_templates,
    read_form,
    render_fragment,
    render_page,
    state_facts,
)
from noisebank.service.web.verification import verify_bank
from noisebank.verifier.report import CANNOT_SEE, CHAIN_PROVES, JOURNAL_PROVES, UNSEEN_TAIL, Report

router = APIRouter(prefix="/d/{dataset}/ledger")
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
Form = Annotated[dict[str, str], Depends(read_form)]
BAD_HEAD = "a head has 64 hexadecimal digits; it is printed by `noisebank statement` and on this page"


@router.get("")
async def show_ledger(request: Request, dataset: str, caller: AnyCaller, cursor: str | None = None) -> Response:
    """Show the page."""
    return await _render_page(request, state_of(request).operations.find_account(dataset), cursor)


@router.get("/verify")
async def show_verification(request: Request, dataset: str, caller: AnyCaller, head: str = "") -> Response:
    """Show the whole report at once, for browsers without scripts."""
    state = state_of(request)
    account, wrong = state.operations.find_account(dataset), _head_mistake(head)
    if wrong:
        return await _render_page(request, account, None, 422, fields={"head": head}, mistakes={"head": wrong})
    report = await state.verifications.run_verifier(partial(verify_bank, state.operations.bank, head.strip() or None))
    return await _render_page(request, account, None, report=report.to_json(), fields={"head": head})


@router.get("/verify/events")
async def stream_verification(request: Request, dataset: str, caller: AnyCaller, head: str = "") -> Response:
    """Stream the progress of the verifier, then its report."""
    state = state_of(request)
    account, wrong = state.operations.find_account(dataset), _head_mistake(head)
    state.verifications.check_capacity()

    async def encode_events() -> AsyncIterator[bytes]:
        if wrong:
            yield f"event: mistake\ndata: {json.dumps({'detail': wrong})}\n\n".encode()
            return
        bank = state.operations.bank
        verify = partial(verify_bank, bank, head.strip() or None)
        async for event in state.verifications.stream_progress(
            verify, bank.head().number + 1, lambda it: _render_report(it, account)
        ):
            yield event

    return StreamingResponse(encode_events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


@router.post("/receipt")
async def check_receipt(request: Request, dataset: str, caller: AnyCaller, form: Form) -> Response:
    """Show whether a receipt is on this ledger."""
    state, text = state_of(request), form.get("receipt", "").strip()
    account = state.operations.find_account(dataset)
    checked, wrong = _check_receipts(request, text)
    if is_htmx(request):
        return render_fragment(request, "receipt_part.html", 422 if wrong else 200, checked=checked, wrong=wrong)
    return await _render_page(
        request, account, None, 422 if wrong else 200, fields={"receipt": text}, checked=checked,
        mistakes={"receipt": wrong} if wrong else {},
    )  # fmt: skip


def _check_receipts(request: Request, text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the verdict on each receipt, or what is wrong with the pasted text."""
    allowed = "paste a receipt as it was downloaded: JSON that begins with {"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return [], ("nothing was pasted: " if not text else "this is not JSON: ") + allowed
    receipts = content if isinstance(content, list) else [content]
    if not receipts or len(receipts) > 100 or not all(isinstance(receipt, dict) for receipt in receipts):
        return [], allowed
    return [state_of(request).operations.check_receipt(receipt) for receipt in receipts], ""


def _head_mistake(text: str) -> str:
    digits = text.strip().lower().removeprefix("0x")
    good = not digits or (len(digits) == 64 and all(digit in "0123456789abcdef" for digit in digits))
    return "" if good else BAD_HEAD


def _render_report(report: Report, account: Account) -> str:
    return load_templates().get_template("report_part.html").render(report=report.to_json(), mine=account.id.hex())


async def _render_page(
    request: Request, account: Account, cursor: str | None, status: int = 200, report: dict[str, Any] | None = None,
    fields: dict[str, str] | None = None, mistakes: dict[str, str] | None = None,
    checked: list[dict[str, Any]] | None = None,
) -> Response:  # fmt: skip
    state = state_of(request)
    chain = state.operations.bank.ledger
    on_chain = isinstance(chain, ChainLedger)

    def work() -> dict[str, Any]:
        listed = state.operations.list_entries(account.name, cursor, PAGE_ROWS // 2)
        fees: dict[bytes, Any] = {}
        if isinstance(chain, ChainLedger):
            ids = [bytes.fromhex(entry["id"]) for entry in listed["entries"]]
            entries = [entry for id in ids if (entry := chain.books.find_reservation(account.id, id)) is not None]
            fees = state.fees.find_fees(chain, entries)
        anchors = read_anchors(state)
        return {
            "entries": listed, "fees": {id.hex(): paid for id, paid in fees.items()},
            "anchors": None if anchors is None else anchors.to_json(),
        }  # fmt: skip

    facts = await state.workers.run(work)
    return render_page(
        request, "ledger.html", status, title=f"Ledger of {account.name}", dataset=account.name, here="ledger",
        head=state.operations.get_head(), state=state_facts(account.state), account=account.id.hex(),
        count=chain.books.count_reservations(account.id), on_chain=on_chain, report=report,
        node=chain.node.name if isinstance(chain, ChainLedger) else "",
        given={"head": "", "receipt": ""} | (fields or {}), mistakes=mistakes or {}, checked=checked or [],
        cursor=cursor, proves=CHAIN_PROVES if on_chain else JOURNAL_PROVES, cannot_see=(UNSEEN_TAIL, *CANNOT_SEE),
        mine=account.id.hex(), **facts,
    )  # fmt: skip
