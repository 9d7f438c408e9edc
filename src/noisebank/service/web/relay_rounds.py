"""A page for everybody about one relay round: who took part with which noise, and what each was promised."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from noisebank.service.authenticator import EVERYBODY, state_of
from noisebank.service.errors import ApiError
from noisebank.service.roles import Caller
from noisebank.service.web.rendering import render_page

router = APIRouter(prefix="/learning/relays")
AnyCaller = Annotated[Caller | None, Depends(EVERYBODY)]


@router.get("/{report}")
async def show_relay_round(request: Request, report: str, caller: AnyCaller) -> Response:
    """Show one round."""
    state = state_of(request)
    found = await state.workers.run(lambda: state.learning.relays.find_report(report))
    if found is None:
        raise ApiError("not-found", "there is no relay round of this id")
    return render_page(request, "learning_relay.html", title=found["name"], here="learning", round=found)
