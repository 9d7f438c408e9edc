"""Rehearsals: questions asked of a bank in memory whose table is empty, to see what a budget answers.

Prices follow from the policy and from what was asked before, never from rows. So the real path, with the real contract,
charges a rehearsal exactly as it would charge the questions. Only the answers mean nothing: the table has no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noisebank.account.account import Account
from noisebank.account.statement import make_statement
from noisebank.bank.folder import BankParts
from noisebank.bank.opening import declare_cubes, match_cubes
from noisebank.core.asks import Ask
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadTable, BudgetExhausted, NoisebankError
from noisebank.core.units import Precision
from noisebank.core.wording import budget_share
from noisebank.engines.cells import Tabulation, make_tabulation
from noisebank.engines.cube_engine import CubedEngine
from noisebank.engines.engine import Engine, Inspection
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import AccountOpening, Role
from noisebank.ledger.signing import Key
from noisebank.policy.model import Policy, source_to_json
from noisebank.privacy.calibration import budget_precision
from noisebank.queries.cells import Cube, policy_cubes
from noisebank.queries.groups import group_count
from noisebank.queries.query import Query
from noisebank.vault.secrets import AccountSecrets
from noisebank.vault.sqlite_vault import SqliteVault

NO_TABLE = "no table"


class EmptyTable:
    """An `Engine` over a table without rows."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def identity(self) -> str:
        """See `Engine`."""
        return NO_TABLE

    def statistic(self, query: Query) -> int:
        """See `Engine`."""
        return 0

    def statistics(self, query: Query) -> tuple[int, ...]:
        """See `Engine`."""
        return (0,) * group_count(query, self._policy)

    def statistics_many(self, queries: Sequence[Query]) -> list[tuple[int, ...] | BadTable]:
        """See `Engine`."""
        return [self.statistics(query) for query in queries]

    def tabulate(self, cube: Cube) -> Tabulation:
        """See `Engine`."""
        return make_tabulation(cube, self._policy, [])

    def inspect(self) -> Inspection:
        """See `Engine`."""
        return Inspection(0, {}, {}, {})

    def fingerprint(self, salt: bytes) -> bytes:
        """See `Engine`."""
        return bytes(32)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a budget answered of a list of questions."""

    asked: int
    """Without the refused ones."""
    answered: int
    free: int
    """Of the answered ones: those that cost nothing."""
    spent: Precision
    looks: Precision
    """What of it were looks at cubes."""
    plain: Precision
    """What the answered questions would have cost one by one."""
    budget: Precision
    refused: tuple[tuple[str, str], ...]
    """Questions that no budget answers, with the reason."""

    @property
    def share(self) -> float:
        """The share of the budget that is spent."""
        return budget_share(self.spent, self.budget)

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts rehearsals of the same questions, the best last: more answers, then less spent."""
        return self.answered, -self.spent.units


def open_rehearsal(policy: Policy) -> Account:
    """Returns an account for this policy in a bank of its own, in memory, over an empty table."""
    entropy = SystemEntropy()
    keys = {role: Key(entropy.token()) for role in (Role.CURATOR, Role.OWNER)}
    journal = Journal(":memory:")
    create_chain(journal, keys[Role.CURATOR], entropy)
    parts = BankParts(EmbeddedLedger(journal, keys), SqliteVault(":memory:"), entropy)
    secrets = AccountSecrets(entropy.token(), entropy.token())
    cubes, table = policy_cubes(policy), EmptyTable(policy)
    engine: Engine = table
    if cubes:
        engine = CubedEngine(policy, table, lambda number: table.tabulate(cubes[number]).to_bytes())
    budget = budget_precision(policy.epsilon, policy.delta)
    data = secrets.data_salt
    parts.vault.save_opening(data, {"policy": policy.to_json(), "source": source_to_json(policy.source)})
    opening = AccountOpening(budget, policy.digest, data, policy.raise_delay)
    id = parts.ledger.open_account(opening)
    declare_cubes(parts, id, policy)
    numbers = match_cubes(policy, parts.ledger.get_account(id).cubes)
    return Account(id, policy, secrets, NO_TABLE, engine, parts.ledger, parts.vault, entropy, numbers)


def rehearse(policy: Policy, requests: Sequence[Ask]) -> Rehearsal:
    """Asks the questions one after the other, as long as each can be paid; returns what came of it."""
    account = open_rehearsal(policy)
    answered, free, refused = 0, 0, []
    for request in requests:
        (outcome,) = account.ask_many([request])
        if not isinstance(outcome, NoisebankError):
            answered, free = answered + 1, free + (not outcome.cost)
        elif not isinstance(outcome, BudgetExhausted):
            refused.append((request.sql, str(outcome)))
    statement, possible = make_statement(account), len(requests) - len(refused)
    sums = statement.spent, statement.looks, statement.naive, statement.budget
    return Rehearsal(possible, answered, free, *sums, tuple(dict.fromkeys(refused)))
