"""`Node`: a client of an Ethereum JSON-RPC endpoint, for reading and for sending transactions."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from weakref import finalize

from noisebank.core.errors import BadLedger, LedgerRefused, OutcomeUnknown
from noisebank.ledger.abi import Contract, Value
from noisebank.ledger.evm import Log
from noisebank.ledger.signing import Fees, Key, Transaction

MAX_LOG_BLOCKS = 2_000
"""Blocks per request for logs; many nodes answer no more."""
MAX_ATTEMPTS, RETRY_SECONDS = 4, 0.25
NONCE_TAKEN_MESSAGES = ("nonce too low", "replacement transaction underpriced", "nonce is too low")
ALREADY_KNOWN_MESSAGES = ("already known", "already imported", "known transaction")


class NodeError(Exception):
    """The node answered with an error."""


class Node:
    """One endpoint. Reads are retried; a transaction is sent once, and the caller finds out what became of it."""

    def __init__(self, url: str, timeout: float = 20.0) -> None:
        from httpx import Client  # 80 ms to import: whoever verifies a journal asks no node

        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadLedger("the address of a node looks like http://host:port")
        self.name = parts.hostname + (f":{parts.port}" if parts.port else "")
        """Host and port, for messages. Path and user often hold keys."""
        is_remote = parts.hostname not in ("localhost", "127.0.0.1", "::1")  # a proxy never helps there
        self._url, self._http = url, Client(timeout=timeout, trust_env=is_remote, follow_redirects=True)
        finalize(self, self._http.close)  # a node has no end that its users know of

    def ask(self, method: str, *params: Any) -> Any:
        """Makes a request that has no effects. `OutcomeUnknown` if nobody answers, `NodeError` if the node refuses."""
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                time.sleep(RETRY_SECONDS * 2**attempt)
            try:
                return self._request_once(method, params)
            except (NodeError, BadLedger):
                raise
            except Exception as error:  # errors of httpx, or an answer that is no JSON
                last = error
        raise OutcomeUnknown(f"the node {self.name} does not answer ({type(last).__name__})")

    def send_transaction(self, transaction: Transaction) -> None:
        """Sends a signed transaction. `NonceTaken` if its nonce is used; without an answer the outcome is open."""
        try:
            self._request_once("eth_sendRawTransaction", ("0x" + transaction.raw.hex(),))
        except NodeError as error:
            message = str(error).lower()
            if any(words in message for words in ALREADY_KNOWN_MESSAGES):
                return
            if any(words in message for words in NONCE_TAKEN_MESSAGES):
                raise NonceTaken from None
            if "insufficient funds" in message or "doesn't have enough funds" in message:
                raise BadLedger(
                    f"{transaction.recover_sender()} has no funds on this chain to pay for transactions"
                ) from None
            raise LedgerRefused(f"ledger: the node refuses a transaction ({message[:100]})") from None
        except BadLedger:
            raise
        except Exception:  # cut off: it may have arrived, and the caller looks for its receipt
            return

    # -- reading -------------------------------------------------------------------------------

    def chain_id(self) -> int:
        """Returns the chain's id."""
        return int(self.ask("eth_chainId"), 16)

    def block_number(self) -> int:
        """Returns the newest block's number."""
        return int(self.ask("eth_blockNumber"), 16)

    def block_hash(self, number: int) -> bytes | None:
        """Returns a block's hash; None if there is no such block."""
        block = self.ask("eth_getBlockByNumber", hex(number), False)
        return bytes.fromhex(block["hash"][2:]) if block else None

    def block_time(self, number: int) -> int:
        """Returns a block's time, in seconds since 1970."""
        block = self.ask("eth_getBlockByNumber", hex(number), False)
        if not block:
            raise OutcomeUnknown(f"the node {self.name} has no block {number}")
        return int(block["timestamp"], 16)

    def get_code(self, address: str) -> bytes:
        """Returns the code at an address."""
        return bytes.fromhex(self.ask("eth_getCode", address, "latest")[2:])

    def get_nonce(self, address: str, block: str = "pending") -> int:
        """Returns how many transactions an address has sent: the nonce of its next one."""
        return int(self.ask("eth_getTransactionCount", address, block), 16)

    def get_balance(self, address: str) -> int:
        """Returns an address's funds, in wei."""
        return int(self.ask("eth_getBalance", address, "latest"), 16)

    def find_receipt(self, transaction: Transaction) -> dict[str, Any] | None:
        """Returns a transaction's receipt; None until it is in a block."""
        receipt = self.ask("eth_getTransactionReceipt", "0x" + transaction.digest.hex())
        return receipt if isinstance(receipt, dict) and receipt.get("blockNumber") else None

    def offer_fees(self, gas: int) -> Fees:
        """Returns the fees to offer now: twice the base fee, so that a few full blocks do not strand a transaction."""
        block = self.ask("eth_getBlockByNumber", "latest", False)
        base = int(block.get("baseFeePerGas") or "0x0", 16)
        try:
            tip = int(self.ask("eth_maxPriorityFeePerGas"), 16)
        except NodeError:
            tip = 10**9
        return Fees(tip, 2 * base + tip, gas)

    def call_view(self, contract: Contract, to: str, function: str, *arguments: Value, block: int | None = None) -> Any:
        """Returns the output of a contract's view function, at a block or at the newest one."""
        call = {"to": to, "data": "0x" + contract.encode_call(function, *arguments).hex()}
        answer = self.ask("eth_call", call, "latest" if block is None else hex(block))
        return contract.decode_output(function, bytes.fromhex(answer[2:]))

    def read_logs(
        self, address: str | None, first: int, last: int, topics: Sequence[str | None] = ()
    ) -> list[dict[str, Any]]:
        """Returns all logs of the blocks first to last (both included), in order."""
        entries: list[dict[str, Any]] = []
        for start in range(first, last + 1, MAX_LOG_BLOCKS):
            stop = min(last, start + MAX_LOG_BLOCKS - 1)
            log_filter: dict[str, Any] = {"fromBlock": hex(start), "toBlock": hex(stop)}
            if address is not None:
                log_filter["address"] = address
            if topics:
                log_filter["topics"] = list(topics)
            entries.extend(self.ask("eth_getLogs", log_filter))
        return entries

    def _request_once(self, method: str, params: Sequence[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = self._http.post(self._url, json=body).raise_for_status().json()
        if "error" in answer:
            error = answer["error"]
            raise NodeError(str(error.get("message", error) if isinstance(error, dict) else error))
        return answer["result"]


class NonceTaken(Exception):
    """Another transaction of the same key has used the nonce."""


def parse_log(log_entry: dict[str, Any]) -> Log:
    """Converts a log from JSON-RPC to the form of the embedded EVM."""
    topics = tuple(bytes.fromhex(topic[2:]) for topic in log_entry["topics"])
    return topics, bytes.fromhex(log_entry["data"][2:])


def send_and_wait(
    node: Node,
    key: Key,
    chain_id: int,
    to: str,
    data: bytes,
    gas: int,
    patience: float,
    value: int = 0,
    simulate_first: bool = True,
) -> dict[str, Any]:
    """Sends one transaction and waits until it is in a block; returns its receipt. For deployments and owner's calls.

    The call is simulated first, so that a refusal costs nothing and comes with the contract's reason.
    """
    if simulate_first:
        simulate_call(node, key, to, data, value)
    deadline = time.monotonic() + patience
    while True:
        nonce = node.get_nonce(key.address)
        transaction = Transaction(chain_id, nonce, to, data, fees=node.offer_fees(gas), value=value).sign_with(key)
        try:
            node.send_transaction(transaction)
        except NonceTaken:
            continue
        while time.monotonic() < deadline:
            gone = (
                node.get_nonce(key.address, "latest") > transaction.nonce
            )  # read before the receipt, which is then newer
            receipt = node.find_receipt(transaction)
            if receipt is not None:
                if int(receipt["status"], 16) != 1:
                    simulate_call(node, key, to, data, value)
                    raise LedgerRefused("ledger: the transaction failed")
                return receipt
            if gone:
                break  # another transaction has its nonce, so this one will never be in a block: sign anew
            time.sleep(0.05)
        else:
            raise OutcomeUnknown(f"the node {node.name} has not taken a transaction in {patience:.0f} s")


def simulate_call(node: Node, key: Key, to: str, data: bytes, value: int = 0) -> None:
    """Simulates a call without effects. `LedgerRefused` with the contract's reason if it would revert."""
    call = {"from": key.address, "data": "0x" + data.hex(), **({"to": to} if to else {})}
    if value:
        call["value"] = hex(value)
    try:
        node.ask("eth_call", call, "latest")
    except NodeError as error:
        reason = re.search(r"(ledger|registry): [a-z0-9 ]+", str(error))
        raise LedgerRefused(reason[0].strip() if reason else f"ledger: {str(error)[:100]}") from None
