"""Find who stopped a relay, from the members' states, their signed receipts, and who does not answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisebank.core.errors import NoisebankError
from noisebank.federated.relay.messages import Message
from noisebank.federated.relay.plan import RelayPlan


@dataclass(frozen=True, slots=True)
class ChainClaims:
    """What a member reports about itself: chains received and sent, and the next member's signed receipts."""

    received: frozenset[int]
    sent: frozenset[int]
    receipts: dict[int, str]

    @classmethod
    def parse(cls, body: dict[str, Any]) -> ChainClaims:
        """Returns the state in a message's body; chain numbers must be whole numbers."""
        receipts = {int(number): str(raw) for number, raw in dict(body.get("receipts", {})).items()}
        return cls(frozenset(map(int, body["received"])), frozenset(map(int, body["sent"])), receipts)

    def restrict_to(self, chains: set[int]) -> ChainClaims:
        """Returns the state without claims about other chains than these."""
        receipts = {number: raw for number, raw in self.receipts.items() if number in chains}
        return ChainClaims(self.received & chains, self.sent & chains, receipts)

    def merge_with(self, later: ChainClaims) -> ChainClaims:
        """Returns the union of both states: claims are never withdrawn."""
        return ChainClaims(self.received | later.received, self.sent | later.sent, {**self.receipts, **later.receipts})


def find_culprits(
    plan: RelayPlan, round_id: str, states: Mapping[str, ChainClaims | None], arrived: set[int]
) -> dict[str, str]:
    """Returns the members to exclude, with the reason. Requires: every chain outside `arrived` has stopped moving.

    A silent member is excluded alone. If one says "sent" and the next "not received", a receipt decides; without one
    nobody can tell who lies, and both are excluded: accusing somebody costs as much as being accused.
    """
    reasons: dict[str, str] = {}
    for number, chain in enumerate(plan.chains):
        if number not in arrived:
            reasons |= _blame_chain(chain.order, states, number, (round_id, plan.attempt))
    return reasons


def _blame_chain(
    order: tuple[str, ...], states: Mapping[str, ChainClaims | None], chain_number: int, attempt_id: tuple[str, int]
) -> dict[str, str]:
    for position, address in enumerate(order):
        state = states.get(address)
        if state is None:
            return {address: "vanished"}
        if chain_number in state.sent:
            continue
        if position == 0 or chain_number in state.received:
            return {address: "holds a sum and does not pass it on"}
        before = states[order[position - 1]]
        if before is not None and is_receipt(before.receipts.get(chain_number, ""), address, chain_number, attempt_id):
            return {address: "denies a sum that it has signed for"}
        why = "one says sent, the other says not received"
        return {order[position - 1]: why, address: why}
    return {order[-1]: "says that it sent the last sum; it never came"}


def is_receipt(raw: str, address: str, chain_number: int, attempt_id: tuple[str, int]) -> bool:
    """Whether this is the member's signed receipt for the chain, in this round and attempt."""
    try:
        receipt = Message.decode(bytes.fromhex(raw))
    except (NoisebankError, ValueError):
        return False
    claims = (receipt.kind, receipt.sender, receipt.body.get("chain"), (receipt.round, receipt.attempt))
    return claims == ("receipt", address, chain_number, attempt_id)
