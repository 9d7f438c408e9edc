"""A member of a relay round: joins, computes what it would be promised, and only then takes part.

What leaves it: bids, keys and seeds (public), and per attempt and chain one sealed sum that contains the noise of the
plan. Nothing is ever sent twice, to a second receiver, or without a plan that meets the member's requirements. The
vector is quantized once, after the terms were checked and before anything is agreed: from then on no step can fail in
a way that depends on it.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest, NoisebankError, OutcomeUnknown, Refused, Tampered
from noisebank.federated.relay.attempt import MASKED_CHAIN, Attempt, new_attempt, prepare_steps
from noisebank.federated.relay.grid import BID_UNITS, dequantize_sum, finite_numbers, is_plausible, quantize_vector
from noisebank.federated.relay.guarantee import RelayGuarantee, compute_guarantees
from noisebank.federated.relay.messages import Message, MessageSigner, ReplayGuard, check_reply, to_printable
from noisebank.federated.relay.outcome import MemberOutcome
from noisebank.federated.relay.plan import MAX_BID, RelayPlan, entry_to_json
from noisebank.federated.relay.remedies import vector_to_send
from noisebank.federated.relay.requirements import Requirements
from noisebank.federated.relay.runtime import SystemRuntime
from noisebank.federated.relay.terms import MAX_MEMBERS, RelayTerms
from noisebank.federated.relay.transport import HEADER_ROOM, Tap, parse_endpoint

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from noisebank.core.entropy import Entropy
    from noisebank.federated.relay.runtime import Runtime
    from noisebank.ledger.signing import Key

Show = Callable[[RelayPlan, list[RelayGuarantee]], None]
Say = Callable[[str], None]
SETUP_PATIENCE = 10.0
"""Seconds, until the terms say otherwise."""
ROUND_ID = re.compile(r"[0-9a-f]{32}")
MAX_ATTEMPT = 2**31


class RelayMember:
    """One member of one round. `past_vector` is that of the round before, for terms that send past slices."""

    def __init__(
        self,
        key: Key,
        vector: ArrayLike,
        preference: float,
        host_endpoint: str,
        *,
        past_vector: ArrayLike | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        requirements: Requirements | None = None,
        host_address: str = "",
        entropy: Entropy | None = None,
        tap: Tap = lambda to, raw: None,
        show: Show = lambda plan, promises: None,
        say: Say = lambda line: None,
        wait_seconds: float = 600.0,
        runtime: Runtime | None = None,
    ) -> None:
        if not (0.0 <= preference <= MAX_BID / BID_UNITS):
            raise BadRequest("preference", preference, f"must lie in [0, {MAX_BID / BID_UNITS:g}]")
        self._signer, self._replay_guard = MessageSigner(key), ReplayGuard(key.address)
        self._vector = finite_numbers(vector)  # whether a vector can be used at all does not depend on anybody's terms
        self._past_vector = None if past_vector is None else finite_numbers(past_vector)
        self._steps: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._bid = round(preference * BID_UNITS)
        self._host_endpoint, self._listen, self._tap, self._show, self._say = host_endpoint, listen, tap, show, say
        self._requirements, self._wait_seconds, self._endpoint = (
            requirements or Requirements(),
            wait_seconds,
            advertise or "",
        )
        if advertise is not None:
            parse_endpoint(advertise)
        self._host_address = host_address
        self._entropy: Entropy = entropy or SystemEntropy()
        self._runtime: Runtime = runtime or SystemRuntime()
        self._lock = threading.RLock()
        self._jobs: queue.Queue[tuple[Attempt, int, NDArray[np.uint64] | None] | None] = queue.Queue()
        self._ended = threading.Event()
        self._round, self._terms = "", RelayTerms(1)
        self._attempt: Attempt | None = None
        self._spent_plans: list[RelayPlan] = []
        self._outcome: MemberOutcome | None = None
        self._last_heard = 0.0

    @property
    def address(self) -> str:
        """The address that identifies this member to the others."""
        return self._signer.address

    def run(self) -> MemberOutcome:
        """Take part until the round ends; raises if it cannot even join, or if the host falls silent."""
        terms = self._fetch_terms()
        clipped = quantize_vector(self._vector, terms.bound, terms.dimension).clipped_count
        if clipped:
            self._say(f"{clipped} of {terms.dimension} numbers lie outside the bound of {terms.bound} and are clipped")
        sent = vector_to_send(self._vector, self._past_vector, terms, self._say)  # one toss for all attempts
        self._steps = prepare_steps(sent, terms)
        with self._runtime.listen(self._listen, self._handle_message, terms.patience_seconds, self._tap) as listener:
            listener.max_message = HEADER_ROOM + 8 * terms.dimension
            self._endpoint = self._endpoint or listener.endpoint
            self._ask_host("join", {"endpoint": self._endpoint})
            worker = self._runtime.start_thread(self._run_jobs)
            self._last_heard = self._runtime.monotonic()
            try:
                self._await_end()
            finally:
                self._jobs.put(None)
                worker.join(terms.patience_seconds)
                self._drop_attempt()
        end = self._outcome
        assert end is not None
        promises = (
            compute_guarantees(self._spent_plans[-1], self.address, self._spent_plans[:-1]) if self._spent_plans else []
        )
        return MemberOutcome(
            end.done, end.reason, end.member_count, len(self._spent_plans), clipped, end.mean, promises
        )

    def _fetch_terms(self) -> RelayTerms:
        """Ask the host for the terms; learn the host's address, or check it if it is known."""
        hello = self._signer.sign_message("", 0, "hello", self._host_address)
        raw = self._runtime.ask(self._host_endpoint, hello.encode(), SETUP_PATIENCE, self._tap)
        reply = check_reply(hello, raw)
        self._host_address, self._round = reply.sender, reply.body.get("round", "")
        if not isinstance(self._round, str) or not ROUND_ID.fullmatch(self._round):
            raise Tampered("the host's name for the round cannot be understood")
        try:
            self._terms = RelayTerms.from_json(reply.body["terms"])
        except (KeyError, TypeError, ValueError):
            raise Tampered("the host's terms cannot be understood") from None
        return self._terms

    def _ask_host(self, kind: str, body: dict[str, Any], payload: bytes = b"", attempt: int = 0) -> Message:
        message = self._signer.sign_message(self._round, attempt, kind, self._host_address, body, payload)
        raw = self._runtime.ask(self._host_endpoint, message.encode(), self._terms.patience_seconds, self._tap)
        return check_reply(message, raw)

    def _await_end(self) -> None:
        while not self._runtime.wait_for_event(self._ended, 0.05):
            begun = self._attempt is not None
            if self._runtime.monotonic() - self._last_heard > (
                4 * self._terms.patience_seconds + 5.0 if begun else self._wait_seconds
            ):
                raise OutcomeUnknown("the host has fallen silent; what was sent stays protected as shown")

    def _drop_attempt(self) -> None:
        """Drop keys and received sums, so that what was recorded on the wire can never be opened."""
        with self._lock:
            self._attempt = None

    # What others send -------------------------------------------------------------------------------------------------

    def _handle_message(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        with self._lock:
            if self._ended.is_set():
                raise Refused("this member has ended the round")
            if message.sender != self._host_address and (message.kind != "pass" or not self._is_peer(message.sender)):
                raise Refused("only the host may say this, or a member of this attempt")
            self._replay_guard.accept_once(message, self._round)
            if message.sender == self._host_address:
                self._last_heard = self._runtime.monotonic()
            steps = {
                "open": self._handle_open,
                "roster": self._handle_roster,
                "plan": self._handle_plan,
                "go": self._handle_go,
                "pass": self._handle_pass,
                "status": self._handle_status,
                "end": self._handle_end,
            }
            if message.kind not in steps:
                raise Refused("there is no such message")
            try:
                reply = steps[message.kind](message)
            except (KeyError, TypeError, ValueError, AttributeError):
                raise Tampered("a message cannot be understood") from None
        return reply.encode()

    def _is_peer(self, address: str) -> bool:
        return self._attempt is not None and any(entry.address == address for entry in self._attempt.entries)

    def _handle_open(self, message: Message) -> Message:
        """Open a new attempt: everything of the last one is dropped, so nothing of it can be sent any more."""
        if not (self._attempt.number if self._attempt else 0) < message.attempt <= MAX_ATTEMPT:
            raise Refused("attempts only count up")
        self._attempt = new_attempt(
            self._round, message.attempt, self.address, self._endpoint, self._bid, self._entropy
        )
        body = {name: value for name, value in entry_to_json(self._attempt.own_entry).items() if name != "address"}
        return self._signer.sign_reply(message, "enter", body)

    def _current_attempt(self, message: Message) -> Attempt:
        if self._attempt is None or message.attempt != self._attempt.number:
            raise Refused("this message belongs to another attempt")
        return self._attempt

    def _handle_roster(self, message: Message) -> Message:
        attempt = self._current_attempt(message)
        attempt.take_roster(message.body)
        return self._signer.sign_reply(message, "reveal", {"seed": attempt.seed.hex()})

    def _handle_plan(self, message: Message) -> Message:
        """Show the guarantees, then agree or leave. Nothing of the vector has been sent in this attempt."""
        attempt = self._current_attempt(message)
        plan = attempt.derive_plan(self._terms, message.body["seeds"])
        self._show(plan, compute_guarantees(plan, self.address, self._spent_plans))
        try:
            if len(self._spent_plans) >= self._terms.attempts:
                raise Refused("every attempt that was agreed has been used")
            self._requirements.check_plan(plan, self.address, self._spent_plans)
        except Refused as reason:
            self._finish_round(MemberOutcome(False, str(reason), len(plan.members), 0, 0, None))
            return self._signer.sign_reply(message, "leave", {"reason": str(reason)})
        attempt.plan = plan
        return self._signer.sign_reply(message, "ready", {"plan": plan.digest.hex()})

    def _handle_go(self, message: Message) -> Message:
        attempt = self._current_attempt(message)
        plan = attempt.agreed_plan
        if message.body.get("plan") != plan.digest.hex() or attempt.started:
            raise Refused("this start belongs to another plan, or came before")
        attempt.started = True
        if plan.terms.mode == "masked":
            self._jobs.put((attempt, MASKED_CHAIN, None))
        for number, chain in enumerate(plan.chains):
            if chain.order[0] == self.address:
                self._jobs.put((attempt, number, None))
        return self._signer.sign_reply(message, "going")

    def _handle_pass(self, message: Message) -> Message:
        attempt = self._current_attempt(message)
        number, total = attempt.take_sum(message)
        self._jobs.put((attempt, number, total))
        return self._signer.sign_reply(message, "receipt", {"chain": number, "sum": message.digest.hex()})

    def _handle_status(self, message: Message) -> Message:
        attempt = self._current_attempt(message)
        numbers = [number for number in message.body.get("chains", [])[:16] if number in attempt.receipts]
        return self._signer.sign_reply(
            message,
            "state",
            {
                "received": sorted(attempt.received),
                "sent": sorted(attempt.sent),
                "receipts": {str(number): attempt.receipts[number] for number in numbers},
            },
        )

    def _handle_end(self, message: Message) -> Message:
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
            mean = dequantize_sum(total, self._terms.bound, int(body["members"]) * self._terms.share_sent)
        self._finish_round(
            MemberOutcome(bool(body["done"]), to_printable(body["reason"]), int(body["members"]), 0, 0, mean)
        )
        return self._signer.sign_reply(message, "bye")

    def _finish_round(self, outcome: MemberOutcome) -> None:
        self._outcome = outcome
        self._ended.set()

    # What this member sends -------------------------------------------------------------------------------------------

    def _run_jobs(self) -> None:
        while (job := self._runtime.take_job(self._jobs)) is not None:
            attempt, number, before = job
            try:
                self._forward_sum(attempt, number, before)
            except NoisebankError as error:
                self._say(f"attempt {attempt.number} stops here: {error}")
                self._send_complaint(
                    attempt, number, "", "cannot go on"
                )  # without the reason: others must not learn it

    def _forward_sum(self, attempt: Attempt, chain_number: int, before: NDArray[np.uint64] | None) -> None:
        plan = attempt.agreed_plan
        if before is not None:
            chain = plan.chains[chain_number]
            position = chain.order.index(self.address)
            if not is_plausible(before, position, chain.variance(0, position - 1)):
                self._send_complaint(
                    attempt, chain_number, chain.order[position - 1], "a sum that honest members cannot send"
                )
                return
        total = attempt.add_contribution(chain_number, before, self._steps, self._entropy)
        receiver = attempt.next_member(chain_number)
        to, public = (receiver.address, receiver.public_key) if receiver else (self._host_address, attempt.host_key)
        body = {"plan": plan.digest.hex(), "chain": chain_number}
        sealed = attempt.seal_sum(total, chain_number, to, public)
        message = self._signer.sign_message(self._round, attempt.number, "pass", to, body, sealed)
        with self._lock:
            if attempt is not self._attempt or self._ended.is_set():
                return  # a new attempt was agreed on the ground that this one sends nothing more
            if plan not in self._spent_plans:
                self._spent_plans.append(plan)  # spent from here on, whether or not it arrives
        try:
            endpoint = receiver.endpoint if receiver else self._host_endpoint
            raw = self._runtime.ask(endpoint, message.encode(), self._terms.patience_seconds, self._tap)
            receipt = check_reply(message, raw)
        except NoisebankError as error:
            self._send_complaint(attempt, chain_number, to, f"did not take the sum: {error}")
            return
        with self._lock:
            attempt.sent.add(chain_number)
            attempt.receipts[chain_number] = receipt.encode().hex()

    def _send_complaint(self, attempt: Attempt, chain_number: int, about: str, why: str) -> None:
        """Send a complaint to the host, best effort: without it the host notices by polling."""
        with suppress(NoisebankError):
            self._ask_host(
                "complain", {"chain": chain_number, "about": about, "why": why[:500]}, attempt=attempt.number
            )
