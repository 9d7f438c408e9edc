"""The statement page for owners and curators: balance, spending by question, analyst and cell, changes; and exports."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.account.account import Account
from noisebank.account.statement import make_openings
from noisebank.core.units import Precision
from noisebank.core.wording import describe_savings, describe_share
from noisebank.ledger.books import Change
from noisebank.service import serializers
from noisebank.service.authenticator import MAY_READ_STATEMENTS, run_for, state_of
from noisebank.service.errors import ApiError
from noisebank.service.operations import PAGE_ROWS
from noisebank.service.roles import Caller, Person, Role
from noisebank.service.web.downloads import download_response, write_csv
from noisebank.service.web.heat_maps import HeatMap, make_heat_maps
from noisebank.service.web.rendering import render_page, state_facts
from noisebank.service.web.spending import AccountSpending, SpendingTotal

router = APIRouter(prefix="/d/{dataset}/statement")
StatementCaller = Annotated[Caller, Depends(MAY_READ_STATEMENTS)]
MAX_ROWS = 25
EXPORT_BATCH = 500


@router.get("")
async def show_statement(request: Request, dataset: str, caller: StatementCaller) -> Response:
    """Show the page."""
    state = state_of(request)
    account = state.operations.find_account(dataset)
    facts = await run_for(request, lambda: _statement_facts(request, account))
    return render_page(
        request, "statement.html", title=f"Statement of {dataset}", dataset=dataset, here="statement",
        owner=caller.person.role is Role.OWNER, **facts,
    )  # fmt: skip


@router.get("/curve.json")
async def get_curve_points(request: Request, dataset: str, caller: StatementCaller) -> Response:
    """Return the points of the chart: number of entries, time, spent, spent without reuse, of it for looks."""
    state = state_of(request)
    account = state.operations.find_account(dataset)
    points = await run_for(request, lambda: state.spending_totals.get_spending(account).curve_points())
    return JSONResponse({"points": points, "budget": float(account.state.budget)})


@router.get("/{kind}")
async def export_statement(request: Request, dataset: str, caller: StatementCaller, kind: str) -> Response:
    """Download entries.csv, statement.json or, for the owner, openings.json."""
    state = state_of(request)
    account = state.operations.find_account(dataset)
    if kind == "entries.csv":
        headers = {"content-disposition": f'attachment; filename="{dataset}-entries.csv"'}
        return StreamingResponse(
            _stream_entries(request, account), media_type="text/csv; charset=utf-8", headers=headers
        )
    if kind == "statement.json":
        text = await run_for(
            request, lambda: json.dumps(_statement_to_json(state.spending_totals.get_spending(account)), indent=1)
        )
        return download_response(text + "\n", "application/json", f"{dataset}-statement.json")
    if kind == "openings.json" and caller.person.role is Role.OWNER:  # these contain answers, too
        text = await run_for(request, lambda: json.dumps(make_openings(account), indent=1))
        return download_response(text + "\n", "application/json", f"{dataset}-openings.json")
    raise ApiError("not-found", "a statement has entries.csv, statement.json and, for the owner, openings.json")


def _statement_facts(request: Request, account: Account) -> dict[str, Any]:
    """Return the template's variables; points of the chart are percentages of the budget."""
    state, budgets, parts = account.state, account.budgets, state_of(request)
    spending = parts.spending_totals.get_spending(account)
    people = [person for person in parts.access.list_people() if person.role is Role.ANALYST]
    changes = account.ledger.books.list_changes(account.id)
    scale = 100 / (float(state.budget) or 1.0)
    points = [(*point[:2], *(amount * scale for amount in point[2:])) for point in spending.curve_points()]
    return {
        "state": state_facts(state), "points": points, "bases": [point[2] - point[4] for point in points],
        "maps": [_map_facts(heat_map) for heat_map in make_heat_maps(account)],
        "newest": parts.operations.list_newest_entries(account, PAGE_ROWS // 2), "total": spending.all.to_facts(),
        "queries": _largest_rows(spending.by_query.values()), "kinds": _largest_rows(spending.by_category.values()),
        "analysts": _analyst_rows(spending, people, account),
        "halves": [spending.whole_table.to_facts(), spending.part_of_table.to_facts()], "cases": spending.case_counts,
        "share": account.share(state.spent), "left": state.remaining_budget, "epsilon": account.epsilon,
        "delta": float(account.context.policy.delta), "budgets": {"raised": budgets.raised, "lowered": budgets.lowered},
        "naive": spending.savings.plain, "savings": spending.savings,
        "saved": describe_savings(
            spending.savings.saved, spending.savings.looks, spending.savings.returned, state.budget
        ),
        "life": spending.estimate_life(time.time()), "questions_left": spending.questions_left(),
        "changes": [_describe_change(change, state.budget) for change in changes[::-1][:20]],
        "raised": _pending_raise(changes, time.time()), "head": parts.operations.get_head(),
    }  # fmt: skip


def _map_facts(heat_map: HeatMap) -> dict[str, Any]:
    return heat_map.to_json() | {"cells": heat_map.cell_count, "largest": heat_map.max_charge}


def _largest_rows(rows: Iterable[SpendingTotal]) -> list[dict[str, Any]]:
    largest = sorted(rows, key=lambda row: (-row.units, -row.requests))[:MAX_ROWS]
    return [row.to_facts() for row in largest]


def _analyst_rows(spending: AccountSpending, people: list[Person], account: Account) -> list[dict[str, Any]]:
    """Return spending and view of the analysts who have spent most, including people who have not asked yet."""
    rows = dict(spending.by_analyst)
    for person in people:
        rows.setdefault(account.analyst(person.name), SpendingTotal(person.name))
    analysts = []
    for digest, row in sorted(rows.items(), key=lambda pair: -pair[1].units)[:MAX_ROWS]:
        view = account.ledger.get_view(account.id, digest) if any(digest) else None
        view_facts = None if view is None else {"used": view.used, "limit": view.limit}
        analysts.append({"row": row.to_facts(), "view": view_facts})
    return analysts


CHANGE_TEXTS = {
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


def _describe_change(change: Change, budget: Precision) -> dict[str, Any]:
    arguments = change.event.arguments
    amount = next((arguments[name] for name in ("budget", "limit") if name in arguments), None)
    detail = f"to {describe_share(Precision(amount), budget)} as it is now" if isinstance(amount, int) else ""
    name = CHANGE_TEXTS.get(change.event.name, change.event.name)
    return {"block": change.block, "time": change.time, "text": f"{name} {detail}".strip()}


def _pending_raise(changes: tuple[Change, ...], now: float) -> dict[str, Any] | None:
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


def _stream_entries(request: Request, account: Account) -> Iterator[str]:
    """Yield every entry with its question as CSV, oldest first, in batches, as long as the caller's access lasts."""
    books, done = account.ledger.books, 0
    head = ["time", "block", "id", "analyst", "sql", "about", "case", "wanted", "cost", "spent", "cube", "version"]
    yield write_csv(head, [])
    while batch := books.page_reservations(account.id, done, done + EXPORT_BATCH):
        state_of(request).authenticator.check_still_allowed(request)
        rows = []
        for entry in batch:
            stored, facts = account.vault.find_request(entry.id), serializers.entry_to_json(done, entry)
            analyst, sql = (stored.analyst, stored.body.get("sql", "")) if stored else ("", "(not in this vault)")
            when = time.strftime("%FT%TZ", time.gmtime(entry.time))
            public = [facts[name] for name in ("about", "case", "wanted", "cost", "spent", "cube", "version")]
            rows.append([when, entry.block, facts["id"], analyst, sql, *public])
        done += len(batch)
        yield write_csv(head, rows).partition("\n")[2]


def _statement_to_json(spending: AccountSpending) -> dict[str, Any]:
    """Return the content of statement.json."""
    account, state = spending.account, spending.account.state

    def rows_to_json(totals: Iterable[SpendingTotal]) -> list[dict[str, Any]]:
        return [
            {
                "name": row.name,
                "asked": row.requests,
                "paid": row.measured,
                "cost": row.cost.to_decimal(),
                "without_reuse": Precision(row.naive_units).to_decimal(),
                "looks": Precision(row.look_units).to_decimal(),
            }
            for row in totals
        ]

    return {
        "name": account.name, "account": account.id.hex(), "budget": state.budget.to_decimal(),
        "without_reuse": spending.savings.plain.to_decimal(), "saved": spending.savings.saved.to_decimal(),
        "looks": spending.savings.looks.to_decimal(), "returned": spending.savings.returned.to_decimal(),
        "spent": state.spent.to_decimal(), "left": state.remaining_budget.to_decimal(),
        "share": account.share(state.spent), "epsilon": account.epsilon, "delta": float(account.context.policy.delta),
        "raised": account.budgets.raised, "lowered": account.budgets.lowered,
        "cases": dict(spending.case_counts), "by_query": rows_to_json(spending.by_query.values()),
        "by_analyst": rows_to_json(spending.by_analyst.values()),
        "by_kind": rows_to_json(spending.by_category.values()),
        "by_part": rows_to_json([spending.whole_table, spending.part_of_table]),
        "owner": state.owner, "curator": state.curator,
        "raise_delay_seconds": state.raise_delay, "paused": state.paused, "version": state.version,
        "changes": [_describe_change(change, state.budget) for change in account.ledger.books.list_changes(account.id)],
        "cells": [heat_map.to_json() for heat_map in make_heat_maps(account, unmerged=True)],
    }  # fmt: skip
