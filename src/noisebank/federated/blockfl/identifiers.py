"""Content identifiers (CID) for `store`: version 1, one raw block, SHA-256, as `ipfs block put` computes them."""

from __future__ import annotations

from base64 import b32decode, b32encode
from hashlib import sha256

from noisebank.core.errors import BadRequest

CID_PREFIX = bytes([0x01, 0x55, 0x12, 0x20])
"""Version 1, codec raw, SHA-256, 32 bytes."""


def hash_content(content: bytes) -> bytes:
    """Return the SHA-256 digest of a content: what the ledger records and its CID contains."""
    return sha256(content).digest()


def format_cid(digest: bytes) -> str:
    """Return the CID of the content with this digest, in base 32.

    >>> format_cid(hash_content(b"hello"))
    'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
    """
    if len(digest) != 32:
        raise ValueError("a digest has 32 bytes")
    return "b" + b32encode(CID_PREFIX + digest).decode().lower().rstrip("=")


def parse_cid(text: str) -> bytes:
    """Return the digest in a CID; `BadRequest` if it is of another kind or not in its canonical spelling."""
    try:
        raw = b32decode(text[1:].upper() + "=" * (-(len(text) - 1) % 8))
    except ValueError:
        raw = b""
    if not text.isascii() or raw[:4] != CID_PREFIX or len(raw) != 36 or format_cid(raw[4:]) != text:
        raise BadRequest("content identifier", text[:80], "must be a CIDv1 (raw, SHA-256, base 32): bafkrei...")
    return raw[4:]
