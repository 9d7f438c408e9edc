"""API routes that list and end sessions: the caller's own, or everybody's with the scope `manage`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEM_RESPONSES
from noisebank.service.authenticator import SIGNED_IN, state_of
from noisebank.service.roles import Caller, Scope
from noisebank.service.schemas import SessionsOut

router = APIRouter(prefix="/v1/sessions", tags=["sign-in"], responses=PROBLEM_RESPONSES)
SignedInCaller = Annotated[Caller, Depends(SIGNED_IN)]


def visible_person(caller: Caller) -> str | None:
    """Return whose sessions a caller may see and end: their own name, or None for everybody with `manage`."""
    return None if Scope.MANAGE in caller.scopes else caller.person.name


@router.get("", name="sessions", response_model=SessionsOut)
async def list_sessions(request: Request, caller: SignedInCaller) -> Response:
    """The sessions that are open, oldest first: one's own; with `manage`, everybody's."""
    listed = state_of(request).access.list_sessions(visible_person(caller))
    rows = [{**session.to_json(), "current": session.id == caller.session_id} for session in listed]
    return JSONResponse({"sessions": rows})


@router.delete("/{id}", name="end", status_code=204, response_class=Response)
async def end_session(request: Request, id: str, caller: SignedInCaller) -> Response:
    """Ends a session, at once: one of one's own; with `manage`, anybody's."""
    state_of(request).access.end_session_by_id(visible_person(caller), id)
    return Response(status_code=204)
