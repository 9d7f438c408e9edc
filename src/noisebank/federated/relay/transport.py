"""HTTP transport of relay messages, with a limit on every size and every wait. Does not interpret the bytes."""

from __future__ import annotations

import io
import re
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from noisebank.core.errors import BadRequest, NoisebankError, OutcomeUnknown, Refused

PATH = "/relay"
HEADER_ROOM = 3 * 2**20
"""Bytes for headers; the payload's 8 bytes per coordinate come on top."""
MAX_MESSAGE = HEADER_ROOM + 8 * 2**20
MAX_REQUESTS = 64
"""Requests handled at the same time. More are refused."""
MAX_CONNECTIONS = 512
"""Open connections, each with a thread. More are closed unread."""
HEADER_SECONDS = 5.0
"""Seconds for a request's first lines: they fit one packet."""
MAX_REASON = 2_000
CLOSE_SECONDS = 2.0
"""Seconds that a closing server waits for its replies to be sent."""

Handle = Callable[[bytes], bytes]
Tap = Callable[[str, bytes], None]
"""Called with the receiver and the bytes of everything that is sent: for recording."""


class Unreachable(OutcomeUnknown):
    """Nobody listens there: the other process is gone, and nothing arrived."""

    kind = "Unreachable"


def parse_endpoint(text: str) -> tuple[str, int]:
    """Returns host and port of "host:port"; anything else is refused."""
    match = re.fullmatch(r"([A-Za-z0-9.\-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):(\d{1,5})", text)
    if not match or int(match[2]) > 65_535:
        raise BadRequest("endpoint", text[:80], "must be host:port")
    return match[1].strip("[]"), int(match[2])


class MessageServer:
    """Answers POST /relay on its own thread until closed."""

    def __init__(self, listen: str, handle: Handle, patience: float, tap: Tap = lambda to, raw: None) -> None:
        self.max_message = MAX_MESSAGE
        host, port = parse_endpoint(listen)
        self._slots = threading.BoundedSemaphore(MAX_REQUESTS)
        try:
            self._http = _HttpServer((host, port), _make_handler(self, handle, patience, tap))
        except OSError as error:
            raise BadRequest("listen", listen, f"cannot be listened on ({error.strerror})") from None
        self.endpoint = f"{host}:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop. No further request is answered once this returns; running ones get a moment to finish."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        until = time.monotonic() + CLOSE_SECONDS
        for _ in range(MAX_REQUESTS):
            self._slots.acquire(timeout=max(0.0, until - time.monotonic()))

    def __enter__(self) -> MessageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _DeadlineReader(io.RawIOBase):
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


class _Connection(HTTPConnection):
    """The whole answer must have arrived `timeout` seconds after the connection is established."""

    def connect(self) -> None:
        super().connect()
        self.sock = _DeadlineSocket(self.sock, time.monotonic() + float(self.timeout or 0.0))


class _DeadlineSocket:
    """The part of a socket that HTTPConnection uses, with a deadline for reading."""

    def __init__(self, link: socket.socket, deadline: float) -> None:
        self._link, self._deadline = link, deadline
        self.sendall, self.close, self.shutdown = link.sendall, link.close, link.shutdown

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._link, self._deadline))


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, where: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._links = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(where, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread, or close the connection if there are too many: idle clients must not exhaust the machine."""
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
        """Ignore peers that hang up."""


def _make_handler(server: MessageServer, handle: Handle, patience: float, tap: Tap) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = patience  # of every write on the socket; reads have a deadline each

        def setup(self) -> None:
            super().setup()
            self.rfile.close()
            self._raw = _DeadlineReader(self.connection, time.monotonic() + min(HEADER_SECONDS, patience))
            self.rfile = io.BufferedReader(self._raw)

        def do_POST(self) -> None:
            if not server._slots.acquire(blocking=False):
                return self._send_reply(503, b"too many requests at once")
            try:
                self._answer_request()
            finally:
                server._slots.release()
            return None

        def _answer_request(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self.path != PATH or not length.isdecimal():
                return self._send_reply(400, b"not a relay message")
            if len(length) > 12 or int(length) > server.max_message:
                return self._send_reply(413, b"too long")
            self._raw.deadline = time.monotonic() + patience
            raw = _read_exactly(self.rfile, int(length))
            self.connection.settimeout(patience)
            try:
                return self._send_reply(200, handle(raw))
            except NoisebankError as error:
                return self._send_reply(409, str(error).encode()[:MAX_REASON])
            except Exception:  # no detail of an error that a stranger's bytes caused leaves the process
                return self._send_reply(500, b"could not be handled")

        def _send_reply(self, status: int, raw: bytes) -> None:
            tap("reply", raw)
            self.send_response_only(status)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing: the caller reports what matters."""

    return Handler


def ask(to: str, raw: bytes, patience: float, tap: Tap = lambda to, raw: None, limit: int = MAX_MESSAGE) -> bytes:
    """Post `raw`; returns the reply. `Refused` if the other side refuses, `OutcomeUnknown` if it may have arrived."""
    host, port = parse_endpoint(to)
    link = _Connection(host, port, timeout=patience)
    try:
        tap(to, raw)
        link.request("POST", PATH, body=raw, headers={"Content-Type": "application/octet-stream"})
        with link.getresponse() as reply:
            length = reply.length
            if length is None or length > limit:
                raise OutcomeUnknown(f"{to} answered with something too long")
            body = _read_exactly(reply, length)
    except ConnectionRefusedError:
        raise Unreachable(f"nobody listens at {to}") from None
    except (OSError, HTTPException) as error:
        raise OutcomeUnknown(f"{to} did not answer ({type(error).__name__})") from None
    finally:
        link.close()
    if reply.status != 200:
        raise Refused(body[:MAX_REASON].decode(errors="replace"))
    return body


def _read_exactly(source: Any, length: int) -> bytes:
    """Returns exactly `length` bytes, before the deadline of the socket underneath."""
    parts, left = [], length
    while left:
        part = source.read1(min(left, 2**16)) if hasattr(source, "read1") else source.read(min(left, 2**16))
        if not part:
            raise ConnectionError("the sender hung up")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
