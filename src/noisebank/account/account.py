"""`Account`: an open account, and the one path from a question to an answer.

The path is: parse, price, plan, reserve, measure, seal, publish, answer. `Account.answers` takes these steps in this
order. Nothing before `reserve` opens the data; nothing is returned before it is sealed and published.
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
from noisebank.core.records import WHOLE_WEIGHT
from noisebank.core.units import NOTHING, Exact, Precision, exact
from noisebank.ledger.books import Budgets
from noisebank.planning.linear import MOST_RUNS
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
    """A SELECT: its results, the questions that they need (each once), and for each result the indices of its own."""

    items: tuple[Item, ...]
    asked: tuple[Asked, ...]
    places: tuple[tuple[int, ...], ...]


class Account(Recalling):
    """An open account: quotes cost nothing, answers take the one path. Safe for many threads."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._groups = remembering(KEPT_BYTES, size_of, typed=True)(self._group)  # typed: True is not 1

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
        """Answers a question: SQL, or the name of one of the policy's queries.

        Choose the accuracy in one way: `epsilon` and `delta`, or `within` a distance at a
        `confidence`, or `relative` to the true value if that is at least a `floor`, or `sigma`.
        `key` makes a retry safe: the same key gives the same answer, charged once. `max_cost` is the
        most precision to spend. With `best`, a more precise answer is given if it is free and the
        analyst's view has room for it. Returns an `Answer`; a `RelativeAnswer` for `relative`; a
        `GroupedAnswer` for GROUP BY; a `DerivedAnswer` for what is computed from several queries;
        `Answers` for a SELECT of several results.
        """
        return self._derive(sql, self._wanted(sql, wished), _amount(at_most), key, analyst, best)

    def answer(
        self, sql: str, wished: Wish, at_most: Precision | None = None, key: str | None = None, analyst: str = OWNER
    ) -> Answer:
        """Answers one question without cubes."""
        return self.answers([(self.parse(sql), wished)], at_most, key, analyst, plainly=True)[0]

    def answers(
        self,
        asked: Sequence[Asked],
        at_most: Precision | None = None,
        key: str | None = None,
        analyst: str = OWNER,
        plainly: bool = False,
    ) -> list[Answer]:
        """The one path, one line per step. Several questions are one atomic group: all are charged, or none.

        `plainly` leaves cubes aside: the answers must not share their noise with others.
        """
        targets = [self.price(question, accuracy) for question, accuracy in asked]
        requests = self._remember(asked, targets, key, analyst)  # a crash can be finished from here on
        with self._turns(self._contended(asked, targets), requests):
            reservations = self._reserved(requests)
            if reservations is None:
                plans = self._planned(asked, targets, at_most, analyst, plainly)
                reservations = self._reserve(requests, asked, plans, at_most)  # spent, even if we crash
            sealed = [
                self.complete(reserved, question) for reserved, (question, _) in zip(reservations, asked, strict=True)
            ]
        published = self._reserved(requests) or reservations
        return [
            self._answer(*parts) for parts in zip(published, sealed, (question for question, _ in asked), strict=True)
        ]

    def _derive(
        self, sql: str, group: Wanted, at_most: Precision | None, key: str | None, analyst: str, best: bool = False
    ) -> Answer | DerivedAnswer | Answers:
        """Answers all questions of a SELECT as one group on the one path, and computes its results from them."""
        relative = any(isinstance(accuracy, RelativeWish) for _, accuracy in group.asked)
        if best and len(group.asked) == 1 and not relative:
            question, accuracy = group.asked[0]
            group = replace(group, asked=((question, self.bettered(question, accuracy, key, analyst)),))
        # The promise of a relative answer needs a precision that no earlier answer has influenced: no cube, and not
        # a better answer that happens to be known.
        answers = self.answers(group.asked, at_most, key, analyst, plainly=relative)
        parts = [self._judged(answer, *question) for answer, question in zip(answers, group.asked, strict=True)]
        results = [
            parts[indices[0]]
            if item.how is Derivation.LINEAR
            else DerivedAnswer(item.name, item.how, sql, tuple(parts[index] for index in indices), item)
            for item, indices in zip(group.items, group.places, strict=True)
        ]
        if len(results) == 1:
            return results[0]
        cost = sum((part.cost for part in parts), NOTHING)
        return Answers(sql, tuple(results), tuple(item.name for item in group.items), cost)

    def _wanted(self, sql: str, wished: Wished) -> Wanted:
        """Returns what a SELECT needs. It depends on text, accuracy and policy only, so it is cached."""
        arguments: tuple[Any, ...] = (sql, *chain.from_iterable(wished.items()))
        try:
            hash(arguments)
        except TypeError:  # neither text nor number: parsing it raises the error for it
            return self._group(*arguments)
        return self._groups(*arguments)

    def _group(self, sql: str, *said: Any) -> Wanted:
        """Returns what a SELECT needs: its results, their questions, and each question's share of the accuracy.

        `arguments` are names and values of the accuracy options, one after the other: hashable, for the cache.
        """
        accuracy = wish(**dict(zip(said[::2], said[1::2], strict=True)))
        items = self._read(self.named(sql))
        questions: list[Asked] = []
        indices = []
        for item in items:
            if isinstance(accuracy, RelativeWish) and item.how is not Derivation.LINEAR:
                raise UnsupportedQuery("relative accuracy of a derived answer", "say epsilon, delta instead")
            part = accuracy if len(item.questions) == 1 else split(accuracy, len(item.questions))
            indices.append(
                tuple(_place(questions, (question, self._settled(question, part))) for question in item.questions)
            )
        return Wanted(items, tuple(questions), tuple(indices))

    def quote(self, sql: str, **wished: Unpack[Wished]) -> Quote:
        """Returns what an answer would cost now. Spends nothing, opens no data."""
        select = self._wanted(sql, wished)
        # Parts that share a query are decided one after the other, so that later ones find what earlier ones pay for.
        targets = [self.price(question, accuracy) for question, accuracy in select.asked]
        relative = any(isinstance(accuracy, RelativeWish) for _, accuracy in select.asked)
        plans = _fitting(self._plan_of, select.asked, targets, relative)
        quotes = [
            self.quoted(question, accuracy, not planned.cube)
            for (question, accuracy), planned in zip(select.asked, plans, strict=True)
        ]
        if len(select.items) == 1 and select.items[0].how is Derivation.LINEAR:
            return quotes[0]
        cost = sum(
            self.costs([(question, planned) for (question, _), planned in zip(select.asked, plans, strict=True)]),
            NOTHING,
        )
        return together(sql, quotes, cost, self.share(self.state.spent + cost))

    def quoted(self, question: Question, wished: Wish, plainly: bool = False) -> Quote:
        """Returns the quote for a parsed question."""
        target = self.price(question, wished)
        planned = self._plan_of(question, target, plainly)
        state, sensitivity = self.state, self._sensitivity(question.query)
        (cost,) = self.costs([(question, planned)])
        return Quote(
            sql=question.sql,
            case=planned.case,
            wanted=target,
            cost=cost,
            left=state.left,
            stddev=standard_deviation(sensitivity, question.unit, target),
            reused_stddev=(
                standard_deviation(sensitivity, question.unit, planned.reused.precision) if planned.reused else None
            ),
            share_now=self.share(state.spent),
            share_after=self.share(state.spent + cost),
            cube=self.cube_of(planned),
            cell_factor=-(-max((charge.weight for charge in planned.charges), default=WHOLE_WEIGHT) // WHOLE_WEIGHT),
            first_look=planned.first.cost if planned.first else NOTHING,
            floor=float(wished.floor) if isinstance(wished, RelativeWish) and wished.floor else None,
        )

    def cube_of(self, planned: Plan) -> tuple[str, ...]:
        """Returns the columns of the cube that a plan uses; none for plain reuse."""
        return cubes_of(self.policy)[self.cubes.numbers.index(planned.cube)].columns if planned.cube else ()

    def _plan_of(self, question: Question, wanted: Precision, plainly: bool) -> Plan:
        """Plans as the path would now, without opening anything."""
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
        """Plans a group. A first look that a plan proposes is bought before, on the same path, if it is affordable."""
        plans = _fitting(self.plan, asked, wanted, plainly)
        for index, (question, _) in enumerate(asked):
            if plans[index].first is not None and self._look_pays(question, plans[index], at_most, analyst):
                plans = _fitting(self.plan, asked, wanted, plainly)
        return plans

    @property
    def epsilon(self) -> float:
        """The epsilon of all answers together, at the account's delta, at every moment; rounded up."""
        budgets = self.budgets
        if budgets.opened == budgets.fixed == budgets.largest:
            return float(self.policy.epsilon)
        return float(promised_epsilon(budgets.fixed, budgets.largest, self.policy.delta))

    @property
    def budgets(self) -> Budgets:
        """The budgets that the account's epsilon follows from: at opening, before any answer, and the largest."""
        return self.ledger.books.budgets(self.id)

    def raise_to(self, epsilon: Fraction) -> Precision:
        """Returns the budget that a raise to `epsilon` may grant: less than at opening, once answers were given."""
        nominal, state, fixed = budget_precision(epsilon, self.policy.delta), self.state, self.budgets.fixed
        if not state.measurements or nominal <= fixed:  # up to what was fixed before any answer, nothing is new
            return nominal
        granted = max(fixed, raised_precision(fixed, epsilon, self.policy.delta))
        if granted <= state.budget:
            least = float(raised_epsilon(fixed, max(fixed, state.budget), self.policy.delta))
            raise BadRequest(
                "epsilon", float(epsilon), f"is no raise: answers were given, so say more than {least:.6g}"
            )
        return granted

    def share(self, spent: Precision) -> float:
        """Returns a spend as a share of the budget, from 0 to 1."""
        budget = self.state.budget
        return float(spent) / float(budget) if budget else 1.0

    def recall(self, id: bytes) -> Answer | None:
        """Returns a published answer again, with its verdict if it was a relative request. Spends nothing."""
        answer, request = super().recall(id), self.vault.request(id)
        if answer is None or request is None or "relative" not in request.body.get("asked", ()):
            return answer
        return self._judged(answer, self.question(request), wish(**request.body["asked"]))

    def _settled(self, question: Question, wished: Wish) -> Wish:
        """Gives a relative target without a floor one from the policy: no answer influences it."""
        if not isinstance(wished, RelativeWish):
            return wished
        if question.query.by or question.offset:
            raise UnsupportedQuery("relative accuracy of a group-by or with a constant", "say --within instead")
        return wished.settled(saturation(question.query, self.policy) * abs(question.unit))

    def _judged(self, answer: Answer, question: Question, wished: Wish) -> Answer:
        """Adds a verdict if the request was relative. The next price is looked up whatever the verdict is."""
        if not isinstance(wished, RelativeWish):
            return answer
        try:
            next_cost = self.quoted(question, wished.halved(), plainly=True).cost
        except NoisebankError:
            next_cost = None
        common = {name: getattr(answer, name) for name in Answer.__slots__}
        plain = answer.inferred is None  # an earlier one under the same key may come from a cube: no promise for it
        reached = plain and wished.reached(answer.exact, answer.stddev)
        return RelativeAnswer(**common, wished=wished, reached=reached, next_cost=next_cost)


def _amount(at_most: Exact | None) -> Precision | None:
    if at_most is None:
        return None
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
    """Plans a group so that it fits into one transaction: the parts with the most runs of cells go without a cube."""
    plans = [plan_of(question, target, plainly) for (question, _), target in zip(asked, wanted, strict=True)]
    while sum(len(planned.charges) for planned in plans) > MOST_RUNS:
        longest = max(range(len(plans)), key=lambda index: len(plans[index].charges))
        plans[longest] = plan_of(asked[longest][0], wanted[longest], True)
    return plans


def _place(asked: list[Asked], part: Asked) -> int:
    """Returns the index of a part in the group, adding it if it is new: what two results share is asked once."""
    for index, (question, accuracy) in enumerate(asked):
        same = (question.unit, question.offset) == (part[0].unit, part[0].offset)
        if question.query == part[0].query and accuracy == part[1] and same:
            return index
    asked.append(part)
    return len(asked) - 1
