"""A bank served by a process of its own, for the SDK and for the examples of the docs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from noisebank import create_bank, open_bank
from noisebank.service.auth import ACCESS_FILE
from noisebank.service.roles import Role
from support.banks import write_people
from support.internals import AccessControl, Key, Operations, SystemEntropy
from support.patience import patience
from support.processes import end_process, read_announcement

COUNT = "SELECT count(*) FROM people WHERE smoker"
WALLET = b"\x07" * 32


class Server:
    """`noisebank serve`; can be killed and started again on the same port."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.port = folder, 0
        self._settings = {f"NOISEBANK_{name.upper()}": str(value) for name, value in settings.items()}
        self.keys = self._make()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it listens."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "noisebank", "serve", "--bank", str(self.folder / "bank"),
                 "--port", str(self.port), "--json"],
                stdout=subprocess.PIPE, stderr=log, text=True, env=os.environ | self._settings,
            )  # fmt: skip
        announced = read_announcement(self.process, self.folder / "log")
        self.port = int(announced["address"].rpartition(":")[2])

    def kill(self) -> None:
        """kill -9."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        try:
            return self.process.wait(patience())
        finally:
            end_process(self.process)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        end_process(self.process)

    def _make(self) -> dict[str, str]:
        create_bank(self.folder / "bank")
        with open_bank(self.folder / "bank") as bank:
            bank.open_account(write_people(self.folder, rows=40, epsilon="4"))
            access, desk = AccessControl(self.folder / "bank" / ACCESS_FILE, SystemEntropy()), Operations(bank)
            keys = {"owner": access.make_key("owner")[0]}
            wallet = Key(WALLET)
            wallet.save(self.folder / "wallet.key")
            for name, address, must_sign in (("maria", None, False), ("walt", wallet.address, True)):
                person = access.add_person(name, Role.ANALYST, address, must_sign)
                keys[name] = access.make_key(name)[0]
                desk.set_limit("people", person, "3")
            access.close()
        return keys
