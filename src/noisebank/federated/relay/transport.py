"""HTTP transport of relay messages, with a limit on every size and every wait. Does not interpret the bytes."""

from __future__ import annotations

import io
import re
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException

from noisebank.core.errors import BadRequest, NoisebankError, OutcomeUnknown, Refused
from noisebank.federated.http_server import (
    HEADER_SECONDS,
    BoundedHandler,
    BoundedServer,
    DeadlineReader,
    read_exactly,
)

PATH = "/relay"
HEADER_ROOM = 3 * 2**20
"""Bytes for headers; the payload's 8 bytes per coordinate come on top."""
MAX_MESSAGE = HEADER_ROOM + 8 * 2**20
MAX_REQUESTS = 64
"""Requests handled at the same time. More are refused."""
MAX_REASON = 2_000
CLOSE_SECONDS = 2.0
"""Seconds that a closing server waits for its replies to be sent."""

Handle = Callable[[bytes], bytes]
Tap = Callable[[str, bytes], None]
"""Called with the receiver and the bytes of everything that is sent: for recording."""


class PeerUnreachable(OutcomeUnknown):
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
            self._http = BoundedServer(host, port, _make_handler(self, handle, patience, tap))
        except OSError as error:
            raise BadRequest("listen", listen, f"cannot be listened on ({error.strerror})") from None
        self.endpoint = f"{host}:{self._http.port}"

    def close(self) -> None:
        """Stop. No further request is answered once this returns; running ones get a moment to finish."""
        self._http.close()
        until = time.monotonic() + CLOSE_SECONDS
        for _ in range(MAX_REQUESTS):
            self._slots.acquire(timeout=max(0.0, until - time.monotonic()))

    def __enter__(self) -> MessageServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
        return io.BufferedReader(DeadlineReader(self._link, self._deadline))


def _make_handler(server: MessageServer, handle: Handle, patience: float, tap: Tap) -> type[BoundedHandler]:
    class MessageHandler(BoundedHandler):
        timeout = patience  # of every write on the socket; reads have a deadline each
        header_seconds = min(HEADER_SECONDS, patience)

        def answer_post(self) -> None:
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
            raw = self.read_body(int(length), patience)
            try:
                return self._send_reply(200, handle(raw))
            except NoisebankError as error:
                return self._send_reply(409, str(error).encode()[:MAX_REASON])
            except Exception:  # no detail of an error that a stranger's bytes caused leaves the process
                return self._send_reply(500, b"could not be handled")

        def _send_reply(self, status: int, raw: bytes) -> None:
            tap("reply", raw)
            self.send_body(status, "application/octet-stream", raw)

    return MessageHandler


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
            body = read_exactly(reply, length)
    except ConnectionRefusedError:
        raise PeerUnreachable(f"nobody listens at {to}") from None
    except (OSError, HTTPException) as error:
        raise OutcomeUnknown(f"{to} did not answer ({type(error).__name__})") from None
    finally:
        link.close()
    if reply.status != 200:
        raise Refused(body[:MAX_REASON].decode(errors="replace"))
    return body
