"""The owner's statement: balance, spending in every cut, cells, life, roles; and all of it to take away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.ledger.books import Change
from noisebank.path import Account
from noisebank.service import shown
from noisebank.service.desk import PAGE
from noisebank.service.gate import MAY_READ_STATEMENTS, run_for, state_of
from noisebank.service.pages.cells import maps
from noisebank.service.pages.downloads import csv_text, download
from noisebank.service.pages.rendering import page
from noisebank.service.pages.spending import Row, Spending
from noisebank.service.problems import Turned
from noisebank.service.roles import Caller, Part
from noisebank.statement import openings
from noisebank.units import Precision

router = APIRouter(prefix="/d/{dataset}/statement")
Reader = Annotated[Caller, Depends(MAY_READ_STATEMENTS)]
MOST_ROWS = 25
EXPORTED_AT_ONCE = 500


@router.get("")
async def statement(request: Request, dataset: str, caller: Reader) -> Response:
    """The page."""
    state = state_of(request)
    account = state.desk.account(dataset)
    facts = await run_for(request, lambda: _facts(request, account))
    return page(
        request, "statement.html", title=f"Statement of {dataset}", dataset=dataset, here="statement",
        owner=caller.person.part is Part.OWNER, policy=account.policy, **facts,
    )  # fmt: skip


@router.get("/curve.json")
async def curve(request: Request, dataset: str, caller: Reader) -> Response:
    """Points of the chart: numbers, times, spent, without reuse."""
    state = state_of(request)
    account = state.desk.account(dataset)
    points = await run_for(request, lambda: state.spendings.of(account).points())
    return JSONResponse({"points": points, "budget": float(account.state.budget)})


@router.get("/{kind}")
async def export(request: Request, dataset: str, caller: Reader, kind: str) -> Response:
    """Everything, to take away."""
    state = state_of(request)
    account = state.desk.account(dataset)
    if kind == "entries.csv":
        headers = {"content-disposition": f'attachment; filename="{dataset}-entries.csv"'}
        return StreamingResponse(_entries(request, account), media_type="text/csv; charset=utf-8", headers=headers)
    if kind == "statement.json":
        text = await run_for(request, lambda: json.dumps(_plain(state.spendings.of(account)), indent=1))
        return download(text + "\n", "application/json", f"{dataset}-statement.json")
    if kind == "openings.json" and caller.person.part is Part.OWNER:  # they tell what was answered, too
        text = await run_for(request, lambda: json.dumps(openings(account), indent=1))
        return download(text + "\n", "application/json", f"{dataset}-openings.json")
    raise Turned("not-found", "a statement has entries.csv, statement.json and, for the owner, openings.json")


def _facts(request: Request, account: Account) -> dict[str, Any]:
    state, ledger = account.state, account.ledger
    spending: Spending = state_of(request).spendings.of(account)
    points = spending.points()
    people = [each for each in state_of(request).access.people() if each.part is Part.ANALYST]
    views = {account.analyst(person.name): account.view(person.name) for person in people}
    changes = ledger.books.changes(account.id)
    return {
        "state": state, "spending": spending, "points": points, "maps": maps(account),
        "newest": state_of(request).desk.statement_page(account, PAGE // 2),
        "queries": _top(spending.queries.values()), "analysts": _analysts(spending, views, people, account),
        "kinds": _top(spending.kinds.values()), "halves": [spending.whole, spending.part],
        "share": account.share(state.spent), "left": state.left, "epsilon": account.epsilon,
        "budgets": account.budgets,
        "naive": Precision(spending.all.naive), "saved": spending.all.saved, "life": spending.life(time.time()),
        "questions_left": spending.questions_left(), "changes": [_change(each) for each in changes[::-1][:20]],
        "raised": _pending(changes, time.time()), "head": state_of(request).desk.head(),
    }  # fmt: skip


def _top(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: (-row.units, -row.asked))[:MOST_ROWS]


def _analysts(spending: Spending, views: dict[bytes, Any], people: list[Any], account: Account) -> list[dict[str, Any]]:
    rows = dict(spending.analysts)
    for person in people:
        rows.setdefault(account.analyst(person.name), Row(person.name))
    return [
        {"row": row, "view": views.get(digest) or (account.ledger.view(account.id, digest) if any(digest) else None)}
        for digest, row in sorted(rows.items(), key=lambda pair: -pair[1].units)[:MOST_ROWS]
    ]


CHANGES = {
    "AccountOpened": "the account was opened",
    "BudgetLowered": "the budget was lowered",
    "BudgetRaised": "the budget was raised",
    "RaiseProposed": "a raise of the budget was announced",
    "OwnerProposed": "a new owner was named",
    "OwnerChanged": "the owner changed",
    "CuratorProposed": "a new curator was named",
    "CuratorChanged": "the curator changed",
    "CubeAdded": "a cube was added",
    "VersionOpened": "the table changed: a new version was opened",
    "Paused": "all asking was paused",
    "Resumed": "asking goes on",
    "LimitSet": "the limit of an analyst was set",
}


def _change(change: Change) -> dict[str, Any]:
    arguments = change.event.arguments
    amount = next((arguments[name] for name in ("budget", "limit") if name in arguments), None)
    detail = f"to {float(Precision(amount)):.4g} precision" if isinstance(amount, int) else ""
    name = CHANGES.get(change.event.name, change.event.name)
    return {"block": change.block, "time": change.time, "text": f"{name} {detail}".strip()}


def _pending(changes: tuple[Change, ...], now: float) -> dict[str, Any] | None:
    """A raise that was announced and can still take effect."""
    for change in reversed(changes):
        if change.event.name in ("BudgetLowered", "BudgetRaised"):
            return None
        if change.event.name == "RaiseProposed":
            arguments: Any = change.event.arguments
            if arguments["expires"] < now:
                return None
            return {
                "budget": Precision(arguments["budget"]), "ready": arguments["ready"], "expires": arguments["expires"]
            }  # fmt: skip
    return None


def _entries(request: Request, account: Account) -> Iterator[str]:
    """Every entry with its question, oldest first, a few hundred at a time, as long as the reader may read them."""
    books, done = account.ledger.books, 0
    head = ["time", "block", "id", "analyst", "sql", "about", "case", "wanted", "cost", "spent", "cube", "version"]
    yield csv_text(head, [])
    while found := books.page(account.id, done, done + EXPORTED_AT_ONCE):
        state_of(request).gate.check_again(request)
        rows = []
        for each in found:
            asked, plain = account.vault.request(each.id), shown.entry(done, each)
            who, sql = (asked.analyst, asked.body.get("sql", "")) if asked else ("", "(not in this vault)")
            when = time.strftime("%FT%TZ", time.gmtime(each.time))
            cut = [plain[name] for name in ("about", "case", "wanted", "cost", "spent", "cube", "version")]
            rows.append([when, each.block, plain["id"], who, sql, *cut])
        done += len(found)
        yield csv_text(head, rows).partition("\n")[2]


def _plain(spending: Spending) -> dict[str, Any]:
    account, state = spending.account, spending.account.state

    def rows(found: Any) -> list[dict[str, Any]]:
        return [
            {"name": row.name, "asked": row.asked, "paid": row.paid, "cost": shown.amount(row.cost),
             "without_reuse": shown.amount(Precision(row.naive))} for row in found
        ]  # fmt: skip

    return {
        "name": account.name, "account": account.id.hex(), "budget": shown.amount(state.budget),
        "spent": shown.amount(state.spent), "left": shown.amount(state.left),
        "share": account.share(state.spent), "epsilon": account.epsilon, "delta": float(account.policy.delta),
        "raised": account.budgets.raised, "lowered": account.budgets.lowered,
        "cases": dict(spending.cases), "by_query": rows(spending.queries.values()),
        "by_analyst": rows(spending.analysts.values()), "by_kind": rows(spending.kinds.values()),
        "by_part": rows([spending.whole, spending.part]), "owner": state.owner, "curator": state.curator,
        "raise_delay_seconds": state.raise_delay, "paused": state.paused, "version": state.version,
        "changes": [_change(each) for each in account.ledger.books.changes(account.id)],
        "cells": [each.plain() for each in maps(account, whole=True)],
    }  # fmt: skip
