"""`AccountSecrets`: an account's secret, from which its salts follow and which rows of a person count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from noisebank.core.digests import commitment, derived_salt, keccak
from noisebank.queries.query import Query


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one account, as the vault has saved them."""

    secret: bytes
    data_salt: bytes
    version: int = 1
    """Version of the table: the same question about a changed table is another query."""

    def query(self, query: Query) -> bytes:
        """Returns the salted digest under which the ledger knows a query."""
        return _name(self.secret, self._purpose, query.digest)

    def query_salt(self, query: Query) -> bytes:
        """Returns the salt that opens the records of this query and of no other."""
        return derived_salt(self.secret, self._purpose, query.digest)

    def analyst(self, name: str) -> bytes:
        """Returns the salted digest under which the ledger knows an analyst."""
        return _analyst_name(self.secret, name)

    @property
    def _purpose(self) -> str:
        return "query" if self.version == 1 else f"query {self.version}"

    @property
    def row_key(self) -> str:
        """The key that decides which rows of a person count."""
        return derived_salt(self.secret, "rows", b"").hex()


@lru_cache(maxsize=4_096)  # needed several times per answer
def _name(secret: bytes, purpose: str, digest: bytes) -> bytes:
    return commitment(derived_salt(secret, purpose, digest), digest)


@lru_cache(maxsize=4_096)
def _analyst_name(secret: bytes, name: str) -> bytes:
    return commitment(derived_salt(secret, "analyst", name.encode()), keccak(name.encode()))
