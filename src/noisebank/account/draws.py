"""`DrawCounter`: how many noise draws of an account one person can influence, and the limit on them.

The number follows from the ledger and the vault and is stored nowhere else. The ledger's public data and the policies
give an upper bound; while that is within the limit, nothing else is read. Beyond it, the questions in the vault give
the exact number. At the limit, measuring stops; reusing answers does not.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import MappingProxyType

from noisebank.core.errors import DrawsExhausted, NoisebankError
from noisebank.ledger.chain import Chain
from noisebank.ledger.protocol import Reservation
from noisebank.planning.draws import is_single, most_draws, touched_draws
from noisebank.planning.serving import named_look
from noisebank.policy.model import Policy, policy_from_public, source_from_kept
from noisebank.privacy.calibration import MAX_DRAWS
from noisebank.queries.query import Query
from noisebank.queries.sql import parse
from noisebank.vault.vault import Vault

READ_AT_ONCE = 2_000


class Draws:
    """The draws of one account, over all versions of its table. Safe for many threads."""

    def __init__(self, account: bytes, ledger: Chain, vault: Vault) -> None:
        self._account, self._ledger, self._vault = account, ledger, vault
        self._access = threading.Lock()
        self._policies: dict[int, Policy | None] = {}
        self._mosts: dict[tuple[int, int, bool], int] = {}
        self._place = self._paid = self._exact = 0

    def check_next(self, queries: Sequence[Query], policy: Policy) -> None:
        """Refuses measurements that the account has no draws left for, before they are paid for."""
        if queries:
            self._check(sum(touched_draws(query, policy) for query in queries))

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
            self._check(0)
        except DrawsExhausted:
            before = 0
            for paid in sorted(self._ledger.reservations(self._account), key=lambda entry: entry.block):
                before += self._draws(paid)
                if paid.id == reservation.id:
                    break
            if before > MAX_DRAWS:
                raise

    def _check(self, more: int) -> None:
        if self._bound() + more > MAX_DRAWS and (count := self._counted()) + more > MAX_DRAWS:
            raise DrawsExhausted(MAX_DRAWS, count)

    def _bound(self) -> int:
        """Returns a bound from the ledger's public data alone; never below the exact number."""
        return sum(
            count * self._most(version, about, whole_cube)
            for (version, about, whole_cube), count in self._ledger.books.measured(self._account).items()
        )

    def _counted(self) -> int:
        """Returns the exact number. Reads only what is new, or everything again if something was missed."""
        with self._access:
            paid = self._ledger.account(self._account).measurements
            self._read_on()
            if self._paid < paid:  # an id that was a repeat at first was paid for later: it is among those read before
                self._place = self._paid = self._exact = 0
                self._read_on()
            return self._exact

    def _read_on(self) -> None:
        while page := self._ledger.books.page(self._account, self._place, self._place + READ_AT_ONCE):
            self._exact += sum(self._draws(reservation) for reservation in page)
            self._paid += sum(1 for reservation in page if reservation.fresh)
            self._place += len(page)

    def _draws(self, reservation: Reservation) -> int:
        if not reservation.fresh:
            return 0
        most = self._most(reservation.version, reservation.about, reservation.whole_cube)
        request = self._vault.request(reservation.id) if most > 1 else None
        policy = self._policy(reservation.version)
        if request is None or policy is None:
            return most
        look, sql = request.body.get("look"), request.body["sql"]
        try:
            question = parse(policy.queries.get(sql.strip(), sql), policy) if look is None else named_look(look, policy)
        except NoisebankError:  # written for another edition of the parser
            return most
        return touched_draws(question.query, policy)

    def _most(self, version: int, about: int, whole_cube: bool) -> int:
        if is_single(about, whole_cube):
            return 1
        key = version, about, whole_cube
        if key not in self._mosts:
            policy = self._policy(version)
            self._mosts[key] = MAX_DRAWS if policy is None else most_draws(policy, about, whole_cube)
        return self._mosts[key]

    def _policy(self, version: int) -> Policy | None:
        """Returns the policy of a version of the table; None if the vault has lost it."""
        if version not in self._policies:
            self._policies[version] = self._read_policy(version)
        return self._policies[version]

    def _read_policy(self, version: int) -> Policy | None:
        for change in self._ledger.books.changes(self._account):
            name, arguments = change.event.name, change.event.arguments
            data = arguments.get("data")
            opened = {"AccountOpened": 1, "VersionOpened": arguments.get("version")}.get(name)
            if opened == version and isinstance(data, bytes):
                body = self._vault.opening(data)
                if body is not None and "policy" in body:
                    return policy_from_public(MappingProxyType(body["policy"]), source_from_kept(body["source"]))
        return None
