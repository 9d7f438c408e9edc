"""The analyst's console: a question, its price before anything is spent, the answer, one's own history."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from noisebank.errors import Misuse, NoisebankError
from noisebank.path import Account
from noisebank.records import Case
from noisebank.service import shown
from noisebank.service.desk import PAGE, Clock, wish_text
from noisebank.service.gate import MAY_ASK, MAY_QUOTE, run_for, state_of
from noisebank.service.pages.downloads import csv_text, download
from noisebank.service.pages.draft import Draft, blame, controls, fresh, wished
from noisebank.service.pages.rendering import by_htmx, form_of, fragment, page
from noisebank.service.pages.shelf import Shown
from noisebank.service.problems import Turned, problem_of
from noisebank.service.roles import Caller
from noisebank.service.wallet import Spend, typed_spend
from noisebank.service.wire import Agreed, AskIn

router = APIRouter(prefix="/d/{dataset}/console")
Quoter = Annotated[Caller, Depends(MAY_QUOTE)]
Asker = Annotated[Caller, Depends(MAY_ASK)]
Form = Annotated[dict[str, str], Depends(form_of)]
SIGN_WITHIN = 300
"""Seconds that a wallet's agreement holds."""


@router.get("")
async def console(request: Request, dataset: str, caller: Asker) -> Response:
    """The whole page."""
    account = state_of(request).desk.account(dataset)
    return await _whole(request, account, caller, fresh(account))


@router.post("/quote")
async def quote(request: Request, dataset: str, caller: Quoter, form: Form) -> Response:
    """The price beside the form, and a message at each field that needs one."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)
    facts = await run_for(request, lambda: _quoted(request, account, caller, draft))
    return fragment(request, "quote.html", draft=draft, quote=facts, dataset=dataset, live=True, **_limits(caller))


@router.post("/ask")
async def ask(request: Request, dataset: str, caller: Asker, form: Form) -> Response:
    """The answer; or why there is none, with the form as it was."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)

    def work() -> dict[str, Any] | None:
        asked = wished(draft, account)
        return None if asked is None else _answered(request, account, caller, draft, asked.model_dump())

    answer: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None
    try:
        answer = await run_for(request, work)
    except Misuse as error:
        blame(draft, error)
    except Turned:
        raise
    except NoisebankError as error:
        problem = problem_of(error)
        refusal = {"problem": problem, "detail": str(error)}
        state.metrics.problems.labels(problem.name).inc()
    status = 200 if answer else 409 if refusal else 422
    facts = {"draft": draft, "answer": answer, "refusal": refusal, "dataset": dataset, "key": _new_key(request)}
    if by_htmx(request):
        return fragment(request, "answer_part.html", status, again=False, **facts)
    return await _whole(request, account, caller, draft, status, answer=answer, refusal=refusal)


@router.post("/to-sign")
async def to_sign(request: Request, dataset: str, caller: Asker, form: Form) -> Response:
    """What a wallet has to agree to (EIP-712), for analysts whose every answer needs that."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)

    def work() -> dict[str, Any]:
        asked, quoted = wished(draft, account), _quoted(request, account, caller, draft)
        if asked is None or quoted is None:
            raise Turned("bad-body", next(iter(draft.mistakes.values()), "the form is not complete"))
        cost = sum(shown.read_amount(quoted[part]).units for part in ("cost", "first_look"))
        deadline = int(time.time()) + SIGN_WITHIN
        spend = Spend(account.id, asked.sql, wish_text(asked), draft["key"], cost, deadline)
        return {"typed": typed_spend(spend, account.ledger.chain_id, account.ledger.contract)}

    try:
        return JSONResponse(await run_for(request, work))
    except NoisebankError as error:
        return JSONResponse({"detail": str(error)}, problem_of(error).status)


@router.get("/history")
async def history(request: Request, dataset: str, caller: Asker, cursor: str | None = None) -> Response:
    """One's own answers, a page of them."""
    state = state_of(request)
    found = await run_for(request, lambda: state.desk.history(dataset, caller, cursor, PAGE // 2))
    return fragment(request, "history_part.html", history=found, dataset=dataset)


@router.get("/history.csv")
async def history_csv(request: Request, dataset: str, caller: Asker) -> Response:
    """All of one's own answers."""
    state = state_of(request)

    def work() -> str:
        rows: list[list[Any]] = []
        cursor: str | None = None
        while True:
            found = state.desk.history(dataset, caller, cursor, 500)
            for row in found["answers"]:
                names = ("id", "sql", "case", "wanted", "cost", "published")
                rows.append([time.strftime("%FT%TZ", time.gmtime(row["time"])), *(row[name] for name in names)])
            cursor = found["next"]
            if cursor is None:
                return csv_text(["time", "id", "sql", "case", "wanted", "cost", "published"], rows)

    return download(await run_for(request, work), "text/csv", f"{dataset}-history.csv")


@router.get("/answers/{id}")
async def again(request: Request, dataset: str, caller: Asker, id: str) -> Response:
    """One's own answer again. Nothing is spent."""
    state = state_of(request)
    account = state.desk.account(dataset)
    answer = await run_for(request, lambda: _explained(account, state.desk.recall(dataset, caller, id)))
    answer["kept"] = f"answers/{id}"
    facts: dict[str, Any] = {"draft": fresh(account), "answer": answer, "refusal": None, "dataset": dataset}
    if by_htmx(request):
        return fragment(request, "answer_part.html", again=True, key="", **facts)
    return await _whole(request, account, caller, fresh(account), answer=answer)


@router.get("/answers/{id}/{kind}")
async def kept(request: Request, dataset: str, caller: Asker, id: str, kind: str) -> Response:
    """An answer's receipt or table, from the vault."""
    state = state_of(request)
    return _part(await run_for(request, lambda: state.desk.recall(dataset, caller, id)), dataset, kind)


@router.get("/shown/{key}/{kind}")
async def just_shown(request: Request, dataset: str, caller: Asker, key: str, kind: str) -> Response:
    """The same for an answer of a moment ago, also if it is made of several."""
    return _part(state_of(request).shelf.get(key, caller.person.name, dataset), dataset, kind)


# -- parts -------------------------------------------------------------------------------------


async def _whole(
    request: Request, account: Account, caller: Caller, draft: Draft, status: int = 200,
    answer: dict[str, Any] | None = None, refusal: dict[str, Any] | None = None,
) -> Response:  # fmt: skip
    state = state_of(request)

    def work() -> dict[str, Any]:
        return {
            "quote": _quoted(request, account, caller, draft),
            "history": state.desk.history(account.name, caller, None, PAGE // 2),
            "balance": state.desk.balance(account.name, caller),
            "controls": controls(account),
        }

    facts = await run_for(request, work)
    return page(
        request, "console.html", status, title=f"Ask {account.name}", dataset=account.name, here="console", draft=draft,
        answer=answer, refusal=refusal, key=_new_key(request), policy=account.policy, live=False, again=False,
        wallet=caller.person.wallet, **_limits(caller), **facts,
    )  # fmt: skip


def _quoted(request: Request, account: Account, caller: Caller, draft: Draft) -> dict[str, Any] | None:
    try:
        asked = wished(draft, account)
        if asked is None:
            return None
        found: dict[str, Any] = state_of(request).desk.quote(account.name, caller, asked)
    except NoisebankError as error:
        blame(draft, error)
        return None
    view = found["view_left"]
    found["within_view"] = view is None or shown.read_amount(found["cost"]) <= shown.read_amount(view)
    found["asked"] = account.named(asked.sql)
    return found


def _answered(
    request: Request, account: Account, caller: Caller, draft: Draft, asked: Mapping[str, Any]
) -> dict[str, Any]:
    state, key = state_of(request), draft["key"]
    if not 1 <= len(key) <= 160 or not key.isprintable():
        raise Turned("bad-body", "the form has no key: load the page again")
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if draft["max_cost"]:
        given["max_cost"] = draft["max_cost"]
    if draft["signature"]:
        given["agreed"] = {
            "max_cost_units": draft["max_cost_units"], "deadline": draft["deadline"], "signature": draft["signature"]
        }  # fmt: skip
    try:
        wish = AskIn.model_validate(given)
    except ValidationError:
        raise Turned(
            "bad-body", f"the signature has {Agreed.__name__} fields that cannot be read; sign again"
        ) from None
    made = state.desk.ask(account.name, caller, wish, key, Clock(time.time(), state.settings.skew_seconds))
    plain = _explained(account, shown.result(made))
    state.metrics.answers.labels(account.name, plain.get("case") or "several").inc()
    state.shelf.put(key, Shown(caller.person.name, account.name, plain))
    plain["kept"] = f"shown/{key}"
    return plain


def _explained(account: Account, answer: dict[str, Any]) -> dict[str, Any]:
    """With what it was made of: when the answer that it reuses was given, and how much of the budget is spent."""
    answer["reused"] = None
    if answer["id"] is not None:
        found = account.ledger.reservation(account.id, bytes.fromhex(answer["id"]))
        earlier = found and found.reused and account.ledger.reservation(account.id, found.reused)
        if found and answer["case"] == Case.REPEAT.name and found.case is not Case.REPEAT:
            earlier = found  # a repeat has its record's receipt
        if earlier:
            answer["reused"] = {"time": earlier.time, "wanted": shown.amount(earlier.wanted)}
        answer["time"] = found.time if found else None
    answer["asked"] = account.named(answer["sql"])
    answer["share"] = account.share(account.state.spent)
    answer["parts"] = [_explained(account, part) for part in answer.get("parts", [])]
    for name in ("value", "stddev", "interval", "case", "name", "key", "inferred", "message", "reached", "floor"):
        answer.setdefault(name, None)
    for name in ("by", "groups", "receipts"):
        answer.setdefault(name, [])
    return answer


def _part(answer: dict[str, Any], dataset: str, kind: str) -> Response:
    if kind == "receipt.json":
        receipts = answer.get("receipts") or [each for part in answer["parts"] for each in part.get("receipts", [])]
        plain = receipts[0] if len(receipts) == 1 else receipts
        return download(json.dumps(plain, indent=1) + "\n", "application/json", f"{dataset}-receipt.json")
    if kind == "answer.csv" and answer.get("groups"):
        rows = [
            [*group["keys"], repr(group["value"]), repr(group["low"]), repr(group["high"])]
            for group in answer["groups"]
        ]
        text = csv_text([*answer["by"], "value", "low_95", "high_95"], rows)
        return download(text, "text/csv", f"{dataset}-answer.csv")
    raise Turned("not-found", "an answer has a receipt, and a table if it has groups")


def _new_key(request: Request) -> str:
    """Each form has its own: sent twice, it is charged once."""
    return str(state_of(request).entropy.token(16).hex())


def _limits(caller: Caller) -> dict[str, Any]:
    return {"must_sign": caller.person.must_sign}
