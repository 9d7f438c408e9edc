"""`AccountSecrets`: an account's secret. Its salts follow from it, and which rows of a person count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from noisebank.core.asks import OWNER
from noisebank.core.digests import derive_salt, keccak, make_commitment
from noisebank.ledger.protocol import OWNER_ANALYST
from noisebank.queries.query import Query


@dataclass(frozen=True, slots=True)
class AccountSecrets:
    """The secrets of one account, as the vault has saved them."""

    secret: bytes
    data_salt: bytes
    version: int = 1
    """Version of the table: the same question about a changed table is another query."""

    def salted_query(self, query: Query) -> bytes:
        """Returns the salted digest under which the ledger knows a query."""
        return _salted_query(self.secret, self._query_purpose, query.digest)

    def query_salt(self, query: Query) -> bytes:
        """Returns the salt that opens the records of this query and of no other."""
        return derive_salt(self.secret, self._query_purpose, query.digest)

    def salted_analyst(self, name: str) -> bytes:
        """Returns the salted digest under which the ledger knows an analyst."""
        return _salted_analyst(self.secret, name)

    def analyst_digest(self, name: str) -> bytes:
        """Returns the ledger's name of an analyst: salted, or the owner's for local use."""
        return OWNER_ANALYST if name == OWNER else self.salted_analyst(name)

    @property
    def _query_purpose(self) -> str:
        return "query" if self.version == 1 else f"query {self.version}"

    @property
    def row_key(self) -> str:
        """The key that decides which rows of a person count."""
        return derive_salt(self.secret, "rows", b"").hex()


@lru_cache(maxsize=4_096)  # needed several times per answer
def _salted_query(secret: bytes, purpose: str, digest: bytes) -> bytes:
    return make_commitment(derive_salt(secret, purpose, digest), digest)


@lru_cache(maxsize=4_096)
def _salted_analyst(secret: bytes, name: str) -> bytes:
    return make_commitment(derive_salt(secret, "analyst", name.encode()), keccak(name.encode()))
