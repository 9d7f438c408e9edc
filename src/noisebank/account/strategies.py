"""`Strategy`: how an answer is planned, charged and made.

There are two: plain reuse of a query's own records (`plain`), and cubes (`cube`). A reservation says which one it
took: its cube is 0 for plain reuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from noisebank.core.errors import NoisebankError
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.planning.reuse import Plan
from noisebank.planning.serving import ALONE, ChargeLimits
from noisebank.queries.query import Question

PaidQuestion = tuple[Reservation, Question]
Contents = dict[str, Any] | NoisebankError
"""What is sealed of an answer besides what the ledger has, or why it cannot be made now."""


class Strategy(Protocol):
    """One way to answer a question."""

    def plan(self, question: Question, target: Precision, limits: ChargeLimits = ALONE) -> Plan:
        """Returns case, price and charges as of now, from released answers alone. Changes nothing, opens no data.

        `limits` say what other parts of the same atomic group leave for this one."""
        ...

    def list_unfinished(self, question: Question, plan: Plan) -> list[PaidQuestion]:
        """Returns earlier reservations that must be published before an answer can build on them."""
        ...

    def check_reusable(self, plan: Plan) -> None:
        """Refuses, before anything is charged, what builds on an answer that the vault has lost."""
        ...

    def draw_contents(self, paid: Sequence[PaidQuestion]) -> list[Contents]:
        """Makes the answers to reservations: measures what was paid for, infers or blurs the rest."""
        ...
