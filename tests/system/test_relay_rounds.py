"""Whole rounds over real sockets, members as threads: sums, promises, deaths at every step, lies, delays, replays."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest

from noisebank.federated.relay import RelayMember, RelayTerms, collection
from support.internals import (
    STEPS_PER_BOUND,
    BadRequest,
    Coalition,
    Host,
    Key,
    Refused,
    Requirements,
    SystemEntropy,
    ask,
    prepare_steps,
    substitute_slices,
)
from support.patience import FACTOR, patience, wait_until
from support.relay import Killed, Played, check_masked, check_wire, play, residuals

QUICK = round(4_000 * FACTOR)
"""Milliseconds of patience."""


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch):
    monkeypatch.setattr(collection, "POLL_SECONDS", 0.1)
    loud = threading.excepthook
    monkeypatch.setattr(threading, "excepthook", lambda told: None if told.exc_type is Killed else loud(told))


def mean_is_right(played: Played, members: list[str]) -> None:
    truth = np.mean([played.vector(who) for who in members], axis=0)
    error = float(np.square(played.round.mean - truth).mean())
    assert 0.5 < error / played.round.stddev**2 < 1.7


@pytest.mark.parametrize(
    "terms",
    [
        RelayTerms(300, mode="bas"),
        RelayTerms(300, mode="bas", floor=Fraction(1, 10)),
        RelayTerms(300, mode="bas", groups=2, split="random"),
        RelayTerms(300, mode="sar", slices=7),
        RelayTerms(300, mode="sar", slices=3, groups=2, publish=True, floor=Fraction(1, 10)),
        RelayTerms(300, colluders=1, publish=True),
    ],
    ids=lambda terms: f"{terms.mode}-{terms.slices}-{terms.groups}",
)
def test_a_round_gives_the_mean_with_the_promised_noise(terms):
    played = play(terms)
    assert played.round.done and played.round.attempt_count == 1 and not played.round.left_out
    assert set(played.plans) == {1}  # attempts are counted from 1
    mean_is_right(played, [key.address for key in played.keys])
    for outcome in played.outcomes:
        assert outcome.done and outcome.attempts_sent == 1 and outcome.guarantees
        if terms.publish:
            assert np.allclose(outcome.mean, played.round.mean)
        else:
            assert outcome.mean is None
    if terms.mode != "masked":
        check_wire(played)


def test_noise_has_the_promised_scale_and_not_a_third_more_or_less():
    played = play(RelayTerms(2_000, mode="bas"), users=2)
    for rest, variance in residuals(played):  # 4.7 standard deviations; 1.3 times the scale would give 1.69, 0.7 .49
        assert 0.85 < float(np.square(rest).mean()) / variance < 1.15


def test_the_promise_comes_before_anything_is_sent():
    events: list[str] = []
    key = Key(SystemEntropy().token())
    host = Host(key, RelayTerms(5, mode="bas"), 2, show=lambda plan, found: events.append("host shown"))

    def tap(to: str, raw: bytes) -> None:
        if b'"kind":"pass"' in raw:
            events.append("sent")

    members = [
        RelayMember(Key(SystemEntropy().token()), np.zeros(5), 1.0, host.endpoint, tap=tap,
               show=lambda plan, found: events.append("member shown"))
        for _ in range(2)
    ]  # fmt: skip
    threads = [threading.Thread(target=member.run) for member in members]
    [thread.start() for thread in threads]
    assert host.run().done
    [thread.join() for thread in threads]
    assert events == ["host shown", "member shown", "member shown", "sent", "sent"]


DEATHS = [
    ("before open", None), ("after open", None), ("after roster", None), ("before plan", None), ("after plan", None),
    ("before go", 0), ("after go", 0), ("after go", 2), ("before pass", 1), ("after pass", 2), ("before sending", 0),
    ("before sending", 3), ("after sending", 0), ("after sending", 1),
]  # fmt: skip


@pytest.mark.parametrize("dies", DEATHS, ids=lambda dies: f"{dies[0]}-{dies[1]}")
def test_a_death_at_any_step_of_a_relay_leaks_nothing_and_the_round_ends(dies):
    mortal = {2} if dies[1] is None else None
    played = play(RelayTerms(300, mode="bas", patience_ms=QUICK), dies=dies, mortal=mortal)
    assert played.round.done, played.round.reason
    survivors = [key.address for key in played.keys if key.address not in played.round.left_out]
    if len(survivors) == 4:  # it died with its part done: the attempt did not need it any more
        assert dies[0] == "after sending" and played.round.attempt_count == 1
    else:
        assert len(survivors) == 3
    mean_is_right(played, survivors)
    check_wire(played)
    by_attempt = {m.attempt for m in played.messages("pass")}
    if len(by_attempt) == 2:  # fresh noise in the second attempt: the first sums do not share it
        firsts = [rest for (m, _), (rest, _) in zip(played.sums(), residuals(played), strict=True)
                  if played.plans[m.attempt].chains[0].order[0] == m.sender]  # fmt: skip
        if len(firsts) == 2:
            assert abs(np.corrcoef(*firsts)[0, 1]) < 0.3


@pytest.mark.parametrize("dies", [("after plan", None), ("after go", None), ("before sending", None)])
def test_a_death_under_masks_uncovers_nobody(dies):
    played = play(RelayTerms(1_000, patience_ms=QUICK), dies=dies, mortal={1})
    assert played.round.done and len(played.round.left_out) == 1
    mean_is_right(played, [key.address for key in played.keys if key.address not in played.round.left_out])
    check_masked(played)


class Delaying(RelayMember):
    """Takes a sum and sits on it."""

    def _forward_sum(self, attempt, chain_number, before):
        wait_until(
            lambda: attempt.number > 1 or self._attempt is not attempt or self._ended.is_set(), "the round goes on"
        )
        super()._forward_sum(attempt, chain_number, before)


class Lying(RelayMember):
    """Passes on a sum that nobody can have."""

    def _forward_sum(self, attempt, chain_number, before):
        if before is not None and attempt.number == 1:
            before = before + np.uint64(2**60)
            self._send_complaint = lambda *said: None
            total = attempt.add_contribution(chain_number, before, self._steps, self._entropy)
            receiver = attempt.next_member(chain_number)
            to, public = (receiver.address, receiver.public_key) if receiver else (self._host_address, attempt.host_key)
            sealed = attempt.seal_sum(total, chain_number, to, public)
            body = {"plan": attempt.agreed_plan.digest.hex(), "chain": chain_number}
            message = self._signer.sign_message(self._round, attempt.number, "pass", to, body, sealed)
            ask(receiver.endpoint if receiver else self._host_endpoint, message.encode(), 5.0, self._tap)
            attempt.sent.add(chain_number)
            return
        super()._forward_sum(attempt, chain_number, before)


class Swapping(RelayMember):
    """Reveals another seed than it was bound to."""

    def _handle_roster(self, message):
        self._current_attempt(message).seed = bytes(32)
        return super()._handle_roster(message)


def test_a_member_that_delays_is_left_out():
    played = play(RelayTerms(20, mode="bas", patience_ms=2_000), kinds={0: Delaying})
    assert played.round.done
    assert played.round.left_out == {played.keys[0].address: "holds a sum and does not pass it on"}


def test_a_member_that_lies_is_left_out_together_with_its_accuser_at_most():
    played = play(
        RelayTerms(20, mode="bas", patience_ms=QUICK), users=6, kinds={5: Lying}
    )  # the largest bid: never first
    assert played.round.done
    liar = played.keys[5].address
    assert liar in played.round.left_out and len(played.round.left_out) <= 2


def test_a_member_that_changes_its_seed_is_left_out():
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK), kinds={1: Swapping})
    assert played.round.done and played.round.left_out == {
        played.keys[1].address: "did not reveal the seed that it was bound to"
    }


def test_a_wrong_mask_is_noticed_and_the_round_ends_without_a_mean():
    class Garbling(RelayMember):
        def _forward_sum(self, attempt, chain_number, before):
            self._steps = self._steps * np.uint64(0)
            honest = attempt.add_contribution
            spoiled = honest(chain_number, before, self._steps, self._entropy) + np.uint64(2**61)
            sealed = attempt.seal_sum(spoiled, chain_number, self._host_address, attempt.host_key)
            body = {"plan": attempt.agreed_plan.digest.hex(), "chain": chain_number}
            message = self._signer.sign_message(self._round, attempt.number, "pass", self._host_address, body, sealed)
            ask(self._host_endpoint, message.encode(), 5.0, self._tap)

    played = play(RelayTerms(20, patience_ms=QUICK), kinds={0: Garbling})
    assert not played.round.done and played.round.mean is None
    assert "not one that honest members can send" in played.round.reason


def test_a_member_leaves_if_the_promise_is_too_little_and_the_others_go_on():
    demands = {1: Requirements(Coalition(0, True), max_epsilon=0.01)}
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK), demands=demands)
    assert played.round.done and list(played.round.left_out) == [played.keys[1].address]
    assert "would learn" in played.outcomes[1].reason and played.outcomes[1].attempts_sent == 0
    assert not [m for m in played.messages("pass") if m.sender == played.keys[1].address]


def test_a_published_relay_without_a_floor_is_refused_by_everyone_it_exposes():
    played = play(RelayTerms(20, mode="bas", publish=True, patience_ms=QUICK))
    assert not played.round.done and not played.messages("pass")


def test_no_more_attempts_than_agreed():
    played = play(RelayTerms(20, mode="bas", patience_ms=QUICK, attempts=1), dies=("before sending", 1))
    assert not played.round.done and "1 of 1 attempts used" in played.round.reason
    assert all(outcome.attempts_sent <= 1 for outcome in played.outcomes)


def test_too_few_members_and_latecomers():
    host = Host(Key(SystemEntropy().token()), RelayTerms(5), 2, wait_seconds=0.2)
    ended = host.run()
    assert not ended.done and "0 members are left; 2 are needed" in ended.reason
    with pytest.raises(Exception, match="nobody listens"):
        RelayMember(Key(SystemEntropy().token()), np.zeros(5), 1.0, host.endpoint).run()


def test_the_same_member_twice_is_refused():
    def meddle(host, members):
        wait_until(lambda: members[0].address in host._joined, "the first one has joined")
        twin = RelayMember(members[0]._signer._key, np.zeros(20), 1.0, host.endpoint)
        twin._signer._last_seq = 1000  # not a replay: a second member with the same name
        with pytest.raises(Refused, match=r"joined already|full|begun"):
            twin.run()

    played = play(RelayTerms(20), users=3, meddle=meddle)
    assert played.round.done and played.round.member_count == 3


def test_replayed_messages_are_refused_by_everyone():
    refused: list[str] = []
    recorded: list[tuple[str, bytes]] = []

    class Replaying(RelayMember):
        """Sends everything that anybody has sent so far once more, to where it went."""

        def _forward_sum(self, attempt, chain_number, before):
            for to, raw in [(to, raw) for to, raw in recorded if to != "reply" and b'"kind":"hello"' not in raw]:
                with pytest.raises(Refused) as reason:
                    ask(to, raw, patience())
                refused.append(str(reason.value))
            super()._forward_sum(attempt, chain_number, before)

    played = play(RelayTerms(20, mode="bas"), users=3, kinds={0: Replaying}, wire=recorded)
    assert played.round.done and not played.round.left_out
    assert len(refused) >= 9 and all("replay" in reason for reason in refused), refused


def test_zeros_are_sent_with_the_agreed_probability():
    played = play(RelayTerms(300, mode="sar", slices=3, skip=Fraction(999_999, 10**6)), users=3)
    assert played.round.done
    for message, total in played.sums():  # noise and nothing else: with the vectors in it the ratio would be near 3
        variance = played.plans[1].chains[message.body["chain"]].variance() / STEPS_PER_BOUND**2
        assert float(np.square(total.view(np.int64) / STEPS_PER_BOUND).mean()) / variance < 2.0


def test_slices_are_cut_to_their_norm_before_they_are_sent():
    terms = RelayTerms(40, Fraction(2), "sar", slices=8, slice_norm=Fraction(1, 2))
    steps = prepare_steps(np.full(40, 1.5), terms).view(np.int64) / STEPS_PER_BOUND
    norms = [float(np.linalg.norm(steps[start:stop])) for start, stop in terms.slice_ranges]
    assert all(0.4999 < norm <= 0.5 for norm in norms)


ALWAYS = Fraction(999_999_999, 10**9)


def test_past_slices_are_sent_with_the_agreed_probability_and_the_mean_is_not_stretched():
    pasts = np.where(np.arange(4)[:, None] % 2 == 0, 0.9, -0.4) * np.ones((4, 300))
    played = play(RelayTerms(300, mode="sar", slices=3, skip=ALWAYS, instead="past"), pasts=pasts)
    assert played.round.done and not any(np.array_equal(one, x) for one, x in zip(pasts, played.vectors, strict=True))
    fresh, past = (np.square(played.round.mean - truth.mean(axis=0)).mean() for truth in (played.vectors, pasts))
    assert 0.5 < past / played.round.stddev**2 < 1.7 < fresh / played.round.stddev**2
    played.vectors[:] = pasts  # what was sent carries the noise that was promised
    check_wire(played)


def test_without_a_past_vector_every_slice_is_fresh():
    played = play(RelayTerms(300, mode="sar", slices=3, skip=ALWAYS, instead="past"), users=3)
    assert played.round.done
    mean_is_right(played, [key.address for key in played.keys])


def test_a_second_attempt_is_no_second_chance_for_a_fresh_slice():
    """Coins are tossed once a round: sums of both attempts hold the same mixture of slices."""
    made = np.full((4, 300), 0.8)
    terms = RelayTerms(300, mode="sar", slices=30, skip=Fraction(1, 2), patience_ms=QUICK)
    for _ in range(12):  # who is dead may be noticed before anybody else has passed anything on
        played = play(terms, vectors=made, dies=("before sending", 0))
        if played.round.done and {m.attempt for m in played.messages("pass")} == {1, 2}:
            break
    else:
        raise AssertionError("no round with two attempts")
    for number, member in enumerate(played.members):
        zeros = [not member._steps[start:stop].any() for start, stop in terms.slice_ranges]
        assert 1 <= sum(zeros) < 30  # 30 fair coins
        played.vectors[number] = member._steps.view(np.int64) / STEPS_PER_BOUND
    check_wire(played)
    again = [
        float(np.square(rest).mean()) / variance
        for (message, _), (rest, variance) in zip(played.sums(), residuals(played), strict=True)
        if message.attempt == 2
    ]
    assert 0.6 < np.mean(again) < 1.4  # 5 standard deviations of 300 draws; coins tossed anew would give more than 2


def test_coins_are_fair_to_their_probability_and_past_vectors_are_checked():
    cuts = [(place, place + 1) for place in range(20_000)]
    for skip in (Fraction(1, 10), Fraction(1, 2), Fraction(0)):
        share = float((substitute_slices(np.ones(20_000), None, cuts, skip) == 0.0).mean())
        assert share == pytest.approx(float(skip), abs=5 * 0.5 / 20_000**0.5)
    mixed = substitute_slices(np.ones(20_000), np.full(20_000, 0.25), cuts, Fraction(3, 10))
    assert set(mixed) == {1.0, 0.25} and (mixed == 0.25).mean() == pytest.approx(0.3, abs=0.02)
    with pytest.raises(BadRequest, match="instead"):
        RelayTerms(4, mode="sar", slices=2, instead="past")
    with pytest.raises(BadRequest, match="instead"):
        RelayTerms(4, mode="sar", slices=2, skip=Fraction(1, 2), instead="nothing")
    host = Host(
        Key(SystemEntropy().token()), RelayTerms(20, mode="sar", skip=ALWAYS, instead="past"), 2, wait_seconds=0.0
    )
    member = RelayMember(Key(SystemEntropy().token()), np.zeros(20), 1.0, host.endpoint, past_vector=np.zeros(7))
    with pytest.raises(BadRequest):
        member.run()
    assert not host.run().done
