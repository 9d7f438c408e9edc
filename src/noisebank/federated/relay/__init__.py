"""Noisy means over users who trust neither a bank nor each other (Chained-DP), with the guarantees that really hold.

>>> [round(float(v), 4) for v in subgame_perfect([0.5, 1.3, 0.9])]  # the first takes all the noise
[0.8189, 0.0, 0.0]
>>> round(float(price_of_anarchy([0.5, 1.3, 0.9])), 4)
1.0299
>>> round(strong_chance(10, 0.1), 4)  # chance that colluders have a member between them
0.0848

`Host` and `RelayMember` run a round between processes: docs/explanation/relay.md. What a member is promised, and
against whom, follows from the plan alone and is shown before anything is sent: `compute_guarantees`.
"""

from noisebank.federated.relay.collusion import collusion_threshold, published_chance, strong_chance, weak_chance
from noisebank.federated.relay.game import (
    best_response,
    central_optimum,
    local_costs,
    local_variances,
    nash_equilibrium,
    price_of_anarchy,
    relay_costs,
    subgame_perfect,
)
from noisebank.federated.relay.guarantee import Coalition, RelayGuarantee, compute_guarantees, worst_guarantees
from noisebank.federated.relay.host import Host, RoundOutcome
from noisebank.federated.relay.member import RelayMember
from noisebank.federated.relay.outcome import MemberOutcome
from noisebank.federated.relay.plan import RelayPlan, make_plan
from noisebank.federated.relay.remedies import may_join, reclip_slices
from noisebank.federated.relay.requirements import Requirements
from noisebank.federated.relay.split import order_by_preference, split_error, split_groups
from noisebank.federated.relay.terms import RelayTerms, min_variance

__all__ = [
    "Coalition",
    "Host",
    "MemberOutcome",
    "RelayGuarantee",
    "RelayMember",
    "RelayPlan",
    "RelayTerms",
    "Requirements",
    "RoundOutcome",
    "best_response",
    "central_optimum",
    "collusion_threshold",
    "compute_guarantees",
    "local_costs",
    "local_variances",
    "make_plan",
    "may_join",
    "min_variance",
    "nash_equilibrium",
    "order_by_preference",
    "price_of_anarchy",
    "published_chance",
    "reclip_slices",
    "relay_costs",
    "split_error",
    "split_groups",
    "strong_chance",
    "subgame_perfect",
    "weak_chance",
    "worst_guarantees",
]
