"""A small HTTP server with a limit on every wait and number: for relay messages and a development chain's JSON-RPC.

It listens on devices and hosts, where no web framework is installed and any stranger may connect. The bank's service is
another server (`service.server`).
"""

from __future__ import annotations

import io
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_CONNECTIONS = 512
"""Open connections, each with a thread. More are closed unread."""
HEADER_SECONDS = 5.0
"""Seconds for a request's first lines: they fit one packet."""


class DeadlineReader(io.RawIOBase):
    """Reads a socket until a deadline, however small the pieces: a socket's own timeout restarts with every byte."""

    def __init__(self, link: socket.socket, deadline: float) -> None:
        self._link, self._raw, self.deadline = link, link.makefile("rb", buffering=0), deadline

    def close(self) -> None:
        self._raw.close()
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int | None:
        left = self.deadline - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("the sender is too slow")
        self._link.settimeout(left)
        return self._raw.readinto(room)


class BoundedServer(ThreadingHTTPServer):
    """Serves on a thread of its own from the start; `close` ends it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, host: str, port: int, handler: type[BoundedHandler]) -> None:
        self._links = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__((host, port), handler)
        self.port = int(self.server_address[1])
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops listening; running requests are not waited for."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Starts a thread, or closes the connection if there are too many: idle clients must not fill the machine."""
        if self._links.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._links.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores peers that hang up."""


class BoundedHandler(BaseHTTPRequestHandler):
    """Reads requests before deadlines. Subclasses define `answer_post`."""

    header_seconds = HEADER_SECONDS
    """Seconds until a request's first lines must have arrived, counted from the connection or the reply before it."""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._reader = DeadlineReader(self.connection, time.monotonic() + self.header_seconds)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        self._reader.deadline = time.monotonic() + self.header_seconds
        super().handle_one_request()

    def do_POST(self) -> None:
        self.answer_post()

    def answer_post(self) -> None:
        """Answers a POST request whose headers have been read."""
        raise NotImplementedError

    def read_body(self, length: int, seconds: float) -> bytes:
        """Returns the request's body; all of it must arrive in time. Writing has as long afterwards."""
        self._reader.deadline = time.monotonic() + seconds
        raw = read_exactly(self.rfile, length)
        self.connection.settimeout(seconds)
        return raw

    def send_body(self, status: int, kind: str, raw: bytes) -> None:
        """Sends a reply with its length and nothing about this machine."""
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: the caller reports what matters."""


def read_exactly(source: Any, length: int) -> bytes:
    """Returns exactly `length` bytes, before the deadline of the socket underneath."""
    parts, left = [], length
    while left:
        part = source.read1(min(left, 2**16)) if hasattr(source, "read1") else source.read(min(left, 2**16))
        if not part:
            raise ConnectionError("the sender hung up")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
