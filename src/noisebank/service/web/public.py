"""Pages for everybody: the list of data sets, and one page per data set for the people in it.

The latter says what was asked, what is left, and what the guarantee means.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from noisebank.account.account import Account
from noisebank.ledger.rpc import ChainLedger
from noisebank.policy.model import Neighbours
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.roles import Caller
from noisebank.service.web import formatting
from noisebank.service.web.rendering import render_page, state_facts

router = APIRouter()
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
MAX_QUESTIONS = 100


@router.get("/")
async def show_start(request: Request, caller: AnyCaller) -> Response:
    """Show every data set; of an empty bank, how to begin."""
    state = state_of(request)
    accounts = state.operations.bank.accounts()
    if not accounts:
        return render_page(
            request, "first_run.html", title="An empty bank", here="start", folder=state.settings.bank.name
        )
    facts = await state.workers.run(lambda: [_account_facts(account) for account in accounts])
    return render_page(
        request, "start.html", title="Data sets", here="start", facts=facts, docs=state.settings.docs,
        tour=state.tour,
    )  # fmt: skip


@router.get("/d/{dataset}")
async def show_dataset(request: Request, dataset: str, caller: AnyCaller) -> Response:
    """Show the page for the people in the data."""
    state = state_of(request)
    account = state.operations.find_account(dataset)
    policy = account.context.policy

    def work() -> dict[str, Any]:
        spending = state.spending_totals.get_spending(account)
        rows = sorted(spending.by_query.values(), key=lambda row: (-row.requests, row.name))
        return {
            "questions": [row.to_facts() for row in rows[:MAX_QUESTIONS]],
            "question_count": len(rows), "more": max(0, len(rows) - MAX_QUESTIONS),
            "whole_table": spending.whole_table.to_facts(), "part_of_table": spending.part_of_table.to_facts(),
            "columns": {name: formatting.describe_column(column.to_json()) for name, column in policy.columns.items()},
            "ever": formatting.max_guess_rate(account.budgets, account.epsilon, policy.delta),
            **_account_facts(account),
        }  # fmt: skip

    facts = await state.workers.run(work)
    return render_page(
        request, "public.html", title=f"Your data in {dataset}", dataset=dataset, here="public",
        policy={"unit": policy.unit, "max_rows": policy.max_rows, "hide_questions": policy.hide_questions},
        swapped=policy.neighbours is Neighbours.REPLACE_ONE, head=state.operations.get_head(),
        on_chain=isinstance(state.operations.bank.ledger, ChainLedger), **facts,
    )  # fmt: skip


def _account_facts(account: Account) -> dict[str, Any]:
    """Return the current balance and guarantee of an account, as templates show them."""
    state, budgets = account.state, account.budgets
    return {
        "name": account.name, "state": state_facts(state), "epsilon": account.epsilon,
        "budgets": {"raised": budgets.raised, "lowered": budgets.lowered},
        "delta": float(account.context.policy.delta), "share": account.share(state.spent),
        "answers": account.ledger.books.count_reservations(account.id),
    }  # fmt: skip
