"""The host's state of one attempt that has started: what has arrived, who complained, who makes progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import NoisebankError, Refused
from noisebank.federated.relay.attempt import MASKED_CHAIN
from noisebank.federated.relay.blame import ChainClaims, find_culprits
from noisebank.federated.relay.grid import is_plausible
from noisebank.federated.relay.messages import Message, to_printable
from noisebank.federated.relay.plan import RelayPlan
from noisebank.federated.relay.transport import PeerUnreachable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.federated.relay.sealing import AttemptKey

    Steps = NDArray[np.uint64]

POLL_SECONDS = 0.5
"""Seconds between two polls of the members."""
Replies = dict[str, Message | NoisebankError]


class AttemptCollector:
    """Collects the ends of one attempt. Not thread safe: the host holds a lock around everything but `poll_members`."""

    def __init__(self, plan: RelayPlan, key: AttemptKey, address: str, round_id: str) -> None:
        self.plan, self._key, self._address, self._round = plan, key, address, round_id
        self._end_sums: dict[int, Steps] = {}
        self._masked_vectors: dict[str, Steps] = {}
        self._suspects: dict[str, str] = {}
        self._complaints: list[tuple[str, str, str]] = []
        self._states: dict[str, ChainClaims | None] = {member.address: None for member in plan.members}
        self._last_answers = {member.address: time.monotonic() for member in plan.members}
        self._last_progress = time.monotonic()
        self.is_closed = False
        self.is_hopeless = False
        """The sum is wrong and nobody can be blamed: masks hide every member, the liar too."""

    @property
    def is_complete(self) -> bool:
        """Whether every end has arrived and is plausible, without suspects or complaints."""
        if self._suspects or self._complaints:
            return False
        if self.plan.terms.mode == "masked":
            return len(self._masked_vectors) == len(self.plan.members) and not self._is_mask_implausible()
        return len(self._end_sums) == len(self.plan.chains)

    @property
    def has_failed(self) -> bool:
        """Whether there is a suspect or a complaint: no point in waiting."""
        return bool(self._suspects or self._complaints)

    @property
    def pause_seconds(self) -> float:
        """Seconds to wait for the next message."""
        return POLL_SECONDS / 10 if self.has_failed else POLL_SECONDS

    def compute_sum(self) -> Steps:
        """Returns the sum over all members, in steps modulo 2^64."""
        total = np.zeros(self.plan.terms.dimension, dtype=np.uint64)
        for number, end in self._end_sums.items():
            chain = self.plan.chains[number]
            total[chain.start : chain.stop] += end
        for masked in self._masked_vectors.values():
            total += masked
        return total

    def mark_suspect(self, address: str, why: str) -> None:
        """Mark a member to be left out; the first reason counts."""
        self._suspects.setdefault(address, why)

    def accept_message(self, message: Message) -> str:
        """Accept an end or a complaint; returns the kind of the reply."""
        if self.is_closed or message.attempt != self.plan.attempt:
            raise Refused("this message belongs to another attempt")
        entry = self.plan.find_entry(message.sender)
        if message.kind == "complain":
            return self._take_complaint(message)
        number = message.body["chain"]
        if message.body["plan"] != self.plan.digest.hex() or type(number) is not int:
            raise Refused("this sum belongs to another plan")
        purpose = f"{message.sender} {self._address} {number}"
        raw = self._key.open(message.payload, entry.public_key, purpose, self.plan.digest)
        total = np.frombuffer(raw, dtype="<u8").astype(np.uint64)
        if number == MASKED_CHAIN and self.plan.terms.mode == "masked":
            kind = self._take_masked(message.sender, total)
        else:
            kind = self._take_end(message.sender, number, total)
        self._last_progress = time.monotonic()  # only what was accepted is progress: repetitions gain no time
        return kind

    def _take_complaint(self, message: Message) -> str:
        """One per member and attempt, and only about a neighbour: else one accuser could have everybody left out."""
        sender, about, number = message.sender, message.body["about"], message.body["chain"]
        if any(sender == earlier for earlier, _, _ in self._complaints):
            raise Refused("one complaint is enough")
        if about not in ("", self._address) and about not in self._chain_neighbours(sender, number):
            raise Refused("a complaint is about a neighbour in a chain, or about nobody")
        self._complaints.append((sender, about, to_printable(message.body["why"])))
        return "noted"

    def _chain_neighbours(self, address: str, chain_number: object) -> tuple[str, ...]:
        if type(chain_number) is not int or not 0 <= chain_number < len(self.plan.chains):
            return ()
        order = self.plan.chains[chain_number].order
        if address not in order:
            return ()
        position = order.index(address)
        return (*order[max(0, position - 1) : position], *order[position + 1 : position + 2])

    def _take_masked(self, sender: str, total: Steps) -> str:
        if sender in self._masked_vectors or len(total) != self.plan.terms.dimension:
            raise Refused("one masked vector of the agreed length from each member")
        self._masked_vectors[sender] = total
        return "receipt"

    def _take_end(self, sender: str, chain_number: int, total: Steps) -> str:
        if not 0 <= chain_number < len(self.plan.chains) or chain_number in self._end_sums:
            raise Refused("there is no such chain, or its end came before")
        chain = self.plan.chains[chain_number]
        if chain.order[-1] != sender or len(total) != chain.size:
            raise Refused("the sender is not the last of that chain, or the sum has another length")
        if not is_plausible(total, len(chain.order), chain.variance()):
            # The last member checks what it receives: it made this sum itself, or failed to complain.
            self.mark_suspect(sender, "sent a sum that honest members cannot send")
        self._end_sums[chain_number] = total
        return "receipt"

    def poll_members(self, ask_states: Callable[[list[int]], Replies]) -> dict[str, str]:
        """Ask all members for their state. Returns those to exclude with the reason; nobody while there is progress."""
        waiting = [number for number in range(len(self.plan.chains)) if number not in self._end_sums][:16]
        now = time.monotonic()
        gone: dict[str, str] = {}
        silent = set()
        for address, reply in ask_states(waiting).items():
            if isinstance(reply, Message):
                self._record_state(address, reply, now)
            elif self._has_passed_all(address):
                continue  # its part has arrived: the attempt does not need it any more
            elif isinstance(reply, PeerUnreachable):
                gone[address] = "vanished"
            elif now - self._last_answers[address] > self.plan.terms.patience_seconds:
                gone[address] = "does not answer"
            else:
                silent.add(address)
        if self.is_complete:
            return {}
        if gone or self._suspects:
            return gone | self._suspects
        if self._complaints:
            # Who is silent right now may be dying: the next poll shows it, and spares the member that complained.
            return {} if silent & {about for _, about, _ in self._complaints} else self._resolve_complaints()
        if self.plan.terms.mode == "masked" and len(self._masked_vectors) == len(self.plan.members):
            self.is_hopeless = True
            return {"nobody named": "the masked sum is not one that honest members can send"}
        return self._blame_stalled() if now - self._last_progress > self.plan.terms.patience_seconds else {}

    def _has_passed_all(self, address: str) -> bool:
        if self.plan.terms.mode == "masked":
            return address in self._masked_vectors
        return all(
            number in self._end_sums or self._has_received(chain.order, chain.order.index(address) + 1, number)
            for number, chain in enumerate(self.plan.chains)
            if address in chain.order
        )

    def _has_received(self, order: tuple[str, ...], position: int, chain_number: int) -> bool:
        """Whether the member at this position says that it has the sum: believed, since a lie harms only itself."""
        state = self._states.get(order[position]) if position < len(order) else None
        return state is not None and chain_number in state.received

    def _record_state(self, address: str, reply: Message, now: float) -> None:
        try:
            state = ChainClaims.parse(reply.body)
        except (KeyError, TypeError, ValueError):
            self.mark_suspect(address, "sent a state that cannot be read")
            return
        self._last_answers[address] = now
        earlier = self._states.get(address)
        own_chains = {number for number, chain in enumerate(self.plan.chains) if address in chain.order}
        state = state.restrict_to(own_chains)
        merged = state if earlier is None else earlier.merge_with(state)
        if merged != earlier:  # states only grow, up to the member's own chains: claims cannot buy time for ever
            self._last_progress = now
        self._states[address] = merged

    def _resolve_complaints(self) -> dict[str, str]:
        """Everyone answers, yet somebody complained: one of the two lies or their link is broken. Exclude both."""
        reasons: dict[str, str] = {}
        for sender, about, why in self._complaints:
            reasons[sender] = f"complained: {why}" if about else why
            if about in self._states:
                reasons[about] = f"was complained about: {why}"
        return reasons

    def _blame_stalled(self) -> dict[str, str]:
        if self.plan.terms.mode == "masked":
            return {who: "sent nothing in time" for who in self._states if who not in self._masked_vectors}
        return find_culprits(self.plan, self._round, self._states, set(self._end_sums))

    def _is_mask_implausible(self) -> bool:
        count = len(self.plan.members)
        return not is_plausible(self.compute_sum(), count, count * self.plan.member_scale**2)
