"""The web pages: Jinja templates, a little htmx, and SVG drawn by the server; `rendering` has the common parts.

One module per page. What a page does is done by `service.operations`, as for the API.
"""

from __future__ import annotations

from typing import cast

from fastapi import FastAPI

from noisebank.service.authenticator import ServiceState
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
    relay_rounds as pages_relay_rounds,
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
from noisebank.service.web.fees import FeeCache
from noisebank.service.web.recent_answers import RecentAnswers
from noisebank.service.web.spending import SpendingCache
from noisebank.service.web.verification import Verifications


def add_pages(app: FastAPI) -> None:
    """Add the routes of all pages to the application, and what they keep in `app.state`."""
    state = cast(ServiceState, app.state)
    state.spending_totals, state.verifications, state.recent_answers, state.fees = (
        SpendingCache(),
        Verifications(),
        RecentAnswers(),
        FeeCache(),
    )
    state.anchored = None
    for pages in (
        pages_static, pages_signing_in, pages_sessions, pages_console, pages_statement, pages_ledger,
        pages_relay_rounds, pages_learning, pages_public,
    ):  # fmt: skip
        app.include_router(pages.router, include_in_schema=False)
