"""Runs the verifier for a page: on a thread, one at a time, with its progress as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from noisebank.bank.bank import Bank
from noisebank.core.errors import NoisebankError
from noisebank.ledger.rpc import RpcChain
from noisebank.service.errors import Turned
from noisebank.verifier.report import Report
from noisebank.verifier.verification import verify, verify_chain

MOST_WAITING = 6
EVERY = 0.1


class Verdict(Protocol):
    """The report of a verifier."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        ...


Found = TypeVar("Found", bound=Verdict)
Verify = Callable[[Callable[[int], None]], Found]
"""A verifier; it calls its argument with the number of steps done."""


class Gone(Exception):
    """Raised inside a verifier when nobody watches any more."""


class Checking:
    """A queue of verifications; one runs at a time, a few may wait."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="verifier")
        self._waiting, self._closed = 0, False

    def close(self) -> None:
        """Stop the verification that runs, soon; drop those that wait."""
        self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def check(self) -> None:
        """Raise if too many are waiting already."""
        if self._waiting >= MOST_WAITING or self._closed:
            raise Turned(
                "overloaded", "others are verifying; try again in a moment, or verify the journal yourself", 5.0
            )

    async def follow(self, verify: Verify[Found], total: int, show: Callable[[Found], str]) -> AsyncIterator[bytes]:
        """Yield the events progress (done, total), then report (with the verdict as HTML) or trouble."""
        self.check()
        steps = {"done": 0, "total": max(1, total)}
        watched = True

        def report_progress(done: int) -> None:
            steps["done"] = done
            if not watched or self._closed:
                raise Gone

        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, lambda: verify(report_progress))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while not work.done():
                yield _event("progress", steps)
                await asyncio.wait([work], timeout=EVERY)
            try:
                report = work.result()
            except Gone:
                return
            except NoisebankError as error:
                yield _event("trouble", {"detail": str(error)})
                return
            yield _event("progress", {**steps, "done": steps["total"]})
            yield _event("report", {"passed": report.passed, "html": show(report)})
        finally:
            watched = False
            self._waiting -= 1

    def _going_on(self, done: int) -> None:
        if self._closed:
            raise Gone

    async def once(self, verify: Verify[Found]) -> Found:
        """Return the report without progress events, for browsers without scripts."""
        self.check()
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: verify(self._going_on))
        finally:
            self._waiting -= 1


def verified(bank: Bank, head: str | None, progress: Callable[[int], None] = lambda done: None) -> Report:
    """Return the verifier's report on this bank's ledger, as it is on disk or on its chain now."""
    ledger = bank.ledger
    if isinstance(ledger, RpcChain):
        return verify_chain(ledger.url, ledger.contract, first=ledger.created, head=head, progress=progress)
    return verify(bank.export(), head=head, progress=progress)


def _event(name: str, facts: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(facts)}\n\n".encode()
