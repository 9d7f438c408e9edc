"""API routes for the owner: people, their wallets, limits and keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import MAY_MANAGE, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller, Person, Role, Scope
from noisebank.service.schemas import KeyIn, Keys, LimitIn, NewKey, People, PersonIn, PersonOut, ViewOut, WalletIn

router = APIRouter(prefix="/v1/analysts", tags=["owner"], responses=PROBLEM_RESPONSES)
ManagingCaller = Annotated[Caller, Depends(MAY_MANAGE)]
DAY_SECONDS = 86_400.0


@router.get("", name="people", response_model=People)
async def list_people(request: Request, caller: ManagingCaller) -> Response:
    """Everybody that the bank knows."""
    return JSONResponse(
        {"analysts": [_person_to_json(request, person) for person in state_of(request).access.list_people()]}
    )


@router.post("", name="add", response_model=PersonOut, status_code=201)
async def add_person(request: Request, body: PersonIn, caller: ManagingCaller) -> Response:
    """Somebody new. Analysts may ask once they have a limit."""
    person = state_of(request).access.add_person(body.name, Role(body.role), body.wallet, body.must_sign)
    return JSONResponse(_person_to_json(request, person), 201)


@router.get("/{name}", name="person", response_model=PersonOut)
async def get_person(request: Request, name: str, caller: ManagingCaller) -> Response:
    """Somebody, with what they have learned."""
    return JSONResponse(_person_to_json(request, _require_person(request, name)))


@router.put("/{name}/wallet", name="wallet", response_model=PersonOut)
async def set_wallet(request: Request, name: str, body: WalletIn, caller: ManagingCaller) -> Response:
    """Gives somebody a wallet to sign in with, or takes it away. Sessions made with another one end."""
    return JSONResponse(_person_to_json(request, state_of(request).access.set_wallet(name, body.wallet)))


@router.put("/{name}/limits/{dataset}", name="limit", response_model=ViewOut)
async def set_limit(request: Request, name: str, dataset: str, body: LimitIn, caller: ManagingCaller) -> Response:
    """How much somebody may learn from a data set. Signed by the owner's key on the ledger. Less ends sessions."""
    state, person = state_of(request), _require_person(request, name)

    def work() -> dict[str, Any]:
        before = state.operations.get_view_limits(person)
        view = state.operations.set_limit(dataset, person, body.epsilon)
        now = state.operations.get_view_limits(person)
        if any(now[account] < units for account, units in before.items()):
            state.access.end_sessions(person.name)
        return view

    return JSONResponse(await state.workers.run(work))


@router.post("/{name}/disable", name="disable", response_model=PersonOut)
async def disable_person(request: Request, name: str, caller: ManagingCaller) -> Response:
    """Shuts somebody out at once: keys open nothing until enabled again, every session ends."""
    return JSONResponse(_person_to_json(request, state_of(request).access.disable_person(name)))


@router.post("/{name}/enable", name="enable", response_model=PersonOut)
async def enable_person(request: Request, name: str, caller: ManagingCaller) -> Response:
    """Lets somebody in again, with the keys that are not revoked or by a new sign-in."""
    return JSONResponse(_person_to_json(request, state_of(request).access.enable_person(name)))


@router.get("/{name}/keys", name="keys", response_model=Keys)
async def list_keys(request: Request, name: str, caller: ManagingCaller) -> Response:
    """Somebody's keys, without their secrets."""
    keys = state_of(request).access.list_keys(_require_person(request, name).name)
    return JSONResponse({"keys": [key.to_json() for key in keys]})


@router.post("/{name}/keys", name="make_key", response_model=NewKey, status_code=201)
async def make_key(request: Request, name: str, body: KeyIn, caller: ManagingCaller) -> Response:
    """A new key. Its secret is shown this once and kept nowhere."""
    scopes = None if body.scopes is None else [Scope(scope) for scope in body.scopes]
    seconds = None if body.days is None else body.days * DAY_SECONDS
    secret, key = state_of(request).access.make_key(name, scopes, body.label, seconds)
    return JSONResponse({**key.to_json(), "secret": secret}, 201, {"cache-control": "no-store"})


@router.delete("/{name}/keys/{id}", name="revoke", status_code=204, response_class=Response)
async def revoke_key(request: Request, name: str, id: str, caller: ManagingCaller) -> Response:
    """From now on this key opens nothing, nor do sessions made with it."""
    state_of(request).access.revoke_key(name, id)
    return Response(status_code=204)


def _require_person(request: Request, name: str) -> Person:
    person = state_of(request).access.find_person(name)
    if person is None:
        raise ApiError("not-found", "there is nobody of this name")
    return person


def _person_to_json(request: Request, person: Person) -> dict[str, Any]:
    operations = state_of(request).operations
    views = (
        [operations.describe_view(account, person) for account in operations.bank.accounts()]
        if person.role is Role.ANALYST
        else []
    )
    return {
        "name": person.name, "role": person.role.value, "wallet": person.wallet, "must_sign": person.must_sign,
        "made": person.created, "disabled": person.disabled_since, "views": views,
    }  # fmt: skip
