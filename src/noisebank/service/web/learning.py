"""Pages for everybody about federated learning: tasks, rounds, verdicts, reputations, spending, and Verify."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from noisebank.federated.blockfl.krum import describe_refusals
from noisebank.federated.blockfl.verification import LIMITATIONS, VERIFIED_CLAIMS, TaskReport
from noisebank.ledger.rpc import ChainLedger
from noisebank.service.authenticator import EVERYBODY, ServiceState, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller, Scope
from noisebank.service.web.rendering import is_htmx, load_templates, render_fragment, render_page
from noisebank.service.web.verification import verify_bank
from noisebank.verifier.report import CANNOT_SEE as LEDGER_CANNOT_SEE
from noisebank.verifier.report import CHAIN_PROVES, JOURNAL_PROVES, Report

router = APIRouter(prefix="/learning")
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
RoundNumber = Annotated[int | None, Query(alias="round", ge=1, le=10_000)]
MAX_LISTED = 60


@router.get("")
async def show_tasks(request: Request, caller: AnyCaller) -> Response:
    """Show every task; if there is none, how to make one."""
    state = state_of(request)
    listed = await state.workers.run(state.learning.list_tasks)
    return render_page(
        request, "learning.html", title="Learning", here="learning", tasks=listed["tasks"][:MAX_LISTED],
        more=max(0, len(listed["tasks"]) - MAX_LISTED), trouble=listed["trouble"], folder=state.settings.bank.name,
        configured=state.learning.crowd is not None, relays=await state.workers.run(state.learning.relays.list_reports),
    )  # fmt: skip


@router.get("/{task}")
async def show_task(request: Request, task: str, caller: AnyCaller, number: RoundNumber = None) -> Response:
    """Show one task."""
    return await _render_page(request, task, caller, number)


@router.get("/{task}/stands")
async def show_task_state(request: Request, task: str, caller: AnyCaller) -> Response:
    """Show the current phase of a task, for a page that is open."""
    state = state_of(request)
    facts = await state.workers.run(lambda: _get_crowd_task(state, task))
    return render_fragment(request, "learning_stands.html", task=facts, trouble=state.learning.trouble, live=True)


@router.get("/{task}/rounds")
async def show_rounds(request: Request, task: str, caller: AnyCaller) -> Response:
    """Show the rounds again: their accuracies may have been measured meanwhile."""
    state = state_of(request)
    facts = await state.workers.run(lambda: _get_crowd_task(state, task))
    return render_fragment(request, "learning_rounds.html", task=facts, chosen=None)


@router.get("/{task}/accuracy.json")
async def get_accuracy_points(request: Request, task: str, caller: AnyCaller) -> Response:
    """Return the points of the chart: round, accuracy, accuracy with noise."""
    state = state_of(request)
    facts = await state.workers.run(lambda: _get_crowd_task(state, task))
    return JSONResponse({"points": _accuracy_points(facts)})


@router.get("/{task}/verify")
async def show_verification(request: Request, task: str, caller: AnyCaller) -> Response:
    """Show the whole report at once, for browsers without scripts."""
    state = state_of(request)
    facts = await state.workers.run(lambda: state.learning.get_task(task))
    report: TaskReport | Report = await state.verifications.run_verifier(_make_verifier(state, facts)[0])
    return await _render_page(request, task, caller, None, report.to_json())


@router.get("/{task}/verify/events")
async def stream_verification(request: Request, task: str, caller: AnyCaller) -> Response:
    """Stream the progress of the verifier, then its report."""
    state = state_of(request)
    facts = await state.workers.run(lambda: state.learning.get_task(task))
    state.verifications.check_capacity()
    work, total = _make_verifier(state, facts)
    events: AsyncIterator[bytes] = state.verifications.stream_progress(work, total, partial(_render_report, facts))
    return StreamingResponse(events, media_type="text/event-stream", headers={"cache-control": "no-store"})


# -- parts -------------------------------------------------------------------------------------


async def _render_page(
    request: Request, task: str, caller: Caller | None, number: int | None, report: dict[str, Any] | None = None
) -> Response:
    state = state_of(request)
    may_read = caller is not None and Scope.STATEMENT in caller.scopes

    def work() -> dict[str, Any]:
        facts = state.learning.get_task(task)
        if facts["kind"] == "sgd":
            return {"task": facts, "weights": state.learning.read_weights(task) if may_read else None}
        chosen = number or max((row["round"] for row in facts["rounds"] if row["submitted"]), default=0)
        return {
            "task": facts,
            "best": max([10, *(member["reputation"] for member in facts["members_now"])]),
            "chosen": state.learning.get_round(task, chosen) if chosen else None,
        }

    facts = await state.workers.run(work)
    crowd = facts["task"]["kind"] == "crowd"
    if crowd and is_htmx(request) and number is not None:
        return render_fragment(request, "learning_round.html", **facts)
    on_chain = isinstance(state.operations.bank.ledger, ChainLedger)
    refusals = describe_refusals(facts["task"]["devices"], facts["task"]["byzantine"]) if crowd else ""
    return render_page(
        request, "learning_crowd.html" if crowd else "learning_sgd.html", title=facts["task"]["name"] or "A task",
        here="learning", report=report, trouble=state.learning.trouble, live=False, on_chain=on_chain,
        proves=VERIFIED_CLAIMS if crowd else CHAIN_PROVES if on_chain else JOURNAL_PROVES,
        cannot_see=LIMITATIONS if crowd else LEDGER_CANNOT_SEE, head=state.operations.get_head(),
        mine=facts["task"]["id"], refusals=refusals, **facts,
    )  # fmt: skip


def _get_crowd_task(state: ServiceState, task: str) -> dict[str, Any]:
    """Return a task that has rounds; raises not-found for other kinds."""
    facts = state.learning.get_task(task)
    if facts["kind"] != "crowd":
        raise ApiError("not-found", "this task has no rounds")
    return facts


def _accuracy_points(facts: dict[str, Any]) -> list[list[float | None]]:
    """Return the measured points, from the initial model to the newest average."""
    first: list[list[float | None]] = [[0, facts["initial_accuracy"], None]] if facts["rounds"][:1] else []
    if facts["rounds"] and facts["rounds"][0]["round"] != 1:
        first = []
    rows = [[row["round"], row["accuracy"], row["accuracy_with_noise"]] for row in facts["rounds"]]
    return [point for point in first + rows if point[1] is not None]


def _make_verifier(state: ServiceState, facts: dict[str, Any]) -> tuple[Callable[[Callable[[int], None]], Any], int]:
    """Return what Verify runs for a task, and in how many steps."""
    if facts["kind"] == "sgd":
        bank = state.operations.bank
        return partial(verify_bank, bank, None), bank.head().number + 1

    def rerun_task(progress: Callable[[int], None]) -> Any:
        return state.learning.verify(facts["id"], lambda done, total: progress(done))

    return rerun_task, facts["rounds_finished"]


def _render_report(facts: dict[str, Any], report: TaskReport | Report) -> str:
    template = "learning_report.html" if facts["kind"] == "crowd" else "report_part.html"
    return (
        load_templates()
        .get_template(template)
        .render(report=report.to_json(), mine=facts["id"], proves=VERIFIED_CLAIMS, cannot_see=LIMITATIONS)
    )
