"""The page of sessions: the caller's own; for the owner everybody's, and people to disable and enable."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from noisebank.service.api.sessions import whose
from noisebank.service.authenticator import MAY_MANAGE, SIGNED_IN, state_of
from noisebank.service.roles import Caller, Part, Scope
from noisebank.service.web.rendering import form_of, page

router = APIRouter(prefix="/sessions")
Somebody = Annotated[Caller, Depends(SIGNED_IN)]
Owner = Annotated[Caller, Depends(MAY_MANAGE)]
Form = Annotated[dict[str, str], Depends(form_of)]
MOST_LISTED = 200


@router.get("")
async def sessions(request: Request, caller: Somebody) -> Response:
    """Show the page."""
    access = state_of(request).access
    listed = access.sessions(whose(caller))
    people = [
        {"name": person.name, "role": person.part.value, "disabled": person.disabled}
        for person in (access.people() if Scope.MANAGE in caller.scopes else ())
        if person.part is not Part.OWNER
    ]
    return page(
        request, "sessions.html", title="Sessions", here="sessions", current=caller.session, people=people,
        sessions=[session.to_json() for session in listed[::-1][:MOST_LISTED]], more=max(0, len(listed) - MOST_LISTED),
    )  # fmt: skip


@router.post("/{id}/end")
async def end(request: Request, id: str, caller: Somebody, form: Form) -> Response:
    """End a session. Whoever ends their current one has to sign in again."""
    state_of(request).access.end_session_of(whose(caller), id)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/disable")
async def disable(request: Request, name: str, caller: Owner, form: Form) -> Response:
    """Disable a person."""
    state_of(request).access.disable(name)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/enable")
async def enable(request: Request, name: str, caller: Owner, form: Form) -> Response:
    """Enable a person again."""
    state_of(request).access.enable(name)
    return RedirectResponse("/sessions", 303)
