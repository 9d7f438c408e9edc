"""`AccountContext`: what all stages of the path share, with the caches of one account.

Caches are here, at the edge: whatever they hold follows from public values or from answers that matched the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from noisebank.account.coarse_look_counter import CoarseLookCounter
from noisebank.account.draws import DrawCounter
from noisebank.account.requests import RequestBuilder
from noisebank.core.asks import OWNER
from noisebank.core.caches import cache_results, deep_size
from noisebank.core.entropy import Entropy
from noisebank.core.errors import TableChanged
from noisebank.core.locks import NamedLocks
from noisebank.core.units import Precision
from noisebank.engines.engine import Engine
from noisebank.ledger.chain import Ledger
from noisebank.ledger.protocol import AccountState, View
from noisebank.planning.pricing import AccuracyTarget, compute_target
from noisebank.planning.serving import parse_look
from noisebank.policy.model import Column, Policy
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import l2_sensitivity
from noisebank.queries.sql import parse_question
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.settlement import read_published
from noisebank.vault.vault import Request, SealedAnswer, Vault

if TYPE_CHECKING:
    from noisebank.account.cube import CubeStrategy
    from noisebank.account.plain import PlainStrategy
    from noisebank.account.released_answers import ReleasedAnswers

CACHE_BYTES = 4 << 20
"""Of each of an account's caches."""


class AccountContext:
    """One version of an account: its policy and secrets, and its doors to table, ledger, vault and randomness."""

    plain: PlainStrategy
    cubes: CubeStrategy
    released: ReleasedAnswers

    def __init__(
        self,
        id: bytes,
        policy: Policy,
        secrets: AccountSecrets,
        identity: str,
        engine: Engine,
        ledger: Ledger,
        vault: Vault,
        entropy: Entropy,
    ) -> None:
        self.id, self.policy, self.secrets, self._identity = id, policy, secrets, identity
        self.engine, self.ledger, self.vault, self.entropy = engine, ledger, vault, entropy
        self.draws = DrawCounter(id, ledger, vault)
        self.looks = CoarseLookCounter(id, ledger, vault)
        self.request_builder = RequestBuilder(id, secrets.version)
        self.lost_queries: set[bytes] = set()
        """Salted digests of queries with a published answer that the vault has lost; recovery fills it."""
        self.request_locks = NamedLocks()
        """Held by request id: one request may arrive twice at once, and only the first reserves."""
        # The same text under the same policy is the same question, so parsing can be cached.
        self._parse_cached = cache_results(CACHE_BYTES, size_of)(lambda text: parse_question(text, self.policy))
        self.sensitivity_of = cache_results(CACHE_BYTES, key_of=attrgetter("digest"))(
            lambda query: l2_sensitivity(query, self.policy)
        )
        self.target_precision = cache_results(
            CACHE_BYTES, key_of=lambda question, accuracy: (question.query.digest, question.unit, accuracy)
        )(self._compute_target)
        # An answer that matched the ledger's digest once stays that answer: no later read of the vault can give another
        # one that may be returned. A vault that was altered is detected when the answer is read anew.
        self._read_published_cached = cache_results(CACHE_BYTES, size_of)(self._read_published)

    @property
    def state(self) -> AccountState:
        """Budget and spend, as the contract holds them."""
        return self.ledger.get_account(self.id)

    def parse(self, sql: str) -> Question:
        """Parses SQL, or the name of one of the policy's queries, to a canonical question."""
        return self._parse_cached(self.policy.resolve_sql(sql))

    def question_of(self, request: Request) -> Question:
        """Returns the question of a saved request: SQL, or a look at a cube."""
        look = request.body.get("look")
        return self.parse(request.body["sql"]) if look is None else parse_look(look, self.policy)

    def view_of(self, analyst: str) -> View:
        """Returns what an analyst may learn, and has learned. The owner may learn all that the account spends."""
        if analyst == OWNER:
            return View(self.state.budget, self.state.spent)
        return self.ledger.get_view(self.id, self.secrets.analyst_digest(analyst))

    def salt_targets(self, questions: Iterable[tuple[Question, AccuracyTarget]]) -> dict[bytes, Precision]:
        """Returns the target precision of each question's query, by the name that the ledger has for it."""
        return {self.secrets.salted_query(part[0].query): self.target_precision(*part) for part in questions}

    def read_published(self, id: bytes, digest: bytes, is_grouped: bool) -> SealedAnswer:
        """Returns a published answer; grouped ones are too large to cache."""
        return self._read_published(id, digest) if is_grouped else self._read_published_cached(id, digest)

    def check_identity(self) -> None:
        """Refuses a table that is not the one that was opened, by its metadata. Reads no rows."""
        if self.engine.identity() != self._identity:  # not quoted: the size of a file tells neighbours apart
            raise TableChanged(
                f"the table of {self.policy.name} changed since this account was opened: open its next version"
            )

    def _read_published(self, id: bytes, digest: bytes) -> SealedAnswer:
        return read_published(self.vault, id, digest)

    def _compute_target(self, question: Question, accuracy: AccuracyTarget) -> Precision:
        return compute_target(accuracy, self.sensitivity_of(question.query) * abs(question.unit))


def size_of(key: object, value: object) -> int:
    """Returns the bytes of a cache's entry, without the policy and its columns, which are kept anyway."""
    return deep_size((key, value), (Policy, Column))
