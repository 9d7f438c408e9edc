"""A relative request on the one path: several durable steps, each an ordinary answer.

Each step has a key of its own made from the request's, so a crash is resumed by asking again
with the same key: finished steps are read, never drawn anew, and decisions come out the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from noisebank.answers import Answer, Receipt
from noisebank.errors import BadRequest, BudgetExhausted, ViewExhausted
from noisebank.planning.relative import Goal, next_step
from noisebank.privacy.intervals import interval
from noisebank.records import Case
from noisebank.units import MOST_PRECISION, NOTHING, Precision

AskAt = Callable[[Precision, str], Answer]
"""An answer of exactly this precision, under this part of the key."""
CostOf = Callable[[Precision], Precision]
"""What an answer of this precision would cost now."""
Left = Callable[[], Precision]
"""What the account has left now. Steps of an earlier try are already gone from it, but count against the cap."""


@dataclass(frozen=True, slots=True)
class Refinement:
    """The outcome of a relative request. It reads like an answer, and keeps its steps."""

    sql: str
    value: float
    stddev: float
    relative: float
    confidence: float
    reached: bool
    message: str
    cost: Precision
    remaining: Precision
    exact: Fraction
    steps: tuple[Answer, ...]

    @property
    def case(self) -> Case:
        """How the last step related to what was recorded."""
        return self.steps[-1].case

    @property
    def receipt(self) -> Receipt:
        """Of the last step; each step has its own."""
        return self.steps[-1].receipt

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Where the true value lies with this confidence, from the final measurement alone."""
        return interval(self.value, self.stddev, confidence)

    def __repr__(self) -> str:
        verdict = "reached" if self.reached else "not reached"
        return f"Refinement({self.value:.6g} ± {self.stddev:.3g}, {self.relative:.3g} {verdict}, cost {self.cost})"


def refine(
    wanted: Goal,
    scale: Fraction,
    largest: float,
    nonnegative: bool,
    ask_at: AskAt,
    cost_of: CostOf,
    cap: Precision,
    left: Left = lambda: MOST_PRECISION,
) -> Refinement:
    """Looks in doublings, then measures once; never spends more than `cap`, tries before a crash included.

    `scale` is the sensitivity in the answer's unit, `largest` the most that the value can be, in
    sensitivities. The final value is the increment between the last look and the final point of
    the query's bridge: independent of all looks, whether it was paid for now or long ago.
    """
    power, number, spent = wanted.first_look(largest), 1, NOTHING
    looks: list[Answer] = []
    viewed = False

    def allowed() -> Precision:
        return min(cap, spent + left())

    while True:
        look = Precision(2**power)
        if spent + cost_of(look) > allowed():
            break
        try:
            looks.append(ask_at(look, f"look {number}"))
        except (BudgetExhausted, ViewExhausted) as refusal:  # what was looked at before is paid for: it is given
            if not looks:
                raise
            viewed = isinstance(refusal, ViewExhausted)
            break
        spent += looks[-1].cost
        step = next_step(wanted, number, look, float(looks[-1].exact / scale), nonnegative)
        if step.target is not None:
            total = look + step.target
            if spent + cost_of(total) > allowed():
                break
            try:
                final = ask_at(total, "final")
            except (BudgetExhausted, ViewExhausted) as refusal:
                viewed = isinstance(refusal, ViewExhausted)
                break
            return _reached(wanted, scale, looks, final, look, step.target)
        if spent + cost_of(_at_least(look, step.at_least)) > allowed():
            break  # even the largest value that the bounds allow could not be pinned down
        power, number = power + 1, number + 1
    if not looks:
        raise BadRequest("at_most", allowed(), f"is below the first step, which costs {cost_of(Precision(2**power))}")
    return _stopped(wanted, looks, "what this analyst may learn" if viewed else f"the cap of {allowed()}")


def _at_least(look: Precision, needed: float) -> Precision:
    return look + Precision(int(min(needed, 1e9) * 1e18))


def _reached(
    wanted: Goal, scale: Fraction, looks: list[Answer], final: Answer, look: Precision, target: Precision
) -> Refinement:
    total = look + target
    value = (total.exact * final.exact - look.exact * looks[-1].exact) / target.exact
    steps = (*looks, final)
    return Refinement(
        sql=final.sql,
        value=float(value),
        stddev=float(scale) / float(target) ** 0.5,
        relative=float(wanted.relative),
        confidence=float(wanted.confidence),
        reached=True,
        message=f"within {float(wanted.relative):.3g} of the true value with {float(wanted.confidence):.3g} confidence",
        cost=sum((step.cost for step in steps), NOTHING),
        remaining=final.remaining,
        exact=value,
        steps=steps,
    )


def _stopped(wanted: Goal, looks: list[Answer], limit: str) -> Refinement:
    best = looks[-1]
    spent = sum((step.cost for step in looks), NOTHING)
    return Refinement(
        sql=best.sql,
        value=best.value,
        stddev=best.stddev,
        relative=float(wanted.relative),
        confidence=float(wanted.confidence),
        reached=False,
        message=(
            f"cannot reach {float(wanted.relative):.3g} within {limit}; "
            f"the best so far is {best.value:.6g} ± {best.stddev:.3g} (standard deviation)"
        ),
        cost=spent,
        remaining=best.remaining,
        exact=best.exact,
        steps=tuple(looks),
    )
