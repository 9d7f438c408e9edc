"""A short run of the tampering row of the assurance table."""

from __future__ import annotations

from assurance.tampering import tampering


def test_every_change_of_a_journal_is_caught() -> None:
    finding = tampering(0.01)
    assert finding.passed, finding
