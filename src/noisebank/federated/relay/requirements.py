"""What a member insists on before it sends anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.relay.guarantee import Trust, guarantee
from noisebank.federated.relay.plan import Plan
from noisebank.federated.relay.remedies import may_join

ONE_CURIOUS_MEMBER = Trust(1, False)
MOST_DELTA = Fraction(1, 10**5)


@dataclass(frozen=True, slots=True)
class Demand:
    """Take part only if `trust` learns at most epsilon (all attempts together), and if collusion seems unlikely enough.

    The default asks for *some* protection against one curious member: a relay whose mean is published has none.
    """

    trust: Trust = ONE_CURIOUS_MEMBER
    epsilon: float = inf
    suspicion: float | None = None
    attackers: str = "weak"
    peers: frozenset[str] = frozenset()
    unprotected: bool = False
    delta: Fraction = MOST_DELTA
    """The host names the delta of a round; above this its epsilons say too little."""

    def __post_init__(self) -> None:
        if not self.epsilon > 0.0:
            raise BadRequest("epsilon", self.epsilon, "must be above 0")
        if self.suspicion is not None:
            may_join(self.suspicion, 2, self.attackers)

    def check(self, plan: Plan, address: str, spent: Sequence[Plan] = ()) -> None:
        """Refused with a reason, or nothing."""
        if plan.terms.delta > self.delta:
            raise Refused(f"epsilons at delta {plan.terms.delta}, above {self.delta}, say too little")
        strangers = {member.address for member in plan.members} - self.peers - {address} if self.peers else set()
        if strangers:
            raise Refused(f"{len(strangers)} members are not among the expected peers")
        users = len(plan.members) // plan.terms.groups
        if self.suspicion is not None and not may_join(self.suspicion, users, self.attackers):
            raise Refused(f"collusion is too likely: p = {self.suspicion:g} among {users} members")
        found = guarantee([*spent, plan], address, self.trust)
        if found.loss is None and not self.unprotected:
            raise Refused(f"{self.trust} could compute the vector: a floor or masked mode would protect it")
        if found.epsilon > self.epsilon and not (found.loss is None and self.epsilon == inf):
            raise Refused(f"{self.trust} would learn epsilon {found.epsilon:.4g}, more than {self.epsilon:g}")
