"""API routes for everybody about federated learning: tasks, rounds, verdicts, reputations, spending."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.learning_schemas import CrowdTask, LearningTasks, RoundOut, SgdTask
from noisebank.service.roles import Caller

router = APIRouter(prefix="/v1/learning", tags=["learning"], responses=PROBLEMS)
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Number = Annotated[int, Path(ge=1, le=10_000)]


@router.get("", name="tasks", response_model=LearningTasks)
async def tasks(request: Request, caller: Anybody) -> Response:
    """Every learning task: of a crowd, and of devices charged on this bank's ledger."""
    state = state_of(request)
    return JSONResponse(await state.room.run(state.learning.briefs))


@router.get("/{task}", name="task", response_model=CrowdTask | SgdTask)
async def task(request: Request, task: str, caller: Anybody) -> Response:
    """One task: where it stands, its rounds, members, models by content identifier, spending per device."""
    state = state_of(request)
    return JSONResponse(await state.room.run(lambda: state.learning.task(task)))


@router.get("/{task}/rounds/{number}", name="round", response_model=RoundOut)
async def round(request: Request, task: str, number: Number, caller: Anybody) -> Response:
    """One round of a crowd's task: submissions with verdicts and why, the committee and its votes."""
    state = state_of(request)
    return JSONResponse(await state.room.run(lambda: state.learning.round(task, number)))
