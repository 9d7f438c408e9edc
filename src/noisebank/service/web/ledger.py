"""The ledger page, for everybody: entries, head, anchors, the verifier's report, and a check of receipts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from noisebank.account.account import Account
from noisebank.ledger.rpc import RpcChain
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.operations import PAGE
from noisebank.service.roles import Caller
from noisebank.service.web.anchors import anchors_of
from noisebank.service.web.rendering import by_htmx, form_of, fragment, page, state_facts, templates
from noisebank.service.web.verification import verified
from noisebank.verifier.report import CANNOT_SEE, CHAIN_PROVES, JOURNAL_PROVES, UNSEEN_TAIL, Report

router = APIRouter(prefix="/d/{dataset}/ledger")
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Form = Annotated[dict[str, str], Depends(form_of)]
HEAD_FORM = "a head has 64 hexadecimal digits; it is printed by `noisebank statement` and on this page"


@router.get("")
async def ledger(request: Request, dataset: str, caller: Anybody, cursor: str | None = None) -> Response:
    """Show the page."""
    return await _whole(request, state_of(request).desk.account(dataset), cursor)


@router.get("/verify")
async def show_verification(request: Request, dataset: str, caller: Anybody, head: str = "") -> Response:
    """Show the whole report at once, for browsers without scripts."""
    state = state_of(request)
    account, wrong = state.desk.account(dataset), _wrong_head(head)
    if wrong:
        return await _whole(request, account, None, 422, given={"head": head}, mistakes={"head": wrong})
    report = await state.checking.once(partial(verified, state.desk.bank, head.strip() or None))
    return await _whole(request, account, None, report=report.plain(), given={"head": head})


@router.get("/verify/events")
async def watched(request: Request, dataset: str, caller: Anybody, head: str = "") -> Response:
    """Stream the progress of the verifier, then its report."""
    state = state_of(request)
    account, wrong = state.desk.account(dataset), _wrong_head(head)
    state.checking.check()

    async def encode_events() -> AsyncIterator[bytes]:
        if wrong:
            yield f"event: mistake\ndata: {json.dumps({'detail': wrong})}\n\n".encode()
            return
        bank = state.desk.bank
        verify = partial(verified, bank, head.strip() or None)
        async for event in state.checking.follow(verify, bank.head().number + 1, lambda it: _report(it, account)):
            yield event

    return StreamingResponse(encode_events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


@router.post("/receipt")
async def receipt(request: Request, dataset: str, caller: Anybody, form: Form) -> Response:
    """Show whether a receipt is on this ledger."""
    state, text = state_of(request), form.get("receipt", "").strip()
    account = state.desk.account(dataset)
    checked, wrong = _checked(request, text)
    if by_htmx(request):
        return fragment(request, "receipt_part.html", 422 if wrong else 200, checked=checked, wrong=wrong)
    return await _whole(
        request, account, None, 422 if wrong else 200, given={"receipt": text}, checked=checked,
        mistakes={"receipt": wrong} if wrong else {},
    )  # fmt: skip


def _checked(request: Request, text: str) -> tuple[list[dict[str, Any]], str]:
    """Return the verdict on each receipt, or what is wrong with the pasted text."""
    allowed = "paste a receipt as it was downloaded: JSON that begins with {"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return [], ("nothing was pasted: " if not text else "this is not JSON: ") + allowed
    receipts = content if isinstance(content, list) else [content]
    if not receipts or len(receipts) > 100 or not all(isinstance(receipt, dict) for receipt in receipts):
        return [], allowed
    return [state_of(request).desk.check_receipt(receipt) for receipt in receipts], ""


def _wrong_head(text: str) -> str:
    digits = text.strip().lower().removeprefix("0x")
    good = not digits or (len(digits) == 64 and all(digit in "0123456789abcdef" for digit in digits))
    return "" if good else HEAD_FORM


def _report(report: Report, account: Account) -> str:
    return templates().get_template("report_part.html").render(report=report.plain(), mine=account.id.hex())


async def _whole(
    request: Request, account: Account, cursor: str | None, status: int = 200, report: dict[str, Any] | None = None,
    given: dict[str, str] | None = None, mistakes: dict[str, str] | None = None,
    checked: list[dict[str, Any]] | None = None,
) -> Response:  # fmt: skip
    state = state_of(request)
    chain = state.desk.bank.ledger
    on_chain = isinstance(chain, RpcChain)

    def work() -> dict[str, Any]:
        listed = state.desk.entries(account.name, cursor, PAGE // 2)
        fees: dict[bytes, Any] = {}
        if isinstance(chain, RpcChain):
            ids = [bytes.fromhex(entry["id"]) for entry in listed["entries"]]
            entries = [entry for id in ids if (entry := chain.books.reservation(account.id, id)) is not None]
            fees = state.fees.of(chain, entries)
        anchors = anchors_of(state)
        return {
            "entries": listed, "fees": {id.hex(): paid for id, paid in fees.items()},
            "anchors": None if anchors is None else anchors.to_json(),
        }  # fmt: skip

    facts = await state.room.run(work)
    return page(
        request, "ledger.html", status, title=f"Ledger of {account.name}", dataset=account.name, here="ledger",
        head=state.desk.head(), state=state_facts(account.state), account=account.id.hex(),
        count=chain.books.count(account.id), on_chain=on_chain, report=report,
        node=chain.node.name if isinstance(chain, RpcChain) else "",
        given={"head": "", "receipt": ""} | (given or {}), mistakes=mistakes or {}, checked=checked or [],
        cursor=cursor, proves=CHAIN_PROVES if on_chain else JOURNAL_PROVES, cannot_see=(UNSEEN_TAIL, *CANNOT_SEE),
        mine=account.id.hex(), **facts,
    )  # fmt: skip
