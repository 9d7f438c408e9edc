"""Rounds between threads over real sockets, with everything that goes over the wire kept and every key known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import chi2

from noisebank import NoisebankError
from noisebank.federated.relay import RelayMember, RelayTerms
from support.internals import (
    BID_UNITS,
    STEPS_PER_BOUND,
    AttemptKey,
    Host,
    Key,
    MemberEntry,
    MemberOutcome,
    Message,
    RelayPlan,
    Requirements,
    RoundOutcome,
    SystemEntropy,
    Tampered,
    make_plan,
    quantize_vector,
    seed_commitment,
    simulation_rng,
)
from support.patience import join_threads, patience


class Remembering(SystemEntropy):
    """Real entropy whose tokens (keys and seeds) the test knows."""

    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    def token(self, size: int = 32) -> bytes:
        self.tokens.append(super().token(size))
        return self.tokens[-1]


class Killed(BaseException):
    """Not an Exception: nothing in the product catches it, as nothing catches SIGKILL."""


class Mortal(RelayMember):
    """Dies at a step of its first attempt, if it has the wanted place in the first chain: no further byte leaves it."""

    dies: tuple[str, int | None] | None = None
    dead = False

    def _die_at(self, step: str) -> None:
        if self.dies is None or self.dies[0] != step or self.dead:
            return
        plan = self._attempt.plan if self._attempt else None
        place = self.dies[1]
        if (
            place is not None
            and plan is not None
            and plan.chains[0].order.index(self.address) != place % len(plan.members)
        ):
            return
        if self._attempt is not None and self._attempt.number > 1:
            return
        self.dead = True
        self._finish_round(MemberOutcome(False, "killed", 0, 0, 0, None))
        raise Killed

    def _handle_message(self, raw: bytes) -> bytes:
        if self.dead:
            raise Killed
        kind = Message.decode(raw).kind
        if kind != "status":
            self._die_at(f"before {kind}")
        reply = super()._handle_message(raw)
        if kind != "status":
            self._die_at(f"after {kind}")
        if self.dead:
            raise Killed
        return reply

    def _run_jobs(self) -> None:
        try:
            super()._run_jobs()
        except Killed:
            return

    def _forward_sum(self, attempt: Any, chain_number: int, before: Any) -> None:
        self._die_at("before sending")
        super()._forward_sum(attempt, chain_number, before)
        self._die_at("after sending")

    def _send_complaint(self, *said: Any) -> None:
        if not self.dead:
            super()._send_complaint(*said)


@dataclass
class Played:
    """All that can be known about a round afterwards."""

    round: RoundOutcome
    outcomes: list[MemberOutcome | NoisebankError | None]
    vectors: np.ndarray
    keys: list[Key]
    host: Host
    plans: dict[int, RelayPlan] = field(default_factory=dict)
    wire: list[tuple[str, bytes]] = field(default_factory=list)
    tokens: list[bytes] = field(default_factory=list)
    members: list[RelayMember] = field(default_factory=list)

    def vector(self, address: str) -> np.ndarray:
        return self.vectors[[key.address for key in self.keys].index(address)]

    def messages(self, kind: str) -> list[Message]:
        found = []
        for _, raw in self.wire:
            try:
                message = Message.decode(raw)
            except Tampered:
                continue  # the plain words of a refusal
            found += [message] if message.kind == kind else []
        return found

    def sums(self) -> list[tuple[Message, np.ndarray]]:
        """Every sum that was sent, opened with its receiver's key: more than any single party could do."""
        found = []
        known = [AttemptKey(token) for token in self.tokens if len(token) == 32]
        for message in self.messages("pass"):
            plan = self.plans[message.attempt]
            public = plan.find_entry(message.sender).public_key
            purpose = f"{message.sender} {message.to} {message.body['chain']}"
            for key in known:
                try:
                    raw = key.open(message.payload, public, purpose, plan.digest)
                except Tampered:
                    continue
                found.append((message, np.frombuffer(raw, dtype="<u8").astype(np.uint64)))
                break
            else:
                raise AssertionError("a sum on the wire is sealed to nobody")
        return found


def play(
    terms: RelayTerms,
    users: int = 4,
    *,
    preferences: list[float] | None = None,
    vectors: np.ndarray | None = None,
    pasts: np.ndarray | None = None,
    kinds: dict[int, type[RelayMember]] | None = None,
    dies: tuple[str, int | None] | None = None,
    mortal: set[int] | None = None,
    demands: dict[int, Requirements] | None = None,
    wait: float | None = None,
    meddle: Callable[[Host, list[RelayMember]], None] = lambda host, members: None,
    seed: int = 1,
    wire: list[tuple[str, bytes]] | None = None,
) -> Played:
    """One round; `kinds` puts other classes in some members' places, `dies` kills one of `mortal` (all by default)."""
    made = simulation_rng(seed)
    x = made.uniform(-1.0, 1.0, (users, terms.dimension)) if vectors is None else vectors
    betas = preferences or [0.5 + 0.1 * number for number in range(users)]
    entropies = [Remembering() for _ in range(users + 1)]
    keys = [Key(SystemEntropy().token()) for _ in range(users)]
    wire = [] if wire is None else wire
    plans: dict[int, RelayPlan] = {}

    def tap(to: str, raw: bytes) -> None:
        wire.append((to, raw))

    wait = patience() if wait is None else wait
    host = Host(Key(SystemEntropy().token()), terms, users, wait_seconds=wait, entropy=entropies[-1], tap=tap,
                show=lambda plan, found: plans.update({plan.attempt: plan}))  # fmt: skip
    members: list[RelayMember] = []
    for number in range(users):
        kind = (kinds or {}).get(number, Mortal if dies else RelayMember)
        member = kind(
            keys[number],
            x[number],
            betas[number],
            host.endpoint,
            entropy=entropies[number],
            tap=tap,
            requirements=(demands or {}).get(number),
            past_vector=None if pasts is None else pasts[number],
        )
        if isinstance(member, Mortal) and (mortal is None or number in mortal):
            member.dies = dies
        members.append(member)
    outcomes: list[Any] = [None] * users

    def run(number: int) -> None:
        try:
            outcomes[number] = members[number].run()
        except NoisebankError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(users)]
    for thread in threads:
        thread.start()
    meddle(host, members)
    ended = host.run()
    join_threads(threads)
    tokens = [token for entropy in entropies for token in entropy.tokens]
    return Played(ended, outcomes, x, keys, host, plans, list(wire), tokens, members)


def made_plan(terms: RelayTerms, bids: list[float], attempt: int = 1, salt: int = 0) -> RelayPlan:
    """A plan over made-up members."""
    seeds = [bytes([number + 1, salt]) * 16 for number in range(len(bids))]
    members = [
        MemberEntry(
            f"0x{number:040x}", f"127.0.0.1:{7000 + number}", round(bid * BID_UNITS), seed_commitment(seed), seed
        )
        for number, (bid, seed) in enumerate(zip(bids, seeds, strict=True))
    ]
    return make_plan(terms, "test", attempt, members, seeds, b"")


def residuals(played: Played) -> list[tuple[np.ndarray, float]]:
    """For every sum on the wire (opened, unmasked by nobody): what it contains beyond the true vectors, in bounds, and
    the variance that the plan promises there."""
    found = []
    for message, total in played.sums():
        plan = played.plans[message.attempt]
        chain = plan.chains[message.body["chain"]]
        place = chain.order.index(message.sender)
        inside = [
            quantize_vector(played.vector(who), Fraction(1), plan.terms.dimension).steps
            for who in chain.order[: place + 1]
        ]
        truth = np.sum([steps[chain.start : chain.stop] for steps in inside], axis=0, dtype=np.uint64)
        rest = (total - truth).view(np.int64) / STEPS_PER_BOUND
        found.append((rest, chain.variance(0, place) / STEPS_PER_BOUND**2))
    return found


def check_wire(played: Played) -> None:
    """No sum on the wire has less noise than promised, nobody gets two of one chain, no raw number is in any byte."""
    starts: dict[int, list[np.ndarray]] = {}
    for (message, _), (rest, variance) in zip(played.sums(), residuals(played), strict=True):
        scaled = rest / variance**0.5
        low, high = chi2.ppf([1e-9, 1 - 1e-9], len(rest))  # a slice may have ten numbers only, and there are hundreds
        assert low < float(np.square(scaled).sum()) < high
        if played.plans[message.attempt].chains[message.body["chain"]].order[0] == message.sender:
            starts.setdefault(message.attempt, []).append(scaled)
    for parts in starts.values():  # 1.3 times the scale is a ratio of 1.69, 0.7 times it .49
        drawn = np.concatenate(parts)
        if len(drawn) >= 300:
            assert 0.55 < float(np.square(drawn).mean()) < 1.6
    seen = [(m.to, m.attempt, m.body["chain"], m.sender) for m in played.messages("pass")]
    assert len(set(seen)) == len(seen)
    receivers = [(m.to, m.attempt, m.body["chain"]) for m in played.messages("pass") if m.body["chain"] >= 0]
    assert len(set(receivers)) == len(receivers)
    sent = b"".join(raw for _, raw in played.wire)
    for vector in played.vectors:
        steps = quantize_vector(vector, Fraction(1), len(vector)).steps
        assert vector[:2].tobytes() not in sent and steps[:2].tobytes() not in sent


def check_masked(played: Played) -> None:
    """A masked vector is uniform on 64 bits even when opened, and so is the sum of an attempt that is not complete."""
    by_attempt: dict[int, list[np.ndarray]] = {}
    for message, masked in played.sums():
        top = np.count_nonzero(masked >> np.uint64(63))
        assert abs(top - len(masked) / 2) < 5 * len(masked) ** 0.5 / 2, message.sender
        size = np.abs(masked.view(np.int64).astype(float))  # a vector without its masks has 2^40 or a little more
        assert len(masked) >= 1_000  # .1 is then six standard deviations; of 300 numbers three and a half
        assert 0.4 < float(np.mean(size > 2.0**62)) < 0.6, message.sender
        by_attempt.setdefault(message.attempt, []).append(masked)
    for attempt, parts in by_attempt.items():
        total = np.sum(parts, axis=0, dtype=np.uint64).view(np.int64).astype(float)
        whole = len(parts) == len(played.plans[attempt].members)
        assert (np.abs(total).max() < 2.0**50) == whole
