"""The one path: ask, parse, price, plan, reserve, measure, seal, publish, answer.

Nothing before `reserve` opens the data, nothing is shown before it is sealed and published. Each
line of `Account.answers` is one of these steps, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Unpack, overload

from noisebank.answers import Answer, Quote, standard_deviation
from noisebank.caches import remembering
from noisebank.derivation import Answers, DerivedAnswer, together
from noisebank.errors import BadRequest, UnsupportedQuery
from noisebank.planning.linear import MOST_RUNS, WHOLE
from noisebank.planning.pricing import PrecisionWish, Wish, Wished, split, wish
from noisebank.planning.relative import Goal, goal_of
from noisebank.planning.reuse import Plan, plan
from noisebank.privacy.calibration import account_epsilon
from noisebank.queries.cells import cubes_of
from noisebank.queries.derived import Derivation, Item
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import contribution_range, saturation
from noisebank.recalling import Recalling
from noisebank.refinement import Refinement, refine
from noisebank.steps import KEPT_BYTES, OWNER, size_of
from noisebank.units import MOST_PRECISION, NOTHING, Exact, Precision, exact

Asked = tuple[Question, Wish]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The results of a SELECT, the questions that they need, each once, and which result needs which."""

    items: tuple[Item, ...]
    asked: tuple[Asked, ...]
    places: tuple[tuple[int, ...], ...]


class Account(Recalling):
    """An open account: quotes cost nothing, answers walk the one path. Safe for many threads."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._groups = remembering(KEPT_BYTES, size_of, typed=True)(self._group)  # True is no 1

    @overload
    def ask(
        self,
        sql: str,
        *,
        relative: None = None,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
        **wished: Unpack[Wished],
    ) -> Any: ...

    @overload
    def ask(
        self,
        sql: str,
        *,
        relative: Exact,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
        **wished: Unpack[Wished],
    ) -> Refinement: ...

    def ask(
        self,
        sql: str,
        *,
        relative: Exact | None = None,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
        **wished: Unpack[Wished],
    ) -> Answer | Refinement | DerivedAnswer | Answers:
        """Answers a question, SQL or the name of one of the policy's queries.

        Say how good the answer shall be in one way: `epsilon` and `delta`, or `within` a distance at
        a `confidence`, or `relative` to the true value, or `sigma`. `key` makes a retry safe: the
        same key gives the same answer, charged once. `at_most` is the most precision to spend. With
        `best`, a more precise answer is given if it is free and the analyst's view has room for it.
        What comes back is an `Answer`; a `GroupedAnswer` for GROUP BY; a `DerivedAnswer` for what is
        made of several queries; `Answers` for a SELECT of several results.
        """
        limit = None if at_most is None else _amount(at_most)
        if relative is not None:
            return self._refine(sql, goal_of(relative, wished), limit, key, analyst)
        return self._derive(sql, self._wanted(sql, wished), limit, key, analyst, best)

    def answer(
        self, sql: str, wished: Wish, at_most: Precision | None = None, key: str | None = None, analyst: str = OWNER
    ) -> Answer:
        """One question, one answer, plainly."""
        return self.answers([(self.parse(sql), wished)], at_most, key, analyst, plainly=True)[0]

    def answers(
        self,
        asked: Sequence[Asked],
        at_most: Precision | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        plainly: bool = False,
    ) -> list[Answer]:
        """The one path, a line a step. Several questions are one atomic group: all are charged, or none.

        `plainly` leaves cubes aside: what is asked must not share its noise with other answers.
        """
        wanted = [self.price(question, wished) for question, wished in asked]
        requests = self._remember(asked, wanted, key, analyst)  # a crash can be finished from here on
        with self._turns(self._contended(asked, wanted), requests):
            reservations = self._reserved(requests)
            if reservations is None:
                planned = self._planned(asked, wanted, at_most, analyst, plainly)
                reservations = self._reserve(requests, asked, planned, at_most)  # spent, even if we crash
            sealed = [self.complete(found, question) for found, (question, _) in zip(reservations, asked, strict=True)]
        published = self._reserved(requests) or reservations
        return [
            self._answer(*parts) for parts in zip(published, sealed, (question for question, _ in asked), strict=True)
        ]

    def _derive(
        self, sql: str, group: Wanted, at_most: Precision | None, key: str | None, analyst: str, best: bool = False
    ) -> Answer | DerivedAnswer | Answers:
        """A SELECT of several results, or of one that is made of several: one group on the one path."""
        if best and len(group.asked) == 1:
            question, each = group.asked[0]
            group = replace(group, asked=((question, self.bettered(question, each, key, analyst)),))
        parts = self.answers(group.asked, at_most, key, analyst)
        made = [
            parts[where[0]]
            if item.how is Derivation.LINEAR
            else DerivedAnswer(item.name, item.how, sql, tuple(parts[place] for place in where), item)
            for item, where in zip(group.items, group.places, strict=True)
        ]
        if len(made) == 1:
            return made[0]
        paid = sum((part.cost for part in parts), NOTHING)
        return Answers(sql, tuple(made), tuple(item.name for item in group.items), paid)

    def _wanted(self, sql: str, wished: Wished) -> Wanted:
        """What a SELECT needs. The same text and wish under the same policy need the same: worked out once."""
        said: tuple[Any, ...] = (sql, *chain.from_iterable(wished.items()))
        try:
            hash(said)
        except TypeError:  # no text, no number: whoever reads it says so
            return self._group(*said)
        return self._groups(*said)

    def _group(self, sql: str, *said: Any) -> Wanted:
        """What a SELECT needs: its results, their parts, and each part's share of the wish."""
        wished = wish(**dict(zip(said[::2], said[1::2], strict=True)))
        found = self._read(self.named(sql))
        asked: list[Asked] = []
        places = []
        for item in found:
            part = wished if len(item.questions) == 1 else split(wished, len(item.questions))
            places.append(tuple(_place(asked, (question, part)) for question in item.questions))
        return Wanted(found, tuple(asked), tuple(places))

    def quote(self, sql: str, **wished: Unpack[Wished]) -> Quote:
        """What an answer would cost now. Spends nothing, opens no data."""
        group = self._wanted(sql, wished)
        # Parts that share a query are decided one after the other, so that later ones find what earlier ones pay for.
        wanted = [self.price(question, each) for question, each in group.asked]
        plans = _fitting(self._plan_of, group.asked, wanted, False)
        quotes = [
            self.quoted(question, each, not planned.cube)
            for (question, each), planned in zip(group.asked, plans, strict=True)
        ]
        if len(group.items) == 1 and group.items[0].how is Derivation.LINEAR:
            return quotes[0]
        cost = sum(
            self.costs([(question, each) for (question, _), each in zip(group.asked, plans, strict=True)]), NOTHING
        )
        return together(sql, quotes, cost, self.epsilon(self.state.spent + cost))

    def quoted(self, question: Question, wished: Wish, plainly: bool = False) -> Quote:
        """The quote for a question that is already parsed."""
        wanted = self.price(question, wished)
        planned = self._plan_of(question, wanted, plainly)
        state, moves = self.state, self._sensitivity(question.query)
        (cost,) = self.costs([(question, planned)])
        return Quote(
            sql=question.sql,
            case=planned.case,
            wanted=wanted,
            cost=cost,
            left=state.left,
            stddev=standard_deviation(moves, question.unit, wanted),
            reused_stddev=(
                standard_deviation(moves, question.unit, planned.reused.precision) if planned.reused else None
            ),
            epsilon_now=self.epsilon(state.spent),
            epsilon_after=self.epsilon(state.spent + cost),
            cube=self.cube_of(planned),
            cell_factor=-(-max((charge.weight for charge in planned.charges), default=WHOLE) // WHOLE),
            first_look=planned.first.cost if planned.first else NOTHING,
        )

    def cube_of(self, planned: Plan) -> tuple[str, ...]:
        """The columns of the cube that a plan goes through; none for plain reuse."""
        return cubes_of(self.policy)[self.cubes.numbers.index(planned.cube)].columns if planned.cube else ()

    def _plan_of(self, question: Question, wanted: Precision, plainly: bool) -> Plan:
        """As the path would plan it now, without opening anything."""
        if not plainly and self.cubes.serving(question.query) is not None:
            return self.planned_in(question, wanted)
        planned = plan(wanted, self._records(question.query))
        self._check_noise(question.query, planned)
        return planned

    def _planned(
        self,
        asked: Sequence[Asked],
        wanted: Sequence[Precision],
        at_most: Precision | None,
        analyst: str,
        plainly: bool,
    ) -> list[Plan]:
        """Plans for a group. A first look that pays is bought before, on the same path."""
        found = _fitting(self.plan, asked, wanted, plainly)
        for place, (question, _) in enumerate(asked):
            if found[place].first is not None and self._look_pays(question, found[place], at_most, analyst):
                found = _fitting(self.plan, asked, wanted, plainly)
        return found

    def epsilon(self, spent: Precision) -> float:
        """What a spend means in epsilon, at the account's delta; rounded up."""
        return float(account_epsilon(spent, self.policy.delta))

    def _refine(self, sql: str, wanted: Goal, at_most: Precision | None, key: str | None, analyst: str) -> Refinement:
        """A relative request: several answers on the one path, each with a key made from this one."""
        question = self.parse(sql)
        check_relative(question)
        key = self._entropy.token(16).hex() if key is None else key
        moves, (lowest, _) = self._sensitivity(question.query), contribution_range(question.query, self.policy)
        return refine(
            wanted,
            scale=moves * abs(question.unit),
            largest=float(saturation(question.query, self.policy) / moves),
            nonnegative=lowest >= 0 and question.unit > 0,
            ask_at=lambda precision, step: self.answer(
                sql,
                PrecisionWish(precision),
                key=f"{key} / {wanted.relative} {wanted.confidence} / {step}",
                analyst=analyst,
            ),
            cost_of=lambda precision: plan(precision, self._records(question.query)).fresh,
            cap=MOST_PRECISION if at_most is None else at_most,
            left=lambda: self.state.left,
        )


def check_relative(question: Question) -> None:
    """Relative accuracy is for one number that is a multiple of a query."""
    if question.query.by or question.offset:
        raise UnsupportedQuery("relative accuracy of a group-by or with a constant", "say --within instead")


def _amount(at_most: Exact) -> Precision:
    value = exact(at_most, "at_most")
    if value < 0:
        raise BadRequest("at_most", "less than nothing", "must not be negative")
    return Precision.floor(value)


def _fitting(
    plan_of: Callable[[Question, Precision, bool], Plan],
    asked: Sequence[Asked],
    wanted: Sequence[Precision],
    plainly: bool,
) -> list[Plan]:
    """Plans of a group that fit into one transaction: the parts with the most runs of cells are asked plainly."""
    found = [plan_of(question, units, plainly) for (question, _), units in zip(asked, wanted, strict=True)]
    while sum(len(planned.charges) for planned in found) > MOST_RUNS:
        place = max(range(len(found)), key=lambda place: len(found[place].charges))
        found[place] = plan_of(asked[place][0], wanted[place], True)
    return found


def _place(asked: list[Asked], part: Asked) -> int:
    """Where a part is in the group: what two results share is asked once."""
    for place, (question, wished) in enumerate(asked):
        same = (question.unit, question.offset) == (part[0].unit, part[0].offset)
        if question.query == part[0].query and wished == part[1] and same:
            return place
    asked.append(part)
    return len(asked) - 1
