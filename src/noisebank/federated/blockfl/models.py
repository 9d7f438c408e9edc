"""Models in fixed point: weights as integers in units of 2^-20, under a header with task, round and author.

Integers, because their sums, distances and averages are the same on every machine; those of floats are not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noisebank.core.digests import to_canonical_json
from noisebank.federated.blockfl.store import MAX_BLOCK_BYTES

FORMAT = "noisebank model 1"
FIXED_POINT_SCALE = 2**20
"""Steps in 1.0: a weight is known to a millionth."""
MAX_WEIGHT = 2**27 - 1
"""In steps: a weight lies in (-128, 128). No honest training ends beyond, and sums of squares stay exact."""
Weights = NDArray[np.int64]


class BadModel(ValueError):
    """Stored bytes that are not a model of this member for this round."""


@dataclass(frozen=True)
class Model:
    """Weights of one task and round. `author` is empty for the initial model and for averages."""

    task: str
    round: int
    author: str
    weights: Weights

    def to_bytes(self) -> bytes:
        """Return the canonical encoding: one line of JSON, then little-endian 32-bit integers."""
        header = to_canonical_json(
            {
                "format": FORMAT,
                "task": self.task,
                "round": self.round,
                "author": self.author,
                "count": len(self.weights),
            }
        )
        return header.encode() + b"\n" + self.weights.astype("<i4").tobytes()

    def to_floats(self) -> NDArray[np.float64]:
        """Return the weights as floats, for training."""
        return self.weights / FIXED_POINT_SCALE


def read_model(content: bytes, task: str, round: int, author: str, count: int) -> Model:
    """Return the model in `content` if it is the expected one; else `BadModel` says what is wrong."""
    line, _, body = content.partition(b"\n")
    try:
        header: Any = json.loads(line)
        is_canonical = to_canonical_json(header).encode() == line
    except (ValueError, TypeError, RecursionError):
        raise BadModel("it does not begin with a header") from None
    if not is_canonical or not isinstance(header, dict) or header.get("format") != FORMAT:
        raise BadModel(f"it is no {FORMAT!r}")
    if set(header) != {"format", "task", "round", "author", "count"}:
        raise BadModel("its header has other fields")
    if header["author"] != author:
        raise BadModel(f"its author is {str(header['author'])[:42] or 'nobody'}, not who submitted it")
    if header["task"] != task or header["round"] != round:
        raise BadModel("it belongs to another task or round")
    if header["count"] != count or len(body) != 4 * count:
        raise BadModel(f"it does not have {count} weights")
    weights = np.frombuffer(body, dtype="<i4").astype(np.int64)
    if int(np.abs(weights).max(initial=0)) > MAX_WEIGHT:
        raise BadModel("a weight lies outside (-128, 128)")
    return Model(task, round, author, weights)


def to_fixed_point(values: NDArray[np.float64]) -> Weights:
    """Round weights to the nearest step; NaN becomes 0, what is too large the largest weight."""
    clean = np.nan_to_num(
        np.asarray(values, dtype=np.float64),
        nan=0.0,
        posinf=MAX_WEIGHT / FIXED_POINT_SCALE,
        neginf=-MAX_WEIGHT / FIXED_POINT_SCALE,
    )
    return np.clip(np.rint(clean * FIXED_POINT_SCALE), -MAX_WEIGHT, MAX_WEIGHT).astype(np.int64)


def average_weights(vectors: Sequence[Weights]) -> Weights:
    """Return the mean in steps, rounded to the nearest, halves up: the same integers on every machine."""
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector  # at most 64 vectors of 28-bit numbers
    return (2 * total + len(vectors)) // (2 * len(vectors))


def max_weight_count() -> int:
    """Return how many weights fit one block of the store."""
    return (MAX_BLOCK_BYTES - 512) // 4
