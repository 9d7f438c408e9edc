"""A small bank behind its HTTP application, with somebody in every role; or served by a process of its own."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from noisebank import Bank, create_bank, open_bank
from noisebank.service.roles import Role
from support.banks import write_people
from support.internals import AccessControl, RequestLog, Settings, make_app, make_config
from support.patience import patience
from support.processes import end_process, read_announcement

COUNT = "SELECT count(*) FROM people WHERE smoker"
EASY = Settings(rate=1e6, burst=1_000_000, open_rate=1e6, open_burst=1_000_000)
"""No pace to keep, for tests about something else."""
WALLET = b"\x07" * 32
NUMBERS = count()


def make_bank(folder: Path, epsilon: str = "4", rows: int = 20) -> Path:
    """A bank with the account `people`."""
    create_bank(folder / "bank")
    with open_bank(folder / "bank") as bank:
        bank.open_account(write_people(folder, rows=rows, epsilon=epsilon))
    return folder / "bank"


@dataclass
class Counter:
    """The application with everything around it that a test looks at."""

    client: httpx.Client
    app: FastAPI
    bank: Bank
    access: AccessControl
    log: io.StringIO
    keys: dict[str, str] = field(default_factory=dict)

    def headers(self, who: str | None, key: str | None = None) -> dict[str, str]:
        made = {"authorization": f"Bearer {self.keys[who]}"} if who else {}
        return made | ({"idempotency-key": key} if key else {})

    def ask(self, who: str | None, key: str, sql: str = COUNT, **more: Any) -> httpx.Response:
        wish = more if {"within", "sigma", "relative"} & set(more) else {"epsilon": "0.5", "delta": "1e-6", **more}
        return self.client.post(
            "/v1/datasets/people/answers", json={"sql": sql, **wish}, headers=self.headers(who, key)
        )

    @property
    def spent(self) -> int:
        return self.bank.account("people").state.spent.units

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@contextmanager
def counter(folder: Path, settings: Settings = EASY, epsilon: str = "4", limits: str = "2") -> Iterator[Counter]:
    """A bank at its counter: owner, curator, auditor, and the analysts maria and noor."""
    with open_bank(make_bank(folder, epsilon)) as bank:
        log = io.StringIO()
        settings = replace(settings, bank=bank.folder, origin="http://testserver")
        app = make_app(bank, settings, RequestLog(log))
        access: AccessControl = app.state.access
        keys = {"owner": access.make_key("owner")[0]}
        for name, part in (
            ("carl", Role.CURATOR),
            ("aude", Role.AUDITOR),
            ("maria", Role.ANALYST),
            ("noor", Role.ANALYST),
        ):
            access.add_person(name, part)
            keys[name] = access.make_key(name)[0]
            if part is Role.ANALYST:
                app.state.operations.set_limit("people", access.find_person(name), limits)
        with running(app) as address, httpx.Client(base_url=address, timeout=patience()) as client:
            yield Counter(client, app, bank, access, log, keys)


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The application on a real server, on a thread of this process."""
    door = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = uvicorn.Server(make_config(app, 5))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{door.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        door.close()


@dataclass
class Process:
    """`noisebank serve` as a process of its own."""

    address: str
    process: subprocess.Popen[str]
    log: Path

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience())


def start(bank: Path, port: int = 0, **settings: Any) -> Process:
    """Starts it and waits until it says where."""
    generous = {"RATE": "1000000", "BURST": "1000000", "OPEN_RATE": "1000000", "OPEN_BURST": "1000000"}
    environment = os.environ | {f"NOISEBANK_{name}": text for name, text in generous.items()}
    environment |= {f"NOISEBANK_{name.upper()}": str(value) for name, value in settings.items()}
    environment.pop("PYTHONUNBUFFERED", None)  # it would hide a server that does not flush its address
    log = bank.parent / f"serve-{next(NUMBERS)}.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "noisebank", "serve", "--bank", str(bank), "--port", str(port), "--json"],
            stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
        )  # fmt: skip
    return Process(read_announcement(process, log)["address"], process, log)


@contextmanager
def served(bank: Path, **settings: Any) -> Iterator[Process]:
    made = start(bank, **settings)
    try:
        yield made
    finally:
        end_process(made.process)
