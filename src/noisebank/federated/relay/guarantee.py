"""Privacy guarantees of a member against each coalition, computed from the plan before anything is sent.

Requires: everyone follows the plan and is at most curious. Against cheats a relay keeps what it promises against two
members: a member's own noise (section 7 of the proof). Masked members lose the cheats' noise and nothing else.
Guarantees: a coalition of other members, with or without the server, learns about one member's *whole vector* no
more than a Gaussian mechanism of the returned precision (4 x squared norm / hiding variance, added over slices) shows.
Slices of one vector do not compose in parallel: the paper's Theorems 6 to 8 are wrong. Proof: docs/proofs/relay.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any

from noisebank.core.units import ZERO_PRECISION, Precision
from noisebank.federated.relay.grid import STEPS_PER_BOUND
from noisebank.federated.relay.plan import RelayChain, RelayPlan
from noisebank.federated.relay.terms import RelayTerms
from noisebank.privacy.calibration import account_epsilon

Loss = Precision | None
"""None: no protection; the numbers themselves can be computed."""


@dataclass(frozen=True, slots=True)
class Coalition:
    """A coalition against one member: how many of the others, and whether the server is in it."""

    member_count: int
    includes_server: bool

    def __str__(self) -> str:
        if not self.member_count:
            return "the server alone" if self.includes_server else "outsiders"
        who = "one curious member" if self.member_count == 1 else f"{self.member_count} colluding members"
        return f"{who} and the server" if self.includes_server else who


@dataclass(frozen=True, slots=True)
class RelayGuarantee:
    """Against one coalition: precision spent (mu squared), and epsilon at the terms' delta. Infinite if unprotected."""

    coalition: Coalition
    loss: Loss
    epsilon: float

    def __str__(self) -> str:
        if self.loss is None:
            return "NO PROTECTION: the vector, or a part of it, can be computed"
        if not self.loss:
            return "nothing"
        return f"epsilon {self.epsilon:.4g}" + (" (protects nobody)" if self.epsilon > 20.0 else "")

    def to_json(self) -> dict[str, Any]:
        """Returns what --json prints; epsilon is null where nothing protects."""
        return {
            "trust": str(self.coalition),
            "mu_squared": None if self.loss is None else float(self.loss),
            "epsilon": None if self.loss is None else self.epsilon,
        }


def list_coalitions(terms: RelayTerms, member_count: int) -> list[Coalition]:
    """Returns the coalitions that are always reported, weakest first."""
    sizes = sorted({1, 2, max(1, terms.colluders), member_count - 1} & set(range(1, member_count)))
    return [
        Coalition(0, False),
        Coalition(0, True),
        *(Coalition(size, server) for size in sizes for server in (False, True)),
    ]


def attempt_loss(plan: RelayPlan, address: str, coalition: Coalition) -> Loss:
    """Returns the precision that one attempt under `plan` costs the member, against this coalition."""
    ends = coalition.includes_server or plan.terms.publish
    if plan.terms.mode == "masked":
        if not ends:
            return ZERO_PRECISION
        honest = max(1, len(plan.members) - coalition.member_count)  # the member itself is no part of the coalition
        return _gaussian_precision(Fraction(plan.terms.dimension), honest * plan.member_scale**2)
    spent = ZERO_PRECISION
    for chain in plan.chains:
        if address not in chain.order:
            continue
        hidden = hiding_variance(chain, chain.order.index(address), coalition.member_count, ends)
        if hidden is None:
            continue
        if hidden == 0:
            return None
        spent = spent + _gaussian_precision(_max_squared_norm(plan.terms, chain), hidden)
    return spent


def hiding_variance(chain: RelayChain, position: int, coalition_size: int, knows_end: bool) -> int | None:
    """Returns the least noise variance (squared steps) between two sums that the coalition knows around `position`.

    None if it knows no sum that contains the member. Known on the left: 0, or what the neighbour before sent. Known on
    the right: what the neighbour after received, or the end of the relay. Neighbours are the best positions to hold.
    """
    last = len(chain.order) - 1
    variances = []
    if knows_end:
        variances.append(chain.variance())
        if coalition_size >= 1 and position > 0:
            variances.append(chain.variance(position))
    if coalition_size >= 1 and position < last:
        variances.append(chain.variance(0, position))
    if coalition_size >= 2 and 0 < position < last:
        variances.append(chain.variance(position, position))
    return min(variances, default=None)


def compute_guarantees(plan: RelayPlan, address: str, spent_plans: Sequence[RelayPlan] = ()) -> list[RelayGuarantee]:
    """Returns one guarantee per coalition: this attempt together with the earlier ones in which the member sent."""
    return [
        compute_guarantee([*spent_plans, plan], address, trust)
        for trust in list_coalitions(plan.terms, len(plan.members))
    ]


def compute_guarantee(plans: Sequence[RelayPlan], address: str, coalition: Coalition) -> RelayGuarantee:
    """Returns the guarantee over all these attempts: they use fresh noise, so their precisions add."""
    total: Loss = ZERO_PRECISION
    for plan in plans:
        spent = attempt_loss(plan, address, coalition)
        total = None if spent is None or total is None else total + spent
    return _to_guarantee(coalition, total, plans[-1].terms)


def worst_guarantees(plan: RelayPlan) -> list[RelayGuarantee]:
    """Returns one guarantee per coalition: that of the member that is worst off."""
    worst = []
    for trust in list_coalitions(plan.terms, len(plan.members)):
        losses = [attempt_loss(plan, member.address, trust) for member in plan.members]
        finite = [spent for spent in losses if spent is not None]
        worst.append(_to_guarantee(trust, max(finite) if len(finite) == len(losses) else None, plan.terms))
    return worst


def _to_guarantee(coalition: Coalition, total: Loss, terms: RelayTerms) -> RelayGuarantee:
    return RelayGuarantee(coalition, total, inf if total is None else _cached_epsilon(total, terms.delta))


@lru_cache(maxsize=4096)
def _cached_epsilon(total: Precision, delta: Fraction) -> float:
    """Returns epsilon at this delta; cached, since many coalitions learn the same and it takes milliseconds."""
    return float(account_epsilon(total, delta))


def _max_squared_norm(terms: RelayTerms, chain: RelayChain) -> Fraction:
    """Returns the squared norm, in squared bounds, of the longest slice that a member may send."""
    whole = Fraction(chain.size)
    return whole if terms.slice_norm is None else min(whole, terms.slice_norm**2)


def _gaussian_precision(squared_norm: Fraction, variance: int) -> Precision:
    return Precision.ceil(4 * squared_norm * STEPS_PER_BOUND**2 / variance)
