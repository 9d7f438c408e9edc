"""`CellCharges`: what each cell of a cube was charged, as a step function.

The simple counterpart of the contract's tree of cells (contracts/cell_tree.vy): used to price claims and to check it.
"""

from __future__ import annotations

from bisect import bisect_left, insort


class Pieces:
    """Units charged to each cell: a function that is constant between cuts, and zero at first."""

    def __init__(self) -> None:
        self._cuts = [0]
        self._charge = {0: 0}
        self.largest = 0

    def add(self, start: int, stop: int, amount: int) -> None:
        """Charges `amount` units to each of the cells [start, stop)."""
        first, after = self._cut(start), self._cut(stop)  # in this order: the second cut does not shift the first
        for cut in self._cuts[first:after]:
            charge = self._charge[cut] + amount
            self._charge[cut] = charge
            if charge > self.largest:  # charges never fall
                self.largest = charge

    def copy(self) -> Pieces:
        """Returns an independent copy."""
        other = Pieces()
        other._cuts, other._charge, other.largest = list(self._cuts), dict(self._charge), self.largest
        return other

    def at(self, cell: int) -> int:
        """Returns one cell's charge, in units."""
        index = bisect_left(self._cuts, cell + 1) - 1
        return self._charge[self._cuts[index]]

    def _cut(self, cell: int) -> int:
        """Makes sure that there is a cut at `cell`; returns its index."""
        index = bisect_left(self._cuts, cell)
        if index == len(self._cuts) or self._cuts[index] != cell:
            self._charge[cell] = self._charge[self._cuts[index - 1]]
            insort(self._cuts, cell)
        return index
