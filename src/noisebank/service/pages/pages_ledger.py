"""The ledger, for anyone: entries, head, anchors, the verifier's report while it works, receipts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse

from noisebank.audit.report import CANNOT_SEE, CHAIN_PROVES, JOURNAL_PROVES, UNSEEN_TAIL, Report
from noisebank.ledger.rpc import RpcChain
from noisebank.path import Account
from noisebank.service.desk import PAGE
from noisebank.service.gate import EVERYBODY, state_of
from noisebank.service.pages.anchors import anchors_of
from noisebank.service.pages.checking import verified
from noisebank.service.pages.rendering import by_htmx, form_of, fragment, page, templates
from noisebank.service.roles import Caller

router = APIRouter(prefix="/d/{dataset}/ledger")
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Form = Annotated[dict[str, str], Depends(form_of)]
HEAD_FORM = "a head has 64 hexadecimal digits; it is printed by `noisebank statement` and on this page"


@router.get("")
async def ledger(request: Request, dataset: str, caller: Anybody, cursor: str | None = None) -> Response:
    """The page."""
    return await _whole(request, state_of(request).desk.account(dataset), cursor)


@router.get("/verify")
async def verify(request: Request, dataset: str, caller: Anybody, head: str = "") -> Response:
    """The whole report at once, for browsers without scripts."""
    state = state_of(request)
    account, wrong = state.desk.account(dataset), _wrong_head(head)
    if wrong:
        return await _whole(request, account, None, 422, given={"head": head}, mistakes={"head": wrong})
    report = await state.checking.once(partial(verified, state.desk.bank, head.strip() or None))
    return await _whole(request, account, None, report=report, given={"head": head})


@router.get("/verify/events")
async def watched(request: Request, dataset: str, caller: Anybody, head: str = "") -> Response:
    """The same while somebody watches."""
    state = state_of(request)
    account, wrong = state.desk.account(dataset), _wrong_head(head)
    state.checking.check()

    async def events() -> AsyncIterator[bytes]:
        if wrong:
            yield f"event: mistake\ndata: {json.dumps({'detail': wrong})}\n\n".encode()
            return
        bank = state.desk.bank
        verify = partial(verified, bank, head.strip() or None)
        async for event in state.checking.follow(verify, bank.head().number + 1, lambda it: _report(it, account)):
            yield event

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


@router.post("/receipt")
async def receipt(request: Request, dataset: str, caller: Anybody, form: Form) -> Response:
    """Whether a receipt is on this ledger."""
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
    """The verdict on each receipt, or what is wrong with what was pasted."""
    allowed = "paste a receipt as it was downloaded: JSON that begins with {"
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError):
        return [], ("nothing was pasted: " if not text else "this is not JSON: ") + allowed
    found = plain if isinstance(plain, list) else [plain]
    if not found or len(found) > 100 or not all(isinstance(each, dict) for each in found):
        return [], allowed
    return [state_of(request).desk.check_receipt(each) for each in found], ""


def _wrong_head(text: str) -> str:
    digits = text.strip().lower().removeprefix("0x")
    good = not digits or (len(digits) == 64 and all(each in "0123456789abcdef" for each in digits))
    return "" if good else HEAD_FORM


def _report(report: Report, account: Account) -> str:
    return templates().get_template("report_part.html").render(report=report, mine=account.id.hex())


async def _whole(
    request: Request, account: Account, cursor: str | None, status: int = 200, report: Report | None = None,
    given: dict[str, str] | None = None, mistakes: dict[str, str] | None = None,
    checked: list[dict[str, Any]] | None = None,
) -> Response:  # fmt: skip
    state, chain = state_of(request), state_of(request).desk.bank.ledger
    on_chain = isinstance(chain, RpcChain)

    def work() -> dict[str, Any]:
        found = state.desk.entries(account.name, cursor, PAGE // 2)
        fees: dict[bytes, Any] = {}
        if isinstance(chain, RpcChain):
            ids = [bytes.fromhex(entry["id"]) for entry in found["entries"]]
            entries = [entry for id in ids if (entry := chain.books.reservation(account.id, id)) is not None]
            fees = state.fees.of(chain, entries)
        return {"entries": found, "fees": {id.hex(): each for id, each in fees.items()}, "anchors": anchors_of(state)}

    facts = await state.room.run(work)
    return page(
        request, "ledger.html", status, title=f"Ledger of {account.name}", dataset=account.name, here="ledger",
        head=state.desk.head(), state=account.state, account=account.id.hex(), count=chain.books.count(account.id),
        on_chain=on_chain, node=chain.node.name if isinstance(chain, RpcChain) else "", report=report,
        given={"head": "", "receipt": ""} | (given or {}), mistakes=mistakes or {}, checked=checked or [],
        cursor=cursor, proves=CHAIN_PROVES if on_chain else JOURNAL_PROVES, cannot_see=(UNSEEN_TAIL, *CANNOT_SEE),
        mine=account.id.hex(), **facts,
    )  # fmt: skip
