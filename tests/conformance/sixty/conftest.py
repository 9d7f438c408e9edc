"""It is the day of the examples: what CURRENT_DATE and NOW() say must not depend on when the tests run."""

from __future__ import annotations

import pytest

from conformance.sixty.banks import NOW


@pytest.fixture(autouse=True)
def day_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noisebank.queries.current_time.clock_now", lambda zone: NOW.replace(tzinfo=None))
