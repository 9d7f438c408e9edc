"""For everybody, and for the people in the data: what there is, what was asked, what is left, what it means."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from noisebank.ledger.rpc import RpcChain
from noisebank.path import Account
from noisebank.policy import Neighbours
from noisebank.service.gate import EVERYBODY, state_of
from noisebank.service.pages import plain_words
from noisebank.service.pages.rendering import page
from noisebank.service.roles import Caller

router = APIRouter()
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
MOST_QUESTIONS = 100


@router.get("/")
async def start(request: Request, caller: Anybody) -> Response:
    """Every data set; of an empty bank, how to begin."""
    state = state_of(request)
    accounts = state.desk.bank.accounts()
    if not accounts:
        return page(request, "first_run.html", title="An empty bank", here="start", folder=state.settings.bank.name)
    facts = await state.room.run(lambda: [_facts(account) for account in accounts])
    return page(request, "start.html", title="Data sets", here="start", facts=facts)


@router.get("/d/{dataset}")
async def public(request: Request, dataset: str, caller: Anybody) -> Response:
    """The page for the people in the data."""
    state = state_of(request)
    account = state.desk.account(dataset)

    def work() -> dict[str, Any]:
        spending = state.spendings.of(account)
        rows = sorted(spending.queries.values(), key=lambda row: (-row.asked, row.name))
        return {
            "spending": spending, "questions": rows[:MOST_QUESTIONS], "more": max(0, len(rows) - MOST_QUESTIONS),
            "ever": plain_words.at_best(account.budgets, account.epsilon, account.policy.delta),
            **_facts(account),
        }  # fmt: skip

    facts = await state.room.run(work)
    return page(
        request, "public.html", title=f"Your data in {dataset}", dataset=dataset, here="public", policy=account.policy,
        swapped=account.policy.neighbours is Neighbours.REPLACE_ONE, head=state.desk.head(),
        on_chain=isinstance(state.desk.bank.ledger, RpcChain), **facts,
    )  # fmt: skip


def _facts(account: Account) -> dict[str, Any]:
    """What balance and guarantee are now."""
    state = account.state
    return {
        "name": account.name, "state": state, "epsilon": account.epsilon, "budgets": account.budgets,
        "delta": float(account.policy.delta), "share": account.share(state.spent),
        "answers": account.ledger.books.count(account.id),
    }  # fmt: skip
