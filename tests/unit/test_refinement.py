"""`refine` on a made-up bank: a Brownian bridge in place of data, and books that count what was spent."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise
from math import sqrt

import pytest

from noisebank.answers import Answer, Receipt
from noisebank.entropy import simulation
from noisebank.errors import BadRequest, BudgetExhausted, ViewExhausted
from noisebank.planning.relative import goal
from noisebank.records import Case
from noisebank.refinement import Refinement, refine
from noisebank.units import MOST_PRECISION, NOTHING, Precision

RECEIPT = Receipt(b"", b"", {}, b"", 0, "", 0, b"")


class Crash(Exception):
    """The process ends here."""


class Bridge:
    """One query of true value `truth` (in sensitivities): answers with Cov(y_s, y_t) = 1/max(s, t)."""

    def __init__(self, truth: float, scale: Fraction = Fraction(1), budget: Precision = MOST_PRECISION, seed: int = 0):
        self.truth, self.scale, self.left, self.spent = truth, scale, budget, NOTHING
        self.points: list[tuple[Precision, float]] = []  # precision and S(t) = t y_t
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.crash_at: int | None = None
        self._random = simulation(seed)

    def cost_of(self, precision: Precision) -> Precision:
        best = self.points[-1][0] if self.points else NOTHING
        return precision - best if precision > best else NOTHING

    def ask_at(self, precision: Precision, step: str) -> Answer:
        if self.crash_at is not None and len(self.asked) >= self.crash_at:
            raise Crash
        self.asked.append(step)
        if step not in self.answers:
            cost = self.cost_of(precision)
            if cost > self.left:
                raise BudgetExhausted(cost, self.left)
            self.left, self.spent = self.left - cost, self.spent + cost
            value = Fraction(self._walk(precision)) / precision.exact * self.scale
            self.answers[step] = Answer(
                value=float(value),
                stddev=float(self.scale) / sqrt(float(precision)),
                case=Case.REFINE,
                cost=cost,
                remaining=self.left,
                wanted=precision,
                sql="SELECT COUNT(*) FROM t",
                exact=value,
                receipt=RECEIPT,
            )
        assert self.answers[step].wanted == precision, "a retry asks for the same"
        return self.answers[step]

    def refine(self, relative: str = "5%", cap: Precision = MOST_PRECISION, **changes: object) -> Refinement:
        given: dict[str, object] = {"largest": 1e6, "nonnegative": True} | changes
        self.asked.clear()
        return refine(
            goal(relative),
            scale=self.scale,
            ask_at=self.ask_at,
            cost_of=self.cost_of,
            cap=cap,
            **given,  # type: ignore[arg-type]
        )

    def _walk(self, precision: Precision) -> float:
        """S at this precision: given its neighbours if they exist, else a fresh increment."""
        place = bisect_left(self.points, precision, key=lambda point: point[0])
        if place < len(self.points) and self.points[place][0] == precision:
            return self.points[place][1]
        before, low = self.points[place - 1] if place else (NOTHING, 0.0)
        step, normal = float(precision - before), float(self._random.standard_normal())
        if place == len(self.points):
            value = low + self.truth * step + normal * sqrt(step)
        else:
            after, high = self.points[place]
            share = step / float(after - before)
            value = low + share * (high - low) + normal * sqrt(share * (1 - share) * float(after - before))
        self.points.insert(place, (precision, value))
        return value


def test_it_looks_in_doublings_and_then_measures_once() -> None:
    bridge = Bridge(1000.0)
    made = bridge.refine("5%")
    *looks, final = made.steps
    assert made.reached and bridge.asked == [*[f"look {k}" for k in range(1, len(looks) + 1)], "final"]
    assert all(look.wanted.units & (look.wanted.units - 1) == 0 for look in looks)
    assert all(two.wanted == one.wanted + one.wanted for one, two in pairwise(looks))
    target = final.wanted - looks[-1].wanted
    assert target.units & (target.units - 1) == 0
    assert made.cost == bridge.spent == final.wanted
    assert made.remaining == final.remaining and made.case is Case.REFINE and made.receipt is RECEIPT
    assert "within 0.05 of the true value" in made.message and "reached" in repr(made)


def test_the_value_is_the_increment_between_the_last_look_and_the_final_point() -> None:
    scale = Fraction(7, 3)
    made = Bridge(1000.0, scale).refine()
    look, final = made.steps[-2:]
    target = final.wanted.exact - look.wanted.exact
    assert made.exact == (final.wanted.exact * final.exact - look.wanted.exact * look.exact) / target
    assert made.value == float(made.exact)
    assert made.stddev == pytest.approx(float(scale) / sqrt(float(target)))
    low, high = made.interval(0.95)
    assert low < made.value < high


def test_it_keeps_its_promise_also_when_answers_are_drawn_from_older_ones() -> None:
    runs, within, free = 400, 0, 0
    for seed in range(runs):
        bridge = Bridge(1000.0, seed=seed)
        if seed % 2:
            bridge.ask_at(Precision(10**18), "long ago")
        made = bridge.refine("5%")
        within += abs(made.value - 1000.0) <= 50.0
        free += made.cost == NOTHING
    assert within >= 0.95 * runs
    assert free == runs // 2


@pytest.mark.parametrize("truth", [0.0, 1e-6, 0.3, 5.0, -5.0, -3000.0, 1e6, 1e12, 1e17])
@pytest.mark.parametrize("nonnegative", [True, False])
@pytest.mark.parametrize("cap", [Precision(10**16), Precision(10**18), Precision(10**21)])
@pytest.mark.parametrize("largest", [1.0, 1e6, 1e15])
def test_every_true_value_ends_in_bounded_spending(
    truth: float, nonnegative: bool, cap: Precision, largest: float
) -> None:
    bridge = Bridge(truth)
    try:
        made = bridge.refine("2%", cap, nonnegative=nonnegative, largest=largest)
    except BadRequest:
        assert bridge.spent == NOTHING and not bridge.asked
        return
    assert made.cost == bridge.spent <= cap
    assert len(made.steps) <= 45
    if abs(truth) <= 1:
        assert not made.reached
    if made.reached and not nonnegative:
        assert abs(made.value - truth) <= 0.1 * abs(truth)


def test_a_negative_value_is_found_unless_the_policy_excludes_it() -> None:
    assert Bridge(-3000.0).refine("2%", Precision(10**18), nonnegative=False).value == pytest.approx(-3000, rel=0.05)
    assert not Bridge(-3000.0).refine("2%", Precision(10**18), nonnegative=True).reached


def test_zero_stops_early_not_at_the_cap() -> None:
    cap = Precision(10**18)
    made = Bridge(0.0).refine("2%", cap)
    assert not made.reached and float(made.cost) < 0.05 * float(cap)


def test_not_reached_says_so_and_returns_what_was_paid_for() -> None:
    bridge = Bridge(50.0)
    made = bridge.refine("1%", Precision(10**18))
    assert not made.reached and made.cost == bridge.spent > NOTHING
    assert (made.value, made.stddev, made.exact) == (made.steps[-1].value, made.steps[-1].stddev, made.steps[-1].exact)
    assert made.message.startswith("cannot reach 0.01 within the cap of 1; the best so far is")
    assert f"{made.value:.6g}" in made.message and "not reached" in repr(made)


def test_a_cap_below_the_first_step_is_refused_and_nothing_is_asked() -> None:
    bridge = Bridge(1000.0)
    with pytest.raises(BadRequest, match="below the first step") as refused:
        bridge.refine("5%", Precision(2**30 - 1))
    assert "at_most" in str(refused.value)
    assert not bridge.asked and bridge.spent == NOTHING


def test_a_cap_of_just_the_first_step_is_honoured() -> None:
    bridge = Bridge(1000.0)
    first = Precision(2 ** goal("5%").first_look(1e6))
    made = bridge.refine("5%", first)
    assert bridge.asked == ["look 1"] and made.cost == first and not made.reached


def test_a_budget_that_ends_midway_returns_the_best_so_far() -> None:
    full = Bridge(1000.0).refine("5%")
    for number in range(1, len(full.steps)):  # enough for `number` looks, not for the next step
        bridge = Bridge(1000.0, budget=full.steps[number - 1].wanted)
        made = bridge.refine("5%")
        assert not made.reached and made.steps == tuple(bridge.answers.values())
        assert [step.exact for step in made.steps] == [step.exact for step in full.steps[:number]]
        assert bridge.left == NOTHING


def test_an_empty_budget_is_reported_as_such() -> None:
    with pytest.raises(BudgetExhausted):
        Bridge(1000.0, budget=NOTHING).refine("5%")


def test_what_is_left_limits_like_the_cap() -> None:
    bridge = Bridge(1000.0, budget=Precision(2**40))
    made = bridge.refine("5%", left=lambda: bridge.left)
    assert not made.reached and bridge.spent <= Precision(2**40)
    assert f"within the cap of {Precision(2**40)}" in made.message
    empty = Bridge(1000.0, budget=NOTHING)
    with pytest.raises(BadRequest, match="below the first step"):
        empty.refine("5%", left=lambda: empty.left)


def test_a_crash_at_any_step_is_resumed_with_the_same_steps() -> None:
    whole = Bridge(1000.0).refine("5%")
    for asked in range(len(whole.steps)):
        bridge = Bridge(1000.0)
        bridge.crash_at = asked
        with pytest.raises(Crash):
            bridge.refine("5%")
        bridge.crash_at = None
        again = bridge.refine("5%")
        assert [step.exact for step in again.steps] == [step.exact for step in whole.steps]
        assert (again.exact, again.cost, bridge.spent) == (whole.exact, whole.cost, whole.cost)


def test_replaying_a_finished_request_gives_the_same_outcome_and_spends_nothing() -> None:
    bridge = Bridge(1000.0)
    first = bridge.refine("5%", Precision(10**18))
    spent = bridge.spent
    assert bridge.refine("5%", Precision(10**18)) == first and bridge.spent == spent


@pytest.mark.parametrize("asked", [1, 3, 5, None])
def test_steps_paid_before_a_crash_are_not_counted_twice_against_what_is_left(asked: int | None) -> None:
    """The account has just enough for the request: it must also be enough for a resumed one, and for a retry."""
    whole = Bridge(1000.0).refine("5%")
    bridge = Bridge(1000.0, budget=whole.cost)
    if asked is not None:
        bridge.crash_at = asked
        with pytest.raises(Crash):
            bridge.refine("5%", left=lambda: bridge.left)
        bridge.crash_at = None
    for _ in range(2):
        again = bridge.refine("5%", left=lambda: bridge.left)
        assert again.reached and again.exact == whole.exact and bridge.left == NOTHING


def test_the_cap_counts_steps_that_were_paid_before_a_crash() -> None:
    whole = Bridge(1000.0).refine("5%")
    cap = whole.cost - Precision(1)
    bridge = Bridge(1000.0)
    bridge.crash_at = len(whole.steps) - 1
    with pytest.raises(Crash):
        bridge.refine("5%")
    bridge.crash_at = None
    assert not bridge.refine("5%", cap).reached and bridge.spent <= cap


def test_a_view_that_is_full_ends_the_steps_and_what_was_paid_for_is_given():
    bridge = Bridge(truth=30.0)
    limit = Precision(10**17)

    def ask_at(precision: Precision, step: str) -> Answer:
        if precision > limit:
            raise ViewExhausted(limit, bridge.spent)
        return bridge.ask_at(precision, step)

    found = refine(goal("0.01"), Fraction(1), 1e4, True, ask_at, bridge.cost_of, MOST_PRECISION)
    assert not found.reached and "what this analyst may learn" in found.message
    assert found.steps and found.cost == bridge.spent <= limit
    with pytest.raises(ViewExhausted):
        limit = Precision(1)
        refine(goal("0.01"), Fraction(1), 1e4, True, ask_at, bridge.cost_of, MOST_PRECISION)
