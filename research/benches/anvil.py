"""A throw-away EVM node for benchmarks: anvil, where it is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noisebank.core.errors import BadLedger, OutcomeUnknown
from noisebank.ledger.node import Node

VARIABLE = "NOISEBANK_ANVIL"
PLACES = (Path(".npm-parts/bin/anvil"),)
FUNDS = hex(10**21)


def anvil_binary() -> str | None:
    """Where anvil is: named by NOISEBANK_ANVIL, on the path, or in the checkout's own parts."""
    named = os.environ.get(VARIABLE) or shutil.which("anvil")
    return named or next((str(place.resolve()) for place in PLACES if place.exists()), None)


@contextmanager
def running_anvil(*arguments: str) -> Iterator[str]:
    """Starts anvil on a free port; its address. Nothing of it survives."""
    with anvil_process(*arguments) as (url, _):
        yield url


@contextmanager
def anvil_process(*arguments: str) -> Iterator[tuple[str, int]]:
    """The same, with its process id."""
    binary = anvil_binary()
    if binary is None:
        raise BadLedger(f"anvil is not here; put it on the path or name it in {VARIABLE}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([binary, "--silent", "--port", str(port), "--hardfork", "cancun", *arguments])
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(Node(url, timeout=5.0))
        yield url, process.pid
    finally:
        process.kill()
        process.wait()


def cpu_seconds(process: int) -> float:
    """What a process has used so far, by the kernel's count (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fund(url: str, *addresses: str) -> None:
    """Gives addresses what they need to pay for transactions; only test chains do that."""
    for address in addresses:
        Node(url).ask("anvil_setBalance", address, FUNDS)


def _wait(node: Node) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            node.chain_id()
            return
        except OutcomeUnknown:
            if time.monotonic() > deadline:
                raise
