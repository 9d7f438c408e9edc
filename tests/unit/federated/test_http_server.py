"""The small HTTP server: whoever is too slow is cut off, however they spread their bytes; others are answered."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from noisebank.federated.http_server import BoundedHandler, BoundedServer

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nping"


class EchoHandler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    header_seconds = 0.2

    def answer_post(self) -> None:
        self.send_body(200, "text/plain", self.read_body(int(self.headers["Content-Length"]), 0.2))


@pytest.fixture
def server() -> Iterator[BoundedServer]:
    server = BoundedServer("127.0.0.1", 0, EchoHandler)
    yield server
    server.close()


def read_until_closed(link: socket.socket) -> bytes:
    return b"".join(iter(lambda: link.recv(4096), b""))


def test_requests_are_answered_one_after_the_other_and_an_idle_connection_ends(server: BoundedServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.sendall(REQUEST + REQUEST)
        replies = read_until_closed(link)
    assert replies.count(b"HTTP/1.1 200 OK") == 2 and replies.endswith(b"\r\n\r\nping") and b"Server:" not in replies
    head = replies.split(b"\r\n\r\n")[0].split(b"\r\n")
    assert head == [b"HTTP/1.1 200 OK", b"Content-Type: text/plain", b"Content-Length: 4"]  # and no date, no version


@pytest.mark.parametrize("part", [b"", b"POST /", REQUEST[:-1]])
def test_what_does_not_arrive_in_time_is_not_answered(server: BoundedServer, part: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.sendall(part)
        assert read_until_closed(link) == b""


def test_a_byte_now_and_then_gains_no_time(server: BoundedServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as link:
        link.settimeout(0.02)
        sent = 0
        with pytest.raises(OSError):
            for _ in range(100_000):
                link.sendall(b"x")
                sent += 1
                try:
                    if link.recv(1) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    continue
    assert sent < 10_000
