"""Pages for everybody: the list of data sets, and one page per data set for the people in it.

The latter says what was asked, what is left, and what the guarantee means.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from noisebank.account.account import Account
from noisebank.ledger.rpc import RpcChain
from noisebank.policy.model import Neighbours
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.roles import Caller
from noisebank.service.web import formatting as plain_words
from noisebank.service.web.rendering import page, state_facts

router = APIRouter()
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
MOST_QUESTIONS = 100


@router.get("/")
async def start(request: Request, caller: Anybody) -> Response:
    """Show every data set; of an empty bank, how to begin."""
    state = state_of(request)
    accounts = state.desk.bank.accounts()
    if not accounts:
        return page(request, "first_run.html", title="An empty bank", here="start", folder=state.settings.bank.name)
    facts = await state.room.run(lambda: [_facts(account) for account in accounts])
    return page(request, "start.html", title="Data sets", here="start", facts=facts)


@router.get("/d/{dataset}")
async def public(request: Request, dataset: str, caller: Anybody) -> Response:
    """Show the page for the people in the data."""
    state = state_of(request)
    account = state.desk.account(dataset)
    policy = account.policy

    def work() -> dict[str, Any]:
        spending = state.spendings.of(account)
        rows = sorted(spending.queries.values(), key=lambda row: (-row.asked, row.name))
        return {
            "questions": [row.to_facts() for row in rows[:MOST_QUESTIONS]],
            "question_count": len(rows), "more": max(0, len(rows) - MOST_QUESTIONS),
            "whole_table": spending.whole.to_facts(), "part_of_table": spending.part.to_facts(),
            "columns": {name: plain_words.column_facts(column.public()) for name, column in policy.columns.items()},
            "ever": plain_words.at_best(account.budgets, account.epsilon, policy.delta),
            **_facts(account),
        }  # fmt: skip

    facts = await state.room.run(work)
    return page(
        request, "public.html", title=f"Your data in {dataset}", dataset=dataset, here="public",
        policy={"unit": policy.unit, "max_rows": policy.max_rows, "hide_questions": policy.hide_questions},
        swapped=policy.neighbours is Neighbours.REPLACE_ONE, head=state.desk.head(),
        on_chain=isinstance(state.desk.bank.ledger, RpcChain), **facts,
    )  # fmt: skip


def _facts(account: Account) -> dict[str, Any]:
    """Return the current balance and guarantee of an account, as templates show them."""
    state, budgets = account.state, account.budgets
    return {
        "name": account.name, "state": state_facts(state), "epsilon": account.epsilon,
        "budgets": {"raised": budgets.raised, "lowered": budgets.lowered},
        "delta": float(account.policy.delta), "share": account.share(state.spent),
        "answers": account.ledger.books.count(account.id),
    }  # fmt: skip
