"""The sound mode's budget: a member's one account on the budget ledger, charged once for a task, before any training.

The member sets one budget (epsilon, delta) for all tasks, whatever their posters ask for. Tasks compose by addition:
a task of (e, d) is priced max(e, d/r) with r = delta/epsilon of the budget: after prices of c in all, an example is
protected by (c, r c). r stands in the account's policy, so that anybody can recompute a price; how a poster spells a
number plays no part. The reservation's id goes with every submission, so that anybody can see that the charge was in an
earlier block than the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from noisebank.core.digests import keccak, tagged
from noisebank.core.errors import BadLedger, BadRequest, Refused, Tampered
from noisebank.core.records import Case
from noisebank.core.units import Exact, Precision, exact
from noisebank.federated.blockfl.books import TaskBooks
from noisebank.federated.blockfl.member_book import Budget, MemberBook
from noisebank.federated.blockfl.terms import Terms
from noisebank.ledger.chain_config import Where
from noisebank.ledger.follower import Follower
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Opening, Reservation, Role, Unit
from noisebank.ledger.rpc import RpcChain
from noisebank.ledger.signing import Key

ABOUT_TRAINING = 65
"""The public byte of a training."""
RAISE_DELAY = 86_400
RATIO_UNITS = 10**30
POLICY = tagged("crowd policy 2", {"unit": "max(epsilon, delta / ratio) of one example over a task"})[:16]


def training_policy(budget: Budget) -> bytes:
    """What such an account promises, in one word: our mark, and delta over epsilon of its budget in units of 1e-30."""
    ratio = int(budget.delta / budget.epsilon * RATIO_UNITS)  # rounded down: prices can only get higher
    return POLICY + ratio.to_bytes(16, "big")


def policy_ratio(policy: bytes) -> Fraction | None:
    """Delta over epsilon of an account for trainings; None for any other account."""
    ratio = int.from_bytes(policy[16:], "big")
    return Fraction(ratio, RATIO_UNITS) if policy[:16] == POLICY and ratio else None


def first_policy(delta: str) -> bytes:
    """As the first edition had it, one account per spelling of delta: read where it was used, never charged again."""
    return tagged("crowd policy 1", {"unit": "epsilon of one example over a task", "delta of a task": delta})


def task_price(terms: Terms, ratio: Fraction) -> Precision:
    """What a task costs on an account with this ratio."""
    return Precision.ceil(max(exact(terms.epsilon, "epsilon"), exact(terms.delta, "delta") / ratio))


class DeviceAccount:
    """A member's budget: its own book, and its account on the task's chain, of which it is owner and curator."""

    def __init__(self, url: str, ledger: str, key: Key, folder: Path) -> None:
        self.book = MemberBook(folder)
        node = Node(url)
        where = Where(url, ledger, node.chain_id(), 0)
        self._chain = RpcChain(where, {Role.OWNER: key, Role.CURATOR: key}, folder / "outbox.sqlite")
        self._key = key

    @property
    def state(self) -> AccountState | None:
        """Budget and spend on this ledger; None if there is no account yet. Of several the oldest, for ever."""
        for state in self._own():
            if policy_ratio(state.policy) is not None:
                return state
        return None

    def open(self, epsilon: Exact, delta: Exact) -> AccountState:
        """Sets the member's one budget, if there is none, and opens its account here; never raises either."""
        self._refuse_first_edition()
        self._adopt(Budget(exact(epsilon, "budget"), exact(delta, "budget's delta")))
        self.book.set_budget(epsilon, delta)
        return self._opened()

    def charge(self, task: bytes, rounds: int, terms: Terms) -> Reservation:
        """Charges a task, once: asked again it gives the same reservation. Durable on return, also here."""
        self._refuse_first_edition()
        self._adopt()
        state, work = self._opened(), task_work(terms, rounds)
        ratio = policy_ratio(state.policy)
        assert ratio is not None
        wanted, id = task_price(terms, ratio), charge_id(state.account, task)
        found = self._chain.reservation(state.account, id)
        if found is not None and self.book.charged_work(task) is None:
            raise Refused(
                "this task was charged before, and the book with the models that it paid for is gone: nothing more is "
                "trained for that charge"
            )
        self.book.charge(task, work, exact(terms.epsilon, "epsilon"), exact(terms.delta, "delta"))
        if found is None:  # in the member's own book from here on; now on the ledger, for the others to see
            query = keccak(b"noisebank training\n", task)
            (found,) = self._chain.reserve(Claim(state.account, id, query, THE_OWNER, ABOUT_TRAINING, wanted, wanted))
            if found.case is not Case.FIRST:
                raise Tampered("this task was charged under another id")
        if found.wanted != wanted:
            raise BadRequest("epsilon", terms.epsilon, f"this task was charged {found.wanted}; a task has one price")
        return found

    def close(self) -> None:
        """Nothing is lost."""
        self._chain.close()
        self.book.close()

    def _own(self) -> list[AccountState]:
        accounts = self._chain.books.accounts()
        return [state for state in accounts if state.owner == self._key.address and state.unit is Unit.EPSILON]

    def _opened(self) -> AccountState:
        budget, found = self.book.budget, self.state
        if found is None:
            if budget is None:
                raise BadRequest("budget", "none", "this member has no budget for trainings yet: say --budget")
            self._chain.open_account(
                Opening(budget.units, training_policy(budget), self._data, RAISE_DELAY, Unit.EPSILON)
            )
            found = self.state
        if found is None:
            raise BadLedger("the ledger does not show the account that was just opened")
        return found

    def _adopt(self, wanted: Budget | None = None) -> None:
        """What the ledger shows and the book does not know counts too: a lost book is no new budget."""
        state = self.state
        ratio = None if state is None else policy_ratio(state.policy)
        if state is None or ratio is None:
            return
        if self.book.budget is None:
            same = wanted is not None and (wanted.units, training_policy(wanted)) == (state.budget, state.policy)
            found = wanted if wanted is not None and same else Budget(state.budget.exact, state.budget.exact * ratio)
            self.book.set_budget(found.epsilon, found.delta)
        known = {charge_id(state.account, task) for task in self.book.tasks}
        for one in self._chain.reservations(state.account):
            if one.id not in known:
                self.book.carry(state.account, one.id, one.wanted)

    @property
    def _data(self) -> bytes:
        return keccak(b"noisebank device\n", bytes.fromhex(self._key.address[2:]))

    def _refuse_first_edition(self) -> None:
        """Accounts of the first edition, one per spelling of delta, are no one budget; their deltas are unknown."""
        old = [state for state in self._own() if state.data == self._data and policy_ratio(state.policy) is None]
        if old:
            spent = sum(float(state.spent) for state in old)
            raise Refused(
                f"this key has {len(old)} accounts of the first edition, which counted every delta apart; "
                f"they have spent epsilon {spent:g}. Make new keys, and a budget that leaves that much out"
            )


def task_work(terms: Terms, rounds: int) -> bytes:
    """What a charge pays for: these terms, so many rounds."""
    return tagged("crowd work 1", {"terms": terms.encode().decode(), "rounds": rounds})


def charge_id(account: bytes, task: bytes) -> bytes:
    """The id of a task's charge on an account."""
    return tagged("crowd charge 1", {"account": account.hex(), "task": task.hex()})


@dataclass(frozen=True)
class Charged:
    """A device's account, and what a task has charged to it."""

    state: AccountState
    charge: Reservation | None


def budget_follower(node: Node, terms: Terms) -> Follower:
    """The budget ledger that a sound task names, read to the newest block."""
    follower = Follower(node, terms.ledger, 0, 1)
    follower.check_contract(None)
    follower.sync()
    return follower


def devices(follower: Follower, terms: Terms, task: bytes) -> list[Charged]:
    """Every device's account for trainings, with the task's charge if there is one."""
    first = first_policy(terms.delta)
    return [
        Charged(state, follower.books.reservation(state.account, charge_id(state.account, task)))
        for state in follower.books.accounts()
        if state.unit is Unit.EPSILON and (policy_ratio(state.policy) is not None or state.policy == first)
    ]


def unpaid(node: Node, terms: Terms, books: TaskBooks) -> list[str]:
    """Submissions of a sound task that no earlier charge pays for."""
    if terms.mode != "sound":
        return []
    follower = budget_follower(node, terms)
    paid: dict[str, int] = {}
    for each in devices(follower, terms, books.posted.task):
        ratio = policy_ratio(each.state.policy)
        wanted = task_price(terms, ratio) if ratio else Precision.ceil(exact(terms.epsilon, "epsilon"))
        if each.charge is not None and each.charge.wanted >= wanted:
            paid[each.state.owner + each.charge.id.hex()] = each.charge.block
    wrong = []
    for round in books.rounds:
        for submission in round.submissions:
            block = paid.get(submission.member + submission.receipt.hex())
            if block is None or block >= submission.block:
                wrong.append(f"round {round.number}: nothing pays for the model of {submission.member}")
    return wrong
