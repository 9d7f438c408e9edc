"""The sound mode's budget: a device's own account on the budget ledger, charged once for a task, before any training.

The account counts epsilons of (epsilon, delta) guarantees with one delta a task, fixed in its policy. Tasks compose by
addition: after k tasks an example is protected by (sum of epsilons, k delta). The reservation's id goes with every
submission, so that anybody can see that the charge was in an earlier block than the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from noisebank.digests import keccak, tagged
from noisebank.errors import BadRequest, Tampered
from noisebank.federated.crowd.books import TaskBooks
from noisebank.federated.crowd.terms import Terms
from noisebank.ledger.follower import Follower
from noisebank.ledger.node import Node
from noisebank.ledger.protocol import THE_OWNER, AccountState, Claim, Opening, Reservation, Role, Unit
from noisebank.ledger.rpc import RpcChain
from noisebank.ledger.signing import Key
from noisebank.ledger.where import Where
from noisebank.records import Case
from noisebank.units import Exact, Precision, exact

ABOUT_TRAINING = 65
"""The public byte of a training."""
RAISE_DELAY = 86_400


def training_policy(delta: str) -> bytes:
    """The digest of what such an account promises."""
    return tagged("crowd policy 1", {"unit": "epsilon of one example over a task", "delta of a task": delta})


class DeviceAccount:
    """A device's budget on the task's chain. The device is its owner and its curator."""

    def __init__(self, url: str, ledger: str, key: Key, folder: Path, delta: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        node = Node(url)
        where = Where(url, ledger, node.chain_id(), 0)
        self._chain = RpcChain(where, {Role.OWNER: key, Role.CURATOR: key}, folder / "outbox.sqlite")
        self._key, self._delta = key, delta

    @property
    def state(self) -> AccountState | None:
        """Budget and spend; None if there is no account yet."""
        policy = training_policy(self._delta)
        for state in self._chain.books.accounts():
            if state.owner == self._key.address and state.policy == policy and state.unit is Unit.EPSILON:
                return state
        return None

    def open(self, epsilon: Exact) -> AccountState:
        """Opens the device's one account for this delta, if there is none; its budget is never raised here."""
        found = self.state
        if found is None:
            budget = Precision.floor(exact(epsilon, "epsilon"))
            data = keccak(b"noisebank device\n", bytes.fromhex(self._key.address[2:]))
            self._chain.open_account(Opening(budget, training_policy(self._delta), data, RAISE_DELAY, Unit.EPSILON))
            found = self.state
        assert found is not None
        return found

    def charge(self, task: bytes, epsilon: Exact) -> Reservation:
        """Charges a task, once: asked again it gives the same reservation. Durable on return."""
        state = self.state
        if state is None:
            raise BadRequest("account", self._key.address, "this device has no budget for trainings yet")
        wanted = Precision.ceil(exact(epsilon, "epsilon"))
        id = charge_id(state.account, task)
        found = self._chain.reservation(state.account, id)
        if found is None:
            query = keccak(b"noisebank training\n", task)
            (found,) = self._chain.reserve(Claim(state.account, id, query, THE_OWNER, ABOUT_TRAINING, wanted, wanted))
            if found.case is not Case.FIRST:
                raise Tampered("this task was charged under another id")
        if found.wanted != wanted:
            raise BadRequest("epsilon", epsilon, f"this task was charged {found.wanted}; a task has one epsilon")
        return found

    def close(self) -> None:
        """Nothing is lost."""
        self._chain.close()


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
    """Every device's account for trainings at this delta, with the task's charge if there is one."""
    policy = training_policy(terms.delta)
    return [
        Charged(state, follower.books.reservation(state.account, charge_id(state.account, task)))
        for state in follower.books.accounts()
        if state.unit is Unit.EPSILON and state.policy == policy
    ]


def unpaid(node: Node, terms: Terms, books: TaskBooks) -> list[str]:
    """Submissions of a sound task that no earlier charge pays for."""
    if terms.mode != "sound":
        return []
    follower = budget_follower(node, terms)
    wanted = Precision.ceil(exact(terms.epsilon, "epsilon"))
    paid: dict[str, int] = {}
    for each in devices(follower, terms, books.posted.task):
        if each.charge is not None and each.charge.wanted >= wanted:
            paid[each.state.owner + each.charge.id.hex()] = each.charge.block
    wrong = []
    for round in books.rounds:
        for submission in round.submissions:
            block = paid.get(submission.member + submission.receipt.hex())
            if block is None or block >= submission.block:
                wrong.append(f"round {round.number}: nothing pays for the model of {submission.member}")
    return wrong
