"""`Quote`: what an answer would cost, from a bank on this machine or behind a service. Costs nothing, opens no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from noisebank.core.estimates import CONFIDENCE
from noisebank.core.intervals import confidence_interval
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.core.wording import (
    CASE_DESCRIPTIONS,
    budget_share,
    describe_charge,
    format_number,
    format_percent,
    gaussian_epsilon,
)


@dataclass(frozen=True, slots=True, repr=False)
class Quote:
    """The price of an answer. Costs nothing and depends on no data."""

    sql: str
    case: Case
    target: Precision
    cost: Precision
    left: Precision
    budget: Precision
    delta: float
    """The account's delta: amounts are shown as epsilon at it."""
    stddev: float | None
    """The noise's standard deviation; None if the answer is computed from several: its error depends on the data."""
    reused_stddev: float | None
    """The standard deviation of the recorded answer that would be reused."""
    share_now: float
    """The share of the budget that is spent before, from 0 to 1."""
    share_after: float
    cube: tuple[str, ...] = ()
    """The columns of the cube that would answer; none for plain reuse."""
    cell_factor: int = 1
    """What the largest weight costs in a cell, in multiples of the fresh precision: 1 for add-remove."""
    first_look: Precision = ZERO_PRECISION
    """What a first look at the cube would cost before, if one is bought; it makes later answers cheaper."""
    coarse_look: Precision = ZERO_PRECISION
    """Of a request whose noise depends on the data: what its coarse look costs. `cost` is then the most in all."""
    parts: tuple[Quote, ...] = ()
    """Of an answer that is computed from several: the quote of each."""
    floor: float | None = None
    """Of a relative request: the smallest true value for which its promise holds, in the answer's unit."""
    confidence: float = CONFIDENCE
    """Of the interval that the answer would state."""
    why: str = ""
    """Which way the answer would take, through a cube or by plain reuse, and why: a sentence."""
    view_left: Precision | None = None
    """What an analyst of a service may still learn."""

    @property
    def way(self) -> str:
        """`cube` or `plain`; `both` if it is computed from several that take different ways."""
        ways = {part.way for part in self.parts} or {"cube" if self.cube else "plain"}
        return ways.pop() if len(ways) == 1 else "both"

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
        """How many *new* questions as good as this one the account could still pay for afterwards.

        What a request with a coarse look needs in the end is not known before: it counts with the most it may cost.
        """
        price = max(self.cost, self.target) if self.coarse_look else self.target
        return self.remains.units // price.units

    @property
    def share(self) -> float:
        """The cost as a share of the budget, from 0 to 1."""
        return budget_share(self.cost, self.budget)

    @property
    def epsilon(self) -> float:
        """The epsilon of the cost alone, at the account's delta; for display."""
        return gaussian_epsilon(self.cost, self.delta)

    @property
    def in_words(self) -> str:
        """What it would cost and leave, as shares of the budget; then epsilon."""
        if not self.affordable:
            price = f"{format_percent(self.share)} of the budget"
            return f"{price}, which is more than the {format_percent(budget_share(self.left, self.budget))} left"
        return describe_charge(self.cost, self.remains, self.budget, self.delta)

    @property
    def error_in_words(self) -> str:
        """How far off the answer may be: the half-width of the interval that it would state."""
        if self.coarse_look:
            return "as requested, if that can be reached at the price: what the look says decides"
        half = self.interval_half_width()
        if half is None or self.stddev is None:
            return f"computed from {len(self.parts)} queries: its error depends on the data"
        stddev = format_number(self.stddev, self.stddev / 10)
        return f"± {format_number(half, half / 10)} at {self.confidence * 100:.10g}% (standard deviation {stddev})"

    def interval_half_width(self, confidence: float | None = None) -> float | None:
        """Returns how far the answer may be off at this confidence, in the answer's unit; None if that depends on the
        data."""
        if self.stddev is None:
            return None
        return confidence_interval(0.0, self.stddev, self.confidence if confidence is None else confidence)[1]

    def to_json(self) -> dict[str, object]:
        """Returns a JSON object; amounts of precision are exact decimals."""
        return {
            "sql": self.sql,
            "case": self.case.name,
            "in_words": CASE_DESCRIPTIONS[self.case],
            "wanted": self.target.to_decimal(),
            "cost": self.cost.to_decimal(),
            "left": self.left.to_decimal(),
            "budget": self.budget.to_decimal(),
            "share": self.share,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "view_left": None if self.view_left is None else self.view_left.to_decimal(),
            "affordable": self.affordable,
            "stddev": self.stddev,
            "confidence": self.confidence,
            "half_width": self.interval_half_width(),
            "reused_stddev": self.reused_stddev,
            "share_now": self.share_now,
            "share_after": self.share_after,
            "remains": self.remains.to_decimal(),
            "how_many": self.how_many,
            "way": self.way,
            "why": self.why,
            "cube": list(self.cube),
            "cell_factor": self.cell_factor,
            "first_look": self.first_look.to_decimal(),
            "coarse_look": self.coarse_look.to_decimal(),
            "parts": [part.to_json() for part in self.parts],
            "floor": self.floor,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Quote:
        """Returns the quote that `to_json` wrote."""
        view = fields["view_left"]
        amounts = {
            name: Precision.parse_decimal(fields[key])
            for name, key in (("target", "wanted"), ("cost", "cost"), ("left", "left"), ("budget", "budget"))
        }
        return cls(
            sql=fields["sql"],
            case=Case[fields["case"]],
            **amounts,
            delta=fields["delta"],
            stddev=fields["stddev"],
            reused_stddev=fields["reused_stddev"],
            share_now=fields["share_now"],
            share_after=fields["share_after"],
            why=fields["why"],
            cube=tuple(fields["cube"]),
            cell_factor=fields["cell_factor"],
            first_look=Precision.parse_decimal(fields["first_look"]),
            coarse_look=Precision.parse_decimal(fields["coarse_look"]),
            parts=tuple(cls.from_json(part) for part in fields["parts"]),
            floor=fields["floor"],
            confidence=fields["confidence"],
            view_left=None if view is None else Precision.parse_decimal(view),
        )

    def describe_lines(self) -> list[tuple[str, str]]:
        """Returns the quote as pairs of a name and what is said about it: the share of the budget first."""
        reused = "" if self.reused_stddev is None else (
            f"; reuses an answer of standard deviation {format_number(self.reused_stddev, self.reused_stddev / 10)}"
        )  # fmt: skip
        price = f"at most {self.in_words}" if self.coarse_look else self.in_words
        lines = [("price", price)]
        if self.coarse_look:  # the case is that of the look: what the whole will be nobody knows yet
            share = format_percent(budget_share(self.coarse_look, self.budget))
            lines.append(
                (
                    "first",
                    f"a coarse look for {share} of the budget, which is in the price; max_cost sets another limit",
                )
            )
        else:
            lines.append(("case", f"{self.case.name}: {CASE_DESCRIPTIONS[self.case]}{reused}"))
        lines += [
            ("expected error", self.error_in_words),
            ("left for", f"{self.how_many:,} new questions as good as this one"),
        ]  # fmt: skip
        if self.why:
            lines.append(("way", self.why))
        if self.first_look:
            share = format_percent(budget_share(self.first_look, self.budget))
            lines.append(("first look", f"{share} of the budget, bought before: later answers build on it"))
        if self.floor is not None:
            lines.append(("promised", f"for true values of {self.floor:.6g} or more (floor)"))
        return lines

    def __repr__(self) -> str:
        lines = self.describe_lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join([self.sql, *(f"{name:<{width}}  {text}" for name, text in lines)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
            for name, text in [("question", self.sql), *self.describe_lines()]
        )
        return f'<table class="result"><tbody>{rows}</tbody></table>'
