"""Cryptographic sortition: unique signatures (BLS on BN254) decide who sits on a committee and who leads it.

A member signs the round's seed; the hash of the signature is its lot. For each key and message exactly one signature
exists, so nobody can try again for a better lot, and anybody can verify it with the member's public key: the contract
does with the EVM's pairing, `verify_signatures` here with py_ecc. The arithmetic of seats is the contract's, integer by
integer (`contracts/sortition.vy`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from noisebank.core.digests import keccak
from noisebank.core.entropy import Entropy, SystemEntropy
from noisebank.core.errors import BadBank
from noisebank.federated.blockfl.recursion import kept_limit

FIELD_MODULUS = 21888242871839275222246405745257275088696311157297823662689037894645226208583
GROUP_ORDER = 21888242871839275222246405745257275088548364400416034343698204186575808495617
FIXED_POINT_ONE = 2**128
G1Point = tuple[int, int]
"""Coordinates (x, y) in G1."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A point of G2, in the order of EIP-197."""

    x_imaginary: int
    x_real: int
    y_imaginary: int
    y_real: int

    @property
    def abi_words(self) -> tuple[int, int, int, int]:
        """The four words that the contract takes."""
        return self.x_imaginary, self.x_real, self.y_imaginary, self.y_real


class SortitionKey:
    """A secret key for sortition; neither its repr nor any error shows the secret."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ValueError("a key has 32 bytes")
        self._number = int.from_bytes(keccak(b"noisebank lot key\n", secret), "big") % (GROUP_ORDER - 1) + 1
        self._secret = secret

    @cached_property
    def public_key(self) -> PublicKey:
        """The public key."""
        curve = _load_curve()
        x, y = curve.normalize(curve.multiply(curve.G2, self._number))
        return PublicKey(int(x.coeffs[1]), int(x.coeffs[0]), int(y.coeffs[1]), int(y.coeffs[0]))

    def sign(self, message: bytes) -> G1Point:
        """Return the one signature of a message of 32 bytes."""
        return _multiply_point(hash_to_curve(message), self._number)

    def save(self, path: Path) -> None:
        """Write the key to a new file that only its owner can read."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=False)
        path.write_text(self._secret.hex() + "\n")

    @classmethod
    def load(cls, path: Path) -> SortitionKey:
        """Read a key; `BadBank` if others may read its file."""
        try:
            if path.stat().st_mode & 0o077:
                raise BadBank(f"the key {path} may be read by others: chmod 600 it, and consider it stolen")
            return cls(bytes.fromhex(path.read_text().strip()))
        except FileNotFoundError:
            raise BadBank(f"there is no key at {path}") from None
        except (OSError, ValueError):
            raise BadBank(f"the file {path} holds no readable key") from None

    def __repr__(self) -> str:
        return "LotKey(...)"


def hash_to_curve(message: bytes) -> G1Point:
    """Return the point of G1 to sign: the first of keccak(message, 0), keccak(message, 1), ... that is an x."""
    for attempt in range(128):
        x = int.from_bytes(keccak(message, attempt.to_bytes(32, "big")), "big") % FIELD_MODULUS
        square = (x**3 + 3) % FIELD_MODULUS
        y = pow(square, (FIELD_MODULUS + 1) // 4, FIELD_MODULUS)
        if y * y % FIELD_MODULUS == square:
            return x, y if y % 2 == 0 else FIELD_MODULUS - y
    raise ValueError("no point in 128 tries")  # one message in 2^128


def verify_signatures(
    public_keys: Sequence[PublicKey], message: bytes, signatures: Sequence[G1Point], entropy: Entropy | None = None
) -> bool:
    """Whether every signature is its key's signature of the message.

    Two pairings for any number of them: with random weights r, e(sum r s, generator) = e(hash, sum r key) holds by
    chance with probability 2^-128 if any signature is wrong.
    """
    curve = _load_curve()
    source = entropy or SystemEntropy()
    left, right = None, None
    for key, (x, y) in zip(public_keys, signatures, strict=True):
        point = (curve.FQ(x), curve.FQ(y), curve.FQ(1))
        key_point = _decode_public_key(key)
        if not (
            0 < x < FIELD_MODULUS
            and 0 < y < FIELD_MODULUS
            and curve.is_on_curve(point, curve.b)
            and key_point is not None
        ):
            return False
        weight = int.from_bytes(source.token(16), "big") | 1
        left = _add_points(left, curve.multiply(point, weight))
        right = _add_points(right, curve.multiply(key_point, weight))
    if left is None:
        return True
    x, y = hash_to_curve(message)
    target = (curve.FQ(x), curve.FQ(y), curve.FQ(1))
    return bool(curve.pairing(curve.G2, left) == curve.pairing(right, target))


def hash_signature(signature: G1Point) -> bytes:
    """Return the lot: the hash of a signature."""
    return keccak(*(part.to_bytes(32, "big") for part in signature))


def count_seats(lot: bytes, coins: int, expected_seats: int, total_coins: int) -> int:
    """Return the seats that a lot wins: min{j: u < P[Binomial(coins, expected_seats / total_coins) <= j]}.

    Probabilities are integers in units of 2^-128.
    """
    if expected_seats >= total_coins:
        return coins
    u = int.from_bytes(lot, "big") >> 128
    p = FIXED_POINT_ONE * expected_seats // total_coins
    q = FIXED_POINT_ONE - p
    mass = FIXED_POINT_ONE
    for _ in range(coins):
        mass = mass * q // FIXED_POINT_ONE
    below = mass
    for j in range(coins):
        if u < below:
            return j
        mass = mass * (coins - j) // (j + 1) * p // q
        below += mass
    return coins


def compute_priority(lot: bytes, seat_count: int) -> int:
    """Return the smallest hash among a lot's seats; the member with the smallest of all leads.

    The chance to lead is proportional to coins.
    """
    return min(
        (int.from_bytes(keccak(lot, number.to_bytes(32, "big")), "big") for number in range(1, seat_count + 1)),
        default=2**256 - 1,
    )


@cache
def _load_curve() -> Any:
    """Return py_ecc's BN254, imported on first use; `BadBank` if it is not installed."""
    try:
        with kept_limit():
            from py_ecc import optimized_bn128 as curve
    except ImportError:
        raise BadBank("lots need py_ecc: pip install 'noisebank[federated]'") from None
    return curve


@lru_cache(1024)
def _decode_public_key(key: PublicKey) -> object | None:
    """Return a key as py_ecc has it; None if it is no point of the right subgroup."""
    curve = _load_curve()
    if any(not 0 <= word < FIELD_MODULUS for word in key.abi_words):
        return None
    x, y = curve.FQ2([key.x_real, key.x_imaginary]), curve.FQ2([key.y_real, key.y_imaginary])
    point = (x, y, curve.FQ2.one())
    if not curve.is_on_curve(point, curve.b2) or not curve.is_inf(curve.multiply(point, GROUP_ORDER)):
        return None
    return point


def _add_points(first: object | None, second: object) -> object:
    curve = _load_curve()
    return second if first is None else curve.add(first, second)


def _multiply_point(point: G1Point, scalar: int) -> G1Point:
    curve = _load_curve()
    x, y = curve.normalize(curve.multiply((curve.FQ(point[0]), curve.FQ(point[1]), curve.FQ(1)), scalar))
    return int(x), int(y)
