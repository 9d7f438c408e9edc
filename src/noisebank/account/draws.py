"""`DrawCounter`: how many noise draws of an account one person can influence, and the limit on them.

The number follows from the ledger and the vault and is stored nowhere else. The ledger's public data and the policies
give an upper bound; while that is within the limit, nothing else is read. Beyond it, the questions in the vault give
the exact number. At the limit, measuring stops; reusing answers does not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import MappingProxyType

from noisebank.account.requests import read_question
from noisebank.core.errors import DrawsExhausted, NoisebankError
from noisebank.core.records import MAX_DRAWS
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import Reservation
from noisebank.planning.draws import max_draws, touched_draws
from noisebank.policy.model import Policy, policy_from_json, source_from_json
from noisebank.queries.query import Query, is_single_draw
from noisebank.vault.vault import Vault

PAGE_SIZE = 2_000


class DrawCounter:
    """The draws of one account, over all versions of its table. Safe for many threads."""

    def __init__(self, account: bytes, ledger: Ledger, vault: Vault) -> None:
        self._account, self._ledger, self._vault = account, ledger, vault
        self._access = threading.Lock()
        self._policies: dict[int, Policy | None] = {}
        self._max_draws_cache: dict[tuple[int, int, bool], int] = {}
        self._next_index = self._paid_count = self._draw_count = 0

    def check_next(self, queries: Sequence[Query], policy: Policy) -> None:
        """Refuses measurements that the account has no draws left for, before they are paid for."""
        if queries:
            self._check_limit(sum(touched_draws(query, policy) for query in queries))

    def has_room(self, query: Query, policy: Policy) -> bool:
        """Whether the account has draws left for one more measurement."""
        try:
            self.check_next([query], policy)
        except DrawsExhausted:
            return False
        return True

    def check_paid(self, reservation: Reservation) -> None:
        """Refuses to draw for a reservation that lies beyond the limit in the ledger's order.

        The check before reserving may let several pass at once; this one cannot: the order is the same for all.
        """
        try:
            self._check_limit(0)
        except DrawsExhausted:
            before = 0
            for paid in sorted(self._ledger.list_reservations(self._account), key=lambda entry: entry.block):
                before += self._count_draws(paid)
                if paid.id == reservation.id:
                    break
            if before > MAX_DRAWS:
                raise

    def _check_limit(self, new_draws: int) -> None:
        if self._upper_bound() + new_draws > MAX_DRAWS and (count := self._count_exactly()) + new_draws > MAX_DRAWS:
            raise DrawsExhausted(MAX_DRAWS, count)

    def _upper_bound(self) -> int:
        """Returns a bound from the ledger's public data alone; never below the exact number."""
        return sum(
            count * self._max_draws(version, about, whole_cube)
            for (version, about, whole_cube), count in self._ledger.books.count_measurements(self._account).items()
        )

    def _count_exactly(self) -> int:
        """Returns the exact number. Reads only what is new, or everything again if something was missed."""
        with self._access:
            paid = self._ledger.get_account(self._account).measurements
            self._read_new_pages()
            if (
                self._paid_count < paid
            ):  # an id that was a repeat at first was paid for later: it is among those read before
                self._next_index = self._paid_count = self._draw_count = 0
                self._read_new_pages()
            return self._draw_count

    def _read_new_pages(self) -> None:
        while page := self._ledger.books.page_reservations(
            self._account, self._next_index, self._next_index + PAGE_SIZE
        ):
            self._draw_count += sum(self._count_draws(reservation) for reservation in page)
            self._paid_count += sum(1 for reservation in page if reservation.fresh_precision)
            self._next_index += len(page)

    def _count_draws(self, reservation: Reservation) -> int:
        if not reservation.fresh_precision:
            return 0
        most = self._max_draws(reservation.version, reservation.category, reservation.is_whole_cube)
        request = self._vault.find_request(reservation.id) if most > 1 else None
        policy = self._find_policy(reservation.version)
        if request is None or policy is None:
            return most
        try:
            query = read_question(request, policy).query
        except NoisebankError:  # written for another edition of the parser
            return most
        return touched_draws(query, policy)

    def _max_draws(self, version: int, category: int, whole_cube: bool) -> int:
        if is_single_draw(category, whole_cube):
            return 1
        key = version, category, whole_cube
        if key not in self._max_draws_cache:
            policy = self._find_policy(version)
            self._max_draws_cache[key] = MAX_DRAWS if policy is None else max_draws(policy, category, whole_cube)
        return self._max_draws_cache[key]

    def _find_policy(self, version: int) -> Policy | None:
        """Returns the policy of a version of the table; None if the vault has lost it."""
        if version not in self._policies:
            self._policies[version] = self._read_policy(version)
        return self._policies[version]

    def _read_policy(self, version: int) -> Policy | None:
        for change in self._ledger.books.list_changes(self._account):
            name, arguments = change.event.name, change.event.arguments
            data = arguments.get("data")
            opened = {"AccountOpened": 1, "VersionOpened": arguments.get("version")}.get(name)
            if opened == version and isinstance(data, bytes):
                body = self._vault.find_opening(data)
                if body is not None and "policy" in body:
                    return policy_from_json(MappingProxyType(body["policy"]), source_from_json(body["source"]))
        return None
