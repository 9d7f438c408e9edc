"""API routes for sign-in with a wallet (EIP-4361): a nonce, a signed message, a session; and sign-out."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import COOKIE, EVERYBODY, SIGNED_IN, secret_of, state_of
from noisebank.service.errors import Turned
from noisebank.service.roles import Caller, Person
from noisebank.service.schemas import NonceIn, NonceOut, Session, SignInIn
from noisebank.service.wallet import check_sign_in, message_to_sign, read_sign_in

router = APIRouter(prefix="/v1/sign-in", tags=["sign-in"], responses=PROBLEMS)
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Somebody = Annotated[Caller, Depends(SIGNED_IN)]


@router.post("/nonce", name="nonce", response_model=NonceOut)
async def nonce(request: Request, body: NonceIn, caller: Anybody) -> Response:
    """A nonce for one sign-in, and the message to sign with it."""
    state = state_of(request)
    settings, chain_id = state.settings, state.desk.bank.ledger.chain_id
    value, expires = state.access.make_nonce(settings.nonce_seconds)
    text = message_to_sign(settings.domain, settings.address, body.address, chain_id, value, time.time())
    return JSONResponse({"nonce": value, "expires": expires, "message": text}, headers={"cache-control": "no-store"})


@router.post("", name="sign_in", response_model=Session)
async def sign_in(request: Request, body: SignInIn, caller: Anybody) -> Response:
    """A session for whoever the wallet belongs to. Each nonce works once."""
    person = wallet_holder(request, body.message, body.signature)
    state = state_of(request)
    seconds = state.settings.session_hours * 3600
    token, session = state.access.make_session(person.name, seconds, wallet=person.wallet)
    return JSONResponse(
        {"token": token, "expires": session.expires, "name": person.name, "role": person.part.value},
        headers={"cache-control": "no-store"},
    )


def wallet_holder(request: Request, message: str, signature: str) -> Person:
    """Return whose wallet has signed this message, for this service, now, with an unused nonce; raises otherwise."""
    state = state_of(request)
    settings, parsed = state.settings, read_sign_in(message, signature)
    if not state.access.use_nonce(parsed.nonce):
        raise Turned("bad-signature", "this nonce is not ours, was used already, or has expired: ask for a new one")
    chain_id = state.desk.bank.ledger.chain_id
    check_sign_in(
        parsed, settings.domain, settings.address, chain_id, time.time(), settings.skew_seconds, settings.nonce_seconds
    )
    person = state.access.person_with(parsed.address)
    if person is None:
        raise Turned("not-allowed", "nobody here has this wallet; ask the owner to add it")
    return person


@router.delete("", name="sign_out", status_code=204, response_class=Response)
async def sign_out(request: Request, caller: Somebody) -> Response:
    """Ends the session that this request came with. Keys are not sessions: revoke those."""
    state_of(request).access.end_session(secret_of(request) or "")
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/")
    return response
