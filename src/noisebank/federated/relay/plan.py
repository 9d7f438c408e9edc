"""The plan of an attempt (who sends to whom, with how much noise): a pure function of terms, entries and seeds.

Everybody computes it alone from signed parts. All get the same plan; if a digest differs, nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import isqrt
from typing import Any, TypeVar

from noisebank.core.digests import digest_tagged
from noisebank.core.errors import BadRequest, Refused
from noisebank.federated.relay.grid import (
    BID_UNITS,
    MAX_SCALE,
    MIN_SCALE,
    STEPS_PER_BOUND,
    scale_for_bid,
    scale_for_variance,
)
from noisebank.federated.relay.split import order_by_preference, split_groups
from noisebank.federated.relay.terms import MAX_MEMBERS, RelayTerms

MAX_BID = 10**6 * BID_UNITS
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A member's signed entry for one attempt: endpoint, bid, commitment to a seed, public key to seal to."""

    address: str
    endpoint: str
    bid: int
    commitment: bytes
    public_key: bytes


@dataclass(frozen=True, slots=True)
class RelayChain:
    """One relay over the coordinates start .. stop: members in order and the noise scale of each, in steps."""

    start: int
    stop: int
    order: tuple[str, ...]
    scales: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.stop - self.start

    def variance(self, first: int = 0, last: int | None = None) -> int:
        """Returns the noise variance, in squared steps, that the members at positions first .. last (inclusive) add."""
        stop = len(self.scales) if last is None else last + 1
        return sum(scale * scale for scale in self.scales[first:stop])


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """`chains` for bas and sar; `member_scale`, the noise scale of every member in steps, for masked."""

    terms: RelayTerms
    attempt: int
    members: tuple[MemberEntry, ...]
    chains: tuple[RelayChain, ...]
    member_scale: int
    digest: bytes

    def find_entry(self, address: str) -> MemberEntry:
        """Returns the entry of the member with this address."""
        for member in self.members:
            if member.address == address:
                return member
        raise Refused(f"{address} takes no part in this attempt")

    @property
    def variance(self) -> Fraction:
        """Noise variance of one coordinate of the *sum*, in squared bounds; the mean has this over K^2."""
        if self.terms.mode == "masked":
            return Fraction(len(self.members) * self.member_scale**2, STEPS_PER_BOUND**2)
        parts = (chain.variance() * chain.size for chain in self.chains)
        return Fraction(sum(parts), self.terms.dimension * STEPS_PER_BOUND**2)


def seed_commitment(seed: bytes) -> bytes:
    """Returns the commitment that binds a member to its seed before it knows the others'."""
    return sha256(b"noisebank relay seed\n" + seed).digest()


def make_plan(
    terms: RelayTerms,
    round_id: str,
    attempt: int,
    members: Sequence[MemberEntry],
    seeds: Sequence[bytes],
    host_key: bytes,
) -> RelayPlan:
    """Compute the plan. Requires: entries with checked signatures, one seed each in the same order.

    Guarantees: refuses a seed that does not fit its commitment, a repeated address, endpoint or key, fewer members than
    agreed; the order is uniform (but for the largest bid, never first) if one seed is.
    """
    members = tuple(members)
    _check_members(terms, members)
    for member, seed in zip(members, seeds, strict=True):
        if len(seed) != 32 or seed_commitment(seed) != member.commitment:
            raise Refused(f"{member.address} revealed another seed than it was bound to")
    description = {
        "terms": terms.to_json(),
        "round": round_id,
        "attempt": attempt,
        "members": [entry_to_json(member) for member in members],
        "seeds": [seed.hex() for seed in seeds],
        "host_key": host_key.hex(),
    }
    digest = digest_tagged("relay plan 1", description)
    if terms.mode == "masked":
        return RelayPlan(terms, attempt, members, (), _masked_scale(terms, members), digest)
    words = _derive_words(digest)
    chains = [
        chain
        for group in _split_members(terms, members, words)
        for chain in _build_chains(terms, group, terms.slice_ranges, words)
    ]
    return RelayPlan(terms, attempt, members, tuple(chains), 0, digest)


def entry_to_json(entry: MemberEntry) -> dict[str, Any]:
    """Returns an entry as it is signed."""
    return {
        "address": entry.address,
        "endpoint": entry.endpoint,
        "bid": entry.bid,
        "commitment": entry.commitment.hex(),
        "public_key": entry.public_key.hex(),
    }


def base_scale(terms: RelayTerms, bids: Sequence[int]) -> int:
    """Returns the noise scale of a relay's first member: m times the largest bid, at least as agreed; refused if 0."""
    scale = max(scale_for_bid(max(bids)), scale_for_variance(terms.least))
    if scale == 0:
        raise Refused("every preference is 0 and no least noise is agreed: the exact sum would be sent")
    return _check_scale(max(scale, MIN_SCALE))


def _check_members(terms: RelayTerms, members: tuple[MemberEntry, ...]) -> None:
    needed = max(terms.least_members, 2 * terms.groups, terms.colluders + 2)
    if not needed <= len(members) <= MAX_MEMBERS:
        raise Refused(f"{len(members)} members: a round needs {needed} to {MAX_MEMBERS}")
    for name in ("address", "endpoint", "public_key", "commitment"):
        if len({getattr(member, name) for member in members}) < len(members):
            raise Refused(f"two members have the same {name.replace('_', ' ')}")
    for member in members:
        if not 0 <= member.bid <= MAX_BID:
            raise BadRequest("preference", member.bid / BID_UNITS, "must lie in [0, 1e6]")


def _masked_scale(terms: RelayTerms, members: tuple[MemberEntry, ...]) -> int:
    """Returns the scale for m M/(K - t) each, rounded up: without t colluders the noise together is still m M."""
    base = base_scale(terms, [member.bid for member in members])
    each = isqrt(-(-base * base // (len(members) - terms.colluders)) - 1) + 1
    return _check_scale(max(each, MIN_SCALE, scale_for_variance(terms.floor)))


def _check_scale(scale: int) -> int:
    if scale > MAX_SCALE:
        raise Refused("the bids or terms ask for more noise than 2^14 bounds: nothing would be learned")
    return scale


def _split_members(
    terms: RelayTerms, members: tuple[MemberEntry, ...], words: Iterator[int]
) -> list[list[MemberEntry]]:
    if terms.split == "sorted":
        order = [int(index) for index in order_by_preference([member.bid / BID_UNITS for member in members])]
    else:
        order = _shuffle_items(list(range(len(members))), words)
    return [[members[index] for index in group] for group in split_groups(order, terms.groups)]


def _build_chains(
    terms: RelayTerms, group: list[MemberEntry], slice_ranges: list[tuple[int, int]], words: Iterator[int]
) -> Iterator[RelayChain]:
    """Yields one BAS relay per slice. An order with the largest bid first is reshuffled; of equal bids one counts as
    the largest, or the paper's loop would never end."""
    base, floor = base_scale(terms, [member.bid for member in group]), scale_for_variance(terms.floor)
    largest = max(group, key=lambda member: (member.bid, member.address))
    scales = (max(base, floor), *(floor for _ in group[1:]))
    for start, stop in slice_ranges:
        order = _shuffle_items(group, words)
        while order[0] == largest:
            order = _shuffle_items(group, words)
        yield RelayChain(start, stop, tuple(member.address for member in order), scales)


def _derive_words(seed: bytes) -> Iterator[int]:
    """Yields pseudorandom 64-bit numbers from the seed: public, the same for everyone."""
    counter = 0
    while True:
        block = sha256(seed + counter.to_bytes(8, "big")).digest()
        yield from (int.from_bytes(block[start : start + 8], "big") for start in range(0, 32, 8))
        counter += 1


def _shuffle_items(items: list[T], words: Iterator[int]) -> list[T]:
    """Returns the items shuffled (Fisher-Yates with rejection): every order equally likely."""
    shuffled = list(items)
    for top in range(len(shuffled) - 1, 0, -1):
        limit = 2**64 - 2**64 % (top + 1)
        pick = next(word for word in words if word < limit) % (top + 1)
        shuffled[top], shuffled[pick] = shuffled[pick], shuffled[top]
    return shuffled
