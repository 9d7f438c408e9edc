"""Values about released answers that ledger, vault and planning share: cases, paid records, points of a bridge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from noisebank.core.units import GridValue, Precision


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
class Point:
    """One released answer to a query, in steps: a point of the query's bridge."""

    precision: Precision
    value: GridValue
