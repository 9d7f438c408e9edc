"""API routes that list and end sessions: the caller's own, or everybody's with the scope `manage`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from noisebank.service.api.public import PROBLEMS
from noisebank.service.authenticator import SIGNED_IN, state_of
from noisebank.service.roles import Caller, Scope
from noisebank.service.schemas import SessionsOut

router = APIRouter(prefix="/v1/sessions", tags=["sign-in"], responses=PROBLEMS)
Somebody = Annotated[Caller, Depends(SIGNED_IN)]


def whose(caller: Caller) -> str | None:
    """Return whose sessions a caller may see and end: their own name, or None for everybody with `manage`."""
    return None if Scope.MANAGE in caller.scopes else caller.person.name


@router.get("", name="sessions", response_model=SessionsOut)
async def sessions(request: Request, caller: Somebody) -> Response:
    """The sessions that are open, oldest first: one's own; with `manage`, everybody's."""
    listed = state_of(request).access.sessions(whose(caller))
    rows = [{**session.to_json(), "current": session.id == caller.session} for session in listed]
    return JSONResponse({"sessions": rows})


@router.delete("/{id}", name="end", status_code=204, response_class=Response)
async def end(request: Request, id: str, caller: Somebody) -> Response:
    """Ends a session, at once: one of one's own; with `manage`, anybody's."""
    state_of(request).access.end_session_of(whose(caller), id)
    return Response(status_code=204)
