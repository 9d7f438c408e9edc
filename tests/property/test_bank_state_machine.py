"""A whole bank in memory against a model of a few lines: what it costs, what it repeats, what it refuses."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from noisebank.account.account import Account
from noisebank.core.errors import BudgetExhausted, KeyReused, LedgerRefused, NoisebankError, PriceMoved, ViewExhausted
from noisebank.core.records import Case
from noisebank.core.units import Precision, floor_to_ladder
from noisebank.verifier.verification import verify
from support.banks import memory_account, write_people

QUESTIONS = (
    (("SELECT COUNT(*) FROM people WHERE age > 30", "select count(*) from PEOPLE where NOT age <= 30"), 1),
    (
        (
            "SELECT COUNT(*) FROM people WHERE town = 'north'",
            "SELECT COUNT(town) FROM people WHERE town IN ('north')",
        ),
        1,
    ),
    (("SELECT SUM(income) FROM people", "SELECT SUM(income) FROM people WHERE income >= -100"), 1_100),
)
"""Spellings of three questions, and how far one person moves each."""
SIGMAS = ("1", "1.25", "1.5", "2", "2.5", "3", "4", "7", "20", "0.5")
"""In units of the sensitivity."""

questions = st.integers(0, len(QUESTIONS) - 1)
sigmas = st.sampled_from(SIGMAS)
LIMITS = {"ann": 10**19, "bob": 6 * 10**17}
"""Ann may learn all that there is, Bob a little, Eve nothing; the owner needs no limit."""
analysts = st.sampled_from(["owner", "owner", "ann", "ann", "bob", "eve"])
keys = st.sampled_from(["k1", "k2", "k3", "k4"])


@dataclass
class Known:
    """What the model knows of one question."""

    best: int = 0
    released: dict[int, Fraction] = field(default_factory=dict)
    paid: set[int] = field(default_factory=set)

    def case(self, wanted: int) -> Case:
        if not self.best:
            return Case.FIRST
        if wanted > self.best:
            return Case.REFINE
        return Case.REPEAT if wanted in self.paid else Case.BLUR


class BankMachine(RuleBasedStateMachine):
    """Random asks, retries and quotes by the owner and three analysts on one account."""

    account: Account

    @initialize()
    def open(self) -> None:
        self.folder = Path(mkdtemp())
        self.account = memory_account(write_people(self.folder, epsilon="6"))
        self.budget = self.account.state.budget.units
        self.spent = self.reservations = self.measurements = 0
        self.known = [Known() for _ in QUESTIONS]
        self.used: dict[tuple[str, str], tuple[int, int, Fraction | None]] = {}
        self.limits = dict(LIMITS)
        for analyst, limit in LIMITS.items():
            self.account.ledger.set_limit(self.account.id, self.account.analyst(analyst), limit)
        self.seen: dict[tuple[str, int], int] = {}
        self.paused = False

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            report = verify(list(self.account.ledger.export_journal()))
            assert report.passed, report.problem
            assert report.accounts[0].spent == self.spent
            shutil.rmtree(self.folder)

    @rule(question=questions, spelling=st.integers(0, 1), sigma=sigmas, analyst=analysts, key=st.none() | keys)
    def ask(self, question: int, spelling: int, sigma: str, analyst: str, key: str | None) -> None:
        spellings, moves = QUESTIONS[question]
        wanted = self._wanted(sigma)
        seen = self.used.get((analyst, key)) if key else None
        put = lambda: self.account.ask(  # noqa: E731
            spellings[spelling], sigma=Fraction(sigma) * moves, analyst=analyst, key=key
        )
        if seen is not None and seen[:2] != (question, wanted):
            with pytest.raises(KeyReused):
                put()
            return
        if seen is not None and seen[2] is not None:
            answer = put()
            assert answer.exact == seen[2], "the same key gives the same bits"
            return
        known = self.known[question]
        case, fresh = known.case(wanted), max(0, wanted - known.best)
        if key:
            self.used[analyst, key] = (question, wanted, None)
        why = self._refusal(question, wanted, fresh, analyst)
        if why is not None:
            before = self.account.ledger.head()
            with pytest.raises(why) as refused:
                put()
            assert self.account.ledger.head() == before, "a refusal leaves no trace"
            if isinstance(refused.value, BudgetExhausted):
                assert (refused.value.asked.units, refused.value.left.units) == (fresh, self.budget - self.spent)
            if isinstance(refused.value, ViewExhausted):
                assert (refused.value.limit.units, refused.value.used.units) == (
                    self.limits[analyst],
                    self._learned(analyst),
                )
            return
        answer = put()
        assert (answer.case, answer.cost.units, answer.parts[0].target.units) == (case, fresh, wanted)
        assert answer.remaining.units == self.budget - self.spent - fresh
        if wanted in known.released:
            assert answer.exact == known.released[wanted], "a released answer never changes"
        self._remember(question, wanted, fresh, answer.exact)
        if analyst != "owner":
            self.seen[analyst, question] = max(wanted, self.seen.get((analyst, question), 0))
        if key:
            self.used[analyst, key] = (question, wanted, answer.exact)

    @rule(question=questions, sigma=sigmas)
    def quote_then_ask(self, question: int, sigma: str) -> None:
        spellings, moves = QUESTIONS[question]
        quote = self.account.quote(spellings[0], sigma=Fraction(sigma) * moves)
        known, wanted = self.known[question], self._wanted(sigma)
        assert (quote.case, quote.cost.units) == (known.case(wanted), max(0, wanted - known.best))
        assert quote.left.units == self.budget - self.spent
        if not quote.affordable or self.paused:
            return
        answer = self.account.ask(spellings[1], sigma=Fraction(sigma) * moves, max_cost=quote.cost.exact)
        assert (answer.case, answer.cost, answer.stddev) == (quote.case, quote.cost, quote.stddev)
        self._remember(question, wanted, answer.cost.units, answer.exact)

    @rule(question=questions, sigma=sigmas)
    def ask_for_nothing(self, question: int, sigma: str) -> None:
        """Free answers flow whatever is left; others are refused when nothing may be spent."""
        spellings, moves = QUESTIONS[question]
        known, wanted = self.known[question], self._wanted(sigma)
        put = lambda: self.account.ask(spellings[0], sigma=Fraction(sigma) * moves, max_cost=0)  # noqa: E731
        if self.paused:
            with pytest.raises(LedgerRefused, match="paused"):
                put()
            return
        if wanted > known.best:
            with pytest.raises(PriceMoved):
                put()
            return
        self._remember(question, wanted, 0, put().exact)

    @rule(analyst=st.sampled_from(sorted(LIMITS)), limit=st.integers(1, 2 * 10**18))
    def set_limit(self, analyst: str, limit: int) -> None:
        name = self.account.analyst(analyst)
        if limit < self._learned(analyst):
            with pytest.raises(LedgerRefused, match="below what is used"):
                self.account.ledger.set_limit(self.account.id, name, limit)
            return
        self.account.ledger.set_limit(self.account.id, name, limit)
        self.limits[analyst] = limit

    @rule()
    def pause_or_resume(self) -> None:
        (self.account.ledger.resume_account if self.paused else self.account.ledger.pause_account)(self.account.id)
        self.paused = not self.paused

    @invariant()
    def books_balance(self) -> None:
        if not hasattr(self, "folder"):
            return
        state = self.account.state
        assert (state.budget.units, state.spent.units) == (self.budget, self.spent)
        assert self.spent == sum(known.best for known in self.known) <= self.budget
        assert state.measurements == self.measurements == sum(len(known.paid) for known in self.known)
        made = self.account.ledger.list_reservations(self.account.id)
        assert len(made) == self.reservations
        assert all(reservation.is_finished for reservation in made)
        assert all((reservation.answer_digest is None) == (reservation.case is Case.REPEAT) for reservation in made)
        for analyst, limit in self.limits.items():
            view = self.account.ledger.get_view(self.account.id, self.account.analyst(analyst))
            assert (view.limit.units, view.used.units) == (limit, self._learned(analyst))
            assert view.used <= view.limit

    def _learned(self, analyst: str) -> int:
        return sum(wanted for (who, _), wanted in self.seen.items() if who == analyst)

    def _refusal(self, question: int, wanted: int, fresh: int, analyst: str) -> type[NoisebankError] | None:
        """In the contract's order: a pause, the budget, the analyst's view."""
        if self.paused:
            return LedgerRefused
        if self.spent + fresh > self.budget:
            return BudgetExhausted
        if analyst != "owner":
            if analyst not in self.limits:
                return LedgerRefused
            more = max(0, wanted - self.seen.get((analyst, question), 0))
            if more and self._learned(analyst) + more > self.limits[analyst]:
                return ViewExhausted
        return None

    def _wanted(self, sigma: str) -> int:
        return floor_to_ladder(Precision.floor(1 / Fraction(sigma) ** 2)).units

    def _remember(self, question: int, wanted: int, fresh: int, value: Fraction) -> None:
        known = self.known[question]
        assert known.released.setdefault(wanted, value) == value
        self.reservations += 1
        if fresh:
            self.spent += fresh
            self.measurements += 1
            known.best = wanted
            known.paid.add(wanted)


TestBank = BankMachine.TestCase
TestBank.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
