"""API routes for the owner: people, their wallets, limits and keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import MAY_MANAGE, state_of
from noisebank.service.errors import Turned
from noisebank.service.roles import Caller, Part, Person, Scope
from noisebank.service.schemas import KeyIn, Keys, LimitIn, NewKey, People, PersonIn, PersonOut, ViewOut, WalletIn

router = APIRouter(prefix="/v1/analysts", tags=["owner"], responses=PROBLEMS)
Owner = Annotated[Caller, Depends(MAY_MANAGE)]
DAY = 86_400.0


@router.get("", name="people", response_model=People)
async def people(request: Request, caller: Owner) -> Response:
    """Everybody that the bank knows."""
    return JSONResponse({"analysts": [_person(request, person) for person in state_of(request).access.people()]})


@router.post("", name="add", response_model=PersonOut, status_code=201)
async def add(request: Request, body: PersonIn, caller: Owner) -> Response:
    """Somebody new. Analysts may ask once they have a limit."""
    person = state_of(request).access.add_person(body.name, Part(body.role), body.wallet, body.must_sign)
    return JSONResponse(_person(request, person), 201)


@router.get("/{name}", name="person", response_model=PersonOut)
async def person(request: Request, name: str, caller: Owner) -> Response:
    """Somebody, with what they have learned."""
    return JSONResponse(_person(request, _there(request, name)))


@router.put("/{name}/wallet", name="wallet", response_model=PersonOut)
async def wallet(request: Request, name: str, body: WalletIn, caller: Owner) -> Response:
    """Gives somebody a wallet to sign in with, or takes it away. Sessions made with another one end."""
    return JSONResponse(_person(request, state_of(request).access.set_wallet(name, body.wallet)))


@router.put("/{name}/limits/{dataset}", name="limit", response_model=ViewOut)
async def limit(request: Request, name: str, dataset: str, body: LimitIn, caller: Owner) -> Response:
    """How much somebody may learn from a data set. Signed by the owner's key on the ledger. Less ends sessions."""
    state, person = state_of(request), _there(request, name)

    def work() -> dict[str, Any]:
        before = state.desk.limits(person)
        view = state.desk.set_limit(dataset, person, body.epsilon)
        now = state.desk.limits(person)
        if any(now[account] < units for account, units in before.items()):
            state.access.end_sessions(person.name)
        return view

    return JSONResponse(await state.room.run(work))


@router.post("/{name}/disable", name="disable", response_model=PersonOut)
async def disable(request: Request, name: str, caller: Owner) -> Response:
    """Shuts somebody out at once: keys open nothing until enabled again, every session ends."""
    return JSONResponse(_person(request, state_of(request).access.disable(name)))


@router.post("/{name}/enable", name="enable", response_model=PersonOut)
async def enable(request: Request, name: str, caller: Owner) -> Response:
    """Lets somebody in again, with the keys that are not revoked or by a new sign-in."""
    return JSONResponse(_person(request, state_of(request).access.enable(name)))


@router.get("/{name}/keys", name="keys", response_model=Keys)
async def keys(request: Request, name: str, caller: Owner) -> Response:
    """Somebody's keys, without their secrets."""
    keys = state_of(request).access.keys(_there(request, name).name)
    return JSONResponse({"keys": [key.to_json() for key in keys]})


@router.post("/{name}/keys", name="make_key", response_model=NewKey, status_code=201)
async def make_key(request: Request, name: str, body: KeyIn, caller: Owner) -> Response:
    """A new key. Its secret is shown this once and kept nowhere."""
    scopes = None if body.scopes is None else [Scope(scope) for scope in body.scopes]
    seconds = None if body.days is None else body.days * DAY
    secret, key = state_of(request).access.make_key(name, scopes, body.label, seconds)
    return JSONResponse({**key.to_json(), "secret": secret}, 201, {"cache-control": "no-store"})


@router.delete("/{name}/keys/{id}", name="revoke", status_code=204, response_class=Response)
async def revoke(request: Request, name: str, id: str, caller: Owner) -> Response:
    """From now on this key opens nothing, nor do sessions made with it."""
    state_of(request).access.revoke(name, id)
    return Response(status_code=204)


def _there(request: Request, name: str) -> Person:
    person = state_of(request).access.person(name)
    if person is None:
        raise Turned("not-found", "there is nobody of this name")
    return person


def _person(request: Request, person: Person) -> dict[str, Any]:
    desk = state_of(request).desk
    views = [desk.view(account, person) for account in desk.bank.accounts()] if person.part is Part.ANALYST else []
    return {
        "name": person.name, "role": person.part.value, "wallet": person.wallet, "must_sign": person.must_sign,
        "made": person.made, "disabled": person.disabled, "views": views,
    }  # fmt: skip
