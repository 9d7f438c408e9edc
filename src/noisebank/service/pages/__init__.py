"""The web pages: Jinja templates, a little htmx, and SVG drawn by the server; `rendering` has the common parts.

One module per page. What a page does is done by `service.operations`, as for the API.
"""

from __future__ import annotations

from typing import cast

from fastapi import FastAPI

from noisebank.service.gate import ServiceState
from noisebank.service.pages import (
    pages_console,
    pages_learning,
    pages_ledger,
    pages_public,
    pages_sessions,
    pages_signing_in,
    pages_statement,
    pages_static,
)
from noisebank.service.pages.checking import Checking
from noisebank.service.pages.fees import Fees
from noisebank.service.pages.shelf import Shelf
from noisebank.service.pages.spending import Spendings


def add_pages(app: FastAPI) -> None:
    """Add the routes of all pages to the application, and what they keep in `app.state`."""
    state = cast(ServiceState, app.state)
    state.spendings, state.checking, state.shelf, state.fees = Spendings(), Checking(), Shelf(), Fees()
    state.anchored = None
    for pages in (
        pages_static, pages_signing_in, pages_sessions, pages_console, pages_statement, pages_ledger, pages_learning,
        pages_public,
    ):  # fmt: skip
        app.include_router(pages.router, include_in_schema=False)
