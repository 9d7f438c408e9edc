"""Verifications for a page: progress, then the verdict; one at a time, and none once the service ends."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from noisebank.core.errors import Tampered
from noisebank.service.errors import ApiError
from noisebank.service.web.verification import MAX_WAITING, Verifications
from support.patience import patience

Event = tuple[str, dict[str, Any]]


def stream(verifier: Callable[[Callable[[int], None]], Any], total: int, seen: Callable[[Event], None]) -> list[Event]:
    """All events of one verification; each is shown to `seen` as it comes."""
    events: list[Event] = []
    verifications = Verifications()

    async def collect() -> None:
        async for raw in verifications.stream_progress(verifier, total, lambda report: "<p>well</p>"):
            name, data = raw.decode().strip().removeprefix("event: ").split("\ndata: ")
            events.append((name, json.loads(data)))
            seen(events[-1])

    asyncio.run(collect())
    assert not verifications._waiting
    verifications.close()
    return events


def test_progress_is_shown_while_it_works_and_the_verdict_at_the_end() -> None:
    first, half = threading.Event(), threading.Event()

    def verifier(progress: Callable[[int], None]) -> SimpleNamespace:
        assert first.wait(patience())
        progress(2)
        assert half.wait(patience())
        return SimpleNamespace(passed=True)

    def watch(event: Event) -> None:
        first.set()
        if event == ("progress", {"done": 2, "total": 4}):
            half.set()

    events = stream(verifier, 4, watch)
    assert events[0] == ("progress", {"done": 0, "total": 4}) and ("progress", {"done": 2, "total": 4}) in events
    assert events[-2:] == [
        ("progress", {"done": 4, "total": 4}), ("report", {"passed": True, "html": "<p>well</p>"}),
    ]  # fmt: skip


def test_what_a_verifier_refuses_is_said() -> None:
    def verifier(progress: Callable[[int], None]) -> SimpleNamespace:
        raise Tampered("block 7 is not signed")

    assert stream(verifier, 0, lambda event: None)[-1] == ("trouble", {"detail": "block 7 is not signed"})


def test_a_few_wait_and_the_rest_is_sent_away() -> None:
    verifications, release = Verifications(), threading.Event()

    def verifier(progress: Callable[[int], None]) -> SimpleNamespace:
        assert release.wait(patience())
        return SimpleNamespace(passed=False)

    async def crowd() -> list[SimpleNamespace]:
        waiting = [asyncio.create_task(verifications.run_verifier(verifier)) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(ApiError, match="others are verifying"):
            await verifications.run_verifier(verifier)
        release.set()
        return await asyncio.gather(*waiting)

    assert [report.passed for report in asyncio.run(crowd())] == [False] * MAX_WAITING
    verifications.check_capacity()
    verifications.close()
    with pytest.raises(ApiError):
        verifications.check_capacity()
