"""A member's requirements on a plan: it sends nothing unless they are met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.relay.guarantee import Coalition, compute_guarantee
from noisebank.federated.relay.plan import RelayPlan
from noisebank.federated.relay.remedies import may_join

ONE_CURIOUS_MEMBER = Coalition(1, False)
MAX_DELTA = Fraction(1, 10**5)


@dataclass(frozen=True, slots=True)
class Requirements:
    """Take part only if `coalition` learns at most `max_epsilon` (all attempts together) and collusion is unlikely.

    The default asks for *some* protection against one curious member: a relay whose mean is published has none.
    """

    coalition: Coalition = ONE_CURIOUS_MEMBER
    max_epsilon: float = inf
    suspicion: float | None = None
    attackers: str = "weak"
    peers: frozenset[str] = frozenset()
    unprotected: bool = False
    max_delta: Fraction = MAX_DELTA
    """The host chooses the delta of a round; above this its epsilons say too little."""

    def __post_init__(self) -> None:
        if not self.max_epsilon > 0.0:
            raise BadRequest("epsilon", self.max_epsilon, "must be above 0")
        if self.suspicion is not None:
            may_join(self.suspicion, 2, self.attackers)

    def check_plan(self, plan: RelayPlan, address: str, spent_plans: Sequence[RelayPlan] = ()) -> None:
        """Raise `Refused` with a reason unless the plan, after the `spent_plans`, meets the requirements."""
        if plan.terms.delta > self.max_delta:
            raise Refused(f"epsilons at delta {plan.terms.delta}, above {self.max_delta}, say too little")
        strangers = {member.address for member in plan.members} - self.peers - {address} if self.peers else set()
        if strangers:
            raise Refused(f"{len(strangers)} members are not among the expected peers")
        users = len(plan.members) // plan.terms.groups
        if self.suspicion is not None and not may_join(self.suspicion, users, self.attackers):
            raise Refused(f"collusion is too likely: p = {self.suspicion:g} among {users} members")
        promised = compute_guarantee([*spent_plans, plan], address, self.coalition)
        if promised.loss is None and not self.unprotected:
            raise Refused(f"{self.coalition} could compute the vector: a floor or masked mode would protect it")
        if promised.epsilon > self.max_epsilon and not (promised.loss is None and self.max_epsilon == inf):
            raise Refused(
                f"{self.coalition} would learn epsilon {promised.epsilon:.4g}, more than {self.max_epsilon:g}"
            )
