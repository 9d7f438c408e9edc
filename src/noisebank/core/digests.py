"""Digests, salts and commitments, and the canonical JSON (sorted keys, strings and integers only) that is digested."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

try:
    from sha3 import keccak_256 as _fast_keccak
except ImportError:  # no wheel for this system
    _fast_keccak = None


_encode_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def keccak(*parts: bytes) -> bytes:
    """Returns Ethereum's hash of the joined parts, 32 bytes. Callers make sure that parts cannot be confused."""
    text = b"".join(parts)
    return _fast_keccak(text).digest() if _fast_keccak else slow_keccak(text)


def slow_keccak(text: bytes) -> bytes:
    """The same by PyCryptodome, which is available everywhere but takes twenty times as long for a short text."""
    from Crypto.Hash import keccak as pycryptodome_keccak  # 10 ms to import, and hardly ever needed

    return pycryptodome_keccak.new(digest_bits=256, data=text).digest()


def to_canonical_json(value: Any) -> str:
    """Returns the canonical JSON of `value`: sorted keys, no spaces, ASCII, no floats."""
    _refuse_floats(value)
    return _encode_json(value)


def digest_tagged(tag: str, value: Any) -> bytes:
    """Returns keccak of the canonical JSON under a tag, so that values of different kinds never collide."""
    return digest_tagged_text(tag, to_canonical_json(value))


def digest_tagged_text(tag: str, text: str) -> bytes:
    """The same for a value that is encoded already."""
    return keccak(f"noisebank {tag}\n".encode(), text.encode())


def derive_salt(secret: bytes, purpose: str, subject: bytes) -> bytes:
    """Returns a salt for one subject that reveals nothing about those of others (HMAC-SHA256)."""
    return hmac.new(secret, purpose.encode() + b"\n" + subject, sha256).digest()


def make_commitment(salt: bytes, digest: bytes) -> bytes:
    """Returns a commitment to `digest`: hides it until the salt is revealed, and binds whoever made it."""
    if len(salt) != 32:
        raise ValueError("a salt has 32 bytes")
    return keccak(b"noisebank commitment\n", salt, digest)


def digest_answer(salt: bytes, body: dict[str, Any]) -> bytes:
    """Returns what the ledger shows of an answer: salted, so that nobody can guess the answer from it."""
    return digest_answer_text(salt, to_canonical_json(body))


def digest_answer_text(salt: bytes, text: str) -> bytes:
    """The same for an answer that is encoded already."""
    return make_commitment(salt, digest_tagged_text("answer 1", text))


def _refuse_floats(value: Any) -> None:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) is str or type(part) is int:  # nearly always
            continue
        if isinstance(part, float):
            raise TypeError("floats have no place in a canonical text")
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
