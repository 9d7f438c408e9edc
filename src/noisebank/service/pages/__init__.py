"""The pages: server-rendered templates, a little htmx, pictures drawn by the server. What they do, the desk does."""

from __future__ import annotations

from fastapi import FastAPI

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
    """Puts the pages beside the API."""
    app.state.spendings, app.state.checking, app.state.shelf = Spendings(), Checking(), Shelf()
    app.state.fees = Fees()
    for pages in (
        pages_static, pages_signing_in, pages_sessions, pages_console, pages_statement, pages_ledger, pages_learning,
        pages_public,
    ):  # fmt: skip
        app.include_router(pages.router, include_in_schema=False)
