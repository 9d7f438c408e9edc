"""A relay host that plays every other member too and may send anything: all that it learns about one member.

It knows the keys of all others, so it opens and unmasks whatever the member sends: the member's own steps and noise
are left. Nothing that it has seen may tell two vectors apart better than the promise that the member was shown.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

from noisebank import NoisebankError
from noisebank.federated.relay import Member, Terms
from support.internals import (
    BID_UNITS,
    MASKED,
    Attempt,
    AttemptKey,
    Demand,
    Guarantee,
    Key,
    Message,
    Pen,
    Plan,
    Server,
    SystemEntropy,
    Trust,
    ask,
    check_answer,
    guarantee,
    make_plan,
    masks,
    new_attempt,
    plain_entry,
    read_entry,
)

PATIENCE = 20.0
VICTIM = Key(b"\x51" * 32)
TINY = "1e-400"
"""Above 0, and 0.0 as a float."""
ALIASES = ("127.0.0.1", "localhost", "127.0.0.01")
"""One door for all whom the host plays; their endpoints must differ."""


class Recording(SystemEntropy):
    """Real noise, or none at all, and the scales that were asked for."""

    def __init__(self, silent: bool) -> None:
        self.silent, self.scales = silent, []

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        self.scales += [scale] * count
        return [0] * count if self.silent else super().discrete_gaussians(scale, count)


@dataclass
class Order:
    """What the host says. `extra` are messages of any content, sent in front of each step."""

    terms: dict[str, Any]
    bids: tuple[int, ...] = (BID_UNITS, BID_UNITS)
    attempts: tuple[int, ...] = (1,)
    before: int = 0
    extra: tuple[tuple[str, Any], ...] = ()


@dataclass
class Seen:
    """What the host has learned."""

    said: list[str] = field(default_factory=list)
    """Kinds of replies and reasons of refusals, in order: must not depend on the vector."""
    releases: list[np.ndarray] = field(default_factory=list)
    """What remains of each sum once everything known is subtracted."""
    reaches: list[float] = field(default_factory=list)
    """How long each may be at most, in bounds, by the terms."""
    scales: list[float] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    @property
    def public(self) -> tuple[list[str], int]:
        """What must be the same for any two vectors.

        Who passes what to whom follows from seeds, and whether a member that is done still answers the goodbye follows
        from the machine's load: both are left out.
        """
        plain = [line for line in self.said if line not in ("pass", "pass: receipt ") and not line.startswith("end: ")]
        return sorted(plain), len(self.releases)

    @property
    def promise(self) -> Guarantee:
        """What the member was promised against everybody else together."""
        return guarantee(self.plans, VICTIM.address, Trust(len(self.plans[-1].members) - 1, True))


class HostileHost:
    """One round against one member."""

    def __init__(self, order: Order) -> None:
        self.order, self.seen = order, Seen()
        self._pen = Pen(Key(b"\x52" * 32))
        self._key = AttemptKey(SystemEntropy().token())
        self._round = SystemEntropy().token(16).hex()
        self._others = [Pen(Key(bytes([number + 1]) * 32)) for number in range(len(order.bids))]
        self._member = ""
        self._arrived: list[Message] = []
        self._change = threading.Condition()
        self._server = Server("127.0.0.1:0", self._receive, PATIENCE)

    def play(self, vector: Any, silent: bool = False, demand: Demand | None = None) -> Seen:
        """The whole of it."""
        entropy = Recording(silent)
        with self._server:
            member = Member(
                VICTIM, vector, 1.0, self._server.endpoint, entropy=entropy, wait=PATIENCE,
                demand=demand or Demand(unprotected=True), show=lambda plan, found: None,
            )  # fmt: skip
            try:
                member.run()
            except NoisebankError as error:
                self.seen.said.append(f"{type(error).__name__}: {error}")
        self.seen.scales = entropy.scales
        return self.seen

    def _receive(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        self.seen.said.append(message.kind)
        if message.kind == "hello":
            body = {"round": self._round, "terms": self.order.terms}
            return self._pen.answer(message, "terms", body).encode()
        if message.kind == "join":
            self._member = message.body["endpoint"]
            threading.Thread(target=self._drive, daemon=True).start()
        if message.kind in ("pass", "complain"):
            self._note(message)
        return self._pen.answer(message, "receipt").encode()

    def _note(self, message: Message) -> None:
        with self._change:
            self._arrived.append(message)
            self._change.notify_all()

    def _drive(self) -> None:
        with suppress(NoisebankError):  # the member said no; it is in `seen`
            for number in self.order.attempts:
                self._attempt(number)
        with suppress(NoisebankError):
            self._ask(self._pen, "end", 9, {"done": False, "reason": "", "members": 1})

    def _ask(self, pen: Pen, kind: str, attempt: int, body: Any, payload: bytes = b"") -> Message:
        message = pen.write(self._round, attempt, kind, VICTIM.address, body, payload)
        try:
            reply = check_answer(message, ask(self._member, message.encode(), PATIENCE))
        except NoisebankError as error:
            self.seen.said.append(f"{kind}: {type(error).__name__}: {error}")
            raise
        self.seen.said.append(f"{kind}: {reply.kind} {reply.body.get('reason', '')}")
        return reply

    def _extra(self, number: int) -> None:
        for kind, body in self.order.extra:
            try:
                self._ask(self._pen, kind, number, body)
            except NoisebankError:
                continue

    def _attempt(self, number: int) -> None:
        terms = Terms.parse(self.order.terms)
        self._extra(number)
        entered = self._ask(self._pen, "open", number, {})
        own = read_entry(entered.encode(), self._round, number)
        with Server("127.0.0.1:0", self._taken, PATIENCE) as door:
            port = door.endpoint.rpartition(":")[2]
            others = [
                new_attempt(self._round, number, pen.address, f"{alias}:{port}", bid, SystemEntropy())
                for alias, pen, bid in zip(ALIASES, self._others, self.order.bids, strict=False)
            ]
            self._run(terms, number, entered, own, others)

    def _run(self, terms: Terms, number: int, entered: Message, own: Any, others: list[Attempt]) -> None:
        signed = [entered.encode()]
        for pen, one in zip(self._others, others, strict=True):
            body = {name: value for name, value in plain_entry(one.own).items() if name != "address"}
            signed.append(pen.write(self._round, number, "enter", self._pen.address, body).encode())
        self._extra(number)
        roster = {"entries": [raw.hex() for raw in signed], "host_key": self._key.public.hex()}
        seed = self._ask(self._pen, "roster", number, roster).body["seed"]
        seeds = [bytes.fromhex(seed), *(one.seed for one in others)]
        entries = [own, *(one.own for one in others)]
        plan = make_plan(terms, self._round, number, entries, seeds, self._key.public)
        self._extra(number)
        reply = self._ask(self._pen, "plan", number, {"seeds": [one.hex() for one in seeds]})
        if reply.kind != "ready":
            return
        self.seen.plans.append(plan)
        with self._change:
            self._arrived.clear()
        self._ask(self._pen, "go", number, {"plan": plan.digest.hex()})
        keys = {one.own.address: one.key for one in others}
        for place, chain in enumerate(plan.chains):
            at = chain.order.index(VICTIM.address)
            if at:
                self._pass_on(plan, place, chain, chain.order[at - 1], keys)
        wanted = max(1, len(plan.chains))
        with self._change:
            self._change.wait_for(lambda: len(self._arrived) >= wanted, PATIENCE)
            arrived = list(self._arrived)
        for message in arrived:
            if message.kind == "pass":
                self._open(plan, message, own, others, keys)

    def _pass_on(self, plan: Plan, place: int, chain: Any, sender: str, keys: dict[str, AttemptKey]) -> None:
        total = np.full(chain.size, self.order.before, dtype=np.int64)
        purpose = f"{sender} {VICTIM.address} {place}"
        sealed = keys[sender].seal(total.tobytes(), plan.entry(VICTIM.address).public_key, purpose, plan.digest)
        pen = next(pen for pen in self._others if pen.address == sender)
        self._ask(pen, "pass", plan.attempt, {"plan": plan.digest.hex(), "chain": place}, sealed)

    def _taken(self, raw: bytes) -> bytes:
        message = Message.decode(raw)
        self._note(message)
        pen = next(pen for pen in self._others if pen.address == message.to)
        return pen.answer(message, "receipt").encode()

    def _open(self, plan: Plan, message: Message, own: Any, others: list[Attempt], keys: dict[str, AttemptKey]) -> None:
        number = message.body["chain"]
        key = keys.get(message.to, self._key)
        raw = key.open(message.payload, own.public_key, f"{VICTIM.address} {message.to} {number}", plan.digest)
        total = np.frombuffer(raw, dtype="<u8").astype(np.uint64)
        if number == MASKED:
            for one in others:  # each other's mask with the victim, with the sign of the other side
                total = total + masks(
                    one.key, one.own.address, [(own.address, own.public_key)], len(total), plan.digest
                )
            size = float(plan.terms.dimension) ** 0.5
        else:
            chain = plan.chains[number]
            if chain.order[0] != VICTIM.address:
                total = total - np.full(len(total), self.order.before, dtype=np.int64).view(np.uint64)
            norm = plan.terms.slice_norm
            size = float(chain.size) ** 0.5 if norm is None else min(float(chain.size) ** 0.5, float(norm))
        self.seen.releases.append(total.view(np.int64))
        self.seen.reaches.append(size)


HOSTILE = st.one_of(
    st.sampled_from(
        [TINY, "0", "1", "1/1000000000000", "1000000000000", "1/3", "1e308", "-1", "nan", "2/4", "", None, True, 0]
    ),
    st.fractions(Fraction(1, 10**13), Fraction(10**13)).map(str),
    st.integers(-(2**70), 2**70),
    st.text(max_size=12),
)  # fmt: skip
MODES = st.sampled_from(["masked", "bas", "sar"])
FIELDS = st.sampled_from(sorted(set(Terms.__slots__) - {"patience_ms"}))
"""All but the clock: a member that runs out of patience on a busy machine says so."""


@st.composite
def orders(draw: Any) -> Order:
    """Terms of a good host with some fields replaced, any bids and attempts, and messages of any content."""
    mode = draw(MODES)
    plain = Terms(4, mode=mode, slices=draw(st.sampled_from([1, 2])) if mode == "sar" else 1).plain()
    plain["patience_ms"] = 20_000
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
    )
