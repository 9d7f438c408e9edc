"""Runs the application on uvicorn until it is told to stop; what is reserved is finished first."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from noisebank.bank.bank import Bank
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.runtime.settled import settle
from noisebank.service.app import make_app
from noisebank.service.logs import Log
from noisebank.service.settings import Settings

SHARED_TURN = 0.005
"""Seconds: one thread reads requests and walks for them, others commit and read tables for it. Longer turns would keep
whoever is done with that from saying so."""
DOORS = 32
"""Of one socket: a busy loop takes one new connection at each of them a turn, and turns are long then."""
KEPT_OPEN = 75
"""Seconds that an idle connection is kept: longer than clients keep theirs (5 s for httpx, 60 s for common proxies).
Whoever closes first never sends a request on what the other is just closing."""
LOG_SECONDS = 0.1
"""Lines of requests are written that much later at most: one system call for all of them."""


def listening(settings: Settings) -> socket.socket:
    """A socket of our own: port 0 is known before anything runs, and a taken port is a clear error."""
    kind = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(kind, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except OSError as error:
        made.close()
        raise BadRequest(
            "port", f"{settings.host}:{settings.port}", f"cannot be listened on ({error.strerror})"
        ) from None
    return made


def warm(bank: Bank) -> None:
    """Loads what the first answer would wait for: the sampler, the parser, each table's metadata. Draws nothing."""
    import opendp.prelude  # noqa: F401 - seconds, on a busy machine

    for account in bank.accounts():
        with suppress(NoisebankError):
            account.quote(f"SELECT count(*) FROM {account.name}", epsilon="0.1", delta="1e-6")


def configured(app: FastAPI, shutdown_seconds: int) -> uvicorn.Config:
    """How uvicorn runs the application, here and in tests."""
    return uvicorn.Config(
        app, ws="none", log_config=None, access_log=False, server_header=False, date_header=False, backlog=2_048,
        timeout_graceful_shutdown=shutdown_seconds, timeout_keep_alive=KEPT_OPEN,
    )  # fmt: skip


def serve(bank: Bank, settings: Settings, door: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serves until SIGINT or SIGTERM. New requests are refused then, those under way are finished."""
    app = make_app(bank, settings, Log(every=LOG_SECONDS))
    server = uvicorn.Server(configured(app, int(settings.shutdown_seconds)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises it again once all is finished; the bank closes itself
    warm(bank)
    for account in bank.accounts():
        app.state.spendings.of(account)  # the pages' sums over all entries: from here on only new ones are read
    app.state.learning.briefs()
    settle(SHARED_TURN)
    door.listen(server.config.backlog)  # whoever reads the address may connect at once, and is served in a moment
    ready()
    server.run(sockets=[door, *(door.dup() for _ in range(DOORS - 1))])
