"""`CoarseLookCounter`: how precise all looks of an account are together whose answers decided what came next.

What follows such a look stands on the public ledger, and is a function of its answers. So a reader of the ledger
learns of the table at most what these answers say: docs/proofs/looks.md, "What a reader of the ledger learns". The
number follows from the ledger and the vault and is stored nowhere else. A look beyond the limit is never followed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from noisebank.core.errors import LooksExhausted
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.ledger.chain import Ledger
from noisebank.planning.coarse_looks import most_for_looks
from noisebank.vault.vault import Vault

PAGE_SIZE = 2_000


class CoarseLookCounter:
    """The looks of one account, over all versions of its table. Safe for many threads."""

    def __init__(self, account: bytes, ledger: Ledger, vault: Vault) -> None:
        self._account, self._ledger, self._vault = account, ledger, vault
        self._access = threading.Lock()
        self._finest: dict[tuple[int, bytes], Precision] = {}
        """Of the looks at each query of each version: all answers to a query say together what the finest says."""
        self._total = ZERO_PRECISION
        self._total_after: dict[bytes, Precision] = {}
        """By reservation, in the ledger's order: the same for every gateway and after every restart."""
        self._next_index = 0

    @property
    def limit(self) -> Precision:
        """The most that all looks may be together which are followed. It is fixed with the first measurement."""
        return most_for_looks(self._ledger.books.get_budgets(self._account).fixed)

    @property
    def total(self) -> Precision:
        """The precision of all looks together, as far as they count: never above `limit`."""
        with self._access:
            self._read_new_pages()
            return max((each for each in self._total_after.values() if each <= self.limit), default=ZERO_PRECISION)

    def has_room(self, targets: Mapping[bytes, Precision], version: int) -> bool:
        """Whether one more look may be followed, by the salted digest of each of its queries."""
        with self._access:
            self._read_new_pages()
            return self._add_up(targets, version) <= self.limit

    def check_room(self, targets: Mapping[bytes, Precision], version: int) -> None:
        """Refuses a request before its first look if the looks of others leave no room for it."""
        if not self.has_room(targets, version):
            raise LooksExhausted(self.limit)

    def may_follow(self, ids: Sequence[bytes]) -> bool:
        """Whether anything may follow the look with these reservations: only if those up to it are within the limit.

        Several may pass `check_room` at once. The ledger's order decides among them.
        """
        with self._access:
            self._read_new_pages()
            return all(id in self._total_after and self._total_after[id] <= self.limit for id in ids)

    def _add_up(self, targets: Mapping[bytes, Precision], version: int) -> Precision:
        units = self._total.units
        for query, target in targets.items():
            units += max(0, target.units - self._finest.get((version, query), ZERO_PRECISION).units)
        return Precision(units)

    def _read_new_pages(self) -> None:
        books = self._ledger.books
        while page := books.page_reservations(self._account, self._next_index, self._next_index + PAGE_SIZE):
            for reservation in page:
                if reservation.cube:
                    continue
                request = self._vault.find_request(reservation.id)
                if request is not None and "coarse" not in request.body:  # what the vault has lost counts
                    continue
                query, target = reservation.query, reservation.target
                self._total = self._add_up({query: target}, reservation.version)
                place = reservation.version, query
                self._finest[place] = max(target, self._finest.get(place, ZERO_PRECISION))
                self._total_after[reservation.id] = self._total
            self._next_index += len(page)
