"""What `RelayMember.run` returns: how a round ended for one member. The host's side is `host.RoundOutcome`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noisebank.federated.relay.guarantee import RelayGuarantee

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class MemberOutcome:
    """The end for one member. `mean` only if the terms publish it; `guarantees` cover all attempts it sent in."""

    done: bool
    reason: str
    member_count: int
    attempts_sent: int
    clipped_count: int
    mean: NDArray[np.float64] | None
    guarantees: list[RelayGuarantee] = field(default_factory=list)
