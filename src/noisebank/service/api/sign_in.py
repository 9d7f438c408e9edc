"""API routes for sign-in with a wallet (EIP-4361): a nonce, a signed message, a session; and sign-out."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import EVERYBODY, SESSION_COOKIE, SIGNED_IN, read_secret, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller, Person
from noisebank.service.schemas import NonceIn, NonceOut, Session, SignInIn
from noisebank.service.wallet import check_sign_in, make_sign_in_message, read_sign_in

router = APIRouter(prefix="/v1/sign-in", tags=["sign-in"], responses=PROBLEM_RESPONSES)
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
SignedInCaller = Annotated[Caller, Depends(SIGNED_IN)]


@router.post("/nonce", name="nonce", response_model=NonceOut)
async def make_nonce(request: Request, body: NonceIn, caller: AnyCaller) -> Response:
    """A nonce for one sign-in, and the message to sign with it."""
    state = state_of(request)
    settings, chain_id = state.settings, state.operations.bank.ledger.chain_id
    value, expires = state.access.make_nonce(settings.nonce_seconds)
    text = make_sign_in_message(settings.domain, settings.address, body.address, chain_id, value, time.time())
    return JSONResponse({"nonce": value, "expires": expires, "message": text}, headers={"cache-control": "no-store"})


@router.post("", name="sign_in", response_model=Session)
async def sign_in(request: Request, body: SignInIn, caller: AnyCaller) -> Response:
    """A session for whoever the wallet belongs to. Each nonce works once."""
    person = verify_wallet_holder(request, body.message, body.signature)
    state = state_of(request)
    seconds = state.settings.session_hours * 3600
    token, session = state.access.make_session(person.name, seconds, wallet=person.wallet)
    return JSONResponse(
        {"token": token, "expires": session.expires, "name": person.name, "role": person.role.value},
        headers={"cache-control": "no-store"},
    )


def verify_wallet_holder(request: Request, message: str, signature: str) -> Person:
    """Return whose wallet has signed this message, for this service, now, with an unused nonce; raises otherwise."""
    state = state_of(request)
    settings, parsed = state.settings, read_sign_in(message, signature)
    if not state.access.use_nonce(parsed.nonce):
        raise ApiError("bad-signature", "this nonce is not ours, was used already, or has expired: ask for a new one")
    chain_id = state.operations.bank.ledger.chain_id
    check_sign_in(
        parsed, settings.domain, settings.address, chain_id, time.time(), settings.skew_seconds, settings.nonce_seconds
    )
    person = state.access.find_wallet_holder(parsed.address)
    if person is None:
        raise ApiError("not-allowed", "nobody here has this wallet; ask the owner to add it")
    return person


@router.delete("", name="sign_out", status_code=204, response_class=Response)
async def sign_out(request: Request, caller: SignedInCaller) -> Response:
    """Ends the session that this request came with. Keys are not sessions: revoke those."""
    state_of(request).access.end_session(read_secret(request) or "")
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response
