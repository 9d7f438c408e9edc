"""What reuse has saved: every answer's plain price beside what was charged for it, and what looks at cubes have cost.

A plain price is that of the same answer alone, without cubes and without anything known: its target precision. A
look answers nobody. It is an investment: what it cost is no price of an answer, and what it brings back is counted
apart.
For statements, the pages and `noisebank demo`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.vault.vault import Request


@dataclass(slots=True)
class Savings:
    """Sums over the entries of an account, in units of precision. Add entries in the ledger's order."""

    spent_units: int = 0
    plain_units: int = 0
    """What the answers would have cost one by one."""
    look_units: int = 0
    """What looks have cost: a part of `spent_units`."""
    look_count: int = 0
    returned_units: int = 0
    """What answers in a cube have saved since a look at it."""
    _looked_cubes: set[tuple[int, int]] = field(default_factory=set)
    """Version and number."""

    def add_entry(self, entry: Reservation, request: Request | None) -> None:
        """Adds an entry with its request; None if it is not in this vault."""
        self.spent_units += entry.cost.units
        if is_look(request):
            self.look_units += entry.cost.units
            self.look_count += 1
            self._looked_cubes.add((entry.version, entry.cube))
            return
        plain = plain_price(entry, request)
        self.plain_units += plain.units
        if entry.cube and (entry.version, entry.cube) in self._looked_cubes:
            self.returned_units += plain.units - entry.cost.units

    @property
    def plain(self) -> Precision:
        """What the answers would have cost one by one."""
        return Precision(self.plain_units)

    @property
    def looks(self) -> Precision:
        """What looks at cubes have cost."""
        return Precision(self.look_units)

    @property
    def returned(self) -> Precision:
        """What answers have saved in cubes since they were looked at."""
        return Precision(max(0, self.returned_units))

    @property
    def saved(self) -> Precision:
        """How much less the answers have cost than one by one; looks apart."""
        return Precision(max(0, self.plain_units - (self.spent_units - self.look_units)))


def is_look(request: Request | None) -> bool:
    """Whether a request is a look at a cube, which answers nobody."""
    return request is not None and request.body.get("look") is not None


def plain_price(entry: Reservation, request: Request | None) -> Precision:
    """Returns what the answer alone would have cost without reuse: its target. In a cube, the ledger knows what is
    measured there for it, which may be nothing, so the request says the target."""
    if is_look(request):
        return Precision(0)
    if request is None or "wanted" not in request.body:
        return entry.target
    return Precision(request.body["wanted"])
