"""Keys of one attempt: encryption of sums to their receiver, and masks that cancel between two members.

X25519, HKDF-SHA256, ChaCha20 and ChaCha20-Poly1305 of PyCryptodome; no cryptography of our own. A key pair lives for
one attempt and is then dropped, so that what was recorded on the wire cannot be opened later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from Crypto.Cipher import ChaCha20, ChaCha20_Poly1305
from Crypto.Hash import SHA256
from Crypto.Protocol.DH import import_x25519_private_key, import_x25519_public_key, key_agreement
from Crypto.Protocol.KDF import HKDF

from noisebank.core.errors import Tampered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

TAG_BYTES = 16
NO_NONCE = bytes(12)
"""Every derived key encrypts one message only."""


class AttemptKey:
    """An X25519 key pair for one attempt."""

    def __init__(self, secret: bytes) -> None:
        self._private = import_x25519_private_key(secret)
        self.public_key: bytes = self._private.public_key().export_key(format="raw")

    def derive_key(self, peer_key: bytes, purpose: str, salt: bytes) -> bytes:
        """Returns 32 bytes that only the two holders know, for one purpose under one plan (the salt)."""
        try:
            peer = import_x25519_public_key(peer_key)
            shared_key: bytes = key_agreement(
                static_priv=self._private, static_pub=peer, kdf=lambda secret: _hkdf_key(bytes(secret), salt, purpose)
            )
        except ValueError as error:
            raise Tampered("a public key is malformed or of low order") from error
        return shared_key

    def seal(self, plain: bytes, peer_key: bytes, purpose: str, salt: bytes) -> bytes:
        """Returns ciphertext and tag for the holder of `peer_key`.

        Requires: one message per purpose and plan, and a purpose that names sender, receiver and chain, since the
        derived key is the same in both directions.
        """
        cipher = ChaCha20_Poly1305.new(key=self.derive_key(peer_key, f"seal {purpose}", salt), nonce=NO_NONCE)
        text, tag = cipher.encrypt_and_digest(plain)
        return bytes(text + tag)

    def open(self, sealed: bytes, peer_key: bytes, purpose: str, salt: bytes) -> bytes:
        """Returns what the holder of `peer_key` sealed; `Tampered` for anything else."""
        cipher = ChaCha20_Poly1305.new(key=self.derive_key(peer_key, f"seal {purpose}", salt), nonce=NO_NONCE)
        try:
            return bytes(cipher.decrypt_and_verify(sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]))
        except ValueError as error:
            raise Tampered("a sealed message does not open") from error


def check_public_key(public_key: bytes) -> None:
    """Raise `Tampered` unless a secret can be shared with this key: checked before a plan, so that sealing cannot fail.

    Points of low order give 0 with every private key; one trial finds them all.
    """
    AttemptKey(bytes(31) + b"\x01").derive_key(public_key, "check", b"")


def sum_masks(
    key: AttemptKey, own: str, others: Iterable[tuple[str, bytes]], size: int, salt: bytes
) -> NDArray[np.uint64]:
    """Returns the sum of one mask per other member, added by the lower address and subtracted by the higher.

    Guarantees: over all members the masks add up to 0 modulo 2^64; without the pair's key each is pseudorandom, so as
    long as one other member keeps its key a masked vector looks uniform.
    Source: Bonawitz et al. 2017, Practical secure aggregation for privacy-preserving machine learning, section 4; here
    without recovery of masks: if somebody vanishes the attempt is thrown away and nobody's mask is ever revealed.
    """
    total = np.zeros(size, dtype=np.uint64)
    for address, public in others:
        stream = ChaCha20.new(key=key.derive_key(public, "mask", salt), nonce=NO_NONCE).encrypt(bytes(8 * size))
        mask = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
        total = total + mask if own < address else total - mask
    return total


def _hkdf_key(secret: bytes, salt: bytes, purpose: str) -> bytes:
    derived = HKDF(secret, 32, salt, SHA256, context=b"noisebank relay " + purpose.encode())
    assert isinstance(derived, bytes)
    return derived
