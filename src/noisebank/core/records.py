"""Values about released answers that ledger, vault and planning share: cases, paid records, points of a bridge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from noisebank.core.units import GridValue, Precision

WHOLE_WEIGHT = 2**32
"""A run of this weight is charged the whole fresh precision: the contract's constant of the same name."""
MAX_DRAWS = 2**20
"""Draws that one person can affect, per account. The bank counts them, the verifier recounts: planning/draws.py."""


class CellRun(NamedTuple):
    """Cells [start, stop) of a cube with one whole weight.

    In a query each cell is counted `weight` times; as a charge it pays fresh * weight / 2^32, rounded up.
    """

    start: int
    stop: int
    weight: int = WHOLE_WEIGHT


class Case(Enum):
    """How a request relates to the recorded answers; the values are the contract's."""

    FIRST = 1
    REPEAT = 2
    REFINE = 4
    BLUR = 8
    INFER = 16


@dataclass(frozen=True, slots=True)
class Record:
    """One paid answer to a query, FIRST or REFINE, by its reservation."""

    id: bytes
    precision: Precision


@dataclass(frozen=True, slots=True)
class BridgePoint:
    """One released answer to a query, in steps: a point of the query's bridge."""

    precision: Precision
    value: GridValue
