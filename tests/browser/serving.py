"""A bank behind its pages, in a thread of the test's own process: what the browser does can be seen in the bank."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket

import uvicorn
from fastapi import FastAPI

from noisebank import Bank, create_bank, open_bank
from noisebank.demo.clinic import POLICY
from noisebank.service.roles import Role
from support.internals import (
    AccessControl,
    RequestLog,
    Settings,
    TourStop,
    make_app,
    make_config,
    open_listener,
    write_clinic,
)
from support.patience import patience, wait_until

EASY = Settings(port=0, rate=1e6, burst=1_000_000, open_rate=1e6, open_burst=1_000_000, stream_seconds=2.0)
"""No pace to keep, and streams that end soon."""


@dataclass
class Served:
    """A bank, its address and everybody's keys."""

    address: str
    bank: Bank
    access: AccessControl
    keys: dict[str, str]
    log: io.StringIO

    @property
    def spent(self) -> int:
        return self.bank.account("clinic").state.spent.units


def clinic(folder: Path, epsilon: str = "3", more: str = "") -> Path:
    """A made-up clinic's policy, with another budget."""
    policy = write_clinic(folder)
    policy.write_text(more + POLICY.replace("epsilon = 3", f"epsilon = {epsilon}"))
    return policy


def new_bank(folder: Path, epsilon: str = "3", more: str = "") -> Path:
    """A bank with the clinic in it."""
    create_bank(folder / "bank")
    with open_bank(folder / "bank") as bank:
        bank.open_account(clinic(folder, epsilon, more))
    return folder / "bank"


@contextmanager
def served(
    bank: Bank,
    settings: Settings = EASY,
    limits: str = "2",
    prepare: Callable[[AccessControl], None] = lambda access: None,
) -> Iterator[Served]:
    """The bank's pages until the end of the block: owner, curator, auditor, and the analysts maria and noor."""
    door = open_listener(settings)
    settings = replace(settings, bank=bank.folder, port=door.getsockname()[1])
    log = io.StringIO()
    app = make_app(bank, settings, RequestLog(log))
    access: AccessControl = app.state.access
    keys = {"owner": access.make_key("owner")[0]}
    for name, part in (("carl", Role.CURATOR), ("aude", Role.AUDITOR), ("maria", Role.ANALYST), ("noor", Role.ANALYST)):
        person = access.add_person(name, part)
        keys[name] = access.make_key(name)[0]
        for account in bank.accounts() if part is Role.ANALYST else ():
            app.state.operations.set_limit(account.name, person, limits)
    prepare(access)
    with _running(app, door):
        yield Served(settings.address, bank, access, keys, log)


@contextmanager
def serve_app(bank: Bank, settings: Settings, tour: Sequence[TourStop]) -> Iterator[str]:
    """The bank's pages as the demonstration has them, until the end of the block; their address."""
    door = open_listener(settings)
    settings = replace(settings, bank=bank.folder, port=door.getsockname()[1])
    with _running(make_app(bank, settings, RequestLog(io.StringIO()), tour=tour), door):
        yield settings.address


@contextmanager
def _running(app: FastAPI, door: socket) -> Iterator[None]:
    server = uvicorn.Server(make_config(app, 3))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server listens")
        assert thread.is_alive()
        yield
    finally:
        server.should_exit = True
        thread.join(patience())
        door.close()
