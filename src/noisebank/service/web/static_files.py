"""Static files of the pages: read once, cached by browsers as long as their address stays the same."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import Response

from noisebank.service.errors import Turned
from noisebank.service.web.rendering import STATIC

router = APIRouter(prefix="/static")
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
FOR_EVER = "public, max-age=31536000, immutable"


@cache
def files() -> dict[str, tuple[bytes, str]]:
    """Return content and media type by file name; no other file is served."""
    paths = [path for path in STATIC.iterdir() if path.suffix in KINDS]
    return {path.name: (path.read_bytes(), KINDS[path.suffix]) for path in paths}


@router.get("/{name}")
async def static(request: Request, name: str) -> Response:
    """Return one file. No key and no rate limit: a page needs five of them."""
    if name not in files():
        raise Turned("not-found", "there is no such file")
    content, kind = files()[name]
    caching = FOR_EVER if request.query_params.get("v") else "no-cache"
    return Response(content, media_type=kind, headers={"cache-control": caching})
