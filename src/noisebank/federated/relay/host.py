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
from noisebank.federated.relay.collection import Collecting
from noisebank.federated.relay.grid import restored
from noisebank.federated.relay.guarantee import Guarantee, worst_guarantees
from noisebank.federated.relay.messages import Inbox, Message, Pen, check_answer
from noisebank.federated.relay.negotiation import agree
from noisebank.federated.relay.plan import Plan
from noisebank.federated.relay.sealing import AttemptKey
from noisebank.federated.relay.terms import MAX_MEMBERS, Terms
from noisebank.federated.relay.transport import MESSAGE_ROOM, Server, Tap, ask, endpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noisebank.core.entropy import Entropy
    from noisebank.ledger.signing import Key

Show = Callable[[Plan, list[Guarantee]], None]
Say = Callable[[str], None]
SETUP_PATIENCE = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """How a round ended. `stddev` is the noise of one coordinate of the mean, in the vector's unit."""

    done: bool
    reason: str
    members: int
    attempts: int
    mean: NDArray[np.float64] | None
    stddev: float
    left_out: dict[str, str]
    guarantees: list[Guarantee]
    seconds: float
    """From the moment that all members had joined."""


@dataclass(slots=True)
class _Progress:
    left_out: dict[str, str] = field(default_factory=dict)
    tried: int = 0
    sent: int = 0
    guarantees: list[Guarantee] = field(default_factory=list)


class Host:
    """Runs one round. Waits for `member_count` members; after `wait_seconds` it starts with those who have joined."""

    def __init__(
        self,
        key: Key,
        terms: Terms,
        members: int,
        *,
        listen: str = "127.0.0.1:0",
        allowed: frozenset[str] = frozenset(),
        wait: float = 60.0,
        entropy: Entropy | None = None,
        tap: Tap = lambda to, raw: None,
        show: Show = lambda plan, promises: None,
        say: Say = lambda line: None,
    ) -> None:
        if not max(2, terms.least_members) <= members <= MAX_MEMBERS:
            raise BadRequest("members", members, f"must lie in {max(2, terms.least_members)} .. {MAX_MEMBERS}")
        self._pen, self._inbox, self.terms = Pen(key), Inbox(key.address), terms
        self._members, self._allowed, self._wait = members, allowed, wait
        self._tap, self._show, self._say = tap, show, say
        self._entropy: Entropy = entropy or SystemEntropy()
        self._round = self._entropy.token(16).hex()
        self._changed = threading.Condition()
        self._joined: dict[str, str] = {}
        self._known: dict[str, str] = {}
        """Endpoints of everyone who ever joined: those left out are told the end too, if they still listen."""
        self._begun = False
        self._collecting: Collecting | None = None
        self._progress = _Progress()
        self._server = Server(listen, self._receive, SETUP_PATIENCE + terms.patience, tap)
        self._server.limit = MESSAGE_ROOM + 8 * terms.dimension
        self.endpoint, self.address = self._server.endpoint, key.address

    def run(self) -> Round:
        """Serve until the round has ended, successfully or not; every member that still answers is told."""
        with self._server:
            try:
                self._gather()
                begun = time.monotonic()
                return self._rounds(begun)
            except BaseException:
                self._tell_end(False, "the host stopped", None)
                raise

    def _gather(self) -> None:
        until = time.monotonic() + self._wait
        with self._changed:
            while len(self._joined) < self._members and time.monotonic() < until:
                self._changed.wait(0.05)
            self._begun = True

    def _rounds(self, begun: float) -> Round:
        """Run attempts until one succeeds. Terminates: each ends the round, uses an attempt up or loses a member."""
        reason, total, plan = "", None, None
        while total is None:
            try:
                plan = self._agree()
            except Refused as why:
                reason = str(why)
                break
            if plan is None:
                continue
            self._progress.sent += 1
            total, reason = self._collect(plan)
            if total is None and (self._progress.sent >= self.terms.attempts or not self._collecting_left()):
                reason = f"{reason}; {self._progress.sent} of {self.terms.attempts} attempts used"
                break
        return self._ended(plan, total, reason, begun)

    def _collecting_left(self) -> bool:
        return self._collecting is not None and not self._collecting.hopeless

    def _ended(self, plan: Plan | None, total: NDArray[np.uint64] | None, reason: str, begun: float) -> Round:
        done = plan is not None and total is not None
        self._tell_end(done, reason, total)
        progress, mean, stddev, count = self._progress, None, 0.0, len(self._joined)
        if plan is not None and total is not None:
            count = len(plan.members)
            divisor = count * self.terms.share_sent
            mean = restored(total, self.terms.bound, divisor)
            stddev = float(plan.variance) ** 0.5 / divisor * float(self.terms.bound)
        return Round(
            done, reason, count, progress.sent, mean, stddev, progress.left_out, progress.guarantees,
            time.monotonic() - begun,
        )  # fmt: skip

    # Negotiation ------------------------------------------------------------------------------------------------------

    def _agree(self) -> Plan | None:
        """Negotiate with all remaining members. None if somebody dropped out on the way."""
        self._progress.tried += 1
        number, key, members = self._progress.tried, AttemptKey(self._entropy.token()), dict(self._joined)
        if len(members) < self.terms.least_members:
            raise Refused(f"{len(members)} members are left; {self.terms.least_members} are needed")
        plan = agree(self.terms, self._round, number, key.public, members, self.ask_all, self._leave_out, self._promise)
        if plan is not None:
            with self._changed:
                self._collecting = Collecting(plan, key, self._pen.address, self._round)
        return plan

    def _promise(self, plan: Plan) -> None:
        self._progress.guarantees = worst_guarantees(plan)
        self._show(plan, self._progress.guarantees)

    def _leave_out(self, address: str, why: str) -> None:
        with self._changed:
            if self._joined.pop(address, None) is not None:
                self._progress.left_out[address] = why
                self._say(f"going on without {address}: {why}")

    # Collection -------------------------------------------------------------------------------------------------------

    def _collect(self, plan: Plan) -> tuple[NDArray[np.uint64] | None, str]:
        """Start the attempt and wait for its ends. Returns (sum, "done"), or (None, who was left out and why)."""
        collector = self._collecting
        assert collector is not None
        started = self.ask_all("go", {"plan": plan.digest.hex()}, plan.attempt)
        for address, reply in started.items():
            if not isinstance(reply, Message):
                collector.suspect(address, f"could not be started: {reply}")
        while True:
            with self._changed:
                if collector.complete:
                    return collector.total(), "done"
                self._changed.wait(collector.pause)
            reasons = collector.look(
                lambda chains: self.ask_all("status", {"chains": chains}, plan.attempt, quick=True)
            )
            if reasons:
                with self._changed:
                    collector.closed = True  # ends of this attempt that come from here on are refused
                for address, why in reasons.items():
                    self._leave_out(address, why)
                return None, "; ".join(f"{address}: {why}" for address, why in reasons.items())

    def ask_all(
        self, kind: str, body: dict[str, Any], attempt: int, quick: bool = False
    ) -> dict[str, Message | NoisebankError]:
        """Send the same message to every member at the same time; returns a reply or the error for each."""
        with self._changed:
            targets = dict(self._joined)
        patience = min(2.0, self.terms.patience) if quick else self.terms.patience + 2.0

        def one(address: str) -> Message | NoisebankError:
            message = self._pen.write(self._round, attempt, kind, address, body)
            try:
                return check_answer(message, ask(targets[address], message.encode(), patience, self._tap))
            except NoisebankError as error:
                return error

        return dict(zip(targets, self._at_once(one, list(targets)), strict=True))

    @staticmethod
    def _at_once(do: Callable[[str], T], addresses: list[str]) -> list[T]:
        if not addresses:
            return []
        with ThreadPoolExecutor(min(32, len(addresses))) as pool:
            return list(pool.map(do, addresses))

    def _tell_end(self, done: bool, reason: str, total: NDArray[np.uint64] | None) -> None:
        with self._changed:
            collector, self._collecting = self._collecting, None
        published = total.astype("<u8").tobytes() if total is not None and self.terms.publish else b""
        count = len(collector.plan.members) if collector else len(self._joined)
        with self._changed:
            remaining = set(self._joined)

        def tell(address: str) -> None:
            took_part = address in remaining
            why = reason if took_part else f"left out: {self._progress.left_out.get(address, '')}"
            body = {"done": done and took_part, "reason": why[:2000], "members": count}
            attempt, payload = self._progress.tried, published if took_part else b""
            message = self._pen.write(self._round, attempt, "end", address, body, payload)
            with suppress(NoisebankError):  # a member that is gone need not be told
                ask(self._known[address], message.encode(), min(2.0, self.terms.patience), self._tap)

        self._at_once(tell, list(self._known))

    # What members send ------------------------------------------------------------------------------------------------

    def _receive(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        if message.kind == "hello":
            return self._pen.answer(message, "terms", {"round": self._round, "terms": self.terms.plain()}).encode()
        with self._changed:
            if message.sender not in self._known:  # strangers must not fill the memory of the replay guard
                if message.kind != "join":
                    raise Refused("the host does not expect this now")
                self._may_join(message)
            self._inbox.take(message, self._round)
            if message.kind == "join":
                self._may_join(message)
                reply = self._join(message)
            elif message.kind in ("pass", "complain") and message.sender in self._joined and self._collecting:
                try:
                    kind = self._collecting.take(message)
                except (KeyError, TypeError, ValueError, AttributeError):
                    raise Tampered("a message cannot be understood") from None
                reply = self._pen.answer(message, kind, {"chain": message.body.get("chain", 0)})
            else:
                raise Refused("the host does not expect this now")
            self._changed.notify_all()
        return reply.encode()

    def _may_join(self, message: Message) -> None:
        peer_endpoint = str(message.body.get("endpoint", ""))
        endpoint(peer_endpoint)
        if message.to != self._pen.address or message.round != self._round:
            raise Refused("this message is for somebody else, or belongs to another round")
        if self._begun:
            raise Refused("the round has begun; wait for the next one")
        if message.sender in self._joined or message.sender == self._pen.address:
            raise Refused("this member has joined already")
        if peer_endpoint in self._joined.values():
            raise Refused("another member listens there already")
        if self._allowed and message.sender not in self._allowed:
            raise Refused("this member is not on the list")
        if len(self._joined) >= self._members:
            raise Refused("the round is full")

    def _join(self, message: Message) -> Message:
        self._joined[message.sender] = self._known[message.sender] = str(message.body["endpoint"])
        self._say(f"{len(self._joined)} of {self._members} joined: {message.sender}")
        return self._pen.answer(message, "joined")
