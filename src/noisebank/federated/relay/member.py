"""A member's process: joins, sees what it would be promised, and only then takes part.

What leaves it: bids, keys and seeds (public), and per attempt and chain one sealed sum that contains the noise of the
plan. Nothing is ever sent twice, to a second receiver, or without a plan that met the member's demand. The vector is
brought onto the grid once, after the terms were checked and before anything is agreed: from then on no step can fail
in a way that depends on it.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.entropy import SystemEntropy
from noisebank.errors import BadRequest, NoisebankError, OutcomeUnknown, Refused, Tampered
from noisebank.federated.relay.attempt import MASKED, Attempt, new_attempt, prepared
from noisebank.federated.relay.demand import Demand
from noisebank.federated.relay.grid import BID_UNITS, contribution, finite_numbers, plausible, restored
from noisebank.federated.relay.guarantee import Guarantee, guarantees
from noisebank.federated.relay.messages import Inbox, Message, Pen, check_answer, plain_words
from noisebank.federated.relay.outcome import Outcome
from noisebank.federated.relay.plan import MAX_BID, Plan, plain_entry
from noisebank.federated.relay.remedies import vector_to_send
from noisebank.federated.relay.runtime import SystemRuntime
from noisebank.federated.relay.terms import MAX_MEMBERS, Terms
from noisebank.federated.relay.transport import MESSAGE_ROOM, Tap, endpoint

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from noisebank.entropy import Entropy
    from noisebank.federated.relay.runtime import Runtime
    from noisebank.ledger.signing import Key

Show = Callable[[Plan, list[Guarantee]], None]
Say = Callable[[str], None]
SETUP_PATIENCE = 10.0
"""Seconds, until the terms say otherwise."""
ROUND_ID = re.compile(r"[0-9a-f]{32}")
MAX_ATTEMPT = 2**31


class Member:
    """One member of one round. `past` is its vector of the round before, for terms that send past slices."""

    def __init__(
        self,
        key: Key,
        vector: ArrayLike,
        preference: float,
        host: str,
        *,
        past: ArrayLike | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        demand: Demand | None = None,
        host_address: str = "",
        entropy: Entropy | None = None,
        tap: Tap = lambda to, raw: None,
        show: Show = lambda plan, found: None,
        say: Say = lambda line: None,
        wait: float = 600.0,
        runtime: Runtime | None = None,
    ) -> None:
        if not (0.0 <= preference <= MAX_BID / BID_UNITS):
            raise BadRequest("preference", preference, f"must lie in [0, {MAX_BID / BID_UNITS:g}]")
        self._pen, self._inbox = Pen(key), Inbox(key.address)
        self._vector = finite_numbers(vector)  # whether a vector can be used at all is no matter of anybody's terms
        self._past = None if past is None else finite_numbers(past)
        self._steps: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._bid = round(preference * BID_UNITS)
        self._host, self._listen, self._tap, self._show, self._say = host, listen, tap, show, say
        self._demand, self._wait, self._endpoint = demand or Demand(), wait, advertise or ""
        if advertise is not None:
            endpoint(advertise)
        self._host_address = host_address
        self._entropy: Entropy = entropy or SystemEntropy()
        self._runtime: Runtime = runtime or SystemRuntime()
        self._lock = threading.RLock()
        self._jobs: queue.Queue[tuple[Attempt, int, NDArray[np.uint64] | None] | None] = queue.Queue()
        self._ended = threading.Event()
        self._round, self._terms = "", Terms(1)
        self._attempt: Attempt | None = None
        self._spent: list[Plan] = []
        self._outcome: Outcome | None = None
        self._heard = 0.0

    @property
    def address(self) -> str:
        """Who this member is to the others."""
        return self._pen.address

    def run(self) -> Outcome:
        """Takes part until the round ends; raises if it cannot even join, or if the host falls silent."""
        terms = self._greet()
        clipped = contribution(self._vector, terms.bound, terms.dimension).clipped
        if clipped:
            self._say(f"{clipped} of {terms.dimension} numbers lie outside the bound of {terms.bound} and are clipped")
        sent = vector_to_send(self._vector, self._past, terms, self._say)  # one toss for all attempts
        self._steps = prepared(sent, terms)
        with self._runtime.listen(self._listen, self._receive, terms.patience, self._tap) as server:
            server.limit = MESSAGE_ROOM + 8 * terms.dimension
            self._endpoint = self._endpoint or server.endpoint
            self._ask_host("join", {"endpoint": self._endpoint})
            worker = self._runtime.start(self._work)
            self._heard = self._runtime.now()
            try:
                self._await_end()
            finally:
                self._jobs.put(None)
                worker.join(terms.patience)
                self._forget()
        made = self._outcome
        assert made is not None
        found = guarantees(self._spent[-1], self.address, self._spent[:-1]) if self._spent else []
        return Outcome(made.done, made.reason, made.members, len(self._spent), clipped, made.mean, found)

    def _greet(self) -> Terms:
        """Asks for the terms; learns who the host is, or checks it."""
        hello = self._pen.write("", 0, "hello", self._host_address)
        reply = check_answer(hello, self._runtime.ask(self._host, hello.encode(), SETUP_PATIENCE, self._tap))
        self._host_address, self._round = reply.sender, reply.body.get("round", "")
        if not isinstance(self._round, str) or not ROUND_ID.fullmatch(self._round):
            raise Tampered("the host's name for the round cannot be understood")
        try:
            self._terms = Terms.parse(reply.body["terms"])
        except (KeyError, TypeError, ValueError):
            raise Tampered("the host's terms cannot be understood") from None
        return self._terms

    def _ask_host(self, kind: str, body: dict[str, Any], payload: bytes = b"", attempt: int = 0) -> Message:
        message = self._pen.write(self._round, attempt, kind, self._host_address, body, payload)
        raw = self._runtime.ask(self._host, message.encode(), self._terms.patience, self._tap)
        return check_answer(message, raw)

    def _await_end(self) -> None:
        while not self._runtime.wait(self._ended, 0.05):
            begun = self._attempt is not None
            if self._runtime.now() - self._heard > (4 * self._terms.patience + 5.0 if begun else self._wait):
                raise OutcomeUnknown("the host has fallen silent; what was sent stays protected as shown")

    def _forget(self) -> None:
        """Keys and received sums go; what was recorded on the wire stays closed."""
        with self._lock:
            self._attempt = None

    # What others send -------------------------------------------------------------------------------------------------

    def _receive(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        with self._lock:
            if self._ended.is_set():
                raise Refused("this member has ended the round")
            if message.sender != self._host_address and (message.kind != "pass" or not self._peer(message.sender)):
                raise Refused("only the host may say this, or a member of this attempt")
            self._inbox.take(message, self._round)
            if message.sender == self._host_address:
                self._heard = self._runtime.now()
            steps = {
                "open": self._open, "roster": self._roster, "plan": self._plan, "go": self._go, "pass": self._pass,
                "status": self._status, "end": self._end,
            }  # fmt: skip
            if message.kind not in steps:
                raise Refused("there is no such message")
            try:
                reply = steps[message.kind](message)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise Tampered("a message cannot be understood") from None
        return reply.encode()

    def _peer(self, address: str) -> bool:
        return self._attempt is not None and any(entry.address == address for entry in self._attempt.entries)

    def _open(self, message: Message) -> Message:
        """A new attempt: everything of the last one is dropped, so nothing of it can be sent any more."""
        if not (self._attempt.number if self._attempt else 0) < message.attempt <= MAX_ATTEMPT:
            raise Refused("attempts only count up")
        self._attempt = new_attempt(
            self._round, message.attempt, self.address, self._endpoint, self._bid, self._entropy
        )
        body = {name: value for name, value in plain_entry(self._attempt.own).items() if name != "address"}
        return self._pen.answer(message, "enter", body)

    def _current(self, message: Message) -> Attempt:
        if self._attempt is None or message.attempt != self._attempt.number:
            raise Refused("this message belongs to another attempt")
        return self._attempt

    def _roster(self, message: Message) -> Message:
        attempt = self._current(message)
        attempt.take_roster(message.body)
        return self._pen.answer(message, "reveal", {"seed": attempt.seed.hex()})

    def _plan(self, message: Message) -> Message:
        """Shows the guarantee, then agrees or leaves. Nothing of the vector has been sent in this attempt."""
        attempt = self._current(message)
        plan = attempt.proposed(self._terms, message.body["seeds"])
        self._show(plan, guarantees(plan, self.address, self._spent))
        try:
            if len(self._spent) >= self._terms.attempts:
                raise Refused("every attempt that was agreed has been used")
            self._demand.check(plan, self.address, self._spent)
        except Refused as reason:
            self._finish(Outcome(False, str(reason), len(plan.members), 0, 0, None))
            return self._pen.answer(message, "leave", {"reason": str(reason)})
        attempt.plan = plan
        return self._pen.answer(message, "ready", {"plan": plan.digest.hex()})

    def _go(self, message: Message) -> Message:
        attempt = self._current(message)
        plan = attempt.agreed
        if message.body.get("plan") != plan.digest.hex() or attempt.started:
            raise Refused("this start belongs to another plan, or came before")
        attempt.started = True
        if plan.terms.mode == "masked":
            self._jobs.put((attempt, MASKED, None))
        for number, chain in enumerate(plan.chains):
            if chain.order[0] == self.address:
                self._jobs.put((attempt, number, None))
        return self._pen.answer(message, "going")

    def _pass(self, message: Message) -> Message:
        attempt = self._current(message)
        number, total = attempt.take_sum(message)
        self._jobs.put((attempt, number, total))
        return self._pen.answer(message, "receipt", {"chain": number, "sum": message.digest.hex()})

    def _status(self, message: Message) -> Message:
        attempt = self._current(message)
        wanted = [number for number in message.body.get("chains", [])[:16] if number in attempt.receipts]
        return self._pen.answer(
            message,
            "state",
            {
                "received": sorted(attempt.received),
                "sent": sorted(attempt.sent),
                "receipts": {str(number): attempt.receipts[number] for number in wanted},
            },
        )

    def _end(self, message: Message) -> Message:
        body, mean = message.body, None
        if type(body["members"]) is not int or not 0 <= body["members"] <= MAX_MEMBERS:
            raise Tampered("the end of a round names an impossible number of members")
        if (
            body["done"]
            and body["members"]
            and self._terms.publish
            and len(message.payload) == 8 * self._terms.dimension
        ):
            total = np.frombuffer(message.payload, dtype="<u8").astype(np.uint64)
            mean = restored(total, self._terms.bound, int(body["members"]) * self._terms.share_sent)
        self._finish(Outcome(bool(body["done"]), plain_words(body["reason"]), int(body["members"]), 0, 0, mean))
        return self._pen.answer(message, "bye")

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._ended.set()

    # What this member sends -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (job := self._runtime.take(self._jobs)) is not None:
            attempt, number, before = job
            try:
                self._forward(attempt, number, before)
            except NoisebankError as error:
                self._say(f"attempt {attempt.number} stops here: {error}")
                self._complain(attempt, number, "", "cannot go on")  # not why: that is nobody else's business

    def _forward(self, attempt: Attempt, number: int, before: NDArray[np.uint64] | None) -> None:
        plan = attempt.agreed
        if before is not None:
            chain = plan.chains[number]
            place = chain.order.index(self.address)
            if not plausible(before, place, chain.variance(0, place - 1)):
                self._complain(attempt, number, chain.order[place - 1], "a sum that honest members cannot send")
                return
        total = attempt.outgoing(number, before, self._steps, self._entropy)
        receiver = attempt.following(number)
        to, public = (receiver.address, receiver.public_key) if receiver else (self._host_address, attempt.host_key)
        body = {"plan": plan.digest.hex(), "chain": number}
        sealed = attempt.sealed(total, number, to, public)
        message = self._pen.write(self._round, attempt.number, "pass", to, body, sealed)
        with self._lock:
            if attempt is not self._attempt or self._ended.is_set():
                return  # a new attempt was agreed on the ground that this one sends nothing more
            if plan not in self._spent:
                self._spent.append(plan)  # spent from here on, whether or not it arrives
        try:
            where = receiver.endpoint if receiver else self._host
            raw = self._runtime.ask(where, message.encode(), self._terms.patience, self._tap)
            receipt = check_answer(message, raw)
        except NoisebankError as error:
            self._complain(attempt, number, to, f"did not take the sum: {error}")
            return
        with self._lock:
            attempt.sent.add(number)
            attempt.receipts[number] = receipt.encode().hex()

    def _complain(self, attempt: Attempt, number: int, about: str, why: str) -> None:
        """Best effort: a host that is gone notices by itself."""
        with suppress(NoisebankError):
            self._ask_host("complain", {"chain": number, "about": about, "why": why[:500]}, attempt=attempt.number)
