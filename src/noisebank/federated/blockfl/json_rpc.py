"""Ethereum JSON-RPC for the development chain: the methods that `ledger.node` uses, in process or over HTTP."""

from __future__ import annotations

import json
from typing import Any, Protocol

from noisebank.core.errors import LedgerRefused, NoisebankError
from noisebank.federated.blockfl.dev_chain import DevChainState, ExecutedTransaction
from noisebank.federated.http_server import BoundedHandler, BoundedServer

ZERO_ADDRESS = "0x" + "00" * 20
MAX_BODY_BYTES = 2**19
BODY_SECONDS, IDLE_SECONDS = 30.0, 60.0
"""Seconds for a request's body, and that a connection may stay open between requests; clients give up sooner."""
HEX_ZERO = "0x0"


class ChainBackend(Protocol):
    """What JSON-RPC needs of a chain; `DevChain` and `ChainReader` implement it."""

    @property
    def state(self) -> DevChainState:
        """The state after the newest block."""
        ...

    def send_transaction(self, raw: bytes) -> ExecutedTransaction:
        """Execute a signed transaction, RLP-encoded; durable on return."""
        ...

    def simulate_call(self, sender: str, to: str, data: bytes) -> bytes:
        """Return what a call would return now; changes nothing."""
        ...


class JsonRpcHandler:
    """Handles JSON-RPC requests to a chain as an Ethereum node does; each method is `on_` and its name."""

    def __init__(self, chain: ChainBackend) -> None:
        self.chain = chain

    def handle_request(self, body: bytes) -> bytes:
        """Return the response to one JSON-RPC request; errors become JSON-RPC errors."""
        request: Any = None
        try:
            request = json.loads(body)
            method = getattr(self, "on_" + str(request["method"]), None)
            if method is None:
                raise LedgerRefused(f"the method {str(request['method'])[:40]} is not available here")
            outcome = {"result": method(*request.get("params", ()))}
        except NoisebankError as error:
            outcome = {"error": {"code": 3 if isinstance(error, LedgerRefused) else -32000, "message": str(error)}}
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            outcome = {"error": {"code": -32602, "message": "a malformed question"}}
        number = request.get("id") if isinstance(request, dict) else None
        return json.dumps({"jsonrpc": "2.0", "id": number, **outcome}).encode()

    # -- methods: names and shapes are Ethereum's ----------------------------------------------

    def on_eth_chainId(self) -> str:  # noqa: N802
        return hex(self.chain.state.genesis.chain_id)

    def on_eth_blockNumber(self) -> str:  # noqa: N802
        return hex(self._newest_block())

    def on_eth_getBlockByNumber(self, tag: str, full: bool = False) -> dict[str, Any] | None:  # noqa: N802
        number = self._parse_block_tag(tag)
        state = self.chain.state
        if number > self._newest_block():
            return None
        return {
            "number": hex(number),
            "hash": "0x" + state.block_digests[number].hex(),
            "timestamp": hex(state.block_times[number]),
            "baseFeePerGas": HEX_ZERO,
        }

    def on_eth_getCode(self, address: str, tag: str = "latest") -> str:  # noqa: N802
        return "0x" + self.chain.state.evm.get_code(address).hex()

    def on_eth_getTransactionCount(self, address: str, tag: str = "latest") -> str:  # noqa: N802
        return hex(self.chain.state.next_nonce(address.lower()))

    def on_eth_getBalance(self, address: str, tag: str = "latest") -> str:  # noqa: N802
        return "0x1"  # nothing costs anything here, and whoever asks wants to know whether it can pay

    def on_eth_maxPriorityFeePerGas(self) -> str:  # noqa: N802
        return HEX_ZERO

    def on_eth_call(self, call: dict[str, str], tag: str = "latest") -> str:
        if self._parse_block_tag(tag) != self._newest_block():
            raise LedgerRefused("old states are not kept here")
        if int(call.get("value", HEX_ZERO), 16):
            raise LedgerRefused("ledger: no money on this chain")
        if not call.get("to"):
            return "0x"
        data = bytes.fromhex(call.get("data", "0x").removeprefix("0x"))
        return "0x" + self.chain.simulate_call(call.get("from", ZERO_ADDRESS), call["to"].lower(), data).hex()

    def on_eth_sendRawTransaction(self, raw: str) -> str:  # noqa: N802
        return "0x" + self.chain.send_transaction(bytes.fromhex(raw.removeprefix("0x"))).transaction.digest.hex()

    def on_eth_getTransactionReceipt(self, digest: str) -> dict[str, Any] | None:  # noqa: N802
        raw_digest = bytes.fromhex(digest.removeprefix("0x"))
        for executed in reversed(self.chain.state.transactions):
            if executed.transaction.digest == raw_digest:
                return self._format_receipt(executed)
        return None

    def on_eth_getLogs(self, log_filter: dict[str, Any]) -> list[dict[str, Any]]:  # noqa: N802
        first, last = (
            self._parse_block_tag(log_filter.get("fromBlock", "0x0")),
            self._parse_block_tag(log_filter.get("toBlock", "latest")),
        )
        address, topics = log_filter.get("address"), log_filter.get("topics") or []
        entries = []
        for executed in self.chain.state.transactions[first : last + 1]:
            if address is not None and executed.transaction.to != address.lower():
                continue
            entries += [entry for entry in self._format_logs(executed) if _matches_topics(entry["topics"], topics)]
        return entries

    def on_noisebank_contracts(self) -> dict[str, str]:
        """Return the addresses of the chain's own contracts (not Ethereum's). Others may deploy the same code again."""
        return self.chain.state.find_own_contracts()

    # -- parts ---------------------------------------------------------------------------------

    def _newest_block(self) -> int:
        return len(self.chain.state.transactions) - 1

    def _parse_block_tag(self, tag: str) -> int:
        return self._newest_block() if tag in ("latest", "pending") else 0 if tag == "earliest" else int(tag, 16)

    def _format_receipt(self, executed: ExecutedTransaction) -> dict[str, Any]:
        return {
            "status": "0x1",
            "blockNumber": hex(executed.block_number),
            "blockHash": "0x" + self.chain.state.block_digests[executed.block_number].hex(),
            "transactionHash": "0x" + executed.transaction.digest.hex(),
            "contractAddress": executed.created_contract or None,
            "gasUsed": HEX_ZERO,
            "logs": self._format_logs(executed),
        }

    def _format_logs(self, executed: ExecutedTransaction) -> list[dict[str, Any]]:
        return [
            {
                "address": executed.transaction.to,
                "topics": ["0x" + topic.hex() for topic in topics],
                "data": "0x" + data.hex(),
                "blockNumber": hex(executed.block_number),
                "blockHash": "0x" + self.chain.state.block_digests[executed.block_number].hex(),
                "transactionHash": "0x" + executed.transaction.digest.hex(),
                "transactionIndex": HEX_ZERO,
                "logIndex": hex(number),
                "removed": False,
            }
            for number, (topics, data) in enumerate(executed.logs)
        ]


class JsonRpcServer(JsonRpcHandler):
    """The same over HTTP, on a thread of its own until closed."""

    def __init__(self, chain: ChainBackend, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__(chain)
        server = self

        class RpcRequestHandler(BoundedHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            timeout = BODY_SECONDS
            header_seconds = IDLE_SECONDS

            def answer_post(self) -> None:
                length = self.headers.get("Content-Length") or ""
                size = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
                if not 0 < size <= MAX_BODY_BYTES:
                    self.send_error(413)
                    return
                answer = server.handle_request(self.read_body(size, BODY_SECONDS))
                self.send_body(200, "application/json", answer)

        self._server = BoundedServer(host, port, RpcRequestHandler)
        self.url = f"http://{host}:{self._server.port}"

    def close(self) -> None:
        """Stop serving."""
        self._server.close()


def _matches_topics(topics: list[str], topic_filter: list[Any]) -> bool:
    """Whether a log's topics pass a filter of eth_getLogs: per position None (any), one topic, or several."""
    for index, choice in enumerate(topic_filter):
        allowed = choice if isinstance(choice, list) else [choice]
        if choice is not None and (index >= len(topics) or topics[index] not in allowed):
            return False
    return True
