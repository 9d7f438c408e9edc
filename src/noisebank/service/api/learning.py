"""API routes for everybody about federated learning: tasks, rounds, verdicts, reputations, spending."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.learning_schemas import CrowdTask, LearningTasks, RoundOut, SgdTask
from noisebank.service.roles import Caller

router = APIRouter(prefix="/v1/learning", tags=["learning"], responses=PROBLEM_RESPONSES)
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
RoundNumber = Annotated[int, Path(ge=1, le=10_000)]


@router.get("", name="tasks", response_model=LearningTasks)
async def list_tasks(request: Request, caller: AnyCaller) -> Response:
    """Every learning task: of a crowd, and of devices charged on this bank's ledger."""
    state = state_of(request)
    return JSONResponse(await state.workers.run(state.learning.list_tasks))


@router.get("/{task}", name="task", response_model=CrowdTask | SgdTask)
async def get_task(request: Request, task: str, caller: AnyCaller) -> Response:
    """One task: where it stands, its rounds, members, models by content identifier, spending per device."""
    state = state_of(request)
    return JSONResponse(await state.workers.run(lambda: state.learning.get_task(task)))


@router.get("/{task}/rounds/{number}", name="round", response_model=RoundOut)
async def get_round(request: Request, task: str, number: RoundNumber, caller: AnyCaller) -> Response:
    """One round of a crowd's task: submissions with verdicts and why, the committee and its votes."""
    state = state_of(request)
    return JSONResponse(await state.workers.run(lambda: state.learning.get_round(task, number)))
