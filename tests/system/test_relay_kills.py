"""SIGKILL at every step: real processes, real sockets, gateways that see every byte and choose the moment."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from support.relay import check_masked, check_wire
from support.relay_gateway import Ended, Moment, round_of

BAS = ["--mode", "bas", "--patience", "1.5"]
SAR = ["--mode", "sar", "--slices", "3", "--floor", "0.1", "--patience", "1.5"]
MASKED = ["--mode", "masked", "--patience", "1.5"]
WORDS = {"bas": BAS, "sar": SAR, "masked": MASKED}
HURRIED = ["--mode", "bas", "--patience", "0.9"]
"""Members give a silent host four times its patience, and five seconds."""
DIMENSION = {"bas": 300, "sar": 300, "hurried": 300, "masked": 1_000}
SAYS = {"hello", "join", "open", "roster", "plan", "go", "status", "pass", "complain", "end"}

FEW = [
    ("bas", Moment("join", "told", "sender", 3)),
    ("bas", Moment("pass", "lost", "sender", 1)),  # has its sum ready, and nobody gets it
    ("bas", Moment("pass", "heard", "receiver", 1)),  # has the predecessor's sum
    ("bas", Moment("pass", "told", "sender", 2)),  # has passed it on
    ("masked", Moment("roster", "told", "receiver", 2)),  # has everybody's keys for the masks
    ("masked", Moment("pass", "asked", "sender", 2)),
    ("hurried", Moment("pass", "told", "receiver", 3)),  # the host, with the sum
]
"""In every run."""
ALL = [
    (mode, Moment(kind, when, victim, nth))
    for mode in WORDS
    for kind, count in (("join", 3), ("open", 2), ("roster", 2), ("plan", 2), ("go", 2), ("pass", 3), ("end", 2))
    for nth in ((1, count) if kind != "pass" else (1, 2, 3))
    for when, victim in (
        ("asked", "sender"), ("lost", "sender"), ("heard", "sender"), ("told", "sender"),
        ("asked", "receiver"), ("heard", "receiver"), ("told", "receiver"),
    )
]  # fmt: skip


def check(ended: Ended, mode: str) -> None:
    gateways, played = ended.gateways, ended.played
    assert gateways.killed, "the moment never came"
    assert ended.codes.pop(gateways.killed) == -signal.SIGKILL
    # everybody else ends, by itself, with an answer or a reason and without a traceback
    assert set(ended.codes.values()) <= {0, 1}, ended.codes
    assert not [text for text in ended.errors.values() if "Traceback" in text], ended.errors
    for name in ended.codes:
        assert "reason" in ended.said[name] or "error" in ended.said[name], ended.said
    if gateways.killed != "host":
        check_mean(ended)
    # what was on the wire: sums with the promised noise, sealed, once each; or vectors that look like noise
    if mode == "masked":
        check_masked(played)
    else:
        check_wire(played)
    for seen in gateways.seen:
        assert seen.request.kind in SAYS and (seen.request.kind == "pass") == bool(seen.request.payload)
    once = [(m.sender, m.attempt, m.body["chain"]) for m in played.messages("pass")]
    assert len(set(once)) == len(once)


def check_mean(ended: Ended) -> None:
    """The host has the mean of those who were not left out: the other two, or all three if the dead one had sent."""
    said, played = ended.said["host"], ended.played
    assert said["done"], said
    plan = played.plans[max(played.plans)]
    assert said["members"] == len(plan.members) in (2, 3) and said["attempts"] <= 2
    truth = np.mean([played.vector(member.address) for member in plan.members], axis=0)
    error = float(np.square(np.array(said["mean"]) - truth).mean())
    assert 0.5 < error / said["stddev"] ** 2 < 1.7


@pytest.mark.parametrize(("mode", "moment"), FEW, ids=lambda part: str(part))
def test_a_process_killed_at_this_moment_leaks_nothing_and_the_others_end(tmp_path, mode, moment):
    check(round_of(tmp_path, {**WORDS, "hurried": HURRIED}[mode], moment, dimension=DIMENSION[mode]), mode)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "moment"), ALL, ids=lambda part: str(part))
def test_a_process_killed_at_any_moment_leaks_nothing_and_the_others_end(tmp_path, mode, moment):
    check(round_of(tmp_path, WORDS[mode], moment, dimension=DIMENSION[mode]), mode)


def test_the_gateways_would_see_a_bare_sum(tmp_path):
    """The checks can fail: less noise than promised is noticed, and so is a vector in the open."""
    ended = round_of(tmp_path, BAS, None)
    assert set(ended.codes.values()) == {0}, ended.errors
    check_wire(ended.played)
    halved = ended.played.vectors.copy()
    ended.played.vectors *= -1.0  # as if the sums held something else than they do
    with pytest.raises(AssertionError):
        check_wire(ended.played)
    ended.played.vectors[:] = halved
    ended.played.wire.append(("somebody", halved[0].tobytes()))
    with pytest.raises(AssertionError):
        check_wire(ended.played)
