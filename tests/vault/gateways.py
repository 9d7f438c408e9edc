"""Gateways in processes of their own, all on one vault and one chain; each does what it is told, line by line.

`python -m vault.gateways FOLDER` opens the bank there and reads commands from its standard input. Each `ask` runs in a
thread. `die` makes the next reservation or seal, or one of the next, the last thing that the process does: it kills
itself, for real.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.paths import SOURCES, TESTS
from support.patience import patience


class Gateway:
    """The other end of such a process."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join([str(SOURCES), str(TESTS)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vault.gateways", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        self._number = 0
        self._said: dict[int, dict[str, Any]] = {}
        self.greeting: dict[str, Any] = {}

    def ready(self) -> Gateway:
        try:
            self.greeting = self._read()
        except BaseException:
            self.close()
            raise
        return self

    def tell(self, do: str, **what: Any) -> int:
        """Sends a command and does not wait."""
        self._number += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"number": self._number, "do": do, **what}) + "\n")
        self.process.stdin.flush()
        return self._number

    def hear(self, number: int) -> dict[str, Any]:
        while number not in self._said:
            said = self._read()
            self._said[said["number"]] = said
        return self._said.pop(number)

    def ask(self, sql: str, **what: Any) -> dict[str, Any]:
        return self.hear(self.tell("ask", sql=sql, **what))

    def died(self) -> None:
        """Waits for the end by SIGKILL."""
        assert self.process.wait(patience()) == -signal.SIGKILL, self.process.stderr.read()  # type: ignore[union-attr]
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=patience())

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, f"the gateway ended: {self.process.stderr.read()}"
        return dict(json.loads(line))


def serve(folder: Path) -> None:
    from noisebank import open_bank

    writing = threading.Lock()

    def say(**what: Any) -> None:
        with writing:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()

    with open_bank(folder) as bank:
        say(ready=True, recovered={name: found.finished for name, found in bank.recovered.items()})
        threads = []
        for line in sys.stdin:
            command = json.loads(line)
            number, do = command.pop("number"), command.pop("do")
            if do == "die":
                _die_after(bank, command["step"], command.get("calls", 1))
                say(number=number)
                continue
            threads.append(threading.Thread(target=_ask, args=(bank, number, command, say)))
            threads[-1].start()
        for thread in threads:
            thread.join()


def _ask(bank: Any, number: int, command: dict[str, Any], say: Callable[..., None]) -> None:
    try:
        sql, name = command.pop("sql"), command.pop("account", None)
        answer = bank.account(name).ask(sql, **command)
    except Exception as error:
        say(number=number, error=type(error).__name__, message=str(error))
    else:
        if "within" in command:  # after looks: no single released number
            parts = [part.id for part in answer.parts]
            say(number=number, rows=repr(answer.rows), cost=answer.cost.units, parts=parts)
            return
        id = answer.receipt.id.hex()
        say(number=number, exact=str(answer.exact), case=answer.case.name, cost=answer.cost.units, id=id)


def _die_after(bank: Any, step: str, calls: int) -> None:
    where, name = (bank.ledger, "reserve_many") if step == "reserve" else (bank.parts.vault, "seal_many")
    real = getattr(where, name)

    left = iter(range(calls - 1, -1, -1))

    def last(*arguments: Any) -> Any:
        outcome = real(*arguments)
        if not next(left):
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    setattr(where, name, last)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
