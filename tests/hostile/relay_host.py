"""A relay host that plays every other member too and may send anything: all that it learns about one member.

It knows the keys of all others, so it opens and unmasks whatever the member sends: the member's own steps and noise
are left. Nothing that it has seen may tell two vectors apart better than the promise that the member was shown.

`HostileHost.play` is a round over sockets with real noise. `rehearse` is a round in a simulation, without noise: who
comes first in a relay, who is in time and who runs next follow from the order's seed, so that two conversations about
two vectors differ only if the member behaves differently. The member's seeds do not depend on its vector: if no seed
tells two vectors apart, then no conversation is more likely under one of them.
"""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from hostile.simulation import Simulation
from noisebank.core.digests import to_canonical_json
from noisebank.core.entropy import Entropy, SystemEntropy
from noisebank.core.errors import NoisebankError, Tampered
from noisebank.federated.relay import Coalition, RelayGuarantee, RelayMember, RelayPlan, RelayTerms, Requirements
from noisebank.federated.relay.attempt import MASKED_CHAIN, Attempt, new_attempt, read_entry
from noisebank.federated.relay.grid import BID_UNITS
from noisebank.federated.relay.guarantee import compute_guarantee
from noisebank.federated.relay.messages import Message, MessageSigner, check_reply
from noisebank.federated.relay.plan import MemberEntry, entry_to_json, make_plan
from noisebank.federated.relay.runtime import Runtime, SystemRuntime, Worker
from noisebank.federated.relay.sealing import AttemptKey, sum_masks
from noisebank.ledger.signing import Key

PATIENCE = 20.0
VICTIM = Key(b"\x51" * 32)
TINY = "1e-400"
"""Above 0, and 0.0 as a float."""
ALIASES = ("127.0.0.1", "localhost", "127.0.0.01")
"""One door for all whom the host plays; their endpoints must differ."""


class Recording(SystemEntropy):
    """Real noise, or none at all, and the scales that were asked for. With a seed, keys and tokens follow from it."""

    def __init__(self, silent: bool = False, seed: str | None = None) -> None:
        self.silent, self.scales = silent, []
        self._tokens = None if seed is None else random.Random(seed)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        self.scales += [scale] * count
        return [0] * count if self.silent else super().discrete_gaussians(scale, count)

    def token(self, size: int = 32) -> bytes:
        return super().token(size) if self._tokens is None else self._tokens.randbytes(size)


@dataclass
class Order:
    """What the host says and when. `extra` are messages of any content, sent in front of each step."""

    terms: dict[str, Any]
    bids: tuple[int, ...] = (BID_UNITS, BID_UNITS)
    attempts: tuple[int, ...] = (1,)
    before: int = 0
    extra: tuple[tuple[str, Any], ...] = ()
    delays: dict[str, float] = field(default_factory=dict)
    """Seconds until a message of this kind gets its reply."""
    pause: float = 0.0
    """Seconds in front of each step."""
    seed: int = 0
    """Of a rehearsal: of keys, of places in a relay, and of whose turn it is."""


class Line(NamedTuple):
    """One thing that the host has heard from the member: a message, a reply or a refusal."""

    time: float
    what: str
    detail: str = ""


class Release(NamedTuple):
    """What remains of a sum once everything known is subtracted; how long it may be at most, in bounds, by the terms;
    and the noise that the plan puts on each of its numbers."""

    steps: np.ndarray
    reach: float
    scale: float


@dataclass
class Seen:
    """What the host has learned."""

    transcript: list[Line] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    unreadable: int = 0
    """Sums of no attempt that was agreed, or that their receiver cannot open."""
    scales: list[float] = field(default_factory=list)
    plans: list[RelayPlan] = field(default_factory=list)

    @property
    def promise(self) -> RelayGuarantee:
        """What the member was promised against everybody else together."""
        return compute_guarantee(self.plans, VICTIM.address, Coalition(len(self.plans[-1].members) - 1, True))


@dataclass
class Agreed:
    """What the host knows of an attempt whose plan the member has agreed to."""

    plan: RelayPlan
    own: MemberEntry
    others: list[Attempt]
    keys: dict[str, AttemptKey]
    enough: threading.Event = field(default_factory=threading.Event)
    """As many sums and complaints as there are chains have arrived."""
    arrived: int = 0


class HostileHost:
    """One round against one member."""

    def __init__(self, order: Order, runtime: Runtime | None = None, entropy: Entropy | None = None) -> None:
        self.order, self.seen = order, Seen()
        self._runtime: Runtime = runtime or SystemRuntime()
        self._entropy: Entropy = entropy or SystemEntropy()
        self._pen = MessageSigner(Key(b"\x52" * 32))
        self._key = AttemptKey(self._entropy.token())
        self._round = self._entropy.token(16).hex()
        self._others = [MessageSigner(Key(bytes([number + 1]) * 32)) for number in range(len(order.bids))]
        self._member = ""
        self._driver: Worker | None = None
        self._agreed: dict[int, Agreed] = {}
        self._lock = threading.Lock()

    def play(self, vector: Any, entropy: Recording | None = None, requirements: Requirements | None = None) -> Seen:
        """The whole of it."""
        entropy = entropy or Recording()
        with self._runtime.listen("127.0.0.1:0", self._receive, PATIENCE, _tap) as listener:
            member = RelayMember(
                VICTIM, vector, 1.0, listener.endpoint, entropy=entropy, wait_seconds=PATIENCE, runtime=self._runtime,
                requirements=requirements or Requirements(unprotected=True),
            )  # fmt: skip
            try:
                member.run()
            except NoisebankError as error:
                self._hear(f"{type(error).__name__}: {error}")
            if self._driver is not None:
                self._driver.join(PATIENCE)
        self.seen.scales = entropy.scales
        return self.seen

    def _hear(self, what: str, message: Message | None = None) -> None:
        """Writes down what must not depend on the vector: all of a message but what is sealed in it, and its length."""
        detail = ""
        if message is not None:
            body = dict(message.body)
            if isinstance(body.get("receipts"), dict):  # the host's own, each with the digest of a sealed sum
                body["receipts"] = {chain: len(receipt) for chain, receipt in body["receipts"].items()}
            detail = (
                f"{message.attempt} {message.seq} {message.to} {to_canonical_json(body)} {len(message.encode())} bytes"
            )
        self.seen.transcript.append(Line(self._runtime.monotonic(), what, detail))

    def _sleep(self, seconds: float) -> None:
        if seconds:
            self._runtime.wait_for_event(threading.Event(), seconds)

    def _receive(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        self._hear(message.kind, message)
        if message.kind == "join":
            self._member = message.body["endpoint"]
            self._driver = self._runtime.start_thread(self._drive)
        if message.kind in ("pass", "complain"):
            self._note(message)
        self._sleep(self.order.delays.get(message.kind, 0.0))
        if message.kind == "hello":
            body = {"round": self._round, "terms": self.order.terms}
            return self._pen.sign_reply(message, "terms", body).encode()
        return self._pen.sign_reply(message, "receipt").encode()

    def _take_sum(self, raw: bytes) -> bytes:
        """What those whom the host plays receive."""
        message = Message.decode(raw)
        self._hear(message.kind, message)
        self._note(message)
        self._sleep(self.order.delays.get(message.kind, 0.0))
        pen = next(pen for pen in self._others if pen.address == message.to)
        return pen.sign_reply(message, "receipt").encode()

    def _note(self, message: Message) -> None:
        """Opens a sum, whenever it comes, with the keys of its attempt."""
        with self._lock:
            agreed = self._agreed.get(message.attempt)
            if agreed is None:
                self.seen.unreadable += 1
                return
            if message.kind == "pass":
                try:
                    self.seen.releases.append(self._open(agreed, message))
                except Tampered:
                    self.seen.unreadable += 1
            agreed.arrived += 1
            if agreed.arrived >= max(1, len(agreed.plan.chains)):
                agreed.enough.set()

    def _drive(self) -> None:
        with suppress(NoisebankError):  # the member said no; it is in `seen`
            for number in self.order.attempts:
                self._attempt(number)
        with suppress(NoisebankError):
            self._ask(self._pen, "end", 9, {"done": False, "reason": "", "members": 1})

    def _ask(self, pen: MessageSigner, kind: str, attempt: int, body: Any, payload: bytes = b"") -> Message:
        self._sleep(self.order.pause)
        message = pen.sign_message(self._round, attempt, kind, VICTIM.address, body, payload)
        try:
            reply = check_reply(message, self._runtime.ask(self._member, message.encode(), PATIENCE, _tap))
        except NoisebankError as error:
            self._hear(f"{kind}: {type(error).__name__}: {error}")
            raise
        self._hear(f"{kind}: {reply.kind}", reply)
        return reply

    def _extra(self, number: int) -> None:
        for kind, body in self.order.extra:
            try:
                self._ask(self._pen, kind, number, body)
            except NoisebankError:
                continue

    def _attempt(self, number: int) -> None:
        terms = RelayTerms.from_json(self.order.terms)
        self._extra(number)
        entered = self._ask(self._pen, "open", number, {})
        own = read_entry(entered.encode(), self._round, number)
        with self._runtime.listen("127.0.0.1:0", self._take_sum, PATIENCE, _tap) as listener:
            port = listener.endpoint.rpartition(":")[2]
            others = [
                new_attempt(self._round, number, pen.address, f"{alias}:{port}", bid, self._entropy)
                for alias, pen, bid in zip(ALIASES, self._others, self.order.bids, strict=False)
            ]
            self._run(terms, number, entered, own, others)

    def _run(self, terms: RelayTerms, number: int, entered: Message, own: MemberEntry, others: list[Attempt]) -> None:
        signed = [entered.encode()]
        for pen, one in zip(self._others, others, strict=True):
            body = {name: value for name, value in entry_to_json(one.own_entry).items() if name != "address"}
            signed.append(pen.sign_message(self._round, number, "enter", self._pen.address, body).encode())
        self._extra(number)
        roster = {"entries": [raw.hex() for raw in signed], "host_key": self._key.public_key.hex()}
        seed = self._ask(self._pen, "roster", number, roster).body["seed"]
        seeds = [bytes.fromhex(seed), *(one.seed for one in others)]
        entries = [own, *(one.own_entry for one in others)]
        plan = make_plan(terms, self._round, number, entries, seeds, self._key.public_key)
        self._extra(number)
        reply = self._ask(self._pen, "plan", number, {"seeds": [one.hex() for one in seeds]})
        if reply.kind != "ready":
            return
        self.seen.plans.append(plan)
        agreed = Agreed(plan, own, others, {one.own_entry.address: one.key for one in others})
        self._agreed[number] = agreed
        self._ask(self._pen, "go", number, {"plan": plan.digest.hex()})
        for index, chain in enumerate(plan.chains):
            rank = chain.order.index(VICTIM.address)
            if rank:
                self._pass_on(agreed, index, chain.order[rank - 1])
        self._runtime.wait_for_event(agreed.enough, PATIENCE)

    def _pass_on(self, agreed: Agreed, index: int, sender: str) -> None:
        plan = agreed.plan
        total = np.full(plan.chains[index].size, self.order.before, dtype=np.int64)
        purpose = f"{sender} {VICTIM.address} {index}"
        sealed = agreed.keys[sender].seal(total.tobytes(), agreed.own.public_key, purpose, plan.digest)
        pen = next(pen for pen in self._others if pen.address == sender)
        self._ask(pen, "pass", plan.attempt, {"plan": plan.digest.hex(), "chain": index}, sealed)

    def _open(self, agreed: Agreed, message: Message) -> Release:
        plan, own, number = agreed.plan, agreed.own, message.body["chain"]
        key = agreed.keys.get(message.to, self._key)
        raw = key.open(message.payload, own.public_key, f"{VICTIM.address} {message.to} {number}", plan.digest)
        total = np.frombuffer(raw, dtype="<u8").astype(np.uint64)
        if number == MASKED_CHAIN:
            for one in agreed.others:  # each other's mask with the victim, with the sign of the other side
                total = total + sum_masks(
                    one.key, one.own_entry.address, [(own.address, own.public_key)], len(total), plan.digest
                )
            return Release(total.view(np.int64), float(plan.terms.dimension) ** 0.5, float(plan.member_scale))
        chain = plan.chains[number]
        if chain.order[0] != VICTIM.address:
            total = total - np.full(len(total), self.order.before, dtype=np.int64).view(np.uint64)
        norm = plan.terms.slice_norm
        reach = float(chain.size) ** 0.5 if norm is None else min(float(chain.size) ** 0.5, float(norm))
        return Release(total.view(np.int64), reach, float(chain.scales[chain.order.index(VICTIM.address)]))


def rehearse(order: Order, vector: Any) -> Seen:
    """A round in a simulation, without noise: the same every time."""
    simulation = Simulation(order.seed)
    host = HostileHost(order, simulation, Recording(seed=f"host {order.seed}"))
    seen = host.play(vector, Recording(silent=True, seed=f"member {order.seed}"))
    simulation.finish()
    return seen


def _tap(to: str, raw: bytes) -> None:
    """Nobody listens in: the host sees everything anyway."""


HOSTILE = st.one_of(
    st.sampled_from(
        [TINY, "0", "1", "1/1000000000000", "1000000000000", "1/3", "1e308", "-1", "nan", "2/4", "", None, True, 0]
    ),
    st.fractions(Fraction(1, 10**13), Fraction(10**13)).map(str),
    st.integers(-(2**70), 2**70),
    st.text(max_size=12),
)  # fmt: skip
MODES = st.sampled_from(["masked", "bas", "sar"])
FIELDS = st.sampled_from(sorted(RelayTerms.__slots__))
PATIENCES = st.sampled_from([100, 1_000, 20_000, 600_000])
"""In milliseconds: the shortest and the longest that terms allow, and two between."""
SECONDS = st.sampled_from([0.05, 0.2, 1.5, 9.0, 50.0, 3_000.0])
"""Shorter and longer than a member's patience, and than its wait for a host that has fallen silent."""


@st.composite
def orders(draw: Any) -> Order:
    """Terms of a good host with some fields replaced, any bids and attempts, and messages of any content."""
    mode = draw(MODES)
    plain = RelayTerms(4, mode=mode, slices=draw(st.sampled_from([1, 2])) if mode == "sar" else 1).to_json()
    plain["patience_ms"] = draw(PATIENCES)
    for name in draw(st.sampled_from([(), (), ("bound",), ("bound", "slice_norm")]) | st.lists(FIELDS, max_size=2)):
        plain[name] = draw(HOSTILE)
    extra = st.tuples(
        st.sampled_from(["open", "roster", "plan", "go", "pass", "status", "hello", "x"]),
        st.dictionaries(
            st.sampled_from(["plan", "seeds", "entries", "host_key", "chain", "chains"]), HOSTILE, max_size=3
        ),
    )
    return Order(
        plain,
        bids=tuple(draw(st.lists(st.integers(0, 10**15), min_size=1, max_size=2))),
        attempts=draw(st.sampled_from([(1,), (1, 2), (1, 2, 3), (3, 4), (2, 1), (1, 1), (0,), (2**40,)])),
        before=draw(st.sampled_from([0, 2**40, -(2**40), 2**62, -(2**63)])),
        extra=tuple(draw(st.lists(extra, max_size=2))),
        delays=draw(st.dictionaries(st.sampled_from(["hello", "join", "pass", "complain"]), SECONDS, max_size=1)),
        pause=draw(st.just(0.0) | SECONDS),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
