"""The public report of a relay round: who took part with which noise, and what each was promised against whom.

`relay host --report` writes it, the service's page Learning shows it. It has nothing that the members do not know of
each other; the mean is in it only if the terms publish the sum: the guarantees then count everybody as knowing it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from noisebank.core.errors import BadRequest
from noisebank.federated.relay.grid import BID_UNITS, STEPS_PER_BOUND
from noisebank.federated.relay.guarantee import compute_guarantees
from noisebank.federated.relay.terms import RelayTerms

if TYPE_CHECKING:
    from noisebank.federated.relay.host import RoundOutcome
    from noisebank.federated.relay.plan import RelayPlan

FORMAT = "noisebank relay round 1"
MAX_NAME_LENGTH = 200
FIELDS = {"format", "name", "done", "reason", "terms", "attempts", "stddev", "mean", "members", "left_out"}
MEMBER_FIELDS = {"address", "preference", "noise", "position", "promises"}


@dataclass(frozen=True, slots=True)
class Promise:
    """Against one coalition; `epsilon` is None where nothing protects, 0 where nothing can be learned."""

    coalition: str
    epsilon: float | None


@dataclass(frozen=True, slots=True)
class MemberPromises:
    """One member of the last attempt. `noise` is the standard deviation that it added itself, in bounds."""

    address: str
    preference: float
    noise: float
    position: int | None
    """In the only relay that it was part of, from 1; None if masked or in several."""
    promises: tuple[Promise, ...]


@dataclass(frozen=True, slots=True)
class RelayReport:
    """How a round ended and what was promised. `mean` and `stddev` are in the vectors' unit."""

    name: str
    done: bool
    reason: str
    terms: RelayTerms
    attempts: int
    stddev: float
    mean: tuple[float, ...] | None
    members: tuple[MemberPromises, ...]
    left_out: tuple[tuple[str, str], ...]

    def to_bytes(self) -> bytes:
        """Return the report as JSON."""
        plain = {
            "format": FORMAT, "name": self.name, "done": self.done, "reason": self.reason,
            "terms": self.terms.to_json(), "attempts": self.attempts, "stddev": self.stddev,
            "mean": None if self.mean is None else list(self.mean), "left_out": dict(self.left_out),
            "members": [
                {
                    "address": member.address, "preference": member.preference, "noise": member.noise,
                    "position": member.position,
                    "promises": [[promise.coalition, promise.epsilon] for promise in member.promises],
                }
                for member in self.members
            ],
        }  # fmt: skip
        return json.dumps(plain, indent=1).encode() + b"\n"


def make_round_report(name: str, plans: Sequence[RelayPlan], outcome: RoundOutcome) -> RelayReport:
    """Return the report of a round from the plans of all its attempts.

    A member is counted as having sent in every attempt that it was part of: the host cannot know better.
    """
    if len(name) > MAX_NAME_LENGTH:
        raise BadRequest("name", name[:40], f"must have at most {MAX_NAME_LENGTH} characters")
    if not plans:
        raise BadRequest("report", "of a round without a plan", "has nothing to say: too few members were there")
    plan = plans[-1]
    mean = outcome.mean if plan.terms.publish else None
    return RelayReport(
        name, outcome.done, outcome.reason, plan.terms, outcome.attempt_count, outcome.stddev,
        None if mean is None else tuple(float(number) for number in mean),
        tuple(_describe_member(plans, member.address, member.bid) for member in plan.members),
        tuple(sorted(outcome.left_out.items())),
    )  # fmt: skip


def read_round_report(content: bytes) -> RelayReport:
    """Return the report in `content`; `BadRequest` if it is none."""
    try:
        plain: Any = json.loads(content)
        if set(plain) != FIELDS or plain["format"] != FORMAT:
            raise ValueError("other fields")
        mean, left_out = plain["mean"], plain["left_out"].items()
        return RelayReport(
            name=str(plain["name"]),
            done=bool(plain["done"]),
            reason=str(plain["reason"]),
            terms=RelayTerms.from_json(plain["terms"]),
            attempts=int(plain["attempts"]),
            stddev=float(plain["stddev"]),
            mean=None if mean is None else tuple(float(number) for number in mean),
            members=tuple(_read_member(member) for member in plain["members"]),
            left_out=tuple(sorted((str(who), str(why)) for who, why in left_out)),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadRequest):
        raise BadRequest("report", content[:40], f"is no {FORMAT!r}") from None


def _describe_member(plans: Sequence[RelayPlan], address: str, bid: int) -> MemberPromises:
    plan = plans[-1]
    earlier = [one for one in plans[:-1] if any(member.address == address for member in one.members)]
    chains = [chain for chain in plan.chains if address in chain.order]
    scale = max((chain.scales[chain.order.index(address)] for chain in chains), default=plan.member_scale)
    return MemberPromises(
        address, bid / BID_UNITS, scale / STEPS_PER_BOUND,
        chains[0].order.index(address) + 1 if len(chains) == 1 else None,
        tuple(
            Promise(str(row.coalition), None if row.loss is None else row.epsilon if row.loss else 0.0)
            for row in compute_guarantees(plan, address, earlier)
        ),
    )  # fmt: skip


def _read_member(plain: Any) -> MemberPromises:
    if set(plain) != MEMBER_FIELDS:
        raise ValueError("other fields")
    promises = tuple(
        Promise(str(coalition), None if epsilon is None else float(epsilon)) for coalition, epsilon in plain["promises"]
    )
    position = plain["position"]
    return MemberPromises(
        str(plain["address"]), float(plain["preference"]), float(plain["noise"]),
        None if position is None else int(position), promises,
    )  # fmt: skip
