"""Private keys and signed Ethereum transactions (EIP-1559), as any Ethereum tool can check them.

The embedded chain signs in the same way, with all fees zero.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from coincurve import PrivateKey, PublicKey

from noisebank.core.digests import keccak
from noisebank.core.errors import BadBank, Tampered

GAS_LIMIT = 30_000_000
HALF_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141 // 2
"""Half of secp256k1's order. Signatures with a larger s are refused, so that each has only one valid form."""


class Key:
    """A private key. It signs; its secret is never printed."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:  # coincurve would pad half a key, and another key would sign
            raise ValueError("a key has 32 bytes")
        self._key = PrivateKey(secret)
        self.address = _address(self._key.public_key)

    def sign(self, digest: bytes) -> bytes:
        """Signs a digest; returns 65 bytes: r, s, parity. Deterministic (RFC 6979), low s."""
        return self._key.sign_recoverable(digest, hasher=None)

    def __repr__(self) -> str:
        return f"Key({self.address})"

    def save(self, path: Path) -> None:
        """Writes the key to a file that only its owner may read; never overwrites."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(self._key.secret.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # a new file survives a power loss only if its folder was written, too
        finally:
            os.close(folder)

    @classmethod
    def from_environment(cls, name: str) -> Key | None:
        """Returns the key in an environment variable (hexadecimal); None if it is not set."""
        text = os.environ.get(name, "").strip()
        if not text:
            return None
        try:
            return cls(bytes.fromhex(text.removeprefix("0x")))
        except ValueError:  # without the text: it is a secret
            raise BadBank(f"the environment variable {name} holds no key") from None

    @classmethod
    def load(cls, path: Path) -> Key:
        """Reads a key from a file; `BadBank` if others may read the file."""
        try:
            if path.stat().st_mode & 0o077:
                raise BadBank(f"the key {path} may be read by others: chmod 600 it, and consider it stolen")
            return cls(bytes.fromhex(path.read_text().strip().removeprefix("0x")))
        except FileNotFoundError:
            raise BadBank(f"there is no key at {path}") from None
        except (OSError, ValueError):
            raise BadBank(f"the file {path} holds no readable key") from None


@dataclass(frozen=True, slots=True)
class Fees:
    """What a transaction offers to pay, in wei per unit of gas. The embedded chain charges nothing."""

    tip: int = 0
    most: int = 0
    gas: int = GAS_LIMIT


FREE = Fees()


@dataclass(frozen=True, slots=True)
class Transaction:
    """A signed call of the contract, or its creation (`to` empty)."""

    chain_id: int
    nonce: int
    to: str
    data: bytes
    signature: bytes = field(default=b"")
    fees: Fees = field(default=FREE)
    value: int = 0
    """Wei sent with it."""

    @property
    def signing_digest(self) -> bytes:
        """The digest that the sender signs."""
        return keccak(b"\x02" + _rlp(self._fields()))

    @property
    def raw(self) -> bytes:
        """The signed transaction's bytes, as any Ethereum node accepts them."""
        r, s, parity = self.signature[:32], self.signature[32:64], self.signature[64]
        return b"\x02" + _rlp([*self._fields(), parity, _integer(r), _integer(s)])

    @property
    def digest(self) -> bytes:
        """The transaction's hash on any Ethereum chain."""
        return keccak(self.raw)

    def signed(self, key: Key) -> Transaction:
        """Returns the same transaction with the key's signature."""
        return replace(self, signature=key.sign(self.signing_digest))

    def sender(self) -> str:
        """Returns the address whose key signed it."""
        return recover(self.signing_digest, self.signature)

    def _fields(self) -> list[object]:
        to = bytes.fromhex(self.to.removeprefix("0x"))
        return [self.chain_id, self.nonce, self.fees.tip, self.fees.most, self.fees.gas, to, self.value, self.data, []]


def read_transaction(raw: bytes) -> Transaction:
    """Decodes a signed EIP-1559 transaction. `Tampered` if it is malformed or not in canonical form."""
    try:
        if raw[:1] != b"\x02":
            raise ValueError("another kind of transaction")
        fields, rest = _unrlp(raw[1:])
        if rest or not isinstance(fields, list) or fields[8] != [] or len(fields) != 12:
            raise ValueError("other fields")
        chain_id, nonce, tip, most, gas, to, value, data, _, parity, r, s = fields
        signature = r.rjust(32, b"\0") + s.rjust(32, b"\0") + (parity or b"\0")
        number = _integer
        transaction = Transaction(
            number(chain_id), number(nonce), f"0x{to.hex()}" if to else "", data, signature,
            Fees(number(tip), number(most), number(gas)), number(value),
        )  # fmt: skip
        if len(to) not in (0, 20) or transaction.raw != raw:
            raise ValueError("not canonical")
    except (ValueError, IndexError, AttributeError, TypeError, RecursionError):
        raise Tampered("a transaction is malformed") from None
    return transaction


def recover(digest: bytes, signature: bytes) -> str:
    """Returns the address whose key signed `digest`; `Tampered` if there is none."""
    if len(signature) != 65 or signature[64] > 1 or _integer(signature[32:64]) > HALF_ORDER:
        raise Tampered("a signature is malformed")
    try:
        return _address(PublicKey.from_signature_and_message(signature, digest, hasher=None))
    except Exception as error:  # coincurve raises bare Exception for an unrecoverable signature
        raise Tampered("a signature does not belong to any key") from error


def contract_address(sender: str, nonce: int) -> str:
    """Returns the address of the contract that a sender creates with this nonce."""
    return "0x" + keccak(_rlp([bytes.fromhex(sender.removeprefix("0x")), nonce]))[12:].hex()


def _address(public: PublicKey) -> str:
    return "0x" + keccak(public.format(compressed=False)[1:])[12:].hex()


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _rlp(item: object) -> bytes:
    """Encodes in Ethereum's RLP (recursive length prefix), as far as transactions need it."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < 0x80:
            return item
        return _prefix(0x80, len(item)) + item
    if isinstance(item, list):
        body = b"".join(_rlp(part) for part in item)
        return _prefix(0xC0, len(body)) + body
    raise TypeError(f"cannot encode {item!r}")


def _prefix(offset: int, length: int) -> bytes:
    if length < 56:
        return bytes([offset + length])
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([offset + 55 + len(size)]) + size


def _unrlp(raw: bytes) -> tuple[Any, bytes]:
    """Decodes the first RLP item in `raw`; returns it and the bytes after it."""
    first, offset = raw[0], 0x80 if raw[0] < 0xC0 else 0xC0
    if first < 0x80:
        return raw[:1], raw[1:]
    size = first - offset
    start = 1
    if size > 55:
        start += size - 55
        size = _integer(raw[1:start])
    body, rest = raw[start : start + size], raw[start + size :]
    if len(body) != size:
        raise ValueError("cut off")
    if offset == 0x80:
        return body, rest
    items = []
    while body:
        item, body = _unrlp(body)
        items.append(item)
    return items, rest
