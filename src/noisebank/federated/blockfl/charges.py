"""Charges of the sound mode: `DeviceAccount` charges a task to a member's one budget, once and before any training.

The member sets one budget (epsilon, delta) for all tasks, whatever their posters demand. Tasks compose by addition: a
task of (e, d) costs max(e, d/r) with r = delta/epsilon of the budget, so after a total cost of c an example is
protected by (c, r c). r is part of the account's policy, so that anybody can recompute a price; how a poster spells a
number does not matter. Every submission carries the reservation's id, so that anybody can check that the charge is in
an earlier block than the model (`find_unpaid_models`).
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
"""The category byte of a training on the ledger."""
RAISE_DELAY = 86_400
RATIO_UNITS = 10**30
POLICY = tagged("crowd policy 2", {"unit": "max(epsilon, delta / ratio) of one example over a task"})[:16]


def training_policy(budget: Budget) -> bytes:
    """Return the policy of an account for trainings: our mark, then delta / epsilon of its budget in units of 1e-30."""
    ratio = int(budget.delta / budget.epsilon * RATIO_UNITS)  # rounded down: prices can only get higher
    return POLICY + ratio.to_bytes(16, "big")


def policy_ratio(policy: bytes) -> Fraction | None:
    """Return delta / epsilon of an account for trainings; None for any other account."""
    ratio = int.from_bytes(policy[16:], "big")
    return Fraction(ratio, RATIO_UNITS) if policy[:16] == POLICY and ratio else None


def first_policy(delta: str) -> bytes:
    """Return the first edition's policy, one account per spelling of delta: still read, never charged again."""
    return tagged("crowd policy 1", {"unit": "epsilon of one example over a task", "delta of a task": delta})


def task_price(terms: Terms, ratio: Fraction) -> Precision:
    """Return the cost of a task on an account with this ratio, rounded up."""
    return Precision.ceil(max(exact(terms.epsilon, "epsilon"), exact(terms.delta, "delta") / ratio))


class DeviceAccount:
    """A member's budget: its own book, and its account on the task's chain, as owner and curator."""

    def __init__(self, url: str, ledger: str, key: Key, folder: Path) -> None:
        self.book = MemberBook(folder)
        node = Node(url)
        where = Where(url, ledger, node.chain_id(), 0)
        self._chain = RpcChain(where, {Role.OWNER: key, Role.CURATOR: key}, folder / "outbox.sqlite")
        self._key = key

    @property
    def state(self) -> AccountState | None:
        """Budget and spend on this ledger; None if there is no account yet. Always the oldest of several."""
        for state in self._own():
            if policy_ratio(state.policy) is not None:
                return state
        return None

    def open(self, epsilon: Exact, delta: Exact) -> AccountState:
        """Set the member's one budget, if there is none, and open its account here; neither is ever increased."""
        self._refuse_first_edition()
        self._adopt(Budget(exact(epsilon, "budget"), exact(delta, "budget's delta")))
        self.book.set_budget(epsilon, delta)
        return self._opened()

    def charge(self, task: bytes, rounds: int, terms: Terms) -> Reservation:
        """Charge a task once; a second call returns the same reservation. Durable on return, in book and ledger."""
        self._refuse_first_edition()
        self._adopt()
        state, work = self._opened(), task_work(terms, rounds)
        ratio = policy_ratio(state.policy)
        assert ratio is not None
        price, id = task_price(terms, ratio), charge_id(state.account, task)
        reservation = self._chain.reservation(state.account, id)
        if reservation is not None and self.book.charged_work(task) is None:
            raise Refused(
                "this task was charged before, and the book with the models that it paid for is gone: nothing more is "
                "trained for that charge"
            )
        self.book.charge(task, work, exact(terms.epsilon, "epsilon"), exact(terms.delta, "delta"))
        if reservation is None:  # in the member's own book from here on; now on the ledger, for the others to see
            query = keccak(b"noisebank training\n", task)
            claim = Claim(state.account, id, query, THE_OWNER, ABOUT_TRAINING, price, price)
            (reservation,) = self._chain.reserve(claim)
            if reservation.case is not Case.FIRST:
                raise Tampered("this task was charged under another id")
        charged = reservation.wanted
        if charged != price:
            raise BadRequest("epsilon", terms.epsilon, f"this task was charged {charged}; a task has one price")
        return reservation

    def close(self) -> None:
        """Close the chain's outbox and the book; both are durable already."""
        self._chain.close()
        self.book.close()

    def _own(self) -> list[AccountState]:
        accounts = self._chain.books.accounts()
        return [state for state in accounts if state.owner == self._key.address and state.unit is Unit.EPSILON]

    def _opened(self) -> AccountState:
        budget, state = self.book.budget, self.state
        if state is None:
            if budget is None:
                raise BadRequest("budget", "none", "this member has no budget for trainings yet: say --budget")
            self._chain.open_account(
                Opening(budget.units, training_policy(budget), self._data, RAISE_DELAY, Unit.EPSILON)
            )
            state = self.state
        if state is None:
            raise BadLedger("the ledger does not show the account that was just opened")
        return state

    def _adopt(self, wanted: Budget | None = None) -> None:
        """Enter into the book what only the ledger knows: losing the book does not renew the budget."""
        state = self.state
        ratio = None if state is None else policy_ratio(state.policy)
        if state is None or ratio is None:
            return
        if self.book.budget is None:
            same = wanted is not None and (wanted.units, training_policy(wanted)) == (state.budget, state.policy)
            budget = wanted if wanted is not None and same else Budget(state.budget.exact, state.budget.exact * ratio)
            self.book.set_budget(budget.epsilon, budget.delta)
        known = {charge_id(state.account, task) for task in self.book.tasks}
        for reservation in self._chain.reservations(state.account):
            if reservation.id not in known:
                self.book.carry(state.account, reservation.id, reservation.wanted)

    @property
    def _data(self) -> bytes:
        return keccak(b"noisebank device\n", bytes.fromhex(self._key.address[2:]))

    def _refuse_first_edition(self) -> None:
        """Refuse a key with accounts of the first edition: one per spelling of delta, with unknown deltas."""
        old = [state for state in self._own() if state.data == self._data and policy_ratio(state.policy) is None]
        if old:
            spent = sum(float(state.spent) for state in old)
            raise Refused(
                f"this key has {len(old)} accounts of the first edition, which counted every delta apart; "
                f"they have spent epsilon {spent:g}. Make new keys, and a budget that leaves that much out"
            )


def task_work(terms: Terms, rounds: int) -> bytes:
    """Return the digest of what a charge pays for: these terms, for this number of rounds."""
    return tagged("crowd work 1", {"terms": terms.encode().decode(), "rounds": rounds})


def charge_id(account: bytes, task: bytes) -> bytes:
    """Return the id of a task's charge on an account."""
    return tagged("crowd charge 1", {"account": account.hex(), "task": task.hex()})


@dataclass(frozen=True)
class Charged:
    """A device's account, and a task's charge on it; None if the task was not charged."""

    state: AccountState
    charge: Reservation | None


def budget_follower(node: Node, terms: Terms) -> Follower:
    """Return the books of the budget ledger that a sound task names, read to the newest block."""
    follower = Follower(node, terms.ledger, 0, 1)
    follower.check_contract(None)
    follower.sync()
    return follower


def devices(follower: Follower, terms: Terms, task: bytes) -> list[Charged]:
    """Return every device's account for trainings, with the task's charge if there is one."""
    first = first_policy(terms.delta)
    return [
        Charged(state, follower.books.reservation(state.account, charge_id(state.account, task)))
        for state in follower.books.accounts()
        if state.unit is Unit.EPSILON and (policy_ratio(state.policy) is not None or state.policy == first)
    ]


def unpaid(node: Node, terms: Terms, books: TaskBooks) -> list[str]:
    """Return one text per submission of a sound task that no earlier charge pays for."""
    if terms.mode != "sound":
        return []
    follower = budget_follower(node, terms)
    paid: dict[str, int] = {}
    for device in devices(follower, terms, books.posted.task):
        ratio = policy_ratio(device.state.policy)
        price = task_price(terms, ratio) if ratio else Precision.ceil(exact(terms.epsilon, "epsilon"))
        if device.charge is not None and device.charge.wanted >= price:
            paid[device.state.owner + device.charge.id.hex()] = device.charge.block
    wrong = []
    for round in books.rounds:
        for submission in round.submissions:
            block = paid.get(submission.member + submission.receipt.hex())
            if block is None or block >= submission.block:
                wrong.append(f"round {round.number}: nothing pays for the model of {submission.member}")
    return wrong
