"""The one path: ask, parse, price, plan, reserve, measure, seal, publish, answer.

Nothing before `reserve` opens the data, nothing is shown before it is sealed and published. Each
line of `Account.answers` is one of these steps, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, Unpack

from noisebank.account.answers import Answer, Quote, RelativeAnswer, standard_deviation
from noisebank.account.derived import Answers, DerivedAnswer, together
from noisebank.account.plain import KEPT_BYTES, OWNER, size_of
from noisebank.account.recall import Recalling
from noisebank.core.caches import remembering
from noisebank.core.errors import BadRequest, NoisebankError, UnsupportedQuery
from noisebank.core.units import NOTHING, Exact, Precision, exact
from noisebank.ledger.books import Budgets
from noisebank.planning.linear import MOST_RUNS, WHOLE
from noisebank.planning.pricing import Wish, Wished, split, wish
from noisebank.planning.relative import RelativeWish
from noisebank.planning.reuse import Plan, plan
from noisebank.privacy.calibration import budget_precision
from noisebank.privacy.odometer import promised_epsilon, raised_epsilon, raised_precision
from noisebank.queries.cells import cubes_of
from noisebank.queries.derived import Derivation, Item
from noisebank.queries.query import Question
from noisebank.queries.sensitivity import saturation

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

    def ask(
        self,
        sql: str,
        *,
        at_most: Exact | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        best: bool = False,
        **wished: Unpack[Wished],
    ) -> Any:
        """Answers a question, SQL or the name of one of the policy's queries.

        Say how good the answer shall be in one way: `epsilon` and `delta`, or `within` a distance at
        a `confidence`, or `relative` to the true value if that is at least a `floor`, or `sigma`.
        `key` makes a retry safe: the same key gives the same answer, charged once. `at_most` is the
        most precision to spend. With `best`, a more precise answer is given if it is free and the
        analyst's view has room for it. What comes back is an `Answer`; a `RelativeAnswer` for
        `relative`; a `GroupedAnswer` for GROUP BY; a `DerivedAnswer` for what is made of several
        queries; `Answers` for a SELECT of several results.
        """
        limit = None if at_most is None else _amount(at_most)
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
        relative = any(isinstance(each, RelativeWish) for _, each in group.asked)
        if best and len(group.asked) == 1 and not relative:
            question, each = group.asked[0]
            group = replace(group, asked=((question, self.bettered(question, each, key, analyst)),))
        # What is promised of a relative answer needs a precision that no earlier answer has chosen: no cube, nothing
        # better that happens to be known.
        found = self.answers(group.asked, at_most, key, analyst, plainly=relative)
        parts = [self._judged(answer, *asked) for answer, asked in zip(found, group.asked, strict=True)]
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
            if isinstance(wished, RelativeWish) and item.how is not Derivation.LINEAR:
                raise UnsupportedQuery("relative accuracy of a derived answer", "say epsilon, delta instead")
            part = wished if len(item.questions) == 1 else split(wished, len(item.questions))
            places.append(
                tuple(_place(asked, (question, self._settled(question, part))) for question in item.questions)
            )
        return Wanted(found, tuple(asked), tuple(places))

    def quote(self, sql: str, **wished: Unpack[Wished]) -> Quote:
        """What an answer would cost now. Spends nothing, opens no data."""
        group = self._wanted(sql, wished)
        # Parts that share a query are decided one after the other, so that later ones find what earlier ones pay for.
        wanted = [self.price(question, each) for question, each in group.asked]
        relative = any(isinstance(each, RelativeWish) for _, each in group.asked)
        plans = _fitting(self._plan_of, group.asked, wanted, relative)
        quotes = [
            self.quoted(question, each, not planned.cube)
            for (question, each), planned in zip(group.asked, plans, strict=True)
        ]
        if len(group.items) == 1 and group.items[0].how is Derivation.LINEAR:
            return quotes[0]
        cost = sum(
            self.costs([(question, each) for (question, _), each in zip(group.asked, plans, strict=True)]), NOTHING
        )
        return together(sql, quotes, cost, self.share(self.state.spent + cost))

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
            share_now=self.share(state.spent),
            share_after=self.share(state.spent + cost),
            cube=self.cube_of(planned),
            cell_factor=-(-max((charge.weight for charge in planned.charges), default=WHOLE) // WHOLE),
            first_look=planned.first.cost if planned.first else NOTHING,
            floor=float(wished.floor) if isinstance(wished, RelativeWish) and wished.floor else None,
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

    @property
    def epsilon(self) -> float:
        """What all answers together promise, at the account's delta, whenever somebody looks; rounded up."""
        budgets = self.budgets
        if budgets.opened == budgets.fixed == budgets.largest:
            return float(self.policy.epsilon)
        return float(promised_epsilon(budgets.fixed, budgets.largest, self.policy.delta))

    @property
    def budgets(self) -> Budgets:
        """Which of its budgets the account's promise follows from."""
        return self.ledger.books.budgets(self.id)

    def raise_to(self, epsilon: Fraction) -> Precision:
        """The budget that a raise to `epsilon` may grant: less than at opening, once answers were given."""
        plainly, state, fixed = budget_precision(epsilon, self.policy.delta), self.state, self.budgets.fixed
        if not state.measurements or plainly <= fixed:  # up to what was fixed before any answer, nothing is new
            return plainly
        granted = max(fixed, raised_precision(fixed, epsilon, self.policy.delta))
        if granted <= state.budget:
            least = float(raised_epsilon(fixed, max(fixed, state.budget), self.policy.delta))
            raise BadRequest(
                "epsilon", float(epsilon), f"is no raise: answers were given, so say more than {least:.6g}"
            )
        return granted

    def share(self, spent: Precision) -> float:
        """A spend as a share of the budget."""
        budget = self.state.budget
        return float(spent) / float(budget) if budget else 1.0

    def recall(self, id: bytes) -> Answer | None:
        """A published answer, read again, with its verdict if it was a relative request."""
        found, request = super().recall(id), self.vault.request(id)
        if found is None or request is None or "relative" not in request.body.get("asked", ()):
            return found
        return self._judged(found, self.question(request), wish(**request.body["asked"]))

    def _settled(self, question: Question, wished: Wish) -> Wish:
        """A relative wish gets its floor from the policy, if it says none: nothing that is answered decides it."""
        if not isinstance(wished, RelativeWish):
            return wished
        if question.query.by or question.offset:
            raise UnsupportedQuery("relative accuracy of a group-by or with a constant", "say --within instead")
        return wished.settled(saturation(question.query, self.policy) * abs(question.unit))

    def _judged(self, answer: Answer, question: Question, wished: Wish) -> Answer:
        """With a verdict, if it was a relative request. The next price is looked up whatever the verdict is."""
        if not isinstance(wished, RelativeWish):
            return answer
        try:
            following = self.quoted(question, wished.halved(), plainly=True).cost
        except NoisebankError:
            following = None
        common = {name: getattr(answer, name) for name in Answer.__slots__}
        plain = answer.inferred is None  # one under the same key may have come from a cube: nothing is promised of it
        reached = plain and wished.reached(answer.exact, answer.stddev)
        return RelativeAnswer(**common, wished=wished, reached=reached, next_cost=following)


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
