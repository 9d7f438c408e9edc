"""The pages: server-rendered templates, a little htmx, pictures drawn by the server. What they do, the desk does."""

from __future__ import annotations

from fastapi import FastAPI

from noisebank.service.web import (
    console as pages_console,
)
from noisebank.service.web import (
    learning as pages_learning,
)
from noisebank.service.web import (
    ledger as pages_ledger,
)
from noisebank.service.web import (
    public as pages_public,
)
from noisebank.service.web import (
    sessions as pages_sessions,
)
from noisebank.service.web import (
    sign_in as pages_signing_in,
)
from noisebank.service.web import (
    statement as pages_statement,
)
from noisebank.service.web import (
    static_files as pages_static,
)
from noisebank.service.web.fees import Fees
from noisebank.service.web.recent_answers import Shelf
from noisebank.service.web.spending import Spendings
from noisebank.service.web.verification import Checking


def add_pages(app: FastAPI) -> None:
    """Puts the pages beside the API."""
    app.state.spendings, app.state.checking, app.state.shelf = Spendings(), Checking(), Shelf()
    app.state.fees = Fees()
    for pages in (
        pages_static, pages_signing_in, pages_sessions, pages_console, pages_statement, pages_ledger, pages_learning,
        pages_public,
    ):  # fmt: skip
        app.include_router(pages.router, include_in_schema=False)
