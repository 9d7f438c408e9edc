"""Codes of a mechanism as bytes: a fixed number of bits each (2 for Three-Outputs, 11 for 2,001 levels), no header."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from noisebank.federated.ldp.mechanism import BaseMechanism


def bits_per_code(mechanism: BaseMechanism) -> int:
    """Returns the bits of one code."""
    return max(1, (mechanism.code_count - 1).bit_length())


def encode_codes(mechanism: BaseMechanism, codes: ArrayLike) -> bytes:
    """Returns the codes in a row, most significant bit first, the last byte filled up with zeros."""
    array, bits = mechanism.check_codes(codes).reshape(-1), bits_per_code(mechanism)
    shifts = np.arange(bits - 1, -1, -1)
    return np.packbits((array[:, None] >> shifts & 1).astype(np.uint8).reshape(-1)).tobytes()


def decode_codes(mechanism: BaseMechanism, data: bytes, count: int) -> NDArray[np.int64]:
    """Returns the `count` codes that `encode_codes` wrote. Wrong lengths, unknown codes and stray bits are refused."""
    bits = bits_per_code(mechanism)
    if count < 0 or len(data) != -(-count * bits // 8):
        raise BadRequest(
            "wire", f"{len(data)} bytes", f"{count} codes of {bits} bits are {-(-count * bits // 8)} bytes"
        )
    flags = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if flags[count * bits :].any():
        raise BadRequest("wire", "a set bit after the last code", "must be zero")
    shifts = np.arange(bits - 1, -1, -1)
    codes = (flags[: count * bits].reshape(count, bits).astype(np.int64) << shifts).sum(axis=1)
    return mechanism.check_codes(codes)
