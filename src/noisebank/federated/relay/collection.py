"""The host's state of one attempt that has started: what has arrived, who complained, who makes progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import NoisebankError, Refused
from noisebank.federated.relay.attempt import MASKED
from noisebank.federated.relay.blame import State, culprits
from noisebank.federated.relay.grid import plausible
from noisebank.federated.relay.messages import Message, plain_words
from noisebank.federated.relay.plan import Plan
from noisebank.federated.relay.transport import Unreachable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.federated.relay.sealing import AttemptKey

    Steps = NDArray[np.uint64]

PROBE = 0.5
"""Seconds between two polls of the members."""
Replies = dict[str, Message | NoisebankError]


class Collecting:
    """Collects the ends of one attempt. Not thread safe: the host holds a lock around everything but `poll_members`."""

    def __init__(self, plan: Plan, key: AttemptKey, address: str, round_id: str) -> None:
        self.plan, self._key, self._address, self._round = plan, key, address, round_id
        self._ends: dict[int, Steps] = {}
        self._masked: dict[str, Steps] = {}
        self._suspects: dict[str, str] = {}
        self._complaints: list[tuple[str, str, str]] = []
        self._states: dict[str, State | None] = {member.address: None for member in plan.members}
        self._answered = {member.address: time.monotonic() for member in plan.members}
        self._moved = time.monotonic()
        self.closed = False
        self.hopeless = False
        """The sum is wrong and nobody can be blamed: masks hide every member, the liar too."""

    @property
    def complete(self) -> bool:
        """Whether every end has arrived and is plausible, without suspects or complaints."""
        if self._suspects or self._complaints:
            return False
        if self.plan.terms.mode == "masked":
            return len(self._masked) == len(self.plan.members) and not self._implausible_mask()
        return len(self._ends) == len(self.plan.chains)

    @property
    def failed(self) -> bool:
        """Whether there is a suspect or a complaint: no point in waiting."""
        return bool(self._suspects or self._complaints)

    @property
    def pause(self) -> float:
        """Seconds to wait for the next message."""
        return PROBE / 10 if self.failed else PROBE

    def total(self) -> Steps:
        """Returns the sum over all members, in steps modulo 2^64."""
        total = np.zeros(self.plan.terms.dimension, dtype=np.uint64)
        for number, end in self._ends.items():
            chain = self.plan.chains[number]
            total[chain.start : chain.stop] += end
        for masked in self._masked.values():
            total += masked
        return total

    def suspect(self, address: str, why: str) -> None:
        """Mark a member to be left out; the first reason counts."""
        self._suspects.setdefault(address, why)

    def take(self, message: Message) -> str:
        """Accept an end or a complaint; returns the kind of the reply."""
        if self.closed or message.attempt != self.plan.attempt:
            raise Refused("this message belongs to another attempt")
        entry = self.plan.entry(message.sender)
        if message.kind == "complain":
            return self._take_complaint(message)
        number = message.body["chain"]
        if message.body["plan"] != self.plan.digest.hex() or type(number) is not int:
            raise Refused("this sum belongs to another plan")
        purpose = f"{message.sender} {self._address} {number}"
        raw = self._key.open(message.payload, entry.public_key, purpose, self.plan.digest)
        total = np.frombuffer(raw, dtype="<u8").astype(np.uint64)
        if number == MASKED and self.plan.terms.mode == "masked":
            kind = self._take_masked(message.sender, total)
        else:
            kind = self._take_end(message.sender, number, total)
        self._moved = time.monotonic()  # only what was accepted is progress: repetitions gain no time
        return kind

    def _take_complaint(self, message: Message) -> str:
        """One per member and attempt, and only about a neighbour: else one accuser could have everybody left out."""
        sender, about, number = message.sender, message.body["about"], message.body["chain"]
        if any(sender == earlier for earlier, _, _ in self._complaints):
            raise Refused("one complaint is enough")
        if about not in ("", self._address) and about not in self._neighbours(sender, number):
            raise Refused("a complaint is about a neighbour in a chain, or about nobody")
        self._complaints.append((sender, about, plain_words(message.body["why"])))
        return "noted"

    def _neighbours(self, address: str, number: object) -> tuple[str, ...]:
        if type(number) is not int or not 0 <= number < len(self.plan.chains):
            return ()
        order = self.plan.chains[number].order
        if address not in order:
            return ()
        position = order.index(address)
        return (*order[max(0, position - 1) : position], *order[position + 1 : position + 2])

    def _take_masked(self, sender: str, total: Steps) -> str:
        if sender in self._masked or len(total) != self.plan.terms.dimension:
            raise Refused("one masked vector of the agreed length from each member")
        self._masked[sender] = total
        return "receipt"

    def _take_end(self, sender: str, number: int, total: Steps) -> str:
        if not 0 <= number < len(self.plan.chains) or number in self._ends:
            raise Refused("there is no such chain, or its end came before")
        chain = self.plan.chains[number]
        if chain.order[-1] != sender or len(total) != chain.size:
            raise Refused("the sender is not the last of that chain, or the sum has another length")
        if not plausible(total, len(chain.order), chain.variance()):
            # The last member checks what it receives: it made this sum itself, or failed to complain.
            self.suspect(sender, "sent a sum that honest members cannot send")
        self._ends[number] = total
        return "receipt"

    def look(self, ask_states: Callable[[list[int]], Replies]) -> dict[str, str]:
        """Ask all members for their state. Returns those to exclude with the reason; nobody while there is progress."""
        waiting = [number for number in range(len(self.plan.chains)) if number not in self._ends][:16]
        now = time.monotonic()
        gone: dict[str, str] = {}
        silent = set()
        for address, reply in ask_states(waiting).items():
            if isinstance(reply, Message):
                self._heard(address, reply, now)
            elif self._has_passed_all(address):
                continue  # its part has arrived: the attempt does not need it any more
            elif isinstance(reply, Unreachable):
                gone[address] = "vanished"
            elif now - self._answered[address] > self.plan.terms.patience:
                gone[address] = "does not answer"
            else:
                silent.add(address)
        if self.complete:
            return {}
        if gone or self._suspects:
            return gone | self._suspects
        if self._complaints:
            # Who is silent right now may be dying: the next poll shows it, and spares the member that complained.
            return {} if silent & {about for _, about, _ in self._complaints} else self._resolved()
        if self.plan.terms.mode == "masked" and len(self._masked) == len(self.plan.members):
            self.hopeless = True
            return {"nobody named": "the masked sum is not one that honest members can send"}
        return self._stalled() if now - self._moved > self.plan.terms.patience else {}

    def _has_passed_all(self, address: str) -> bool:
        if self.plan.terms.mode == "masked":
            return address in self._masked
        return all(
            number in self._ends or self._took(chain.order, chain.order.index(address) + 1, number)
            for number, chain in enumerate(self.plan.chains)
            if address in chain.order
        )

    def _took(self, order: tuple[str, ...], place: int, number: int) -> bool:
        """Whether the member at this position says that it has the sum: believed, since a lie harms only itself."""
        state = self._states.get(order[place]) if place < len(order) else None
        return state is not None and number in state.received

    def _heard(self, address: str, reply: Message, now: float) -> None:
        try:
            state = State.parse(reply.body)
        except (KeyError, TypeError, ValueError):
            self.suspect(address, "sent a state that cannot be read")
            return
        self._answered[address] = now
        earlier = self._states.get(address)
        own_chains = {number for number, chain in enumerate(self.plan.chains) if address in chain.order}
        state = state.within(own_chains)
        merged = state if earlier is None else earlier.with_more(state)
        if merged != earlier:  # states only grow, up to the member's own chains: claims cannot buy time for ever
            self._moved = now
        self._states[address] = merged

    def _resolved(self) -> dict[str, str]:
        """Everyone answers, yet somebody complained: one of the two lies or their link is broken. Exclude both."""
        reasons: dict[str, str] = {}
        for sender, about, why in self._complaints:
            reasons[sender] = f"complained: {why}" if about else why
            if about in self._states:
                reasons[about] = f"was complained about: {why}"
        return reasons

    def _stalled(self) -> dict[str, str]:
        if self.plan.terms.mode == "masked":
            return {who: "sent nothing in time" for who in self._states if who not in self._masked}
        return culprits(self.plan, self._round, self._states, set(self._ends))

    def _implausible_mask(self) -> bool:
        count = len(self.plan.members)
        return not plausible(self.total(), count, count * self.plan.scale**2)
