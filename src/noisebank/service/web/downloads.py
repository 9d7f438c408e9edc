"""CSV and other files that people download from a page."""

from __future__ import annotations

import csv
import io
from typing import Any

from starlette.responses import Response


def csv_text(head: list[str], rows: list[list[Any]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([[_harmless(cell) for cell in row] for row in rows])
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return "'" + cell if isinstance(cell, str) and cell[:1] in "=+@\t\r" and cell else cell


def download(text: str, kind: str, name: str) -> Response:
    """Return a response that browsers save as a file."""
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)
