"""The SDK for asyncio: `noisebank.connect_async(url, key)` returns an `AsyncClient`, with the methods of `Client`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from noisebank.client import verbs
from noisebank.client.facts import Facts
from noisebank.client.retries import RetrySchedule
from noisebank.client.verbs import Call, Flow
from noisebank.client.wallets import load_wallet
from noisebank.core.asks import Ask, collect_accuracy
from noisebank.core.errors import BadRequest, NoisebankError, NotSignedIn
from noisebank.core.quote import Quote
from noisebank.core.receipts import Receipt
from noisebank.core.result import Result
from noisebank.core.statement import HistoryEntry, Statement
from noisebank.core.units import Exact
from noisebank.ledger.signing import Key
from noisebank.policy.model import Policy

if TYPE_CHECKING:
    from noisebank.verifier.report import Report

Outcome = TypeVar("Outcome")
PATIENCE, TIMEOUT, PAGE_SIZE = 60.0, 30.0, 100


def connect_async(
    url: str,
    key: str | None = None,
    *,
    wallet: Path | str | Key | None = None,
    patience: float = PATIENCE,
    timeout: float = TIMEOUT,
) -> AsyncClient:
    """Connects to a bank behind a service, for asyncio. `key` is an API key (nbk_...).

    With `wallet`, the file of an Ethereum key, everything that spends is signed (EIP-712); without an API key it also
    signs in (EIP-4361). Lost connections, 429 and 503 are tried again for `patience` seconds in all, with the same
    idempotency key; one attempt takes at most `timeout` seconds.
    """
    return AsyncClient(url, key, None if wallet is None else load_wallet(wallet), patience, timeout)


class AsyncClient:
    """A connected client. Safe to share between tasks. Close it, or use it in an `async with` statement."""

    def __init__(
        self,
        url: str,
        key: str | None,
        wallet: Key | None,
        patience: float = PATIENCE,
        timeout: float = TIMEOUT,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url, self._key, self._wallet, self._patience, self._sleep = url, key, wallet, patience, sleep
        self._signs_in = key is None and wallet is not None
        if not url.startswith(("http://", "https://")):  # no use trying that again
            raise BadRequest("url", url, "begins with http:// or https://")
        self._http = httpx.AsyncClient(base_url=url, timeout=timeout, transport=transport)

    async def datasets(self) -> tuple[Facts, ...]:
        """Returns all data sets: policy, budget, what is left."""
        return await self._run_flow(verbs.list_datasets())

    async def account(self, name: str | None = None) -> AsyncAccount:
        """Returns a data set's account by name; the only one if no name is given."""
        return AsyncAccount(self, name if name is not None else verbs.single_dataset(await self.datasets()))

    async def me(self) -> Facts:
        """Returns whose key this is, and what it may do."""
        return await self._run_flow(verbs.get_facts("Me", "me"))

    async def ready(self) -> Facts:
        """Returns whether the bank is open."""
        return await self._run_flow(verbs.get_facts("Ready", "ready"))

    async def head(self) -> Facts:
        """Returns the newest block. Pin it to detect a history that is cut or rewritten."""
        return await self._run_flow(verbs.get_facts("Head", "ledger", "head"))

    async def journal(self) -> AsyncIterator[str]:
        """Yields the journal's lines: collect them for `noisebank.verify`."""
        async with self._http.stream("GET", "/v1/ledger/journal", headers=self._auth_headers()) as response:
            if response.status_code != 200:
                await response.aread()
                RetrySchedule(0.0, False).wait_after_response(response)
            async for line in response.aiter_lines():
                yield line

    async def check(self, receipt: Receipt | dict[str, Any]) -> Facts:
        """Returns whether a receipt is on this service's ledger, according to the service."""
        return await self._run_flow(verbs.check_receipt(receipt))

    # -- for the owner -------------------------------------------------------------------------

    async def analysts(self) -> tuple[Facts, ...]:
        """Returns everybody that the bank knows."""
        return await self._run_flow(verbs.list_analysts())

    async def add_analyst(
        self, name: str, role: str = "analyst", wallet: str | None = None, must_sign: bool = False
    ) -> Facts:
        """Adds a person, who may ask once there is a limit."""
        return await self._run_flow(verbs.add_analyst(name, role, wallet, must_sign))

    async def set_limit(self, name: str, dataset: str, epsilon: Exact) -> Facts:
        """Sets how much a person may learn from a data set, at its delta."""
        return await self._run_flow(verbs.set_limit(name, dataset, epsilon))

    async def make_key(
        self, name: str, scopes: list[str] | None = None, label: str = "", days: float | None = None
    ) -> Facts:
        """Makes a key for a person; `.secret` is returned this once."""
        return await self._run_flow(verbs.make_key(name, scopes, label, days))

    async def revoke_key(self, name: str, id: str) -> None:
        """Revokes a key, at once."""
        await self._run_flow(verbs.revoke_key(name, id))

    async def disable(self, name: str) -> Facts:
        """Shuts a person out: their keys are invalid until enabled again, every session ends."""
        return await self._run_flow(verbs.set_disabled(name, True))

    async def enable(self, name: str) -> Facts:
        """Lets a person in again, with the keys that are not revoked."""
        return await self._run_flow(verbs.set_disabled(name, False))

    async def sessions(self) -> tuple[Facts, ...]:
        """Returns the open sessions: your own; the owner sees all."""
        return await self._run_flow(verbs.list_sessions())

    async def end_session(self, id: str) -> None:
        """Ends a session, at once."""
        await self._run_flow(verbs.end_session(id))

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url})"

    # -- sending -------------------------------------------------------------------------------

    async def _run_flow(self, flow: Flow[Outcome]) -> Outcome:
        try:
            call = next(flow)
            while True:
                call = flow.send(await self._send_call(call))
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome

    async def _send_call(self, call: Call) -> Any:
        if self._signs_in and self._key is None and "sign-in" not in call.path:
            self._key = await self._run_flow(verbs.sign_in(self._wallet_key()))
        try:
            return await self._send_with_retries(call)
        except NotSignedIn:
            if not self._signs_in or "sign-in" in call.path:
                raise
            self._key = None  # the session has ended
            self._key = await self._run_flow(verbs.sign_in(self._wallet_key()))
            return await self._send_with_retries(call)

    async def _send_with_retries(self, call: Call) -> Any:
        patience = RetrySchedule(self._patience, call.repeatable)
        while True:
            try:
                response = await self._http.request(
                    call.method,
                    call.path,
                    json=call.body,
                    params=call.params,
                    headers=self._auth_headers() | call.headers,
                )
                wait = patience.wait_after_response(response)
                if wait is None:
                    return response.json() if response.content else None
            except httpx.TransportError as error:
                wait = patience.wait_after_loss(error)
            await self._sleep(wait)

    def _auth_headers(self) -> dict[str, str]:
        return {} if self._key is None else {"authorization": f"Bearer {self._key}"}

    def _wallet_key(self) -> Key:
        assert self._wallet is not None
        return self._wallet


class AsyncAccount:
    """One data set's account: quotes cost nothing, answers are charged once however often they are sent."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client, self.name = client, name

    async def policy(self) -> Policy:
        """Returns the public facts that prices and sensitivities follow from: columns, bounds, keys, named queries.

        Where the table is, is the bank's business: `source` is an empty path.
        """
        return await self._client._run_flow(verbs.get_policy(self.name))

    async def describe(self) -> Facts:
        """Returns the policy as JSON, and budget, spend and promise of the account."""
        return await self._client._run_flow(verbs.get_facts("Dataset", "datasets", self.name))

    async def quote(
        self,
        sql: str,
        *,
        epsilon: Exact | None = None,
        delta: Exact | None = None,
        within: Exact | None = None,
        relative: Exact | None = None,
        floor: Exact | None = None,
        sigma: Exact | None = None,
        confidence: Exact | None = None,
        calibration: str | None = None,
        spend: Exact | None = None,
        groups: str | None = None,
    ) -> Quote:
        """Returns what an answer would cost now, for the options of `ask`. Spends nothing, opens no data."""
        options = collect_accuracy(
            epsilon, delta, within, relative, floor, sigma, confidence, calibration, spend, groups
        )
        return await self._client._run_flow(verbs.quote_question(self.name, sql, options))

    async def quote_many(self, requests: Sequence[Ask], *, spend: Exact | None = None) -> list[Quote | NoisebankError]:
        """Returns what each of up to 1,000 answers would cost now, alone, or why there is none; `spend` as for
        `ask_many`."""
        return await self._client._run_flow(verbs.quote_questions(self.name, requests, spend))

    async def quote_together(self, requests: Sequence[Ask], *, spend: Exact | None = None) -> Quote:
        """Returns what all answers together would cost now: the price of an atomic `ask_many`."""
        return await self._client._run_flow(verbs.quote_together(self.name, requests, spend))

    async def ask(
        self,
        sql: str,
        *,
        epsilon: Exact | None = None,
        delta: Exact | None = None,
        within: Exact | None = None,
        relative: Exact | None = None,
        floor: Exact | None = None,
        sigma: Exact | None = None,
        confidence: Exact | None = None,
        calibration: str | None = None,
        spend: Exact | None = None,
        groups: str | None = None,
        max_cost: Exact | None = None,
        key: str | None = None,
        best: bool = False,
    ) -> Result:
        """Answers a question, as `Account.ask` does for a bank on this machine.

        Say how accurate the answer shall be, in one way:

        - `within`: a distance from the true value, at `confidence`.
        - `relative`: a share of the true value, such as "2%"; for plain counts and sums, if it is at least a `floor`.
        - `spend`: the most accurate answer for a share of the budget, such as "1%".
        - `epsilon` and `delta`: the privacy loss of this answer alone; `calibration` says how they name a noise level.
        - `sigma`: the noise's standard deviation.

        And, with any of these:

        - `confidence`: of `within`, `relative` and the stated intervals; 0.95 unless said otherwise.
        - `groups`: "all" if the confidence shall hold for all numbers of a table at once, not for each.
        - `max_cost`: the most to spend, a share of the budget such as "1%", or a precision.
        - `key`: makes asking again safe: the same key gives the same answer, charged once; one is made if none is said.
        - `best`: a more precise answer is given if it is free.
        """
        options = collect_accuracy(
            epsilon, delta, within, relative, floor, sigma, confidence, calibration, spend, groups
        )
        flow = verbs.ask_question(self.name, sql, max_cost, key, best, self._client._wallet, options)
        return await self._client._run_flow(flow)

    async def ask_many(
        self,
        requests: Sequence[Ask],
        *,
        atomic: bool = False,
        spend: Exact | None = None,
        key: str | None = None,
    ) -> list[Result | NoisebankError]:
        """Answers up to 1,000 questions; returns one outcome each, in their order: the answer, or why there is none.

        `spend`, a share of the budget such as "1%", says how accurate all answers shall be: together they cost at most
        that, and what several questions need is paid for once. The questions then have no accuracy of their own.
        With `atomic` (up to 16 questions), all are charged together, at one price, or none: an error is then raised.
        `key` is the idempotency key of the batch; questions without a key of their own get one made from it.
        """
        flow = verbs.ask_questions(self.name, requests, atomic, key, self._client._wallet, spend)
        return await self._client._run_flow(flow)

    async def recall(self, id: str) -> Result:
        """Returns one of your own answers again, with its receipt. Nothing is spent."""
        return await self._client._run_flow(verbs.recall_answer(self.name, id))

    async def receipt(self, id: str) -> Receipt:
        """Returns the receipt of one of your own answers."""
        result = await self.recall(id)
        return result.receipt

    async def balance(self) -> Facts:
        """Returns what is left in the account, and in your own view."""
        return await self._client._run_flow(verbs.get_facts("Balance", "datasets", self.name, "balance"))

    async def statement(self, last: int | None = None) -> Statement:
        """Returns balance, promise and entries, oldest first; with `last`, only so many of the newest ones.

        For the account's owner and its curator.
        """
        return await self._client._run_flow(verbs.get_statement(self.name, last))

    async def history(self) -> AsyncIterator[HistoryEntry]:
        """Yields your own answers, newest first: `recall` returns them again."""
        async for row in self._read_pages("answers", "answers"):
            yield HistoryEntry.from_json(row.raw)

    async def verify(self, *, head: str | None = None, receipts: Sequence[Receipt | dict[str, Any]] = ()) -> Report:
        """Recomputes the books of this bank from its journal, here: the service is not trusted.

        Compares them with a pinned head and with receipts, if you hold some.
        """
        lines = [line async for line in self._client.journal()]
        return await asyncio.to_thread(verbs.verify_journal, lines, head, receipts)

    def entries(self) -> AsyncIterator[Facts]:
        """Yields the public ledger's entries, newest first."""
        return self._read_pages("entries", "entries")

    async def watch(self) -> AsyncIterator[Facts]:
        """Yields the balance now and whenever it changes, until the service ends the stream."""
        path, headers = verbs.api_path("datasets", self.name, "events"), self._client._auth_headers()
        async with self._client._http.stream("GET", path, headers=headers, timeout=None) as response:
            if response.status_code != 200:
                await response.aread()
                RetrySchedule(0.0, False).wait_after_response(response)
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield Facts("Balance", json.loads(line[5:]))

    def __repr__(self) -> str:
        return f"AsyncAccount({self.name} at {self._client.url})"

    async def _read_pages(self, rows: str, path: str) -> AsyncIterator[Facts]:
        cursor: str | None = None
        while True:
            page, cursor = await self._client._run_flow(
                verbs.get_page(rows, cursor, PAGE_SIZE, "datasets", self.name, path)
            )
            for row in page:
                yield row
            if cursor is None:
                return
