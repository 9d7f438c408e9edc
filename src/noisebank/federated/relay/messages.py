"""Signed messages between host and members, bound to round and attempt, with protection against replays.

On the wire: 4 bytes length, a canonical JSON header, 65 bytes signature, payload. The signature covers the header and
the header the payload's digest.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from noisebank.core.digests import digest_tagged, to_canonical_json
from noisebank.core.errors import Refused, Tampered
from noisebank.ledger.signing import Key, recover_address

MAX_HEADER = 2 * 2**20
MAX_DEPTH = 8
"""Nesting of lists and objects in a body: limited, so that no digest overflows the stack."""
MAX_SEEN = 1_000_000
"""Messages that one party accepts from one sender in a round."""
FIELDS = {"round": str, "attempt": int, "seq": int, "kind": str, "from": str, "to": str, "body": dict, "payload": str}


@dataclass(frozen=True, slots=True)
class Message:
    """One signed message. `seq` counts the sender's messages and is never used again."""

    round: str
    attempt: int
    seq: int
    kind: str
    sender: str
    to: str
    body: dict[str, Any]
    payload: bytes = b""
    signature: bytes = b""

    @property
    def digest(self) -> bytes:
        """What is signed."""
        return digest_tagged("relay message 1", self._to_header())

    def encode(self) -> bytes:
        """Returns the message as it goes over the wire."""
        header = to_canonical_json(self._to_header()).encode()
        return len(header).to_bytes(4, "big") + header + self.signature + self.payload

    @classmethod
    def decode(cls, raw: bytes) -> Message:
        """Returns the message if its signature is that of the claimed sender; `Tampered` if anything is wrong."""
        size = int.from_bytes(raw[:4], "big")
        if len(raw) < 4 + 65 or not 2 <= size <= min(MAX_HEADER, len(raw) - 69):
            raise Tampered("a message is cut off or too long")
        try:
            header = json.loads(raw[4 : 4 + size].decode("ascii"))
        except (UnicodeDecodeError, ValueError, RecursionError):
            raise Tampered("a message has no readable header") from None
        if not isinstance(header, dict) or set(header) != set(FIELDS):
            raise Tampered("a message has other fields than it should")
        if any(type(header[name]) is not kind for name, kind in FIELDS.items()):
            raise Tampered("a message has a field of another type")
        if not _is_shallow(header["body"], MAX_DEPTH):
            raise Tampered("a message has lists in lists in lists")
        payload = raw[4 + size + 65 :]
        if sha256(payload).hexdigest() != header["payload"]:
            raise Tampered("a payload is not the one that was signed")
        message = cls(
            header["round"], header["attempt"], header["seq"], header["kind"], header["from"], header["to"],
            header["body"], payload, raw[4 + size : 4 + size + 65],
        )  # fmt: skip
        try:
            signer = recover_address(message.digest, message.signature)
        except TypeError:
            raise Tampered("a message contains floats") from None
        if signer != message.sender:
            raise Tampered("a message was not signed by its sender")
        return message

    def _to_header(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "attempt": self.attempt,
            "seq": self.seq,
            "kind": self.kind,
            "from": self.sender,
            "to": self.to,
            "body": self.body,
            "payload": sha256(self.payload).hexdigest(),
        }


class MessageSigner:
    """Numbers and signs the messages of one party. Thread safe."""

    def __init__(self, key: Key) -> None:
        self._key = key
        self.address = key.address
        self._last_seq = 0
        self._lock = threading.Lock()

    def sign_message(
        self, round_id: str, attempt: int, kind: str, to: str, body: dict[str, Any] | None = None, payload: bytes = b""
    ) -> Message:
        """Returns the next message, signed."""
        with self._lock:
            self._last_seq += 1
            seq = self._last_seq
        unsigned = Message(round_id, attempt, seq, kind, self.address, to, body or {}, payload)
        return Message(
            round_id, attempt, seq, kind, self.address, to, body or {}, payload, self._key.sign(unsigned.digest)
        )

    def sign_reply(
        self, request: Message, kind: str, body: dict[str, Any] | None = None, payload: bytes = b""
    ) -> Message:
        """Returns a signed reply that is bound to the request's digest."""
        bound = {**(body or {}), "re": request.digest.hex()}
        return self.sign_message(request.round, request.attempt, kind, request.sender, bound, payload)


class ReplayGuard:
    """Accepts each message once. Not thread safe: the owner holds a lock."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self._seen: dict[str, set[int]] = {}

    def accept_once(self, message: Message, round_id: str) -> None:
        """Refuse a message that is for somebody else, of another round, or was accepted before."""
        if message.to != self.owner:
            raise Refused("this message is for somebody else")
        if message.round != round_id:
            raise Refused("this message belongs to another round")
        seen = self._seen.setdefault(message.sender, set())
        if message.seq in seen:
            raise Refused("this message was received before: a replay")
        if len(seen) >= MAX_SEEN:
            raise Refused("too many messages from this sender")
        seen.add(message.seq)


def to_printable(text: object, max_length: int = 500) -> str:
    """Returns somebody else's text fit for a terminal: one line, no control characters, not long."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:max_length])


def check_reply(request: Message, raw: bytes) -> Message:
    """Returns the reply in `raw`; `Tampered` unless the receiver signed it as the reply to exactly this request."""
    reply = Message.decode(raw)
    wrong = request.to and reply.sender != request.to
    if wrong or reply.to != request.sender or reply.body.get("re") != request.digest.hex():
        raise Tampered("a reply does not belong to what was asked")
    return reply


def _is_shallow(value: object, depth: int) -> bool:
    """Whether lists and objects are nested at most `depth` deep; looks no deeper than that."""
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(part, depth - 1) for part in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(part, depth - 1) for part in value)
    return True
