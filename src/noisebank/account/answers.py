"""What `Account` returns: quotes, answers, and receipts that prove them. Derived answers are in `account.derived`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import nan, sqrt
from typing import Any

from noisebank.core.digests import to_canonical_json
from noisebank.core.intervals import confidence_interval
from noisebank.core.receipts import RECEIPT_FORMAT
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.core.wording import CASE_DESCRIPTIONS
from noisebank.planning.relative import RelativeTarget


@dataclass(frozen=True, slots=True)
class Quote:
    """The price of an answer. Costs nothing and depends on no data."""

    sql: str
    case: Case
    target: Precision
    cost: Precision
    left: Precision
    stddev: float
    reused_stddev: float | None
    """The noise of the recorded answer that would be reused."""
    share_now: float
    """The share of the budget that is spent before, from 0 to 1."""
    share_after: float
    cube: tuple[str, ...] = ()
    """The columns of the cube that would answer; none for plain reuse."""
    cell_factor: int = 1
    """What the largest weight costs in a cell, in multiples of the fresh precision: 1 for add-remove."""
    first_look: Precision = ZERO_PRECISION
    """What a first look at the cube would cost before, if one is bought; it makes later answers cheaper."""
    parts: tuple[Quote, ...] = ()
    """Of an answer that is computed from several: the quote of each. Its own error depends on the data."""
    floor: float | None = None
    """Of a relative request: the smallest true value for which its promise holds, in the answer's unit."""

    @property
    def affordable(self) -> bool:
        """Whether the account has that much left."""
        return self.cost <= self.left

    @property
    def remains(self) -> Precision:
        """What is left afterwards; nothing if it is not affordable."""
        return self.left - self.cost if self.affordable else self.left

    @property
    def how_many(self) -> int:
        """How many *new* questions of this precision the account could still pay for afterwards."""
        return self.remains.units // self.target.units

    def interval_half_width(self, confidence: float = 0.95) -> float:
        """Returns how far the answer may be off at this confidence, in the answer's unit."""
        return confidence_interval(0.0, self.stddev, confidence)[1]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that an answer is on the ledger: check it with `noisebank verify --receipt`."""

    account: bytes
    id: bytes
    answer: dict[str, Any]
    salt: bytes
    chain_id: int
    contract: str
    block: int
    block_digest: bytes

    def __hash__(self) -> int:
        """By id: an answer has one receipt."""
        return hash(self.id)

    def to_json(self) -> dict[str, Any]:
        """Returns the receipt as a JSON object."""
        return {
            "format": RECEIPT_FORMAT,
            "account": self.account.hex(),
            "id": self.id.hex(),
            "answer": dict(self.answer),
            "salt": self.salt.hex(),
            "chain_id": self.chain_id,
            "contract": self.contract,
            "block": self.block,
            "block_digest": self.block_digest.hex(),
        }

    def to_canonical_json(self) -> str:
        """Returns the receipt as one line of canonical JSON, to keep."""
        return to_canonical_json(self.to_json())


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


@dataclass(frozen=True, slots=True)
class Answer:
    """A noisy answer with its error, its cost and its receipt."""

    value: float
    stddev: float
    case: Case
    cost: Precision
    remaining: Precision
    target: Precision
    sql: str
    exact: Fraction
    """The released value as a rational; `value` is its nearest float."""
    receipt: Receipt
    inferred: Inference | None = None
    """What an answer from a cube was inferred from."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Returns the interval that holds the true value with this confidence."""
        return confidence_interval(self.value, self.stddev, confidence)

    @property
    def in_words(self) -> str:
        """What its case means."""
        return CASE_DESCRIPTIONS[self.case]

    def __repr__(self) -> str:
        return (
            f"Answer({self.value:.6g} ± {self.stddev:.3g}, {self.case.name}, "
            f"cost {self.cost}, remaining {self.remaining})"
        )


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class RelativeAnswer(Answer):
    """An answer to a relative request. Its interval says whether it is as close to the true value as requested."""

    accuracy: RelativeTarget
    reached: bool
    """Wrong with probability at most 1 - confidence, for every true value; True with at least confidence above the
    floor."""
    next_cost: Precision | None
    """What half the floor would cost now; None if no account could pay for it."""

    @property
    def floor(self) -> float:
        """The smallest true value for which the accuracy was promised, in the answer's unit."""
        return float(self.accuracy.floor or 0)

    @property
    def message(self) -> str:
        """Says what holds, or what a smaller floor would cost."""
        share, sure = f"{float(self.accuracy.relative):.3g}", f"{float(self.accuracy.confidence):.3g}"
        if self.reached:
            return f"within {share} of the true value with {sure} confidence"
        price = "more than any account has" if self.next_cost is None else f"{self.next_cost} precision"
        return (
            f"not seen to be within {share} of the true value with {sure} confidence: that is promised for values of "
            f"{self.floor:.6g} or more; with a floor of {self.floor / 2:.6g} it would cost {price}"
        )

    def __repr__(self) -> str:
        verdict = "reached" if self.reached else "not reached"
        share = float(self.accuracy.relative)
        return f"RelativeAnswer({self.value:.6g} ± {self.stddev:.3g}, {share:.3g} {verdict}, cost {self.cost})"


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a grouped answer."""

    keys: tuple[str, ...]
    value: float
    exact: Fraction


@dataclass(frozen=True, slots=True, repr=False)
class GroupedAnswer(Answer):
    """An answer to GROUP BY: a number for every declared combination, whether or not anybody is in it.

    `value` is NaN; `groups` has the numbers. Without a cube, all have the same standard deviation and
    independent noise. From a cube, `stddev` is the largest of them, and they may share noise.
    """

    by: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    running_stddevs: tuple[float, ...] = ()
    """From a cube, along an ordered column: the standard deviations of the sums of the first 1, 2, ... groups."""

    @property
    def max_running_stddevs(self) -> tuple[float, ...]:
        """Upper bounds of the standard deviations of sums of the first 1, 2, ... groups, whatever noise they share."""
        if self.running_stddevs:
            return self.running_stddevs
        if self.inferred is not None:  # standard deviations add up at most
            return tuple(self.stddev * count for count in range(1, len(self.groups) + 1))
        return tuple(self.stddev * sqrt(count) for count in range(1, len(self.groups) + 1))

    def most_frequent(self) -> Group:
        """Returns the group with the largest noisy number. Free: it uses released numbers only."""
        return max(self.groups, key=lambda group: group.exact)

    def to_csv(self) -> str:
        """Returns CSV text: the keys, the value, its standard deviation."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.by, "value", "stddev"])
        writer.writerows([*group.keys, repr(group.value), repr(self.stddev)] for group in self.groups)
        return text.getvalue()

    def __repr__(self) -> str:
        first = ", ".join(f"{'/'.join(group.keys)}: {group.value:.6g}" for group in self.groups[:6])
        more = f", and {len(self.groups) - 6} more" if len(self.groups) > 6 else ""
        return f"GroupedAnswer({first}{more}; each ± {self.stddev:.3g}, {self.case.name}, cost {self.cost})"


def add_groups(
    answer: Answer, by: tuple[str, ...], labels: Sequence[tuple[str, ...]], values: Sequence[Fraction]
) -> Answer:
    """Returns the same answer with its groups, if it has any."""
    if not by:
        return answer
    groups = tuple(Group(keys, float(value), value) for keys, value in zip(labels, values, strict=True))
    common = {name: getattr(answer, name) for name in Answer.__slots__}
    return GroupedAnswer(**{**common, "value": nan, "exact": Fraction(0)}, by=by, groups=groups)


def standard_deviation(sensitivity: Fraction, unit: Fraction, precision: Precision) -> float:
    """Returns sensitivity / sqrt(precision) in the question's unit; for display only."""
    return float(sensitivity * abs(unit)) / sqrt(float(precision))
