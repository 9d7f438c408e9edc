"""The development chain's door: which bodies it takes, over HTTP as anybody may send them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from noisebank.core.entropy import SystemEntropy
from noisebank.federated.blockfl.dev_chain import create_dev_chain
from noisebank.federated.blockfl.json_rpc import MAX_BODY_BYTES, JsonRpcServer

QUESTION = b'{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}'


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JsonRpcServer]:
    folder: Path = tmp_path_factory.mktemp("door") / "chain"
    chain = create_dev_chain(folder, SystemEntropy())
    door = JsonRpcServer(chain)
    yield door
    door.close()
    chain.close()


def post(door: JsonRpcServer, body: bytes, length: int | None) -> tuple[int, bytes]:
    """The status and what is answered; `length` is what the header says, None: no header."""
    connection = HTTPConnection(door.url.removeprefix("http://"), timeout=60)
    try:
        connection.putrequest("POST", "/")
        if length is not None:
            connection.putheader("Content-Length", str(length))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("size", [len(QUESTION), len(QUESTION) + 1, MAX_BODY_BYTES])
def test_a_question_of_any_size_up_to_the_largest_is_answered(door: JsonRpcServer, size: int) -> None:
    status, answer = post(door, QUESTION.ljust(size), size)
    assert status == 200 and json.loads(answer) == {"jsonrpc": "2.0", "id": 7, "result": door.on_eth_chainId()}


@pytest.mark.parametrize("length", [None, 0, -1, MAX_BODY_BYTES + 1, 10**12])
def test_nothing_and_too_much_are_turned_away_before_they_are_read(door: JsonRpcServer, length: int | None) -> None:
    assert post(door, b"", length)[0] == 413


def test_a_single_sign_is_read_and_is_no_question(door: JsonRpcServer) -> None:
    status, answer = post(door, b"x", 1)
    assert status == 200 and json.loads(answer)["error"]["message"] == "a malformed question"
