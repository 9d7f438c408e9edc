"""A member's state in one attempt: its keys, the plan it agreed to, what it has received and sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.errors import BadRequest, Refused, Tampered
from noisebank.federated.relay.grid import STEPS_PER_BOUND, clip_norm, clip_steps, draw_noise, quantize_vector
from noisebank.federated.relay.messages import Message
from noisebank.federated.relay.plan import MAX_BID, MemberEntry, RelayPlan, entry_to_json, make_plan, seed_commitment
from noisebank.federated.relay.sealing import AttemptKey, check_public_key, sum_masks
from noisebank.federated.relay.terms import MAX_MEMBERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.core.entropy import Entropy
    from noisebank.federated.relay.terms import RelayTerms

    Steps = NDArray[np.uint64]

MASKED_CHAIN = -1
"""The chain number of a masked vector, which belongs to no chain."""


@dataclass(slots=True)
class Attempt:
    """Created when the host opens an attempt; dropped, with its keys, when it opens the next one or ends the round."""

    round: str
    number: int
    own_entry: MemberEntry
    key: AttemptKey
    seed: bytes
    entries: tuple[MemberEntry, ...] = ()
    host_key: bytes = b""
    plan: RelayPlan | None = None
    started: bool = False
    received: set[int] = field(default_factory=set)
    sent: set[int] = field(default_factory=set)
    receipts: dict[int, str] = field(default_factory=dict)

    @property
    def agreed_plan(self) -> RelayPlan:
        """The plan; refused before there is one."""
        if self.plan is None:
            raise Refused("there is no plan yet")
        return self.plan

    def take_roster(self, body: dict[str, Any]) -> None:
        """Check every entry's own signature, so that a host cannot swap a key or a bid. One roster per attempt.

        Every key must also work now: from the plan on nothing may fail.
        """
        if self.entries:
            raise Refused("there is a roster already")
        if not isinstance(body["entries"], list) or len(body["entries"]) > MAX_MEMBERS:
            raise Tampered("the roster has more entries than a round has members")
        entries = tuple(read_entry(bytes.fromhex(_check_text(raw)), self.round, self.number) for raw in body["entries"])
        if self.own_entry not in entries:
            raise Tampered("the roster does not hold this member's entry as it was sent")
        host_key = bytes.fromhex(_check_text(body["host_key"]))
        check_public_key(host_key)
        self.host_key, self.entries = host_key, entries

    def derive_plan(self, terms: RelayTerms, seeds: list[str]) -> RelayPlan:
        """Returns the plan that follows from the revealed seeds."""
        if not self.entries or self.plan is not None:
            raise Refused("a plan comes once, after the roster")
        raw = [bytes.fromhex(_check_text(seed)) for seed in seeds]
        return make_plan(terms, self.round, self.number, self.entries, raw, self.host_key)

    def take_sum(self, message: Message) -> tuple[int, Steps]:
        """Returns (chain number, sum) that the predecessor passed on: each chain once, under the agreed plan."""
        plan, number = self.agreed_plan, message.body.get("chain")
        if message.body.get("plan") != plan.digest.hex():
            raise Refused("this sum belongs to another plan")
        if type(number) is not int or not 0 <= number < len(plan.chains):
            raise Refused("there is no such chain")
        chain = plan.chains[number]
        position = chain.order.index(self.own_entry.address) if self.own_entry.address in chain.order else 0
        if position == 0 or chain.order[position - 1] != message.sender:
            raise Refused("the sender does not come before this member in that chain")
        if number in self.received:
            raise Refused("this chain was received before")
        sender = plan.find_entry(message.sender)
        purpose = f"{message.sender} {self.own_entry.address} {number}"
        raw = self.key.open(message.payload, sender.public_key, purpose, plan.digest)
        if len(raw) != 8 * chain.size:
            raise Refused("the sum has another length than its slice")
        self.received.add(number)
        return number, np.frombuffer(raw, dtype="<u8").astype(np.uint64)

    def add_contribution(self, chain_number: int, before: Steps | None, steps: Steps, entropy: Entropy) -> Steps:
        """Returns the sum with this member's part and noise added. Only this leaves the process, and only sealed.

        `steps` comes from `prepare_steps` for the same terms, before anything was agreed.
        """
        plan = self.agreed_plan
        terms = plan.terms
        if steps.dtype != np.uint64 or steps.shape != (terms.dimension,):
            raise BadRequest("vector", f"{steps.dtype} {steps.shape}", "must be prepared for the terms of the round")
        steps = clip_steps(steps)
        if chain_number == MASKED_CHAIN:
            others = [(entry.address, entry.public_key) for entry in plan.members if entry != self.own_entry]
            hidden = steps + draw_noise(plan.member_scale, terms.dimension, entropy)
            return hidden + sum_masks(self.key, self.own_entry.address, others, terms.dimension, plan.digest)
        chain = plan.chains[chain_number]
        part = steps[chain.start : chain.stop]
        position = chain.order.index(self.own_entry.address)
        if (before is None) != (position == 0):
            raise Refused("only the first of a chain starts it")
        drawn = draw_noise(chain.scales[position], chain.size, entropy)
        return part + drawn if before is None else before + part + drawn

    def next_member(self, chain_number: int) -> MemberEntry | None:
        """Returns who gets the sum next; None is the host."""
        if chain_number == MASKED_CHAIN:
            return None
        order = self.agreed_plan.chains[chain_number].order
        position = order.index(self.own_entry.address)
        return None if position == len(order) - 1 else self.agreed_plan.find_entry(order[position + 1])

    def seal_sum(self, total: Steps, chain_number: int, to: str, public_key: bytes) -> bytes:
        """Returns the sum encrypted to its receiver."""
        raw = total.astype("<u8").tobytes()
        return self.key.seal(raw, public_key, f"{self.own_entry.address} {to} {chain_number}", self.agreed_plan.digest)


def new_attempt(round_id: str, number: int, address: str, endpoint: str, bid: int, entropy: Entropy) -> Attempt:
    """Returns an attempt with fresh keys and a fresh seed."""
    key, seed = AttemptKey(entropy.token()), entropy.token()
    entry = MemberEntry(address, endpoint, bid, seed_commitment(seed), key.public_key)
    return Attempt(round_id, number, entry, key, seed)


def read_entry(raw: bytes, round_id: str, number: int) -> MemberEntry:
    """Returns a member's signed entry for this attempt; `Tampered` for anything else."""
    message = Message.decode(raw)
    if (message.kind, message.round, message.attempt) != ("enter", round_id, number):
        raise Tampered("an entry is of another round or attempt")
    body = message.body
    try:
        if type(body["bid"]) is not int:
            raise TypeError("a bid is a whole number")
        entry = MemberEntry(
            message.sender,
            _check_text(body["endpoint"]),
            body["bid"],
            bytes.fromhex(_check_text(body["commitment"])),
            bytes.fromhex(_check_text(body["public_key"])),
        )
    except (KeyError, TypeError, ValueError):
        raise Tampered("an entry cannot be read") from None
    if entry_to_json(entry) != {**{name: body[name] for name in body if name != "re"}, "address": message.sender}:
        raise Tampered("an entry says more or less than it should")
    if not 0 <= entry.bid <= MAX_BID or len(entry.public_key) != 32:
        raise Tampered("an entry has a bid or key outside its range")
    check_public_key(entry.public_key)
    return entry


def prepare_steps(vector: Any, terms: RelayTerms) -> Steps:
    """Returns a member's vector as the terms ask for it: clipped, on the grid, slices scaled down to their norm."""
    steps = quantize_vector(vector, terms.bound, terms.dimension).steps
    if terms.slice_norm is None:
        return steps
    limit = int(terms.slice_norm * STEPS_PER_BOUND)
    return np.concatenate([clip_norm(steps[start:stop], limit) for start, stop in terms.slice_ranges])


def _check_text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 2**16:
        raise BadRequest("message", "a field", "must be text")
    return value
