"""One member's side of an attempt, and the host's verdicts: each refusal has its reason."""

from __future__ import annotations

import numpy as np
import pytest

from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest, Refused, Tampered
from noisebank.federated.relay import Host, RelayMember, RelayTerms, Requirements
from noisebank.federated.relay.attempt import Attempt, new_attempt, prepare_steps, read_entry
from noisebank.federated.relay.blame import ChainClaims, find_culprits
from noisebank.federated.relay.grid import draw_noise
from noisebank.federated.relay.messages import Message, MessageSigner
from noisebank.federated.relay.plan import entry_to_json
from noisebank.federated.relay.sealing import AttemptKey
from noisebank.ledger.signing import Key
from support.relay import made_plan

TERMS = RelayTerms(6, mode="bas")
HOST_KEY = AttemptKey(bytes(31) + b"\x07").public_key.hex()


def three(terms: RelayTerms = TERMS) -> tuple[list[MessageSigner], list[Attempt], list[bytes]]:
    """Three members with their signed entries."""
    pens = [MessageSigner(Key(bytes([number + 1]) * 32)) for number in range(3)]
    made = [new_attempt("r", 1, pen.address, f"h:{n}", 10**9 + n, SystemEntropy()) for n, pen in enumerate(pens)]
    return pens, made, [entered(pen, attempt) for pen, attempt in zip(pens, made, strict=True)]


def entered(pen: MessageSigner, attempt: Attempt, kind: str = "enter", **changes: object) -> bytes:
    body = {name: value for name, value in entry_to_json(attempt.own_entry).items() if name != "address"}
    return pen.sign_message("r", attempt.number, kind, "0xhost", {**body, **changes}).encode()


def agreed(terms: RelayTerms = TERMS) -> tuple[list[MessageSigner], list[Attempt]]:
    pens, made, entries = three(terms)
    for attempt in made:
        attempt.take_roster({"entries": [raw.hex() for raw in entries], "host_key": HOST_KEY})
        attempt.plan = attempt.derive_plan(terms, [one.seed.hex() for one in made])
    assert len({attempt.agreed_plan.digest for attempt in made}) == 1
    return pens, made


def test_a_host_cannot_swap_a_key_a_bid_or_a_member():
    pens, made, entries = three()
    swapped = entered(pens[0], new_attempt("r", 1, pens[0].address, "h:0", 5, SystemEntropy()))
    for wrong in (
        [swapped, *entries[1:]],  # not what this member sent
        entries[1:],  # without it
        [*entries[:2], entered(pens[2], made[2], kind="reveal")],
        [*entries[:2], entered(pens[2], made[2], bid="much")],
        [*entries[:2], entered(pens[2], made[2], bid=-1)],
        [*entries[:2], entered(pens[2], made[2], public_key="00")],
        [*entries[:2], entered(pens[2], made[2], more=1)],
        [*entries[:2], entries[2][:-80]],
    ):
        with pytest.raises(Tampered):
            made[0].take_roster({"entries": [raw.hex() for raw in wrong], "host_key": HOST_KEY})
    made[0].take_roster({"entries": [raw.hex() for raw in entries], "host_key": HOST_KEY})
    with pytest.raises(Refused, match="roster already"):
        made[0].take_roster({"entries": [raw.hex() for raw in entries], "host_key": HOST_KEY})
    with pytest.raises(Tampered, match="another round"):
        read_entry(entries[0], "other", 1)
    with pytest.raises(BadRequest):
        made[1].take_roster({"entries": [7], "host_key": HOST_KEY})


def test_a_plan_comes_once_and_nothing_is_sent_without_one():
    _, made, _ = three()
    with pytest.raises(Refused, match="no plan yet"):
        made[0].add_contribution(0, None, np.zeros(6, dtype=np.uint64), SystemEntropy())
    with pytest.raises(Refused, match="after the roster"):
        made[0].derive_plan(TERMS, [])
    _, made = agreed()
    with pytest.raises(Refused, match="once"):
        made[0].derive_plan(TERMS, [one.seed.hex() for one in made])


def test_a_sum_is_taken_once_from_the_member_before():
    pens, made = agreed()
    plan = made[0].agreed_plan
    by_address = {attempt.own_entry.address: attempt for attempt in made}
    writers = {pen.address: pen for pen in pens}
    first, second, third = plan.chains[0].order
    total = by_address[first].add_contribution(0, None, prepare_steps(np.full(6, 0.5), TERMS), SystemEntropy())

    def passed(sender: str, to: str, **changes: object) -> Message:
        sealed = by_address[sender].seal_sum(total, 0, to, by_address[to].own_entry.public_key)
        return writers[sender].sign_message(
            "r", 1, "pass", to, {"plan": plan.digest.hex(), "chain": 0, **changes}, sealed
        )

    taker = by_address[second]
    for wrong, why in (
        (passed(third, second), "does not come before"),
        (passed(first, second, plan="00"), "another plan"),
        (passed(first, second, chain=7), "no such chain"),
        (passed(first, second, chain="0"), "no such chain"),
    ):
        with pytest.raises(Refused, match=why):
            taker.take_sum(wrong)
    number, taken = taker.take_sum(passed(first, second))
    assert number == 0 and np.array_equal(taken, total)
    with pytest.raises(Refused, match="received before"):
        taker.take_sum(passed(first, second))
    with pytest.raises(Refused, match="does not come before"):
        by_address[first].take_sum(passed(third, first))
    with pytest.raises(Refused, match="only the first"):
        taker.add_contribution(0, None, np.zeros(6, dtype=np.uint64), SystemEntropy())
    with pytest.raises(Tampered):  # sealed to another member
        sealed = by_address[second].seal_sum(total, 0, first, by_address[first].own_entry.public_key)
        by_address[third].take_sum(writers[second].sign_message("r", 1, "pass", third,
                                   {"plan": plan.digest.hex(), "chain": 0}, sealed))  # fmt: skip


def test_noise_outside_the_proved_range_is_refused():
    for scale in (1, 2**26 - 1, 2**54 + 1):
        with pytest.raises(BadRequest):
            draw_noise(scale, 3, SystemEntropy())
    assert not draw_noise(0, 3, SystemEntropy()).any()


class Many(SystemEntropy):
    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [int(scale)] * count


def test_entropy_that_draws_many_at_once_is_used():
    assert draw_noise(2**30, 3, Many()).tolist() == [2**30] * 3


def state(received: set[int], sent: set[int], receipts: dict[int, str] | None = None) -> ChainClaims:
    return ChainClaims(frozenset(received), frozenset(sent), receipts or {})


def test_who_is_to_blame():
    plan = made_plan(TERMS, [0.2, 0.9, 0.5])
    a, b, c = plan.chains[0].order
    idle, moved = state(set(), set()), state({0}, {0})
    assert find_culprits(plan, "r", {a: idle, b: idle, c: idle}, set()) == {a: "holds a sum and does not pass it on"}
    assert find_culprits(plan, "r", {a: None, b: idle, c: idle}, set()) == {a: "vanished"}
    held = state({0}, set())
    assert find_culprits(plan, "r", {a: moved, b: held, c: idle}, set()) == {b: "holds a sum and does not pass it on"}
    assert set(find_culprits(plan, "r", {a: moved, b: idle, c: idle}, set())) == {a, b}
    assert find_culprits(plan, "r", {a: moved, b: moved, c: moved}, set()).keys() == {c}
    assert find_culprits(plan, "r", {a: idle, b: idle, c: idle}, {0}) == {}


def test_a_receipt_convicts_who_denies_it():
    pens, made = agreed()
    plan = made[0].agreed_plan
    a, b, c = plan.chains[0].order
    pen = next(pen for pen in pens if pen.address == b)
    idle = state(set(), set())
    for round_id, attempt, guilty in (("r", 1, {b}), ("r", 2, {a, b}), ("other", 1, {a, b})):
        receipt = pen.sign_message(round_id, attempt, "receipt", a, {"chain": 0}).encode().hex()
        states = {a: state(set(), {0}, {0: receipt}), b: idle, c: idle}
        assert set(find_culprits(plan, "r", states, set())) == guilty
    with pytest.raises((TypeError, ValueError)):
        ChainClaims.parse({"received": "x", "sent": 3})


def test_lists_of_members_and_pinned_hosts():
    key, stranger = Key(SystemEntropy().token()), Key(SystemEntropy().token())
    host = Host(
        Key(SystemEntropy().token()), RelayTerms(2), 2, allowed_addresses=frozenset({key.address}), wait_seconds=0.0
    )
    with pytest.raises(Refused, match="not on the list"):
        RelayMember(stranger, [0.0, 0.0], 1.0, host.endpoint).run()
    with pytest.raises(Tampered, match="does not belong"):
        RelayMember(key, [0.0, 0.0], 1.0, host.endpoint, host_address=stranger.address).run()
    for wrong in ([0.0], [float("nan"), 0.0]):
        with pytest.raises(BadRequest):
            RelayMember(key, wrong, 1.0, host.endpoint).run()
    assert not host.run().done
    with pytest.raises(BadRequest):
        Host(key, RelayTerms(2), 1)
    with pytest.raises(BadRequest):
        Requirements(suspicion=2.0)
