"""Sign-in with a wallet (EIP-4361): a nonce, a signed message, a session."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.gate import COOKIE, EVERYBODY, SIGNED_IN, secret_of, state_of
from noisebank.service.problems import Turned
from noisebank.service.roles import Caller, Person
from noisebank.service.routes_public import PROBLEMS
from noisebank.service.wallet import check_sign_in, message_to_sign, read_sign_in
from noisebank.service.wire import NonceIn, NonceOut, Session, SignInIn

router = APIRouter(prefix="/v1/sign-in", tags=["sign-in"], responses=PROBLEMS)
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Somebody = Annotated[Caller, Depends(SIGNED_IN)]


@router.post("/nonce", name="nonce", response_model=NonceOut)
async def nonce(request: Request, given: NonceIn, caller: Anybody) -> Response:
    """A nonce for one sign-in, and the message to sign with it."""
    state = state_of(request)
    made, expires = state.access.make_nonce(state.settings.nonce_seconds)
    text = message_to_sign(
        state.settings.domain, state.settings.address, given.address, state.desk.bank.ledger.chain_id, made, time.time()
    )
    return JSONResponse({"nonce": made, "expires": expires, "message": text}, headers={"cache-control": "no-store"})


@router.post("", name="sign_in", response_model=Session)
async def sign_in(request: Request, given: SignInIn, caller: Anybody) -> Response:
    """A session for whoever the wallet belongs to. Each nonce works once."""
    person = wallet_holder(request, given.message, given.signature)
    state, settings = state_of(request), state_of(request).settings
    token, made = state.access.make_session(person.name, settings.session_hours * 3600, wallet=person.wallet)
    return JSONResponse(
        {"token": token, "expires": made.expires, "name": person.name, "role": person.part.value},
        headers={"cache-control": "no-store"},
    )


def wallet_holder(request: Request, message: str, signature: str) -> Person:
    """Whose wallet has signed this message, for us, now, for the first time."""
    state, settings = state_of(request), state_of(request).settings
    said = read_sign_in(message, signature)
    if not state.access.use_nonce(said.nonce):
        raise Turned("bad-signature", "this nonce is not ours, was used already, or has expired: ask for a new one")
    check_sign_in(
        said, settings.domain, settings.address, state.desk.bank.ledger.chain_id, time.time(), settings.skew_seconds,
        settings.nonce_seconds,
    )  # fmt: skip
    person: Person | None = state.access.person_with(said.address)
    if person is None:
        raise Turned("not-allowed", "nobody here has this wallet; ask the owner to add it")
    return person


@router.delete("", name="sign_out", status_code=204, response_class=Response)
async def sign_out(request: Request, caller: Somebody) -> Response:
    """Ends the session that this request came with. Keys are not sessions: revoke those."""
    state_of(request).access.end_session(secret_of(request) or "")
    made = Response(status_code=204)
    made.delete_cookie(COOKIE, path="/")
    return made
