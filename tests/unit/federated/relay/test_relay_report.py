"""A round's report: the promises of the plan itself, nothing that is not public, and nothing else is read as one."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.relay import RelayPlan, RelayTerms, RoundOutcome, compute_guarantees, make_plan
from noisebank.federated.relay.plan import MemberEntry, seed_commitment
from noisebank.federated.relay.report import make_round_report, read_round_report


def plan(terms: RelayTerms, attempt: int = 1, count: int = 5) -> RelayPlan:
    seeds = [bytes([attempt, number]) * 16 for number in range(count)]
    entries = [
        MemberEntry(f"0x{number:040x}", f"127.0.0.1:{7000 + number}", 10**6 * (number + 1), seed_commitment(seed),
                    bytes([number + 1]) * 32)
        for number, seed in enumerate(seeds)
    ]  # fmt: skip
    return make_plan(terms, "ab" * 16, attempt, entries, seeds, b"host" * 8)


def outcome(plans: list[RelayPlan]) -> RoundOutcome:
    return RoundOutcome(
        True, "done", len(plans[-1].members), len(plans), np.array([0.25, -0.5]), 0.1, {"0xgone": "late"}, [], 1.0
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["bas", "masked"])
def test_a_report_has_the_promises_of_all_attempts_and_comes_back_the_same(mode: str) -> None:
    plans = [plan(RelayTerms(2, mode=mode), attempt) for attempt in (1, 2)]
    report = make_round_report("monday", plans, outcome(plans))
    assert read_round_report(report.to_bytes()) == report
    assert [member.address for member in report.members] == [member.address for member in plans[1].members]
    for member in report.members:
        rows = compute_guarantees(plans[1], member.address, plans[:1])
        assert [promise.coalition for promise in member.promises] == [str(row.coalition) for row in rows]
        assert [promise.epsilon for promise in member.promises] == [
            None if row.loss is None else row.epsilon if row.loss else 0.0 for row in rows
        ]
        once = compute_guarantees(plans[1], member.address)
        assert any(row.loss is not None and row.loss < more.loss for row, more in zip(once, rows, strict=True)
                   if more.loss is not None)  # fmt: skip
    if mode == "bas":
        assert sorted(member.position or 0 for member in report.members) == [1, 2, 3, 4, 5]
        assert [member.position for member in report.members if member.noise] == [1]  # the first adds it for all
        alone = make_round_report("once", plans[1:], outcome(plans[1:]))
        unprotected = [any(promise.epsilon is None for promise in member.promises) for member in alone.members]
        assert sum(unprotected) == 4


def test_the_mean_is_told_only_if_the_terms_publish_it() -> None:
    for publish in (False, True):
        plans = [plan(RelayTerms(2, mode="bas", floor=Fraction(1), publish=publish))]
        report = make_round_report("monday", plans, outcome(plans))
        assert report.mean == ((0.25, -0.5) if publish else None)
    assert "127.0.0.1" not in report.to_bytes().decode()  # where members listen is nobody's business


def test_what_is_no_report_is_refused() -> None:
    plans = [plan(RelayTerms(2, mode="bas"))]
    whole = make_round_report("monday", plans, outcome(plans)).to_bytes()
    plain = json.loads(whole)
    others = [
        b"", b"[]", b"{}", whole[:-9], json.dumps(plain | {"format": "noisebank relay round 2"}).encode(),
        json.dumps(plain | {"more": 1}).encode(), json.dumps(plain | {"members": [{"address": "0x"}]}).encode(),
        json.dumps(plain | {"terms": plain["terms"] | {"mode": "trust me"}}).encode(),
    ]  # fmt: skip
    for content in others:
        with pytest.raises(BadRequest, match="is no 'noisebank relay round 1'"):
            read_round_report(content)
    with pytest.raises(BadRequest, match="without a plan"):
        make_round_report("monday", [], outcome(plans))
