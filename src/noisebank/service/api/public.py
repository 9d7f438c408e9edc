"""API routes for everybody: health, readiness, data sets; the caller's own identity; and metrics for operators."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.authenticator import EVERYBODY, MAY_READ_METRICS, SIGNED_IN, state_of
from noisebank.service.roles import Caller
from noisebank.service.schemas import Dataset, Datasets, Health, Me, ProblemOut, Ready

_PROBLEM_RESPONSE = {
    "description": "A problem, see its type",
    "content": {"application/problem+json": {"schema": ProblemOut.model_json_schema()}},
}
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {"4XX": _PROBLEM_RESPONSE, "5XX": _PROBLEM_RESPONSE}
router = APIRouter(prefix="/v1", tags=["public"], responses=PROBLEM_RESPONSES)
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
SignedInCaller = Annotated[Caller, Depends(SIGNED_IN)]
MetricsCaller = Annotated[Caller, Depends(MAY_READ_METRICS)]


@router.get("/health", name="health", response_model=Health)
async def get_health(request: Request) -> Response:
    """Whether the process answers at all. No key, no pace: for load balancers."""
    return JSONResponse({"status": "ok"})


@router.get("/ready", name="ready", response_model=Ready)
async def get_readiness(request: Request, caller: AnyCaller) -> Response:
    """Whether the bank is open and its ledger readable."""
    bank = state_of(request).operations.bank
    return JSONResponse({"ready": True, "datasets": len(bank.accounts()), "head": bank.head().number})


@router.get("/datasets", name="datasets", response_model=Datasets)
async def list_datasets(request: Request, caller: AnyCaller) -> Response:
    """Every data set with its public facts."""
    operations = state_of(request).operations
    return JSONResponse({"datasets": [operations.describe_dataset(account) for account in operations.bank.accounts()]})


@router.get("/datasets/{dataset}", name="dataset", response_model=Dataset)
async def get_dataset(request: Request, dataset: str, caller: AnyCaller) -> Response:
    """One data set's public facts: columns, bounds, keys, budget, named queries."""
    operations = state_of(request).operations
    return JSONResponse(operations.describe_dataset(operations.find_account(dataset)))


@router.get("/me", name="me", response_model=Me)
async def get_caller(request: Request, caller: SignedInCaller) -> Response:
    """Who this key or session belongs to, and what it opens."""
    person = caller.person
    scopes = sorted(scope.value for scope in caller.scopes)
    return JSONResponse(
        {
            "name": person.name,
            "role": person.role.value,
            "scopes": scopes,
            "key": caller.key_id,
            "wallet": person.wallet,
        }
    )


@router.get("/metrics", name="metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def get_metrics(request: Request, caller: MetricsCaller) -> Response:
    """For Prometheus."""
    state = state_of(request)
    return Response(
        state.metrics.render_text(state.operations.bank, state.workers.active_jobs + state.answers.active_questions),
        media_type="text/plain; version=0.0.4",
    )
