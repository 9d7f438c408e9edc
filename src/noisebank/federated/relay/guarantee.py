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

from noisebank.core.units import NOTHING, Precision
from noisebank.federated.relay.grid import STEPS
from noisebank.federated.relay.plan import Chain, Plan
from noisebank.federated.relay.terms import Terms
from noisebank.privacy.calibration import account_epsilon

Loss = Precision | None
"""None: no protection; the numbers themselves can be computed."""


@dataclass(frozen=True, slots=True)
class Trust:
    """A coalition against one member: how many of the others, and whether the server is in it."""

    members: int
    server: bool

    def __str__(self) -> str:
        if not self.members:
            return "the server alone" if self.server else "outsiders"
        who = "one curious member" if self.members == 1 else f"{self.members} colluding members"
        return f"{who} and the server" if self.server else who


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Against one coalition: precision spent (mu squared), and epsilon at the terms' delta. Infinite if unprotected."""

    trust: Trust
    loss: Loss
    epsilon: float

    def __str__(self) -> str:
        if self.loss is None:
            return "NO PROTECTION: the vector, or a part of it, can be computed"
        if not self.loss:
            return "nothing"
        return f"epsilon {self.epsilon:.4g}" + (" (protects nobody)" if self.epsilon > 20.0 else "")

    def plain(self) -> dict[str, Any]:
        """Returns what --json prints; epsilon is null where nothing protects."""
        return {
            "trust": str(self.trust),
            "mu_squared": None if self.loss is None else float(self.loss),
            "epsilon": None if self.loss is None else self.epsilon,
        }


def trusts(terms: Terms, members: int) -> list[Trust]:
    """Returns the coalitions that are always reported, weakest first."""
    sizes = sorted({1, 2, max(1, terms.colluders), members - 1} & set(range(1, members)))
    return [Trust(0, False), Trust(0, True), *(Trust(size, server) for size in sizes for server in (False, True))]


def loss(plan: Plan, address: str, trust: Trust) -> Loss:
    """Returns the precision that one attempt under `plan` costs the member, against this coalition."""
    ends = trust.server or plan.terms.publish
    if plan.terms.mode == "masked":
        if not ends:
            return NOTHING
        honest = max(1, len(plan.members) - trust.members)  # the member itself is no part of the coalition
        return _precision(Fraction(plan.terms.dimension), honest * plan.scale**2)
    spent = NOTHING
    for chain in plan.chains:
        if address not in chain.order:
            continue
        hidden = hiding(chain, chain.order.index(address), trust.members, ends)
        if hidden is None:
            continue
        if hidden == 0:
            return None
        spent = spent + _precision(_reach(plan.terms, chain), hidden)
    return spent


def hiding(chain: Chain, place: int, members: int, ends: bool) -> int | None:
    """Returns the least noise variance (squared steps) between two sums that the coalition knows around `position`.

    None if it knows no sum that contains the member. Known on the left: 0, or what the neighbour before sent. Known on
    the right: what the neighbour after received, or the end of the relay. Neighbours are the best positions to hold.
    """
    last = len(chain.order) - 1
    variances = []
    if ends:
        variances.append(chain.variance())
        if members >= 1 and place > 0:
            variances.append(chain.variance(place))
    if members >= 1 and place < last:
        variances.append(chain.variance(0, place))
    if members >= 2 and 0 < place < last:
        variances.append(chain.variance(place, place))
    return min(variances, default=None)


def guarantees(plan: Plan, address: str, spent: Sequence[Plan] = ()) -> list[Guarantee]:
    """Returns one guarantee per coalition: this attempt together with the earlier ones in which the member sent."""
    return [guarantee([*spent, plan], address, trust) for trust in trusts(plan.terms, len(plan.members))]


def guarantee(plans: Sequence[Plan], address: str, trust: Trust) -> Guarantee:
    """Returns the guarantee over all these attempts: they use fresh noise, so their precisions add."""
    total: Loss = NOTHING
    for plan in plans:
        spent = loss(plan, address, trust)
        total = None if spent is None or total is None else total + spent
    return _made(trust, total, plans[-1].terms)


def worst_guarantees(plan: Plan) -> list[Guarantee]:
    """Returns one guarantee per coalition: that of the member that is worst off."""
    worst = []
    for trust in trusts(plan.terms, len(plan.members)):
        losses = [loss(plan, member.address, trust) for member in plan.members]
        finite = [spent for spent in losses if spent is not None]
        worst.append(_made(trust, max(finite) if len(finite) == len(losses) else None, plan.terms))
    return worst


def _made(trust: Trust, total: Loss, terms: Terms) -> Guarantee:
    return Guarantee(trust, total, inf if total is None else _epsilon(total, terms.delta))


@lru_cache(maxsize=4096)
def _epsilon(total: Precision, delta: Fraction) -> float:
    """Returns epsilon at this delta; cached, since many coalitions learn the same and it takes milliseconds."""
    return float(account_epsilon(total, delta))


def _reach(terms: Terms, chain: Chain) -> Fraction:
    """Returns the squared norm, in squared bounds, of the longest slice that a member may send."""
    whole = Fraction(chain.size)
    return whole if terms.slice_norm is None else min(whole, terms.slice_norm**2)


def _precision(reach: Fraction, variance: int) -> Precision:
    return Precision.ceil(4 * reach * STEPS**2 / variance)
