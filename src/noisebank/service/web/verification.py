"""Runs the verifier for a page: on a thread, one at a time, with its progress as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from noisebank.bank.bank import Bank
from noisebank.core.errors import NoisebankError
from noisebank.ledger.rpc import ChainLedger
from noisebank.service.errors import ApiError
from noisebank.verifier.report import Report
from noisebank.verifier.verification import verify, verify_chain

MAX_WAITING = 6
PROGRESS_SECONDS = 0.1


class VerifierReport(Protocol):
    """The report of a verifier."""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        ...


VerdictT = TypeVar("VerdictT", bound=VerifierReport)
Verifier = Callable[[Callable[[int], None]], VerdictT]
"""A verifier; it calls its argument with the number of steps done."""


class Abandoned(Exception):
    """Raised inside a verifier when nobody watches any more."""


class Verifications:
    """A queue of verifications; one runs at a time, a few may wait."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="verifier")
        self._waiting, self._closed = 0, False

    def close(self) -> None:
        """Stop the verification that runs, soon; drop those that wait."""
        self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)

    def check_capacity(self) -> None:
        """Raise if too many are waiting already."""
        if self._waiting >= MAX_WAITING or self._closed:
            raise ApiError(
                "overloaded", "others are verifying; try again in a moment, or verify the journal yourself", 5.0
            )

    async def stream_progress(
        self, verifier: Verifier[VerdictT], total: int, render_report: Callable[[VerdictT], str]
    ) -> AsyncIterator[bytes]:
        """Yield the events progress (done, total), then report (with the verdict as HTML) or trouble."""
        self.check_capacity()
        steps = {"done": 0, "total": max(1, total)}
        watched = True

        def report_progress(done: int) -> None:
            steps["done"] = done
            if not watched or self._closed:
                raise Abandoned

        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(self._executor, lambda: verifier(report_progress))
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while not work.done():
                yield _encode_event("progress", steps)
                await asyncio.wait([work], timeout=PROGRESS_SECONDS)
            try:
                report = work.result()
            except Abandoned:
                return
            except NoisebankError as error:
                yield _encode_event("trouble", {"detail": str(error)})
                return
            yield _encode_event("progress", {**steps, "done": steps["total"]})
            yield _encode_event("report", {"passed": report.passed, "html": render_report(report)})
        finally:
            watched = False
            self._waiting -= 1

    def _stop_if_closed(self, done: int) -> None:
        if self._closed:
            raise Abandoned

    async def run_verifier(self, verifier: Verifier[VerdictT]) -> VerdictT:
        """Return the report without progress events, for browsers without scripts."""
        self.check_capacity()
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, lambda: verifier(self._stop_if_closed)
            )
        finally:
            self._waiting -= 1


def verify_bank(bank: Bank, head: str | None, progress: Callable[[int], None] = lambda done: None) -> Report:
    """Return the verifier's report on this bank's ledger, as it is on disk or on its chain now."""
    ledger = bank.ledger
    if isinstance(ledger, ChainLedger):
        return verify_chain(ledger.url, ledger.contract, first=ledger.deployment_block, head=head, progress=progress)
    return verify(bank.export(), head=head, progress=progress)


def _encode_event(name: str, facts: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(facts)}\n\n".encode()
