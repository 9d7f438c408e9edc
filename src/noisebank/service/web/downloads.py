"""CSV and other files that people download from a page."""

from __future__ import annotations

import csv
import io
from typing import Any

from starlette.responses import Response

from noisebank.core.rendering import escape_formula


def write_csv(header: list[str], rows: list[list[Any]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[escape_formula(cell) if isinstance(cell, str) else cell for cell in row] for row in rows])
    return text.getvalue()


def download_response(text: str, kind: str, name: str) -> Response:
    """Return a response that browsers save as a file."""
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)
