"""The console page for analysts: a question, its price before anything is spent, the answer, and the history."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from noisebank.account.account import Account
from noisebank.core.errors import Misuse, NoisebankError
from noisebank.core.records import Case
from noisebank.service import serializers as shown
from noisebank.service.authenticator import MAY_ASK, MAY_QUOTE, run_for, state_of
from noisebank.service.errors import Turned, problem_of
from noisebank.service.operations import PAGE, Clock, wish_text
from noisebank.service.roles import Caller
from noisebank.service.schemas import Agreed, AskIn
from noisebank.service.wallet import Spend, typed_spend
from noisebank.service.web.downloads import csv_text, download
from noisebank.service.web.formatting import column_facts
from noisebank.service.web.query_form import Draft, blame, controls, fresh, wished
from noisebank.service.web.recent_answers import Shown
from noisebank.service.web.rendering import by_htmx, form_of, fragment, page

router = APIRouter(prefix="/d/{dataset}/console")
Quoter = Annotated[Caller, Depends(MAY_QUOTE)]
Asker = Annotated[Caller, Depends(MAY_ASK)]
Form = Annotated[dict[str, str], Depends(form_of)]
SIGN_WITHIN = 300
"""How long a wallet's agreement is valid."""


@router.get("")
async def console(request: Request, dataset: str, caller: Asker) -> Response:
    """Show the whole page."""
    account = state_of(request).desk.account(dataset)
    return await _whole(request, account, caller, fresh(account))


@router.post("/quote")
async def quote(request: Request, dataset: str, caller: Quoter, form: Form) -> Response:
    """Show the price beside the form, and a message at each field that needs one."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)
    facts = await run_for(request, lambda: _quoted(request, account, caller, draft))
    return fragment(request, "quote.html", draft=draft, quote=facts, dataset=dataset, live=True, **_limits(caller))


@router.post("/ask")
async def ask(request: Request, dataset: str, caller: Asker, form: Form) -> Response:
    """Show the answer; or why there is none, with the form as it was."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)

    def work() -> dict[str, Any] | None:
        body = wished(draft, account)
        return None if body is None else _answered(request, account, caller, draft, body.model_dump())

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
    """Return what a wallet has to sign (EIP-712), for analysts who must sign every request."""
    state = state_of(request)
    account, draft = state.desk.account(dataset), Draft(form)

    def work() -> dict[str, Any]:
        body, quoted = wished(draft, account), _quoted(request, account, caller, draft)
        if body is None or quoted is None:
            raise Turned("bad-body", next(iter(draft.mistakes.values()), "the form is not complete"))
        cost = sum(shown.read_amount(quoted[part]).units for part in ("cost", "first_look"))
        deadline = int(time.time()) + SIGN_WITHIN
        spend = Spend(account.id, body.sql, wish_text(body), draft["key"], cost, deadline)
        return {"typed": typed_spend(spend, account.ledger.chain_id, account.ledger.contract)}

    try:
        return JSONResponse(await run_for(request, work))
    except NoisebankError as error:
        return JSONResponse({"detail": str(error)}, problem_of(error).status)


@router.get("/history")
async def history(request: Request, dataset: str, caller: Asker, cursor: str | None = None) -> Response:
    """Show a page of the caller's answers."""
    state = state_of(request)
    answers = await run_for(request, lambda: state.desk.history(dataset, caller, cursor, PAGE // 2))
    return fragment(request, "history_part.html", history=answers, dataset=dataset)


@router.get("/history.csv")
async def history_csv(request: Request, dataset: str, caller: Asker) -> Response:
    """Download all answers of the caller."""
    state = state_of(request)

    def work() -> str:
        rows: list[list[Any]] = []
        cursor: str | None = None
        while True:
            batch = state.desk.history(dataset, caller, cursor, 500)
            for row in batch["answers"]:
                names = ("id", "sql", "case", "wanted", "cost", "published")
                rows.append([time.strftime("%FT%TZ", time.gmtime(row["time"])), *(row[name] for name in names)])
            cursor = batch["next"]
            if cursor is None:
                return csv_text(["time", "id", "sql", "case", "wanted", "cost", "published"], rows)

    return download(await run_for(request, work), "text/csv", f"{dataset}-history.csv")


@router.get("/answers/{id}")
async def again(request: Request, dataset: str, caller: Asker, id: str) -> Response:
    """Show an answer of the caller again. Nothing is spent."""
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
    """Download the receipt or table of an answer, from the vault."""
    state = state_of(request)
    return _part(await run_for(request, lambda: state.desk.recall(dataset, caller, id)), dataset, kind)


@router.get("/shown/{key}/{kind}")
async def just_shown(request: Request, dataset: str, caller: Asker, key: str, kind: str) -> Response:
    """Download the receipt or table of an answer just shown, also if it has several parts."""
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
            "columns": {name: column_facts(column.public()) for name, column in account.policy.columns.items()},
        }

    facts = await run_for(request, work)
    return page(
        request, "console.html", status, title=f"Ask {account.name}", dataset=account.name, here="console",
        draft=draft, answer=answer, refusal=refusal, key=_new_key(request), live=False, again=False,
        wallet=caller.person.wallet, **_limits(caller), **facts,
    )  # fmt: skip


def _quoted(request: Request, account: Account, caller: Caller, draft: Draft) -> dict[str, Any] | None:
    """Return the quote for a form with the SQL of a named query; None if the form has mistakes, which it then says."""
    try:
        body = wished(draft, account)
        if body is None:
            return None
        facts = state_of(request).desk.quote(account.name, caller, body)
    except NoisebankError as error:
        blame(draft, error)
        return None
    view = facts["view_left"]
    facts["within_view"] = view is None or shown.read_amount(facts["cost"]) <= shown.read_amount(view)
    facts["asked"] = account.named(body.sql)
    return facts


def _answered(
    request: Request, account: Account, caller: Caller, draft: Draft, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Answer the form's question and remember the answer for downloads."""
    state, key = state_of(request), draft["key"]
    if not 1 <= len(key) <= 160 or not key.isprintable():
        raise Turned("bad-body", "the form has no key: load the page again")
    values: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    if draft["max_cost"]:
        values["max_cost"] = draft["max_cost"]
    if draft["signature"]:
        values["agreed"] = {name: draft[name] for name in ("max_cost_units", "deadline", "signature")}
    try:
        body = AskIn.model_validate(values)
    except ValidationError:
        raise Turned(
            "bad-body", f"the signature has {Agreed.__name__} fields that cannot be read; sign again"
        ) from None
    result = state.desk.ask(account.name, caller, body, key, Clock(time.time(), state.settings.skew_seconds))
    answer = _explained(account, shown.result(result))
    state.metrics.answers.labels(account.name, answer.get("case") or "several").inc()
    state.shelf.put(key, Shown(caller.person.name, account.name, answer))
    answer["kept"] = f"shown/{key}"
    return answer


def _explained(account: Account, answer: dict[str, Any]) -> dict[str, Any]:
    """Add when the answer that it reuses was given, how much of the budget is spent, and empty optional fields."""
    answer["reused"] = None
    if answer["id"] is not None:
        entry = account.ledger.reservation(account.id, bytes.fromhex(answer["id"]))
        earlier = entry and entry.reused and account.ledger.reservation(account.id, entry.reused)
        if entry and answer["case"] == Case.REPEAT.name and entry.case is not Case.REPEAT:
            earlier = entry  # a repeat has the receipt of the answer that it repeats
        if earlier:
            answer["reused"] = {"time": earlier.time, "wanted": shown.amount(earlier.wanted)}
        answer["time"] = entry.time if entry else None
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
        receipts = answer.get("receipts")
        receipts = receipts or [receipt for part in answer["parts"] for receipt in part.get("receipts", [])]
        content = receipts[0] if len(receipts) == 1 else receipts
        return download(json.dumps(content, indent=1) + "\n", "application/json", f"{dataset}-receipt.json")
    if kind == "answer.csv" and answer.get("groups"):
        rows = [
            [*group["keys"], repr(group["value"]), repr(group["low"]), repr(group["high"])]
            for group in answer["groups"]
        ]
        text = csv_text([*answer["by"], "value", "low_95", "high_95"], rows)
        return download(text, "text/csv", f"{dataset}-answer.csv")
    raise Turned("not-found", "an answer has a receipt, and a table if it has groups")


def _new_key(request: Request) -> str:
    """Return an idempotency key for a form: sent twice, it is charged once."""
    return state_of(request).entropy.token(16).hex()


def _limits(caller: Caller) -> dict[str, Any]:
    return {"must_sign": caller.person.must_sign}
