"""A JSON-RPC node: questions, transactions, and what can go wrong with either (extra `[rpc]`)."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from noisebank.core.errors import BadLedger, LedgerRefused, OutcomeUnknown
from noisebank.ledger.abi import Contract, Value
from noisebank.ledger.evm import Log
from noisebank.ledger.signing import Fees, Key, Transaction
from noisebank.runtime.recursion import kept_limit

LOGS_AT_ONCE = 2_000
"""Blocks per question for logs; many nodes answer no more."""
TRIES, PAUSE = 4, 0.25
OVERTAKEN = ("nonce too low", "replacement transaction underpriced", "nonce is too low")
KNOWN = ("already known", "already imported", "known transaction")


class NodeError(Exception):
    """The node answered with an error."""


class Node:
    """One endpoint. Reads are tried again; a transaction is sent once, and its sender finds out what became of it."""

    def __init__(self, url: str, timeout: float = 20.0) -> None:
        try:
            with kept_limit():
                from requests import Session
                from web3 import HTTPProvider
        except ImportError:
            raise BadLedger("a JSON-RPC chain needs web3: pip install 'noisebank[rpc]'") from None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadLedger("the address of a node looks like http://host:port")
        self.name = parts.hostname + (f":{parts.port}" if parts.port else "")
        """Without path and user: these hold keys."""
        session = Session()
        session.trust_env = parts.hostname not in ("localhost", "127.0.0.1", "::1")  # a proxy never helps there
        self._provider = HTTPProvider(
            url,
            session=session,
            request_kwargs={"timeout": timeout},
            exception_retry_configuration=None,
            cache_allowed_requests=False,
        )

    def ask(self, method: str, *params: Any) -> Any:
        """A question without effects. `OutcomeUnknown` if nobody answers, `NodeError` if it says no."""
        for attempt in range(TRIES):
            if attempt:
                time.sleep(PAUSE * 2**attempt)
            try:
                return self._once(method, params)
            except (NodeError, BadLedger):
                raise
            except Exception as error:  # requests' own, urllib3's own, JSON that is none
                last = error
        raise OutcomeUnknown(f"the node {self.name} does not answer ({type(last).__name__})")

    def send(self, transaction: Transaction) -> None:
        """Hands over a signed transaction. `Overtaken` if its nonce is gone; silence leaves the outcome open."""
        try:
            self._once("eth_sendRawTransaction", ("0x" + transaction.raw.hex(),))
        except NodeError as error:
            message = str(error).lower()
            if any(words in message for words in KNOWN):
                return
            if any(words in message for words in OVERTAKEN):
                raise Overtaken from None
            if "insufficient funds" in message or "doesn't have enough funds" in message:
                raise BadLedger(f"{transaction.sender()} has no funds on this chain to pay for transactions") from None
            raise LedgerRefused(f"ledger: the node refuses a transaction ({message[:100]})") from None
        except BadLedger:
            raise
        except Exception:  # cut off: it may have arrived, and whoever sent it will see
            return

    # -- questions -----------------------------------------------------------------------------

    def chain_id(self) -> int:
        """Which chain this is."""
        return int(self.ask("eth_chainId"), 16)

    def head(self) -> int:
        """The newest block's number."""
        return int(self.ask("eth_blockNumber"), 16)

    def block_hash(self, number: int) -> bytes | None:
        """A block's hash; None if there is no such block."""
        block = self.ask("eth_getBlockByNumber", hex(number), False)
        return bytes.fromhex(block["hash"][2:]) if block else None

    def time(self, number: int) -> int:
        """A block's time."""
        block = self.ask("eth_getBlockByNumber", hex(number), False)
        if not block:
            raise OutcomeUnknown(f"the node {self.name} has no block {number}")
        return int(block["timestamp"], 16)

    def code(self, address: str) -> bytes:
        """The code at an address."""
        return bytes.fromhex(self.ask("eth_getCode", address, "latest")[2:])

    def nonce(self, address: str, block: str = "pending") -> int:
        """How many transactions an address has sent."""
        return int(self.ask("eth_getTransactionCount", address, block), 16)

    def balance(self, address: str) -> int:
        """Its funds, in wei."""
        return int(self.ask("eth_getBalance", address, "latest"), 16)

    def receipt(self, transaction: Transaction) -> dict[str, Any] | None:
        """What became of a transaction, once it is in a block."""
        found = self.ask("eth_getTransactionReceipt", "0x" + transaction.digest.hex())
        return found if isinstance(found, dict) and found.get("blockNumber") else None

    def fees(self, gas: int) -> Fees:
        """What the chain asks now, doubled so that a few full blocks do not strand a transaction."""
        block = self.ask("eth_getBlockByNumber", "latest", False)
        base = int(block.get("baseFeePerGas") or "0x0", 16)
        try:
            tip = int(self.ask("eth_maxPriorityFeePerGas"), 16)
        except NodeError:
            tip = 10**9
        return Fees(tip, 2 * base + tip, gas)

    def view(self, contract: Contract, to: str, function: str, *arguments: Value, block: int | None = None) -> Any:
        """Asks a contract without changing anything."""
        call = {"to": to, "data": "0x" + contract.call(function, *arguments).hex()}
        answer = self.ask("eth_call", call, "latest" if block is None else hex(block))
        return contract.decode_output(function, bytes.fromhex(answer[2:]))

    def logs(
        self, address: str | None, first: int, last: int, topics: Sequence[str | None] = ()
    ) -> list[dict[str, Any]]:
        """All logs of the blocks [first, last], in order."""
        found: list[dict[str, Any]] = []
        for start in range(first, last + 1, LOGS_AT_ONCE):
            stop = min(last, start + LOGS_AT_ONCE - 1)
            wanted: dict[str, Any] = {"fromBlock": hex(start), "toBlock": hex(stop)}
            if address is not None:
                wanted["address"] = address
            if topics:
                wanted["topics"] = list(topics)
            found.extend(self.ask("eth_getLogs", wanted))
        return found

    def _once(self, method: str, params: Sequence[Any]) -> Any:
        response: dict[str, Any] = self._provider.make_request(method, list(params))  # type: ignore[assignment]
        if "error" in response:
            error = response["error"]
            raise NodeError(str(error.get("message", error) if isinstance(error, dict) else error))
        return response["result"]


class Overtaken(Exception):
    """Another transaction of the same key has taken the nonce."""


def raw_log(entry: dict[str, Any]) -> Log:
    """A log as the embedded machine gives it."""
    topics = tuple(bytes.fromhex(topic[2:]) for topic in entry["topics"])
    return topics, bytes.fromhex(entry["data"][2:])


def transact(
    node: Node,
    key: Key,
    chain_id: int,
    to: str,
    data: bytes,
    gas: int,
    patience: float,
    value: int = 0,
    tried: bool = True,
) -> dict[str, Any]:
    """One transaction until it is in a block; its receipt. For deploying and for the owner's calls.

    It is tried without effect first, so that a refusal costs nothing and comes in the contract's words.
    """
    if tried:
        try_call(node, key, to, data, value)
    deadline = time.monotonic() + patience
    while True:
        nonce = node.nonce(key.address)
        transaction = Transaction(chain_id, nonce, to, data, fees=node.fees(gas), value=value).signed(key)
        try:
            node.send(transaction)
        except Overtaken:
            continue
        while time.monotonic() < deadline:
            gone = node.nonce(key.address, "latest") > transaction.nonce  # asked first: the receipt is newer, then
            receipt = node.receipt(transaction)
            if receipt is not None:
                if int(receipt["status"], 16) != 1:
                    try_call(node, key, to, data, value)
                    raise LedgerRefused("ledger: the transaction failed")
                return receipt
            if gone:
                break  # another transaction took its place, so this one never will: sign anew
            time.sleep(0.05)
        else:
            raise OutcomeUnknown(f"the node {node.name} has not taken a transaction in {patience:.0f} s")


def try_call(node: Node, key: Key, to: str, data: bytes, value: int = 0) -> None:
    """Makes a call without effect. `LedgerRefused` with the contract's words if it would be refused."""
    call = {"from": key.address, "data": "0x" + data.hex(), **({"to": to} if to else {})}
    if value:
        call["value"] = hex(value)
    try:
        node.ask("eth_call", call, "latest")
    except NodeError as error:
        found = re.search(r"(ledger|registry): [a-z0-9 ]+", str(error))
        raise LedgerRefused(found[0].strip() if found else f"ledger: {str(error)[:100]}") from None
