"""`Report`: the verifier's verdict: what was checked and compared, what that proves, and what it cannot see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from noisebank.verifier.recount import Tally

JOURNAL_PROVES = (
    "every block is signed by the journal's sealer and follows from the one before it",
    "every transaction is signed by the key of its role, with the right nonce",
    "executing the contract's bytecode again gives the recorded results and balances",
    "an independent recount gives the same cases, cells, views, delays and costs, and no account spent more than "
    "its budget, no analyst learned more than the limit",
)
CHAIN_PROVES = (
    "the code at the address is this version's contract, which nobody can change",
    "an independent recount of its logs gives the logged cases, cells, views, delays and costs, and no account "
    "spent more than its budget, no analyst learned more than the limit",
    "the contract's own balances, roles, views and a sample of its cells agree with the logs",
)
CANNOT_SEE = (
    "whether the noise was honest, or whether answers were given off the books",
    "whether the same table has a second account, here or in another bank",
)
UNSEEN_TAIL = (
    "whether the newest blocks were cut off, an old copy was put back, or the sealer rewrote and signed the "
    "whole history anew: compare with a pinned head (--head), a receipt (--receipt) or anchors (--anchors)"
)
NODE_TRUSTED = "whether the node tells the truth about its chain: ask a second one, or one of your own"
UNCOUNTED = "how many draws of noise one person can touch, in the groups and cubes of"
SUMS_ONLY = "sums only"


@dataclass(frozen=True, slots=True)
class AccountReport:
    """One account as recounted, in units of 1e-18."""

    account: str
    unit: str
    budget: int
    spent: int
    base: int
    """Spent by earlier versions of the table."""
    plain: int
    """Spent on plain reuse, in this version."""
    cubes: dict[str, int]
    """The largest cell of each cube, in this version."""
    version: int
    naive: int
    cases: dict[str, int]
    reserved: int
    published: int
    burnt: int
    refused: int
    views: dict[str, dict[str, int]]
    spent_on: dict[str, int]
    """By public byte."""

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON, for --json."""
        return {
            "account": self.account,
            "unit": self.unit,
            "budget": self.budget,
            "spent": self.spent,
            "base": self.base,
            "plain": self.plain,
            "cubes": self.cubes,
            "version": self.version,
            "naive": self.naive,
            "cases": self.cases,
            "reserved": self.reserved,
            "published": self.published,
            "burnt": self.burnt,
            "refused": self.refused,
            "views": self.views,
            "spent_on": self.spent_on,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one ledger."""

    passed: bool
    problem: str
    block: int | None
    """The first block that is wrong."""
    source: str
    """What was verified: a journal, or a contract on a chain."""
    level: str
    """"sums only", or how many records were opened."""
    blocks: int
    transactions: int
    head: str
    accounts: tuple[AccountReport, ...]
    compared_with: tuple[str, ...]
    proves: tuple[str, ...]
    cannot_see: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the fields as JSON, for --json."""
        return {
            "passed": self.passed,
            "problem": self.problem,
            "block": self.block,
            "source": self.source,
            "level": self.level,
            "blocks": self.blocks,
            "transactions": self.transactions,
            "head": self.head,
            "accounts": [account.to_json() for account in self.accounts],
            "compared_with": self.compared_with,
            "proves": self.proves,
            "cannot_see": self.cannot_see,
        }


def report_account(account: bytes, tally: Tally) -> AccountReport:
    """Returns the report on one account."""
    return AccountReport(
        account=account.hex(),
        unit={1: "precision", 2: "epsilon"}[tally.unit],
        budget=tally.budget,
        spent=tally.spent,
        base=tally.base,
        plain=tally.plain_spent,
        cubes={str(number): tally.cell_charges[number].largest for number in range(1, len(tally.cube_sizes) + 1)},
        version=tally.version,
        naive=tally.naive_cost,
        cases={case.name: count for case, count in tally.cases.items()},
        reserved=sum(tally.cases.values()),
        published=tally.published,
        burnt=tally.burnt,
        refused=tally.refused,
        views={
            analyst.hex(): {"limit": limit, "used": tally.used.get(analyst, 0)}
            for analyst, limit in tally.limits.items()
        },
        spent_on={str(about): units for about, units in sorted(tally.spent_on.items())},
    )
