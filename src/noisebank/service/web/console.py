"""The console page for analysts: a question, its price before anything is spent, the answer, and the history."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from markupsafe import Markup
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from noisebank.account.account import Account
from noisebank.core.errors import Misuse, NoisebankError
from noisebank.core.records import Case
from noisebank.core.rendering import table_html
from noisebank.core.result import Result
from noisebank.core.spend import Spend, typed_spend
from noisebank.core.units import Precision
from noisebank.service.answering import PendingAsk
from noisebank.service.authenticator import MAY_ASK, MAY_QUOTE, read_secret, run_for, state_of
from noisebank.service.errors import ApiError, find_problem
from noisebank.service.operations import PAGE_ROWS, RequestTime, signed_accuracy
from noisebank.service.roles import Caller
from noisebank.service.schemas import AskIn
from noisebank.service.web.downloads import download_response, write_csv
from noisebank.service.web.formatting import describe_column
from noisebank.service.web.query_form import QueryForm, assign_error, form_choices, new_form, parse_form
from noisebank.service.web.recent_answers import RecentAnswer
from noisebank.service.web.rendering import is_htmx, read_form, render_fragment, render_page

router = APIRouter(prefix="/d/{dataset}/console")
QuoteCaller = Annotated[Caller, Depends(MAY_QUOTE)]
AskCaller = Annotated[Caller, Depends(MAY_ASK)]
Form = Annotated[dict[str, str], Depends(read_form)]
SIGNING_SECONDS = 300
"""How long a wallet's agreement is valid."""
MAX_TABLE_ROWS = 500
"""Rows of a table on the page; the CSV has all."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """A result as the page shows it."""

    result: Result
    table: Markup
    reused_time: int | None
    """When the answer that it reuses was given."""
    downloads: str
    """Where its receipts and its table can be downloaded, below the console's path."""


@router.get("")
async def show_console(request: Request, dataset: str, caller: AskCaller) -> Response:
    """Show the whole page."""
    account = state_of(request).operations.find_account(dataset)
    return await _render_page(request, account, caller, new_form(account))


@router.post("/quote")
async def show_quote(request: Request, dataset: str, caller: QuoteCaller, form: Form) -> Response:
    """Show the price beside the form, and a message at each field that needs one."""
    state = state_of(request)
    account, draft = state.operations.find_account(dataset), QueryForm(form)
    facts = await run_for(request, lambda: _quote_form(request, account, caller, draft))
    return render_fragment(
        request, "quote.html", draft=draft, quote=facts, dataset=dataset, live=True, **_signing_facts(caller)
    )


@router.post("/ask")
async def show_answer(request: Request, dataset: str, caller: AskCaller, form: Form) -> Response:
    """Show the answer; or why there is none, with the form as it was."""
    state = state_of(request)
    account, draft = state.operations.find_account(dataset), QueryForm(form)

    answer: ShownAnswer | None = None
    refusal: dict[str, Any] | None = None
    try:
        answer = await _answer_form(request, account, caller, draft)
    except Misuse as error:
        assign_error(draft, error)
    except ApiError:
        raise
    except NoisebankError as error:
        problem = find_problem(error)
        refusal = {"problem": problem, "detail": str(error)}
        state.metrics.problems.labels(problem.name).inc()
    status = 200 if answer else 409 if refusal else 422
    facts = {"draft": draft, "answer": answer, "refusal": refusal, "dataset": dataset, "key": _new_key(request)}
    if is_htmx(request):
        return render_fragment(request, "answer_part.html", status, again=False, **facts)
    return await _render_page(request, account, caller, draft, status, answer=answer, refusal=refusal)


@router.post("/to-sign")
async def prepare_signature(request: Request, dataset: str, caller: AskCaller, form: Form) -> Response:
    """Return what a wallet has to sign (EIP-712), for analysts who must sign every request."""
    state = state_of(request)
    account, draft = state.operations.find_account(dataset), QueryForm(form)

    def work() -> dict[str, Any]:
        body, quoted = parse_form(draft, account), _quote_form(request, account, caller, draft)
        if body is None or quoted is None:
            raise ApiError("bad-body", next(iter(draft.mistakes.values()), "the form is not complete"))
        cost = sum(Precision.parse_decimal(quoted[part]).units for part in ("cost", "first_look"))
        deadline = int(time.time()) + SIGNING_SECONDS
        spend = Spend(account.id, body.sql, signed_accuracy(body), draft["key"], cost, deadline)
        return {"typed": typed_spend(spend, account.ledger.chain_id, account.ledger.contract)}

    try:
        return JSONResponse(await run_for(request, work))
    except NoisebankError as error:
        return JSONResponse({"detail": str(error)}, find_problem(error).status)


@router.get("/history")
async def show_history(request: Request, dataset: str, caller: AskCaller, cursor: str | None = None) -> Response:
    """Show a page of the caller's answers."""
    state = state_of(request)
    answers = await run_for(request, lambda: state.operations.list_answers(dataset, caller, cursor, PAGE_ROWS // 2))
    budget = state.operations.find_account(dataset).state.budget
    return render_fragment(request, "history_part.html", history=answers, dataset=dataset, budget=budget)


@router.get("/history.csv")
async def download_history(request: Request, dataset: str, caller: AskCaller) -> Response:
    """Download all answers of the caller."""
    state = state_of(request)

    def work() -> str:
        rows: list[list[Any]] = []
        cursor: str | None = None
        while True:
            batch = state.operations.list_answers(dataset, caller, cursor, 500)
            for row in batch["answers"]:
                names = ("id", "sql", "case", "wanted", "cost", "published")
                rows.append([time.strftime("%FT%TZ", time.gmtime(row["time"])), *(row[name] for name in names)])
            cursor = batch["next"]
            if cursor is None:
                return write_csv(["time", "id", "sql", "case", "wanted", "cost", "published"], rows)

    return download_response(await run_for(request, work), "text/csv", f"{dataset}-history.csv")


@router.get("/answers/{id}")
async def show_past_answer(request: Request, dataset: str, caller: AskCaller, id: str) -> Response:
    """Show an answer of the caller again. Nothing is spent."""
    state = state_of(request)
    account = state.operations.find_account(dataset)
    answer = await run_for(
        request,
        lambda: _explain_answer(account, state.operations.recall_answer(dataset, caller, id), f"answers/{id}"),
    )
    facts: dict[str, Any] = {"draft": new_form(account), "answer": answer, "refusal": None, "dataset": dataset}
    if is_htmx(request):
        return render_fragment(request, "answer_part.html", again=True, key="", **facts)
    return await _render_page(request, account, caller, new_form(account), answer=answer)


@router.get("/answers/{id}/{kind}")
async def download_past_answer(request: Request, dataset: str, caller: AskCaller, id: str, kind: str) -> Response:
    """Download the receipt or table of an answer, from the vault."""
    state = state_of(request)
    return _download_part(
        await run_for(request, lambda: state.operations.recall_answer(dataset, caller, id)), dataset, kind
    )


@router.get("/shown/{key}/{kind}")
async def download_recent_answer(request: Request, dataset: str, caller: AskCaller, key: str, kind: str) -> Response:
    """Download the receipt or table of an answer just shown, also if it has several parts."""
    return _download_part(state_of(request).recent_answers.get(key, caller.person.name, dataset), dataset, kind)


# -- parts -------------------------------------------------------------------------------------


async def _render_page(
    request: Request, account: Account, caller: Caller, query_form: QueryForm, status: int = 200,
    answer: ShownAnswer | None = None, refusal: dict[str, Any] | None = None,
) -> Response:  # fmt: skip
    state = state_of(request)

    def work() -> dict[str, Any]:
        return {
            "quote": _quote_form(request, account, caller, query_form),
            "history": state.operations.list_answers(account.name, caller, None, PAGE_ROWS // 2),
            "balance": state.operations.get_balance(account.name, caller),
            "budget": account.state.budget,
            "controls": form_choices(account),
            "columns": {
                name: describe_column(column.to_json()) for name, column in account.context.policy.columns.items()
            },
        }

    facts = await run_for(request, work)
    return render_page(
        request, "console.html", status, title=f"Ask {account.name}", dataset=account.name, here="console",
        draft=query_form, answer=answer, refusal=refusal, key=_new_key(request), live=False, again=False,
        wallet=caller.person.wallet, **_signing_facts(caller), **facts,
    )  # fmt: skip


def _quote_form(request: Request, account: Account, caller: Caller, query_form: QueryForm) -> dict[str, Any] | None:
    """Return the quote for a form with the SQL of a named query; None if the form has mistakes, which it then says."""
    try:
        body = parse_form(query_form, account)
        if body is None:
            return None
        facts = state_of(request).operations.quote(account.name, caller, body)
    except NoisebankError as error:
        assign_error(query_form, error)
        return None
    view = facts["view_left"]
    facts["within_view"] = view is None or Precision.parse_decimal(facts["cost"]) <= Precision.parse_decimal(view)
    facts["asked"] = account.named(body.sql)
    return facts


async def _answer_form(request: Request, account: Account, caller: Caller, query_form: QueryForm) -> ShownAnswer | None:
    """Answer the form's question and remember the answer for downloads; None if the form is not complete."""
    state, key = state_of(request), query_form["key"]
    body = await run_for(request, lambda: _read_form(account, query_form))
    if body is None:
        return None
    clock = RequestTime(time.time(), state.settings.skew_seconds)
    ask = PendingAsk(caller, read_secret(request) or "", body, key, clock)
    encoded = await state.answers.answer_one(account.name, ask)
    result = Result.from_json(json.loads(encoded))
    state.recent_answers.put(key, RecentAnswer(caller.person.name, account.name, result))
    return await run_for(request, lambda: _explain_answer(account, result, f"shown/{key}"))


def _read_form(account: Account, query_form: QueryForm) -> AskIn | None:
    """Return the form's question with its key, limits and signature; None if it is not complete."""
    question = parse_form(query_form, account)
    if question is None:
        return None
    fields, key = question.model_dump(), query_form["key"]
    if not 1 <= len(key) <= 160 or not key.isprintable():
        raise ApiError("bad-body", "the form has no key: load the page again")
    values: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if query_form["max_cost"]:
        values["max_cost"] = query_form["max_cost"]
    if query_form["signature"]:
        values["agreed"] = {name: query_form[name] for name in ("max_cost_units", "deadline", "signature")}
    try:
        return AskIn.model_validate(values)
    except ValidationError:
        raise ApiError("bad-body", "the limit or the signature cannot be read: enter or sign it again") from None


def _explain_answer(account: Account, result: Result, downloads: str) -> ShownAnswer:
    """Add when the answer was given that a single question reuses, and the table."""
    table = Markup(table_html(result, MAX_TABLE_ROWS))  # all text in it is escaped
    return ShownAnswer(result, table, _reused_time(account, result), downloads)


def _reused_time(account: Account, result: Result) -> int | None:
    if len(result.parts) != 1:
        return None
    entry = account.ledger.find_reservation(account.id, result.receipt.id)
    if entry is None:
        return None
    if result.case is Case.REPEAT and entry.case is not Case.REPEAT:
        return entry.time  # a repeat has the receipt of the answer that it repeats
    earlier = account.ledger.find_reservation(account.id, entry.reused_id) if entry.reused_id else None
    return None if earlier is None else earlier.time


def _download_part(result: Result, dataset: str, kind: str) -> Response:
    if kind == "receipt.json":
        receipts = [receipt.to_json() for receipt in result.receipts]
        content = receipts[0] if len(receipts) == 1 else receipts
        return download_response(json.dumps(content, indent=1) + "\n", "application/json", f"{dataset}-receipt.json")
    if kind == "answer.csv":
        return download_response(result.to_csv(), "text/csv", f"{dataset}-answer.csv")
    raise ApiError("not-found", "an answer has a receipt and a table")


def _new_key(request: Request) -> str:
    """Return an idempotency key for a form: sent twice, it is charged once."""
    return state_of(request).entropy.token(16).hex()


def _signing_facts(caller: Caller) -> dict[str, Any]:
    return {"must_sign": caller.person.must_sign}
