"""Pages to sign in with a key or a wallet, which gives a session cookie; and to sign out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from noisebank.service.api.sign_in import verify_wallet_holder
from noisebank.service.auth import KEY_PREFIX
from noisebank.service.authenticator import EVERYBODY, SESSION_COOKIE, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller, Person, Role
from noisebank.service.web.rendering import read_form, render_page

router = APIRouter()
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]
Form = Annotated[dict[str, str], Depends(read_form)]


@router.get("/sign-in")
async def show_sign_in(request: Request, caller: AnyCaller, next: str = "") -> Response:
    """Show the form."""
    return render_page(request, "sign_in.html", title="Sign in", next=_local_path(next), mistakes={})


@router.post("/sign-in")
async def sign_in_with_key(request: Request, caller: AnyCaller, form: Form) -> Response:
    """Start a session with a key; it has the scopes of the key."""
    state, secret, after = state_of(request), form.get("key", "").strip(), _local_path(form.get("next", ""))
    holder = state.access.find_caller(secret) if secret.startswith(KEY_PREFIX) else None
    if holder is None:
        message = (
            "Nobody has this key: it is misspelt, revoked or has expired. Ask the owner for a new one."
            if secret.startswith(KEY_PREFIX)
            else f"Paste the whole key. It begins with {KEY_PREFIX} and was shown once, when it was made."
        )
        return render_page(request, "sign_in.html", 422, title="Sign in", next=after, mistakes={"key": message})
    return _start_session(request, holder.person, after, key=holder.key_id)


@router.post("/sign-in/wallet")
async def sign_in_with_wallet(request: Request, caller: AnyCaller, form: Form) -> Response:
    """Start a session with a wallet's signed message (EIP-4361)."""
    after = _local_path(form.get("next", ""))
    try:
        person = verify_wallet_holder(request, form.get("message", ""), form.get("signature", ""))
        return _start_session(request, person, after, wallet=person.wallet)
    except ApiError as error:
        return render_page(request, "sign_in.html", 422, title="Sign in", next=after, mistakes={"wallet": str(error)})


@router.post("/sign-out")
async def sign_out(request: Request, caller: AnyCaller, form: Form) -> Response:
    """End the session, in the browser and in the bank."""
    state_of(request).access.end_session(request.cookies.get(SESSION_COOKIE, ""))
    response = RedirectResponse("/", 303)
    response.delete_cookie(SESSION_COOKIE, path="/")
    return response


def _start_session(
    request: Request, person: Person, next_path: str, key: str | None = None, wallet: str | None = None
) -> Response:
    state = state_of(request)
    seconds, secure = state.settings.session_hours * 3600, state.settings.secure_cookies
    secret, _ = state.access.make_session(person.name, seconds, key, wallet)
    response = RedirectResponse(next_path or _home_path(request, person), 303)
    response.set_cookie(
        SESSION_COOKIE, secret, max_age=int(seconds), httponly=True, samesite="strict", secure=secure, path="/"
    )
    return response


def _home_path(request: Request, person: Person) -> str:
    accounts = state_of(request).operations.bank.accounts()
    if not accounts:
        return "/"
    homes = {Role.OWNER: "/statement", Role.CURATOR: "/statement", Role.ANALYST: "/console", Role.AUDITOR: "/ledger"}
    return f"/d/{accounts[0].name}{homes[person.role]}"


def _local_path(path: str) -> str:
    """Return the path if it is one of ours, else nothing: a link must not send people to another site."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else ""
