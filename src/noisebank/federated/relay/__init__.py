"""Noisy means over users who trust neither a bank nor each other (Chained-DP), with the guarantees that really hold.

>>> [round(float(v), 4) for v in subgame_perfect([0.5, 1.3, 0.9])]  # the first takes all the noise
[0.8189, 0.0, 0.0]
>>> round(float(price_of_anarchy([0.5, 1.3, 0.9])), 4)
1.0299
>>> round(strong(10, 0.1), 4)  # chance that colluders have a member between them
0.0848

`Host` and `Member` run a round between processes: docs/relay.md. What a member is promised, and against whom, follows
from the plan alone and is shown before anything is sent: `compute_guarantees`.
"""

from noisebank.federated.relay.collusion import published, strong, threshold, weak
from noisebank.federated.relay.game import (
    best_response,
    central_optimum,
    costs,
    local,
    local_costs,
    nash,
    price_of_anarchy,
    subgame_perfect,
)
from noisebank.federated.relay.guarantee import Guarantee, Trust, guarantees, worst_guarantees
from noisebank.federated.relay.host import Host, Round
from noisebank.federated.relay.member import Member
from noisebank.federated.relay.outcome import Outcome
from noisebank.federated.relay.plan import Plan, make_plan
from noisebank.federated.relay.remedies import may_join, reclip
from noisebank.federated.relay.requirements import Demand
from noisebank.federated.relay.split import groups_of, sorted_order, split_error
from noisebank.federated.relay.terms import Terms, least_variance

__all__ = [
    "Demand",
    "Guarantee",
    "Host",
    "Member",
    "Outcome",
    "Plan",
    "Round",
    "Terms",
    "Trust",
    "best_response",
    "central_optimum",
    "costs",
    "groups_of",
    "guarantees",
    "least_variance",
    "local",
    "local_costs",
    "make_plan",
    "may_join",
    "nash",
    "price_of_anarchy",
    "published",
    "reclip",
    "sorted_order",
    "split_error",
    "strong",
    "subgame_perfect",
    "threshold",
    "weak",
    "worst_guarantees",
]
