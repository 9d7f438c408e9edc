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

from noisebank.core.digests import digest_tagged, keccak
from noisebank.core.errors import BadLedger, BadRequest, Refused, Tampered
from noisebank.core.records import Case
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.federated.blockfl.books import TaskBooks
from noisebank.federated.blockfl.member_book import Budget, MemberBook
from noisebank.federated.blockfl.terms import TaskTerms
from noisebank.ledger.chain_config import ChainConfig
from noisebank.ledger.follower import Follower
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import OWNER_ANALYST, AccountOpening, AccountState, Claim, Reservation, Role, Unit
from noisebank.ledger.rpc import ChainLedger
from noisebank.ledger.signing import Key

TRAINING_CATEGORY = 65
"""The category byte of a training on the ledger."""
RAISE_DELAY_SECONDS = 86_400
RATIO_SCALE = 10**30
POLICY_MARK = digest_tagged("crowd policy 2", {"unit": "max(epsilon, delta / ratio) of one example over a task"})[:16]


def encode_policy(budget: Budget) -> bytes:
    """Return the policy of an account for trainings: our mark, then delta / epsilon of its budget in units of 1e-30."""
    ratio = int(budget.delta / budget.epsilon * RATIO_SCALE)  # rounded down: prices can only get higher
    return POLICY_MARK + ratio.to_bytes(16, "big")


def parse_policy_ratio(policy: bytes) -> Fraction | None:
    """Return delta / epsilon of an account for trainings; None for any other account."""
    ratio = int.from_bytes(policy[16:], "big")
    return Fraction(ratio, RATIO_SCALE) if policy[:16] == POLICY_MARK and ratio else None


def first_edition_policy(delta: str) -> bytes:
    """Return the first edition's policy, one account per spelling of delta: still read, never charged again."""
    return digest_tagged("crowd policy 1", {"unit": "epsilon of one example over a task", "delta of a task": delta})


def price_task(terms: TaskTerms, ratio: Fraction) -> Precision:
    """Return the cost of a task on an account with this ratio, rounded up."""
    return Precision.ceil(max(parse_exact(terms.epsilon, "epsilon"), parse_exact(terms.delta, "delta") / ratio))


class DeviceAccount:
    """A member's budget: its own book, and its account on the task's chain, as owner and curator."""

    def __init__(self, url: str, ledger_address: str, key: Key, folder: Path) -> None:
        self.book = MemberBook(folder)
        node = Node(url)
        where = ChainConfig(url, ledger_address, node.chain_id(), 0)
        self._chain = ChainLedger(where, {Role.OWNER: key, Role.CURATOR: key}, folder / "outbox.sqlite")
        self._key = key

    @property
    def state(self) -> AccountState | None:
        """Budget and spend on this ledger; None if there is no account yet. Always the oldest of several."""
        for state in self._list_accounts():
            if parse_policy_ratio(state.policy_digest) is not None:
                return state
        return None

    def open_budget(self, epsilon: Exact, delta: Exact) -> AccountState:
        """Set the member's one budget, if there is none, and open its account here; neither is ever increased."""
        self._refuse_first_edition()
        self._adopt_ledger_charges(Budget(parse_exact(epsilon, "budget"), parse_exact(delta, "budget's delta")))
        self.book.set_budget(epsilon, delta)
        return self._ensure_account()

    def charge_task(self, task: bytes, round_count: int, terms: TaskTerms) -> Reservation:
        """Charge a task once; a second call returns the same reservation. Durable on return, in book and ledger."""
        self._refuse_first_edition()
        self._adopt_ledger_charges()
        state, work = self._ensure_account(), derive_work_id(terms, round_count)
        ratio = parse_policy_ratio(state.policy_digest)
        assert ratio is not None
        price, id = price_task(terms, ratio), derive_charge_id(state.account, task)
        reservation = self._chain.find_reservation(state.account, id)
        if reservation is not None and self.book.find_charged_work(task) is None:
            raise Refused(
                "this task was charged before, and the book with the models that it paid for is gone: nothing more is "
                "trained for that charge"
            )
        self.book.charge_task(task, work, parse_exact(terms.epsilon, "epsilon"), parse_exact(terms.delta, "delta"))
        if reservation is None:  # in the member's own book from here on; now on the ledger, for the others to see
            query = keccak(b"noisebank training\n", task)
            claim = Claim(state.account, id, query, OWNER_ANALYST, TRAINING_CATEGORY, price, price)
            (reservation,) = self._chain.reserve(claim)
            if reservation.case is not Case.FIRST:
                raise Tampered("this task was charged under another id")
        charged = reservation.target
        if charged != price:
            raise BadRequest("epsilon", terms.epsilon, f"this task was charged {charged}; a task has one price")
        return reservation

    def close(self) -> None:
        """Close the chain's outbox and the book; both are durable already."""
        self._chain.close()
        self.book.close()

    def _list_accounts(self) -> list[AccountState]:
        accounts = self._chain.books.list_accounts()
        return [state for state in accounts if state.owner == self._key.address and state.unit is Unit.EPSILON]

    def _ensure_account(self) -> AccountState:
        budget, state = self.book.budget, self.state
        if state is None:
            if budget is None:
                raise BadRequest("budget", "none", "this member has no budget for trainings yet: say --budget")
            self._chain.open_account(
                AccountOpening(
                    budget.total_precision, encode_policy(budget), self._data_digest, RAISE_DELAY_SECONDS, Unit.EPSILON
                )
            )
            state = self.state
        if state is None:
            raise BadLedger("the ledger does not show the account that was just opened")
        return state

    def _adopt_ledger_charges(self, requested_budget: Budget | None = None) -> None:
        """Enter into the book what only the ledger knows: losing the book does not renew the budget."""
        state = self.state
        ratio = None if state is None else parse_policy_ratio(state.policy_digest)
        if state is None or ratio is None:
            return
        if self.book.budget is None:
            same = requested_budget is not None and (
                requested_budget.total_precision,
                encode_policy(requested_budget),
            ) == (state.budget, state.policy_digest)
            budget = (
                requested_budget
                if requested_budget is not None and same
                else Budget(state.budget.exact, state.budget.exact * ratio)
            )
            self.book.set_budget(budget.epsilon, budget.delta)
        known = {derive_charge_id(state.account, task) for task in self.book.charged_tasks}
        for reservation in self._chain.list_reservations(state.account):
            if reservation.id not in known:
                self.book.adopt_charge(state.account, reservation.id, reservation.target)

    @property
    def _data_digest(self) -> bytes:
        return keccak(b"noisebank device\n", bytes.fromhex(self._key.address[2:]))

    def _refuse_first_edition(self) -> None:
        """Refuse a key with accounts of the first edition: one per spelling of delta, with unknown deltas."""
        old = [
            state
            for state in self._list_accounts()
            if state.data_commitment == self._data_digest and parse_policy_ratio(state.policy_digest) is None
        ]
        if old:
            spent = sum(float(state.spent) for state in old)
            raise Refused(
                f"this key has {len(old)} accounts of the first edition, which counted every delta apart; "
                f"they have spent epsilon {spent:g}. Make new keys, and a budget that leaves that much out"
            )


def derive_work_id(terms: TaskTerms, round_count: int) -> bytes:
    """Return the digest of what a charge pays for: these terms, for this number of rounds."""
    return digest_tagged("crowd work 1", {"terms": terms.to_bytes().decode(), "rounds": round_count})


def derive_charge_id(account: bytes, task: bytes) -> bytes:
    """Return the id of a task's charge on an account."""
    return digest_tagged("crowd charge 1", {"account": account.hex(), "task": task.hex()})


@dataclass(frozen=True)
class DeviceCharge:
    """A device's account, and a task's charge on it; None if the task was not charged."""

    state: AccountState
    reservation: Reservation | None


def follow_budget_ledger(node: Node, terms: TaskTerms) -> Follower:
    """Return the books of the budget ledger that a sound task names, read to the newest block."""
    follower = Follower(node, terms.ledger, 0, 1)
    follower.check_contract(None)
    follower.sync()
    return follower


def list_device_charges(follower: Follower, terms: TaskTerms, task: bytes) -> list[DeviceCharge]:
    """Return every device's account for trainings, with the task's charge if there is one."""
    first = first_edition_policy(terms.delta)
    return [
        DeviceCharge(state, follower.books.find_reservation(state.account, derive_charge_id(state.account, task)))
        for state in follower.books.list_accounts()
        if state.unit is Unit.EPSILON
        and (parse_policy_ratio(state.policy_digest) is not None or state.policy_digest == first)
    ]


def find_unpaid_models(node: Node, terms: TaskTerms, books: TaskBooks) -> list[str]:
    """Return one text per submission of a sound task that no earlier charge pays for."""
    if terms.mode != "sound":
        return []
    follower = follow_budget_ledger(node, terms)
    paid: dict[str, int] = {}
    for device in list_device_charges(follower, terms, books.setup.task_id):
        ratio = parse_policy_ratio(device.state.policy_digest)
        price = price_task(terms, ratio) if ratio else Precision.ceil(parse_exact(terms.epsilon, "epsilon"))
        if device.reservation is not None and device.reservation.target >= price:
            paid[device.state.owner + device.reservation.id.hex()] = device.reservation.block
    wrong = []
    for round in books.rounds:
        for submission in round.submissions:
            block = paid.get(submission.member + submission.receipt.hex())
            if block is None or block >= submission.block:
                wrong.append(f"round {round.number}: nothing pays for the model of {submission.member}")
    return wrong
