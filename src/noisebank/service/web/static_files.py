"""Static files of the pages: read once, cached by browsers as long as their address stays the same."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import Response

from noisebank.service.errors import ApiError
from noisebank.service.web.rendering import STATIC_FOLDER

router = APIRouter(prefix="/static")
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
IMMUTABLE = "public, max-age=31536000, immutable"


@cache
def load_files() -> dict[str, tuple[bytes, str]]:
    """Return content and media type by file name; no other file is served."""
    paths = [path for path in STATIC_FOLDER.iterdir() if path.suffix in MEDIA_TYPES]
    return {path.name: (path.read_bytes(), MEDIA_TYPES[path.suffix]) for path in paths}


@router.get("/{name}")
async def get_file(request: Request, name: str) -> Response:
    """Return one file. No key and no rate limit: a page needs five of them."""
    if name not in load_files():
        raise ApiError("not-found", "there is no such file")
    content, kind = load_files()[name]
    caching = IMMUTABLE if request.query_params.get("v") else "no-cache"
    return Response(content, media_type=kind, headers={"cache-control": caching})
