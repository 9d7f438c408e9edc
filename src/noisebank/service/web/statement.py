"""The statement page for owners and curators: balance, spending by question, analyst and cell, changes; and exports."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.account.account import Account
from noisebank.account.statement import openings
from noisebank.core.units import Precision
from noisebank.ledger.books import Change
from noisebank.service import serializers as shown
from noisebank.service.authenticator import MAY_READ_STATEMENTS, run_for, state_of
from noisebank.service.errors import Turned
from noisebank.service.operations import PAGE
from noisebank.service.roles import Caller, Part, Person
from noisebank.service.web.downloads import csv_text, download
from noisebank.service.web.heat_maps import Map, maps
from noisebank.service.web.rendering import page, state_facts
from noisebank.service.web.spending import Row, Spending

router = APIRouter(prefix="/d/{dataset}/statement")
Reader = Annotated[Caller, Depends(MAY_READ_STATEMENTS)]
MOST_ROWS = 25
EXPORTED_AT_ONCE = 500


@router.get("")
async def statement(request: Request, dataset: str, caller: Reader) -> Response:
    """Show the page."""
    state = state_of(request)
    account = state.desk.account(dataset)
    facts = await run_for(request, lambda: _facts(request, account))
    return page(
        request, "statement.html", title=f"Statement of {dataset}", dataset=dataset, here="statement",
        owner=caller.person.part is Part.OWNER, **facts,
    )  # fmt: skip


@router.get("/curve.json")
async def curve(request: Request, dataset: str, caller: Reader) -> Response:
    """Return the points of the chart: number of answers, time, spent, spent without reuse."""
    state = state_of(request)
    account = state.desk.account(dataset)
    points = await run_for(request, lambda: state.spendings.of(account).points())
    return JSONResponse({"points": points, "budget": float(account.state.budget)})


@router.get("/{kind}")
async def export(request: Request, dataset: str, caller: Reader, kind: str) -> Response:
    """Download entries.csv, statement.json or, for the owner, openings.json."""
    state = state_of(request)
    account = state.desk.account(dataset)
    if kind == "entries.csv":
        headers = {"content-disposition": f'attachment; filename="{dataset}-entries.csv"'}
        return StreamingResponse(_entries(request, account), media_type="text/csv; charset=utf-8", headers=headers)
    if kind == "statement.json":
        text = await run_for(request, lambda: json.dumps(_plain(state.spendings.of(account)), indent=1))
        return download(text + "\n", "application/json", f"{dataset}-statement.json")
    if kind == "openings.json" and caller.person.part is Part.OWNER:  # these contain answers, too
        text = await run_for(request, lambda: json.dumps(openings(account), indent=1))
        return download(text + "\n", "application/json", f"{dataset}-openings.json")
    raise Turned("not-found", "a statement has entries.csv, statement.json and, for the owner, openings.json")


def _facts(request: Request, account: Account) -> dict[str, Any]:
    """Return the template's variables."""
    state, budgets, parts = account.state, account.budgets, state_of(request)
    spending = parts.spendings.of(account)
    people = [person for person in parts.access.people() if person.part is Part.ANALYST]
    changes = account.ledger.books.changes(account.id)
    return {
        "state": state_facts(state), "points": spending.points(),
        "maps": [_map_facts(heat_map) for heat_map in maps(account)],
        "newest": parts.desk.statement_page(account, PAGE // 2), "total": spending.all.to_facts(),
        "queries": _top(spending.queries.values()), "kinds": _top(spending.kinds.values()),
        "analysts": _analysts(spending, people, account),
        "halves": [spending.whole.to_facts(), spending.part.to_facts()], "cases": spending.cases,
        "share": account.share(state.spent), "left": state.left, "epsilon": account.epsilon,
        "delta": float(account.policy.delta), "budgets": {"raised": budgets.raised, "lowered": budgets.lowered},
        "naive": Precision(spending.all.naive), "saved": spending.all.saved,
        "life": spending.life(time.time()), "questions_left": spending.questions_left(),
        "changes": [_change(change) for change in changes[::-1][:20]],
        "raised": _pending(changes, time.time()), "head": parts.desk.head(),
    }  # fmt: skip


def _map_facts(heat_map: Map) -> dict[str, Any]:
    return heat_map.plain() | {"cells": heat_map.cells, "largest": heat_map.largest}


def _top(rows: Iterable[Row]) -> list[dict[str, Any]]:
    largest = sorted(rows, key=lambda row: (-row.units, -row.asked))[:MOST_ROWS]
    return [row.to_facts() for row in largest]


def _analysts(spending: Spending, people: list[Person], account: Account) -> list[dict[str, Any]]:
    """Return spending and view of the analysts who have spent most, including people who have not asked yet."""
    rows = dict(spending.analysts)
    for person in people:
        rows.setdefault(account.analyst(person.name), Row(person.name))
    analysts = []
    for digest, row in sorted(rows.items(), key=lambda pair: -pair[1].units)[:MOST_ROWS]:
        view = account.ledger.view(account.id, digest) if any(digest) else None
        view_facts = None if view is None else {"used": view.used, "limit": view.limit}
        analysts.append({"row": row.to_facts(), "view": view_facts})
    return analysts


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
    """Return the raise that was announced and can still take effect, if any."""
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
    """Yield every entry with its question as CSV, oldest first, in batches, as long as the caller's access lasts."""
    books, done = account.ledger.books, 0
    head = ["time", "block", "id", "analyst", "sql", "about", "case", "wanted", "cost", "spent", "cube", "version"]
    yield csv_text(head, [])
    while batch := books.page(account.id, done, done + EXPORTED_AT_ONCE):
        state_of(request).gate.check_again(request)
        rows = []
        for entry in batch:
            stored, facts = account.vault.request(entry.id), shown.entry(done, entry)
            analyst, sql = (stored.analyst, stored.body.get("sql", "")) if stored else ("", "(not in this vault)")
            when = time.strftime("%FT%TZ", time.gmtime(entry.time))
            public = [facts[name] for name in ("about", "case", "wanted", "cost", "spent", "cube", "version")]
            rows.append([when, entry.block, facts["id"], analyst, sql, *public])
        done += len(batch)
        yield csv_text(head, rows).partition("\n")[2]


def _plain(spending: Spending) -> dict[str, Any]:
    """Return the content of statement.json."""
    account, state = spending.account, spending.account.state

    def rows_to_json(totals: Iterable[Row]) -> list[dict[str, Any]]:
        return [
            {"name": row.name, "asked": row.asked, "paid": row.paid, "cost": shown.amount(row.cost),
             "without_reuse": shown.amount(Precision(row.naive))} for row in totals
        ]  # fmt: skip

    return {
        "name": account.name, "account": account.id.hex(), "budget": shown.amount(state.budget),
        "spent": shown.amount(state.spent), "left": shown.amount(state.left),
        "share": account.share(state.spent), "epsilon": account.epsilon, "delta": float(account.policy.delta),
        "raised": account.budgets.raised, "lowered": account.budgets.lowered,
        "cases": dict(spending.cases), "by_query": rows_to_json(spending.queries.values()),
        "by_analyst": rows_to_json(spending.analysts.values()),
        "by_kind": rows_to_json(spending.kinds.values()),
        "by_part": rows_to_json([spending.whole, spending.part]),
        "owner": state.owner, "curator": state.curator,
        "raise_delay_seconds": state.raise_delay, "paused": state.paused, "version": state.version,
        "changes": [_change(change) for change in account.ledger.books.changes(account.id)],
        "cells": [heat_map.plain() for heat_map in maps(account, whole=True)],
    }  # fmt: skip
