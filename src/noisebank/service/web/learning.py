"""Pages for everybody about federated learning: tasks, rounds, verdicts, reputations, spending, and Verify."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.federated.blockfl.verification import CANNOT_SEE, PROVES, TaskReport
from noisebank.ledger.rpc import RpcChain
from noisebank.service.authenticator import EVERYBODY, ServiceState, state_of
from noisebank.service.errors import Turned
from noisebank.service.roles import Caller, Scope
from noisebank.service.web.rendering import by_htmx, fragment, page, templates
from noisebank.service.web.verification import verified
from noisebank.verifier.report import CANNOT_SEE as LEDGER_CANNOT_SEE
from noisebank.verifier.report import CHAIN_PROVES, JOURNAL_PROVES, Report

router = APIRouter(prefix="/learning")
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Number = Annotated[int | None, Query(alias="round", ge=1, le=10_000)]
MOST_LISTED = 60


@router.get("")
async def learning(request: Request, caller: Anybody) -> Response:
    """Show every task; if there is none, how to make one."""
    state = state_of(request)
    listed = await state.room.run(state.learning.briefs)
    return page(
        request, "learning.html", title="Learning", here="learning", tasks=listed["tasks"][:MOST_LISTED],
        more=max(0, len(listed["tasks"]) - MOST_LISTED), trouble=listed["trouble"], folder=state.settings.bank.name,
        configured=state.learning.crowd is not None,
    )  # fmt: skip


@router.get("/{task}")
async def task(request: Request, task: str, caller: Anybody, number: Number = None) -> Response:
    """Show one task."""
    return await _whole(request, task, caller, number)


@router.get("/{task}/stands")
async def stands(request: Request, task: str, caller: Anybody) -> Response:
    """Show the current phase of a task, for a page that is open."""
    state = state_of(request)
    facts = await state.room.run(lambda: _of_a_crowd(state, task))
    return fragment(request, "learning_stands.html", task=facts, trouble=state.learning.trouble, live=True)


@router.get("/{task}/rounds")
async def rounds(request: Request, task: str, caller: Anybody) -> Response:
    """Show the rounds again: their accuracies may have been measured meanwhile."""
    state = state_of(request)
    facts = await state.room.run(lambda: _of_a_crowd(state, task))
    return fragment(request, "learning_rounds.html", task=facts, chosen=None)


@router.get("/{task}/accuracy.json")
async def accuracy(request: Request, task: str, caller: Anybody) -> Response:
    """Return the points of the chart: round, accuracy, accuracy with noise."""
    state = state_of(request)
    facts = await state.room.run(lambda: _of_a_crowd(state, task))
    return JSONResponse({"points": _points(facts)})


@router.get("/{task}/verify")
async def show_verification(request: Request, task: str, caller: Anybody) -> Response:
    """Show the whole report at once, for browsers without scripts."""
    state = state_of(request)
    facts = await state.room.run(lambda: state.learning.task(task))
    report: TaskReport | Report = await state.checking.once(_verifier(state, facts)[0])
    return await _whole(request, task, caller, None, report.plain())


@router.get("/{task}/verify/events")
async def watched(request: Request, task: str, caller: Anybody) -> Response:
    """Stream the progress of the verifier, then its report."""
    state = state_of(request)
    facts = await state.room.run(lambda: state.learning.task(task))
    state.checking.check()
    work, total = _verifier(state, facts)
    events: AsyncIterator[bytes] = state.checking.follow(work, total, partial(_report, facts))
    return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})


# -- parts -------------------------------------------------------------------------------------


async def _whole(
    request: Request, task: str, caller: Caller | None, number: int | None, report: dict[str, Any] | None = None
) -> Response:
    state = state_of(request)
    may_read = caller is not None and Scope.STATEMENT in caller.scopes

    def work() -> dict[str, Any]:
        facts = state.learning.task(task)
        if facts["kind"] == "sgd":
            return {"task": facts, "weights": state.learning.weights(task) if may_read else None}
        chosen = number or max((row["round"] for row in facts["rounds"] if row["submitted"]), default=0)
        return {
            "task": facts,
            "best": max([10, *(member["reputation"] for member in facts["members_now"])]),
            "chosen": state.learning.round(task, chosen) if chosen else None,
        }

    facts = await state.room.run(work)
    crowd = facts["task"]["kind"] == "crowd"
    if crowd and by_htmx(request) and number is not None:
        return fragment(request, "learning_round.html", **facts)
    on_chain = isinstance(state.desk.bank.ledger, RpcChain)
    return page(
        request, "learning_crowd.html" if crowd else "learning_sgd.html", title=facts["task"]["name"] or "A task",
        here="learning", report=report, trouble=state.learning.trouble, live=False, on_chain=on_chain,
        proves=PROVES if crowd else CHAIN_PROVES if on_chain else JOURNAL_PROVES,
        cannot_see=CANNOT_SEE if crowd else LEDGER_CANNOT_SEE, head=state.desk.head(),
        mine=facts["task"]["id"], **facts,
    )  # fmt: skip


def _of_a_crowd(state: ServiceState, task: str) -> dict[str, Any]:
    """Return a task that has rounds; raises not-found for other kinds."""
    facts = state.learning.task(task)
    if facts["kind"] != "crowd":
        raise Turned("not-found", "this task has no rounds")
    return facts


def _points(facts: dict[str, Any]) -> list[list[float | None]]:
    """Return the measured points, from the initial model to the newest average."""
    first: list[list[float | None]] = [[0, facts["initial_accuracy"], None]] if facts["rounds"][:1] else []
    if facts["rounds"] and facts["rounds"][0]["round"] != 1:
        first = []
    rows = [[row["round"], row["accuracy"], row["accuracy_with_noise"]] for row in facts["rounds"]]
    return [point for point in first + rows if point[1] is not None]


def _verifier(state: ServiceState, facts: dict[str, Any]) -> tuple[Callable[[Callable[[int], None]], Any], int]:
    """Return what Verify runs for a task, and in how many steps."""
    if facts["kind"] == "sgd":
        bank = state.desk.bank
        return partial(verified, bank, None), bank.head().number + 1

    def rerun_task(progress: Callable[[int], None]) -> Any:
        return state.learning.verify(facts["id"], lambda done, total: progress(done))

    return rerun_task, facts["rounds_finished"]


def _report(facts: dict[str, Any], report: TaskReport | Report) -> str:
    template = "learning_report.html" if facts["kind"] == "crowd" else "report_part.html"
    return (
        templates()
        .get_template(template)
        .render(report=report.plain(), mine=facts["id"], proves=PROVES, cannot_see=CANNOT_SEE)
    )
