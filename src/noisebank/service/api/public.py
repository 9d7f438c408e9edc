"""API routes for everybody: health, readiness, data sets; the caller's own identity; and metrics for operators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.authenticator import EVERYBODY, MAY_READ_METRICS, SIGNED_IN, state_of
from noisebank.service.roles import Caller
from noisebank.service.schemas import Dataset, Datasets, Health, Me, ProblemOut, Ready

_PROBLEM = {
    "description": "A problem, see its type",
    "content": {"application/problem+json": {"schema": ProblemOut.model_json_schema()}},
}
PROBLEMS: dict[int | str, dict[str, Any]] = {"4XX": _PROBLEM, "5XX": _PROBLEM}
router = APIRouter(prefix="/v1", tags=["public"], responses=PROBLEMS)
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Somebody = Annotated[Caller, Depends(SIGNED_IN)]
Watcher = Annotated[Caller, Depends(MAY_READ_METRICS)]


@router.get("/health", name="health", response_model=Health)
async def health(request: Request) -> Response:
    """Whether the process answers at all. No key, no pace: for load balancers."""
    return JSONResponse({"status": "ok"})


@router.get("/ready", name="ready", response_model=Ready)
async def ready(request: Request, caller: Anybody) -> Response:
    """Whether the bank is open and its ledger readable."""
    bank = state_of(request).desk.bank
    return JSONResponse({"ready": True, "datasets": len(bank.accounts()), "head": bank.head().number})


@router.get("/datasets", name="datasets", response_model=Datasets)
async def datasets(request: Request, caller: Anybody) -> Response:
    """Every data set with its public facts."""
    desk = state_of(request).desk
    return JSONResponse({"datasets": [desk.dataset(account) for account in desk.bank.accounts()]})


@router.get("/datasets/{dataset}", name="dataset", response_model=Dataset)
async def dataset(request: Request, dataset: str, caller: Anybody) -> Response:
    """One data set's public facts: columns, bounds, keys, budget, named queries."""
    desk = state_of(request).desk
    return JSONResponse(desk.dataset(desk.account(dataset)))


@router.get("/me", name="me", response_model=Me)
async def me(request: Request, caller: Somebody) -> Response:
    """Who this key or session belongs to, and what it opens."""
    person = caller.person
    scopes = sorted(scope.value for scope in caller.scopes)
    return JSONResponse(
        {"name": person.name, "role": person.part.value, "scopes": scopes, "key": caller.key, "wallet": person.wallet}
    )


@router.get("/metrics", name="metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, caller: Watcher) -> Response:
    """For Prometheus."""
    state = state_of(request)
    return Response(state.metrics.text(state.desk.bank, state.room.inside), media_type="text/plain; version=0.0.4")
