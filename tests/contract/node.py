"""A test chain: anvil in a process of its own, and the contract on it with the interface of `Real`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from contract.real import STRANGER, Logged, Real, contract_under_test
from support.internals import Contract, LedgerRefused, Value
from support.paths import ROOT
from support.patience import patience, wait_until

ANVIL = ROOT / ".npm-parts" / "bin" / "anvil"
FIRST_BLOCK = 1_000
"""Time of the genesis block, so that times in tests are small numbers."""
ETHER = 10**18
GAS = 30_000_000
ERROR = bytes.fromhex("08c379a0")
"""Selector of Error(string): how the contract gives its reasons."""


class RpcError(Exception):
    """The node answered, with an error."""

    def __init__(self, method: str, error: dict[str, Any]) -> None:
        super().__init__(f"{method}: {error.get('message')} ({error.get('code')})")
        self.code, self.data = error.get("code"), error.get("data")


class Node:
    """anvil on a free port. Memory only: what it knows dies with it.

    `arguments` go to anvil as they are, for instance "--prune-history", "--block-time", "1" or "--no-mining".
    """

    def __init__(
        self,
        *arguments: str,
        chain_id: int = 5,
        hardfork: str = "cancun",
        timestamp: int | None = FIRST_BLOCK,
        port: int | None = None,
    ) -> None:
        self.binary = anvil()
        if self.binary is None:
            raise FileNotFoundError("anvil is not here: run tools/npm-parts")
        self.arguments = ["--host", "127.0.0.1", "--chain-id", str(chain_id), "--hardfork", hardfork, "--quiet"]
        if timestamp is not None:
            self.arguments += ["--timestamp", str(timestamp)]
        self.arguments += arguments
        self._connection: HTTPConnection | None = None
        self._asked = 0
        for attempt in range(3):  # somebody may take the port between our look and anvil's start
            self.port = port or free_port()
            self.process = subprocess.Popen(
                [str(self.binary), "--port", str(self.port), *self.arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            try:
                if self._answers():
                    return
            except BaseException:
                self._end(signal.SIGKILL)
                raise
            said = self._end(signal.SIGKILL)
            if attempt == 2:
                raise RuntimeError(f"anvil does not answer: {said[-400:]}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def rpc(self, method: str, *params: Any) -> Any:
        """The result. `RpcError` if the node refuses; OSError if it is gone (then whether it acted is unknown)."""
        self._asked += 1
        body = json.dumps({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        if self._connection is None:
            self._connection = HTTPConnection("127.0.0.1", self.port, timeout=patience())
            self._connection.connect()
            # Head and body leave in two writes; without this each call waits 40 ms for an acknowledgement.
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
            answer = json.loads(self._connection.getresponse().read())
        except (OSError, HTTPException) as error:
            self._hang_up()
            raise error if isinstance(error, OSError) else ConnectionError(repr(error)) from error
        if "error" in answer:
            raise RpcError(method, answer["error"])
        return answer["result"]

    def mine(self, blocks: int = 1) -> None:
        self.rpc("anvil_mine", hex(blocks))

    def kill(self) -> None:
        """As if the machine had died: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In peace: SIGTERM."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> str:
        self._hang_up()
        if self.alive:
            self.process.send_signal(how)
        try:
            _, said = self.process.communicate(timeout=patience())
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, said = self.process.communicate()
        except ValueError:  # ended before
            return ""
        return said.decode("utf-8", "replace")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answers(self) -> bool:
        def answers() -> bool:
            try:
                return bool(self.rpc("eth_chainId"))
            except OSError:
                return False

        wait_until(lambda: not self.alive or answers(), "anvil answers")
        return self.alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class OnAnvil(Real):
    """The contract on anvil: the same calls as `Real`, through real transactions of accounts that anvil plays.

    Each call is a block of its own, refused ones too. Time only moves on: a block may have its parent's time, never
    an earlier one (after `at` with an earlier time the next call fails).
    """

    def __init__(self, node: Node, contract: Contract | None = None, deployer: str = STRANGER) -> None:
        self.node = node
        self.contract = contract or contract_under_test()
        self.chain_id = int(node.rpc("eth_chainId"), 16)
        self.now = int(node.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        self._people: set[str] = set()
        self._gas = GAS
        receipt = self._send(deployer, None, self.contract.initcode)
        if receipt["status"] != "0x1":
            raise RuntimeError("the contract does not deploy")
        self.address = str(receipt["contractAddress"]).lower()

    def call(self, sender: str, function: str, *arguments: Value) -> tuple[tuple[Value, ...], list[Logged]]:
        """What a call returns and logs; `LedgerRefused` if it reverts.

        A transaction tells nobody what it returned, so the same call is first simulated on the same state and time.
        """
        output, logged = self.execute(sender, self.contract.encode_call(function, *arguments))
        return self.contract.decode_output(function, output), logged

    def execute(self, sender: str, data: bytes) -> tuple[bytes, list[Logged]]:
        """Raw calldata in a transaction: what it returned and what it logged."""
        gas, self._gas = self._gas, GAS
        output, refused = b"", None
        try:
            asked = {"from": sender, "to": self.address, "data": "0x" + data.hex(), "gas": hex(gas)}
            output = raw(self.node.rpc("eth_call", asked, "latest", {}, {"time": hex(self.now)}))
        except RpcError as error:
            refused = LedgerRefused(reason(error))
        receipt = self._send(sender, self.address, data, gas)
        if (receipt["status"] == "0x1") != (refused is None):
            raise AssertionError(f"anvil's simulation and anvil's transaction disagree: {refused}")
        if refused is not None:
            raise refused
        return output, [self._event(entry) for entry in receipt["logs"]]

    def with_gas(self, gas: int) -> Self:
        """The same, and the next call has this much gas (of a whole transaction: 21,000 and the calldata too)."""
        self._gas = gas
        return self

    def view(self, function: str, *arguments: Value) -> tuple[Value, ...]:
        data = "0x" + self.contract.encode_call(function, *arguments).hex()
        try:
            output = self.node.rpc("eth_call", {"to": self.address, "data": data, "gas": hex(GAS)}, "latest")
        except RpcError as error:
            raise LedgerRefused(reason(error)) from None
        return self.contract.decode_output(function, raw(output))

    def at(self, now: int) -> None:
        self.now = now

    def stored(self, slot: int) -> int:
        return int(self.node.rpc("eth_getStorageAt", self.address, hex(slot), "latest"), 16)

    def store(self, slot: int, value: int) -> None:
        self.node.rpc("anvil_setStorageAt", self.address, hex(slot), f"0x{value:064x}")

    def code(self) -> bytes:
        return raw(self.node.rpc("eth_getCode", self.address, "latest"))

    def _send(self, sender: str, to: str | None, data: bytes, gas: int = GAS) -> dict[str, Any]:
        """A mined transaction's receipt, whether it succeeded or not."""
        if sender not in self._people:
            self.node.rpc("anvil_impersonateAccount", sender)
            self.node.rpc("anvil_setBalance", sender, hex(1_000_000 * ETHER))
            self._people.add(sender)
        self.node.rpc("evm_setNextBlockTimestamp", hex(self.now))
        transaction = {"from": sender, "data": "0x" + data.hex(), "gas": hex(gas)} | ({"to": to} if to else {})
        # Returns once the block is mined, with the receipt; a revert is a receipt too, not an error.
        return dict(self.node.rpc("eth_sendTransactionSync", transaction))

    def _event(self, entry: dict[str, Any]) -> Logged:
        return self.contract.decode_event([raw(topic) for topic in entry["topics"]], raw(entry["data"]))


def anvil() -> Path | None:
    """From tools/npm-parts, or from the path."""
    if ANVIL.exists():
        return ANVIL
    found = shutil.which("anvil")
    return Path(found) if found else None


def node_or_skip(*arguments: str, **options: Any) -> Node:
    """A running node. Without anvil the test is skipped, visibly, and fails under CI=true."""
    if anvil() is None:
        notice = "anvil is not here: run tools/npm-parts"
        if os.environ.get("CI") == "true":
            pytest.fail(notice)
        pytest.skip(notice)
    return Node(*arguments, **options)


def reason(error: RpcError) -> str:
    """The contract's own words in a revert."""
    data = raw(error.data) if isinstance(error.data, str) else b""
    if data[:4] != ERROR:
        return f"ledger: the call failed ({error})"
    length = int.from_bytes(data[36:68], "big")
    return data[68 : 68 + length].decode("utf-8", "replace")


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
