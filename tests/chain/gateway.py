"""Gateways on a test chain, and a node in the middle that can be told to misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from contract.node import Node
from noisebank import Precision
from noisebank.ledger.protocol import Role
from support.internals import AccountOpening, CellRun, ChainConfig, ChainLedger, Claim, Key, Unit, deploy_contract
from support.patience import patience

CURATOR, OWNER, STRANGER = Key(b"\x01" * 32), Key(b"\x02" * 32), Key(b"\x03" * 32)
KEYS = {Role.CURATOR: CURATOR, Role.OWNER: OWNER}
Twist = Callable[[str, list[Any], Any], Any]
"""Method, parameters and the true result; returns what to say, or raises `Cut`."""


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def fund(node: Node, *keys: Key) -> None:
    for key in keys or (CURATOR, OWNER):
        node.rpc("anvil_setBalance", key.address, hex(10**21))


def deployed(node: Node, confirmations: int = 1) -> ChainConfig:
    fund(node)
    made = deploy_contract(node.url, CURATOR)
    return ChainConfig(made.url, made.contract, made.chain_id, made.deployment_block, confirmations)


def gateway(
    where: ChainConfig, outbox: Path | str = ":memory:", url: str | None = None, seconds: float | None = None
) -> ChainLedger:
    """It hopes for its node for long; a test with a clock of its own says how long."""
    there = ChainConfig(url or where.url, where.contract, where.chain_id, where.deployment_block, where.confirmations)
    return ChainLedger(there, KEYS, outbox, patience=patience() if seconds is None else seconds, poll_seconds=0.01)


def opening(budget: int = 1000, delay: int = 0, unit: Unit = Unit.PRECISION) -> AccountOpening:
    return AccountOpening(Precision(budget), word(1), word(2), delay, unit)


def claim(
    account: bytes,
    id: int,
    wanted: int,
    query: int | None = None,
    limit: int = 10**9,
    analyst: bytes = bytes(32),
    cube: int = 0,
    runs: tuple[CellRun, ...] = (),
) -> Claim:
    asked = word(10**6 + id if query is None else query)
    return Claim(account, word(id), asked, analyst, 1, Precision(wanted), Precision(limit), cube, runs)


class Cut(Exception):
    """The connection breaks before the answer arrives."""


class Middleman:
    """Passes questions on to a node and twists its answers."""

    def __init__(self, node: Node, twist: Twist = lambda method, params, result: result) -> None:
        self.twist = twist
        self.asked: list[str] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.asked.append(request["method"])
                there = HTTPConnection("127.0.0.1", node.port, timeout=patience())
                try:
                    there.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
                    answer = json.loads(there.getresponse().read())
                    if "result" in answer:
                        answer["result"] = owner.twist(request["method"], request["params"], answer["result"])
                except Cut:
                    self.close_connection = True
                    return
                finally:
                    there.close()
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Middleman:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
