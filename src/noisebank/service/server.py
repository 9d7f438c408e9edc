"""Runs the application on uvicorn, for `noisebank serve`. A shutdown first finishes what is reserved."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import cast

import uvicorn
from fastapi import FastAPI

from noisebank.bank.bank import Bank
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.service.app import make_app
from noisebank.service.authenticator import ServiceState
from noisebank.service.interpreter import tune_interpreter
from noisebank.service.logs import LibraryLog, RequestLog
from noisebank.service.settings import Settings
from noisebank.service.tour import TourStop

SWITCH_SECONDS = 0.005
"""Seconds until a thread hands over the interpreter: one thread serves requests, others commit and read tables for it.
With longer turns their results would wait."""
LISTENER_COPIES = 32
"""Copies of the listening socket: per turn, the event loop accepts one connection on each; turns are long when busy."""
KEEP_ALIVE_SECONDS = 75
"""Seconds that an idle connection is kept: longer than clients keep theirs (5 s for httpx, 60 s for common proxies),
so that no client sends a request on a connection that the server is just closing."""
LOG_DELAY_SECONDS = 0.1
"""Lines of requests are written at most this much later: one system call for all of them."""


def open_listener(settings: Settings) -> socket.socket:
    """Return a bound socket: the port of port 0 is known before anything runs, and a taken port is a clear error."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise BadRequest(
            "port", f"{settings.host}:{settings.port}", f"cannot be listened on ({error.strerror})"
        ) from None
    return bound


def warm_up(bank: Bank) -> None:
    """Load what the first answer would wait for: the sampler, the parser, each table's metadata. Draws nothing."""
    import opendp.prelude  # noqa: F401 - seconds, on a busy machine

    for account in bank.accounts():
        with suppress(NoisebankError):
            account.quote(f"SELECT count(*) FROM {account.name}", epsilon="0.1", delta="1e-6")


def make_config(app: FastAPI, shutdown_seconds: int) -> uvicorn.Config:
    """Return the uvicorn configuration, for the server and for tests."""
    return uvicorn.Config(
        app, ws="none", log_config=None, access_log=False, server_header=False, date_header=False, backlog=2_048,
        timeout_graceful_shutdown=shutdown_seconds, timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )  # fmt: skip


def serve(
    bank: Bank,
    settings: Settings,
    listener: socket.socket,
    on_ready: Callable[[], None] = lambda: None,
    tour: Sequence[TourStop] = (),
) -> None:
    """Serve until SIGINT or SIGTERM; calls `on_ready` before the first request. Requests under way are finished."""
    log = RequestLog(delay_seconds=LOG_DELAY_SECONDS)
    logging.getLogger().addHandler(LibraryLog(log))
    app = make_app(bank, settings, log, tour=tour)
    state = cast(ServiceState, app.state)
    server = uvicorn.Server(make_config(app, int(settings.shutdown_seconds)))

    def request_exit(*_: object) -> None:  # while it starts; and uvicorn raises a signal again once all is finished
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, request_exit)
    warm_up(bank)
    for account in bank.accounts():
        state.spending_totals.get_spending(
            account
        )  # the pages' sums over all entries: from here on only new ones are read
    state.learning.list_tasks()
    tune_interpreter(SWITCH_SECONDS)
    listener.listen(server.config.backlog)  # whoever reads the address may connect at once, and is served in a moment
    on_ready()
    server.run(sockets=[listener, *(listener.dup() for _ in range(LISTENER_COPIES - 1))])
