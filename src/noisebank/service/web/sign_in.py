"""Pages to sign in with a key or a wallet, which gives a session cookie; and to sign out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from noisebank.service.api.sign_in import wallet_holder
from noisebank.service.auth import KEY
from noisebank.service.authenticator import COOKIE, EVERYBODY, state_of
from noisebank.service.errors import Turned
from noisebank.service.roles import Caller, Part, Person
from noisebank.service.web.rendering import form_of, page

router = APIRouter()
Anybody = Annotated[Caller | None, Depends(EVERYBODY)]
Form = Annotated[dict[str, str], Depends(form_of)]


@router.get("/sign-in")
async def sign_in(request: Request, caller: Anybody, next: str = "") -> Response:
    """Show the form."""
    return page(request, "sign_in.html", title="Sign in", next=_inside(next), mistakes={})


@router.post("/sign-in")
async def with_key(request: Request, caller: Anybody, form: Form) -> Response:
    """Start a session with a key; it has the scopes of the key."""
    state, secret, after = state_of(request), form.get("key", "").strip(), _inside(form.get("next", ""))
    holder = state.access.caller(secret) if secret.startswith(KEY) else None
    if holder is None:
        message = (
            "Nobody has this key: it is misspelt, revoked or has expired. Ask the owner for a new one."
            if secret.startswith(KEY)
            else f"Paste the whole key. It begins with {KEY} and was shown once, when it was made."
        )
        return page(request, "sign_in.html", 422, title="Sign in", next=after, mistakes={"key": message})
    return _session(request, holder.person, after, key=holder.key)


@router.post("/sign-in/wallet")
async def with_wallet(request: Request, caller: Anybody, form: Form) -> Response:
    """Start a session with a wallet's signed message (EIP-4361)."""
    after = _inside(form.get("next", ""))
    try:
        person = wallet_holder(request, form.get("message", ""), form.get("signature", ""))
        return _session(request, person, after, wallet=person.wallet)
    except Turned as error:
        return page(request, "sign_in.html", 422, title="Sign in", next=after, mistakes={"wallet": str(error)})


@router.post("/sign-out")
async def sign_out(request: Request, caller: Anybody, form: Form) -> Response:
    """End the session, in the browser and in the bank."""
    state_of(request).access.end_session(request.cookies.get(COOKIE, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE, path="/")
    return response


def _session(
    request: Request, person: Person, after: str, key: str | None = None, wallet: str | None = None
) -> Response:
    state = state_of(request)
    seconds, secure = state.settings.session_hours * 3600, state.settings.secure_cookies
    secret, _ = state.access.make_session(person.name, seconds, key, wallet)
    response = RedirectResponse(after or _home(request, person), 303)
    response.set_cookie(COOKIE, secret, max_age=int(seconds), httponly=True, samesite="strict", secure=secure, path="/")
    return response


def _home(request: Request, person: Person) -> str:
    accounts = state_of(request).desk.bank.accounts()
    if not accounts:
        return "/"
    homes = {Part.OWNER: "/statement", Part.CURATOR: "/statement", Part.ANALYST: "/console", Part.AUDITOR: "/ledger"}
    return f"/d/{accounts[0].name}{homes[person.part]}"


def _inside(path: str) -> str:
    """Return the path if it is one of ours, else nothing: a link must not send people to another site."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else ""
