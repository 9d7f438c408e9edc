"""What an answer cost and what proves it: `Charge` of a whole result, `ChargedQuestion` for each question behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noisebank.core.receipts import Receipt
from noisebank.core.records import Case
from noisebank.core.units import Precision
from noisebank.core.wording import CASE_DESCRIPTIONS, budget_share, describe_charge, gaussian_epsilon

CASE_RANKING = (Case.FIRST, Case.REFINE, Case.INFER, Case.BLUR, Case.REPEAT)
"""The case of several questions together is the first of these that one of them has."""


def rank_cases(cases: Iterable[Case]) -> Case:
    """Returns the most expensive of some cases."""
    return min(cases, key=CASE_RANKING.index)


@dataclass(frozen=True, slots=True)
class Charge:
    """What a result cost its account, all of its questions together, and what was left afterwards."""

    case: Case
    """The most expensive case among its questions."""
    cost: Precision
    remaining: Precision
    budget: Precision
    delta: float
    """The account's delta: amounts are shown as epsilon at it."""

    @property
    def share(self) -> float:
        """The cost as a share of the account's budget, from 0 to 1."""
        return budget_share(self.cost, self.budget)

    @property
    def share_left(self) -> float:
        """What is left as a share of the account's budget, from 0 to 1."""
        return budget_share(self.remaining, self.budget)

    @property
    def epsilon(self) -> float:
        """The epsilon of the cost alone, at the account's delta; for display."""
        return gaussian_epsilon(self.cost, self.delta)

    @property
    def in_words(self) -> str:
        """What was spent and what is left, as shares of the budget; then epsilon."""
        return describe_charge(self.cost, self.remaining, self.budget, self.delta)

    @property
    def case_in_words(self) -> str:
        """What the case means."""
        return CASE_DESCRIPTIONS[self.case]

    def to_json(self) -> dict[str, object]:
        """Returns the charge as a JSON object; amounts of precision as exact decimals."""
        return {
            "case": self.case.name,
            "in_words": CASE_DESCRIPTIONS[self.case],
            "cost": self.cost.to_decimal(),
            "remaining": self.remaining.to_decimal(),
            "budget": self.budget.to_decimal(),
            "share": self.share,
            "share_left": self.share_left,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Charge:
        """Returns the charge that `to_json` wrote."""
        cost, remaining, budget = (Precision.parse_decimal(fields[name]) for name in ("cost", "remaining", "budget"))
        return cls(Case[fields["case"]], cost, remaining, budget, fields["delta"])


@dataclass(frozen=True, slots=True)
class Inference:
    """Where an answer from a cube comes from."""

    cube: tuple[str, ...]
    measurements: int
    """How many were paid for in this cube so far; the answer is the best estimate from all of them."""
    first_look: bool
    alone: Precision
    """What the same answer would have cost without the others, by plain reuse."""

    @property
    def in_words(self) -> str:
        """A sentence for people."""
        looked = " and a first look" if self.first_look else ""
        times = "1 measurement" if self.measurements == 1 else f"{self.measurements} measurements"
        return f"{times}{looked} in the cube over {', '.join(self.cube)}; alone it would have cost {self.alone}"

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object."""
        return {
            "cube": list(self.cube),
            "measurements": self.measurements,
            "first_look": self.first_look,
            "alone": self.alone.to_decimal(),
            "in_words": self.in_words,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Inference:
        """Returns what `to_json` wrote."""
        alone = Precision.parse_decimal(fields["alone"])
        return cls(tuple(fields["cube"]), fields["measurements"], fields["first_look"], alone)


@dataclass(frozen=True, slots=True)
class ChargedQuestion:
    """One question behind a result: it stands on the ledger by itself, with its own case, cost and receipt."""

    sql: str
    case: Case
    cost: Precision
    target: Precision
    receipt: Receipt
    inferred: Inference | None = None
    """What an answer from a cube was inferred from."""

    @property
    def id(self) -> str:
        """The id of the answer on the ledger, as `Account.recall` takes it."""
        return self.receipt.id.hex()

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object."""
        return {
            "id": self.id,
            "sql": self.sql,
            "case": self.case.name,
            "cost": self.cost.to_decimal(),
            "wanted": self.target.to_decimal(),
            "inferred": None if self.inferred is None else self.inferred.to_json(),
            "receipt": self.receipt.to_json(),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> ChargedQuestion:
        """Returns the question that `to_json` wrote."""
        cost, target = (Precision.parse_decimal(fields[name]) for name in ("cost", "wanted"))
        inferred = None if fields["inferred"] is None else Inference.from_json(fields["inferred"])
        receipt = Receipt.from_json(fields["receipt"])
        return cls(fields["sql"], Case[fields["case"]], cost, target, receipt, inferred)
