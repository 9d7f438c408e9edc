"""The host of a relay round: waits for members, negotiates a plan, collects the sum, goes on without those that fail.

The host sees bids, the ends of relays (or masked vectors), and who stopped. It never sees a sum in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest, NoisebankError, Refused, Tampered
from noisebank.federated.relay.collection import AttemptCollector
from noisebank.federated.relay.grid import dequantize_sum
from noisebank.federated.relay.guarantee import RelayGuarantee, worst_guarantees
from noisebank.federated.relay.messages import Message, MessageSigner, ReplayGuard, check_reply
from noisebank.federated.relay.negotiation import negotiate_plan
from noisebank.federated.relay.plan import RelayPlan
from noisebank.federated.relay.sealing import AttemptKey
from noisebank.federated.relay.terms import MAX_MEMBERS, RelayTerms
from noisebank.federated.relay.transport import HEADER_ROOM, MessageServer, Tap, ask, parse_endpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.core.entropy import Entropy
    from noisebank.ledger.signing import Key

Show = Callable[[RelayPlan, list[RelayGuarantee]], None]
Say = Callable[[str], None]
SETUP_PATIENCE = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """How a round ended. `stddev` is the noise of one coordinate of the mean, in the vector's unit."""

    done: bool
    reason: str
    member_count: int
    attempt_count: int
    mean: NDArray[np.float64] | None
    stddev: float
    left_out: dict[str, str]
    guarantees: list[RelayGuarantee]
    seconds: float
    """From the moment that all members had joined."""


@dataclass(slots=True)
class _Progress:
    left_out: dict[str, str] = field(default_factory=dict)
    tried_count: int = 0
    sent_count: int = 0
    guarantees: list[RelayGuarantee] = field(default_factory=list)


class Host:
    """Runs one round. Waits for `member_count` members; after `wait_seconds` it starts with those who have joined."""

    def __init__(
        self,
        key: Key,
        terms: RelayTerms,
        member_count: int,
        *,
        listen: str = "127.0.0.1:0",
        allowed_addresses: frozenset[str] = frozenset(),
        wait_seconds: float = 60.0,
        entropy: Entropy | None = None,
        tap: Tap = lambda to, raw: None,
        show: Show = lambda plan, promises: None,
        say: Say = lambda line: None,
    ) -> None:
        if not max(2, terms.least_members) <= member_count <= MAX_MEMBERS:
            raise BadRequest("members", member_count, f"must lie in {max(2, terms.least_members)} .. {MAX_MEMBERS}")
        self._signer, self._replay_guard, self.terms = MessageSigner(key), ReplayGuard(key.address), terms
        self._member_count, self._allowed_addresses, self._wait_seconds = member_count, allowed_addresses, wait_seconds
        self._tap, self._show, self._say = tap, show, say
        self._entropy: Entropy = entropy or SystemEntropy()
        self._round = self._entropy.token(16).hex()
        self._condition = threading.Condition()
        self._joined: dict[str, str] = {}
        self._ever_joined: dict[str, str] = {}
        """Endpoints of everyone who ever joined: those left out are told the end too, if they still listen."""
        self._has_begun = False
        self._collector: AttemptCollector | None = None
        self._progress = _Progress()
        self._server = MessageServer(listen, self._handle_message, SETUP_PATIENCE + terms.patience_seconds, tap)
        self._server.max_message = HEADER_ROOM + 8 * terms.dimension
        self.endpoint, self.address = self._server.endpoint, key.address

    def run(self) -> RoundOutcome:
        """Serve until the round has ended, successfully or not; every member that still answers is told."""
        with self._server:
            try:
                self._wait_for_members()
                begun = time.monotonic()
                return self._run_attempts(begun)
            except BaseException:
                self._tell_end(False, "the host stopped", None)
                raise

    def _wait_for_members(self) -> None:
        until = time.monotonic() + self._wait_seconds
        with self._condition:
            while len(self._joined) < self._member_count and time.monotonic() < until:
                self._condition.wait(0.05)
            self._has_begun = True

    def _run_attempts(self, start_time: float) -> RoundOutcome:
        """Run attempts until one succeeds. Terminates: each ends the round, uses an attempt up or loses a member."""
        reason, total, plan = "", None, None
        while total is None:
            try:
                plan = self._negotiate_plan()
            except Refused as why:
                reason = str(why)
                break
            if plan is None:
                continue
            self._progress.sent_count += 1
            total, reason = self._collect_sum(plan)
            if total is None and (self._progress.sent_count >= self.terms.attempts or not self._can_continue()):
                reason = f"{reason}; {self._progress.sent_count} of {self.terms.attempts} attempts used"
                break
        return self._finish_round(plan, total, reason, start_time)

    def _can_continue(self) -> bool:
        return self._collector is not None and not self._collector.is_hopeless

    def _finish_round(
        self, plan: RelayPlan | None, total: NDArray[np.uint64] | None, reason: str, start_time: float
    ) -> RoundOutcome:
        done = plan is not None and total is not None
        self._tell_end(done, reason, total)
        progress, mean, stddev, count = self._progress, None, 0.0, len(self._joined)
        if plan is not None and total is not None:
            count = len(plan.members)
            divisor = count * self.terms.share_sent
            mean = dequantize_sum(total, self.terms.bound, divisor)
            stddev = float(plan.variance) ** 0.5 / divisor * float(self.terms.bound)
        return RoundOutcome(
            done, reason, count, progress.sent_count, mean, stddev, progress.left_out, progress.guarantees,
            time.monotonic() - start_time,
        )  # fmt: skip

    # Negotiation ------------------------------------------------------------------------------------------------------

    def _negotiate_plan(self) -> RelayPlan | None:
        """Negotiate with all remaining members. None if somebody dropped out on the way."""
        self._progress.tried_count += 1
        number, key, members = self._progress.tried_count, AttemptKey(self._entropy.token()), dict(self._joined)
        if len(members) < self.terms.least_members:
            raise Refused(f"{len(members)} members are left; {self.terms.least_members} are needed")
        plan = negotiate_plan(
            self.terms,
            self._round,
            number,
            key.public_key,
            members,
            self.ask_all,
            self._leave_out,
            self._show_guarantees,
        )
        if plan is not None:
            with self._condition:
                self._collector = AttemptCollector(plan, key, self._signer.address, self._round)
        return plan

    def _show_guarantees(self, plan: RelayPlan) -> None:
        self._progress.guarantees = worst_guarantees(plan)
        self._show(plan, self._progress.guarantees)

    def _leave_out(self, address: str, why: str) -> None:
        with self._condition:
            if self._joined.pop(address, None) is not None:
                self._progress.left_out[address] = why
                self._say(f"going on without {address}: {why}")

    # Collection -------------------------------------------------------------------------------------------------------

    def _collect_sum(self, plan: RelayPlan) -> tuple[NDArray[np.uint64] | None, str]:
        """Start the attempt and wait for its ends. Returns (sum, "done"), or (None, who was left out and why)."""
        collector = self._collector
        assert collector is not None
        started = self.ask_all("go", {"plan": plan.digest.hex()}, plan.attempt)
        for address, reply in started.items():
            if not isinstance(reply, Message):
                collector.mark_suspect(address, f"could not be started: {reply}")
        while True:
            with self._condition:
                if collector.is_complete:
                    return collector.compute_sum(), "done"
                self._condition.wait(collector.pause_seconds)
            reasons = collector.poll_members(
                lambda chains: self.ask_all("status", {"chains": chains}, plan.attempt, quick=True)
            )
            if reasons:
                with self._condition:
                    collector.is_closed = True  # ends of this attempt that come from here on are refused
                for address, why in reasons.items():
                    self._leave_out(address, why)
                return None, "; ".join(f"{address}: {why}" for address, why in reasons.items())

    def ask_all(
        self, kind: str, body: dict[str, Any], attempt: int, quick: bool = False
    ) -> dict[str, Message | NoisebankError]:
        """Send the same message to every member at the same time; returns a reply or the error for each."""
        with self._condition:
            targets = dict(self._joined)
        patience = min(2.0, self.terms.patience_seconds) if quick else self.terms.patience_seconds + 2.0

        def ask_one(address: str) -> Message | NoisebankError:
            message = self._signer.sign_message(self._round, attempt, kind, address, body)
            try:
                return check_reply(message, ask(targets[address], message.encode(), patience, self._tap))
            except NoisebankError as error:
                return error

        return dict(zip(targets, self._run_parallel(ask_one, list(targets)), strict=True))

    @staticmethod
    def _run_parallel(do: Callable[[str], T], addresses: list[str]) -> list[T]:
        if not addresses:
            return []
        with ThreadPoolExecutor(min(32, len(addresses))) as pool:
            return list(pool.map(do, addresses))

    def _tell_end(self, done: bool, reason: str, total: NDArray[np.uint64] | None) -> None:
        with self._condition:
            collector, self._collector = self._collector, None
        published = total.astype("<u8").tobytes() if total is not None and self.terms.publish else b""
        count = len(collector.plan.members) if collector else len(self._joined)
        with self._condition:
            remaining = set(self._joined)

        def tell_one(address: str) -> None:
            took_part = address in remaining
            why = reason if took_part else f"left out: {self._progress.left_out.get(address, '')}"
            body = {"done": done and took_part, "reason": why[:2000], "members": count}
            attempt, payload = self._progress.tried_count, published if took_part else b""
            message = self._signer.sign_message(self._round, attempt, "end", address, body, payload)
            with suppress(NoisebankError):  # a member that is gone need not be told
                ask(self._ever_joined[address], message.encode(), min(2.0, self.terms.patience_seconds), self._tap)

        self._run_parallel(tell_one, list(self._ever_joined))

    # What members send ------------------------------------------------------------------------------------------------

    def _handle_message(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        if message.kind == "hello":
            return self._signer.sign_reply(
                message, "terms", {"round": self._round, "terms": self.terms.to_json()}
            ).encode()
        with self._condition:
            if message.sender not in self._ever_joined:  # strangers must not fill the memory of the replay guard
                if message.kind != "join":
                    raise Refused("the host does not expect this now")
                self._check_join(message)
            self._replay_guard.accept_once(message, self._round)
            if message.kind == "join":
                self._check_join(message)
                reply = self._admit_member(message)
            elif message.kind in ("pass", "complain") and message.sender in self._joined and self._collector:
                try:
                    kind = self._collector.accept_message(message)
                except (KeyError, TypeError, ValueError, AttributeError):
                    raise Tampered("a message cannot be understood") from None
                reply = self._signer.sign_reply(message, kind, {"chain": message.body.get("chain", 0)})
            else:
                raise Refused("the host does not expect this now")
            self._condition.notify_all()
        return reply.encode()

    def _check_join(self, message: Message) -> None:
        peer_endpoint = str(message.body.get("endpoint", ""))
        parse_endpoint(peer_endpoint)
        if message.to != self._signer.address or message.round != self._round:
            raise Refused("this message is for somebody else, or belongs to another round")
        if self._has_begun:
            raise Refused("the round has begun; wait for the next one")
        if message.sender in self._joined or message.sender == self._signer.address:
            raise Refused("this member has joined already")
        if peer_endpoint in self._joined.values():
            raise Refused("another member listens there already")
        if self._allowed_addresses and message.sender not in self._allowed_addresses:
            raise Refused("this member is not on the list")
        if len(self._joined) >= self._member_count:
            raise Refused("the round is full")

    def _admit_member(self, message: Message) -> Message:
        self._joined[message.sender] = self._ever_joined[message.sender] = str(message.body["endpoint"])
        self._say(f"{len(self._joined)} of {self._member_count} joined: {message.sender}")
        return self._signer.sign_reply(message, "joined")
