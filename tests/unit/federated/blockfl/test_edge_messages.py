"""Frames between a device and its edge worker: what is no message of ours ends the connection; milliseconds."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.edge import MAX_BODY_BYTES, MAX_LINE_BYTES, EdgeSession, MessageSocket
from noisebank.federated.blockfl.network import SMALL_SHAPE


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, MessageSocket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    other = socket.create_connection(listener.getsockname())
    ours = MessageSocket(listener.accept()[0])
    yield other, ours
    for each in (other, ours, listener):
        each.close()


def test_a_message_arrives_as_it_was_sent(ends: tuple[socket.socket, MessageSocket]) -> None:
    sender = MessageSocket(ends[0])
    bodies = [np.arange(5, dtype="<f4"), np.zeros(0, dtype="<i8"), np.arange(3, dtype="<i8")]
    for kind in ("features", "done"):
        sender.send_message({"kind": kind, "loss": 0.5}, *bodies)
        head, received = ends[1].receive_message()
        assert head == {"kind": kind, "loss": 0.5} and received == [body.tobytes() for body in bodies]
    sender.close()
    with pytest.raises(ConnectionError, match="hung up"):
        ends[1].receive_message()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b'{"kind": "done", "sizes": []}', "hung up"), (b"", "hung up"), (b"x" * MAX_LINE_BYTES + b"\n", "hung up"),
        (b"nonsense\n", "no message"), (b'{"kind": 1}\n', "no message"), (b"[1]\n", "no message"),
        (b'{"sizes": ["a"]}\n', "no message"), (b'{"sizes": 3}\n', "no message"), (b"7\n", "no message"),
        (b'{"sizes": [-1]}\n', "too long"), (b'{"sizes": [%d]}\n' % (MAX_BODY_BYTES + 1), "too long"),
        (b'{"sizes": [%d, 2]}\n' % (MAX_BODY_BYTES - 1), "too long"), (b'{"sizes": [2, 3]}\nabcd', "cut off"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(ends: tuple[socket.socket, MessageSocket], raw: bytes, words: str) -> None:
    ends[0].sendall(raw)
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError, match=words):
        ends[1].receive_message()


@pytest.mark.parametrize("endpoint", ["", "host", ":7", "host:", "host:x", "host:-1"])
def test_a_worker_is_named_by_host_and_port(endpoint: str) -> None:
    with pytest.raises(BadRequest, match="looks like host:port"):
        EdgeSession(endpoint, SMALL_SHAPE, np.zeros(1, np.float32), 0.1, 0.9, 1.0)
