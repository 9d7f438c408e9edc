"""Cells of a cube as pieces of equal charge: the plain way, for prices and to check the contract's tree against."""

from __future__ import annotations

from bisect import bisect_left, insort


class Pieces:
    """A function on cells that is constant between cuts, and zero at first."""

    def __init__(self) -> None:
        self._cuts = [0]
        self._charge = {0: 0}
        self.largest = 0

    def add(self, start: int, stop: int, amount: int) -> None:
        """Adds to the cells [start, stop)."""
        first, after = self._cut(start), self._cut(stop)  # in this order: a later cut moves no earlier one
        for cut in self._cuts[first:after]:
            charge = self._charge[cut] + amount
            self._charge[cut] = charge
            if charge > self.largest:  # charges never fall
                self.largest = charge

    def copy(self) -> Pieces:
        """Another one with the same charges."""
        other = Pieces()
        other._cuts, other._charge, other.largest = list(self._cuts), dict(self._charge), self.largest
        return other

    def at(self, cell: int) -> int:
        """One cell's charge."""
        place = bisect_left(self._cuts, cell + 1) - 1
        return self._charge[self._cuts[place]]

    def _cut(self, cell: int) -> int:
        place = bisect_left(self._cuts, cell)
        if place == len(self._cuts) or self._cuts[place] != cell:
            self._charge[cell] = self._charge[self._cuts[place - 1]]
            insort(self._cuts, cell)
        return place
