"""A short run of what `make assurance` runs in full."""

from __future__ import annotations

from assurance.hostile_host import hostile_host


def test_no_host_or_poster_breaks_a_promise_and_planted_bugs_are_caught():
    finding = hostile_host(0.001)
    assert finding.passed, finding
    assert len(finding.planted) == 7
