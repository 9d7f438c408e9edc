"""The page of sessions: the caller's own; for the owner everybody's, and people to disable and enable."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from noisebank.service.api.sessions import visible_person
from noisebank.service.authenticator import MAY_MANAGE, SIGNED_IN, state_of
from noisebank.service.roles import Caller, Role, Scope
from noisebank.service.web.rendering import read_form, render_page

router = APIRouter(prefix="/sessions")
SignedInCaller = Annotated[Caller, Depends(SIGNED_IN)]
ManagingCaller = Annotated[Caller, Depends(MAY_MANAGE)]
Form = Annotated[dict[str, str], Depends(read_form)]
MAX_LISTED = 200


@router.get("")
async def show_sessions(request: Request, caller: SignedInCaller) -> Response:
    """Show the page."""
    access = state_of(request).access
    listed = access.list_sessions(visible_person(caller))
    people = [
        {"name": person.name, "role": person.role.value, "disabled": person.disabled_since}
        for person in (access.list_people() if Scope.MANAGE in caller.scopes else ())
        if person.role is not Role.OWNER
    ]
    return render_page(
        request, "sessions.html", title="Sessions", here="sessions", current=caller.session_id, people=people,
        sessions=[session.to_json() for session in listed[::-1][:MAX_LISTED]], more=max(0, len(listed) - MAX_LISTED),
    )  # fmt: skip


@router.post("/{id}/end")
async def end_session(request: Request, id: str, caller: SignedInCaller, form: Form) -> Response:
    """End a session. Whoever ends their current one has to sign in again."""
    state_of(request).access.end_session_by_id(visible_person(caller), id)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/disable")
async def disable_person(request: Request, name: str, caller: ManagingCaller, form: Form) -> Response:
    """Disable a person."""
    state_of(request).access.disable_person(name)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/enable")
async def enable_person(request: Request, name: str, caller: ManagingCaller, form: Form) -> Response:
    """Enable a person again."""
    state_of(request).access.enable_person(name)
    return RedirectResponse("/sessions", 303)
