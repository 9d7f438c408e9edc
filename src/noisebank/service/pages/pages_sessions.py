"""Who is signed in: one's own sessions; for the owner everybody's, and people to shut out and let in again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from noisebank.service.gate import MAY_MANAGE, SIGNED_IN, state_of
from noisebank.service.pages.rendering import form_of, page
from noisebank.service.roles import Caller, Part, Scope
from noisebank.service.routes_sessions import whose

router = APIRouter(prefix="/sessions")
Somebody = Annotated[Caller, Depends(SIGNED_IN)]
Owner = Annotated[Caller, Depends(MAY_MANAGE)]
Form = Annotated[dict[str, str], Depends(form_of)]
MOST_LISTED = 200


@router.get("")
async def sessions(request: Request, caller: Somebody) -> Response:
    """The page."""
    access = state_of(request).access
    found = access.sessions(whose(caller))
    people = [each for each in access.people() if each.part is not Part.OWNER] if Scope.MANAGE in caller.scopes else []
    return page(
        request, "sessions.html", title="Sessions", here="sessions", sessions=found[::-1][:MOST_LISTED],
        more=max(0, len(found) - MOST_LISTED), current=caller.session, people=people,
    )  # fmt: skip


@router.post("/{id}/end")
async def end(request: Request, id: str, caller: Somebody, form: Form) -> Response:
    """Ends a session. Who ends the one at hand has to sign in again."""
    state_of(request).access.end_session_of(whose(caller), id)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/disable")
async def disable(request: Request, name: str, caller: Owner, form: Form) -> Response:
    """Shuts somebody out."""
    state_of(request).access.disable(name)
    return RedirectResponse("/sessions", 303)


@router.post("/of/{name}/enable")
async def enable(request: Request, name: str, caller: Owner, form: Form) -> Response:
    """Lets somebody in again."""
    state_of(request).access.enable(name)
    return RedirectResponse("/sessions", 303)
