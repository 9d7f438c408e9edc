"""Every operation of the SDK as a generator (`Flow`), without network: the sync and the async client run the same ones.

A flow yields a `Call`, is sent the JSON of its response, and returns the operation's result.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote as percent_encode

from noisebank.client.errors import error_from_problem
from noisebank.client.facts import Facts
from noisebank.client.wallets import SIGNATURE_SECONDS, sign_message, sign_spend
from noisebank.core.asks import AccuracyOptions, Ask
from noisebank.core.digests import to_canonical_json
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest, NoisebankError
from noisebank.core.quote import Quote
from noisebank.core.receipts import Receipt
from noisebank.core.result import Result
from noisebank.core.spend import Spend
from noisebank.core.statement import Statement, StatementEntry
from noisebank.core.units import Exact, Precision, parse_exact
from noisebank.ledger.signing import Key
from noisebank.policy.model import Policy, policy_from_json

if TYPE_CHECKING:
    from noisebank.verifier.report import Report

Outcome = TypeVar("Outcome")
PAGE_ENTRIES = 500
"""Of a statement: the most that the service returns at once."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request to the service."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    params: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = True
    """Whether it may arrive twice: it reads, or it has an idempotency key."""


Flow = Generator[Call, Any, Outcome]


def api_path(*names: str) -> str:
    """Returns a path below /v1, with its parts percent-encoded."""
    return "/v1/" + "/".join(percent_encode(name, safe="") for name in names)


def list_datasets() -> Flow[tuple[Facts, ...]]:
    """Returns all data sets with their public facts."""
    response = yield Call("GET", api_path("datasets"))
    return tuple(Facts("Dataset", row) for row in response["datasets"])


def get_facts(what: str, *names: str, **params: str) -> Flow[Facts]:
    """Returns the JSON object at a path, as facts called `what`."""
    response = yield Call("GET", api_path(*names), params=params)
    return Facts(what, response)


def get_policy(dataset: str) -> Flow[Policy]:
    """Returns an account's policy. The service does not say where its table is."""
    facts = yield from get_facts("Dataset", "datasets", dataset)
    return policy_from_json(facts.raw["policy"], Path())


def single_dataset(candidates: tuple[Facts, ...]) -> str:
    """Returns the name of the only data set; raises if there are none or several."""
    if len(candidates) != 1:
        names = ", ".join(sorted(dataset.name for dataset in candidates))
        raise BadRequest("account", None, f"say which: {names}" if names else "this bank has none yet")
    return str(candidates[0].name)


def check_receipt(receipt: Receipt | dict[str, Any]) -> Flow[Facts]:
    """Returns whether a receipt is on the service's ledger; `noisebank.verify` checks without trusting the service."""
    fields = receipt.to_json() if isinstance(receipt, Receipt) else receipt
    response = yield Call("POST", api_path("receipts", "check"), {"receipt": fields})
    return Facts("Checked", response)


def quote_question(dataset: str, sql: str, options: AccuracyOptions) -> Flow[Quote]:
    """Returns what an answer would cost now."""
    response = yield Call("POST", api_path("datasets", dataset, "quotes"), _accuracy_body(sql, options))
    return Quote.from_json(response)


def ask_question(
    dataset: str,
    sql: str,
    max_cost: Exact | None,
    key: str | None,
    best: bool,
    wallet: Key | None,
    options: AccuracyOptions,
) -> Flow[Result]:
    """Returns an answer. The idempotency key is made here, once: however often it is sent, it is charged once."""
    key = SystemEntropy().token(16).hex() if key is None else key
    ask = Ask(sql, options, max_cost, best=best)
    (body,) = yield from _ask_bodies(dataset, [ask], [key], wallet)
    response = yield Call("POST", api_path("datasets", dataset, "answers"), body, headers={"idempotency-key": key})
    return Result.from_json(response)


def quote_questions(
    dataset: str, asks: Sequence[Ask], spend: Exact | None = None
) -> Flow[list[Quote | NoisebankError]]:
    """Returns what each answer would cost now, alone, or why there is none."""
    body = {"questions": [_accuracy_body(ask.sql, ask.accuracy) for ask in asks], **_spend_body(spend)}
    response = yield Call("POST", api_path("datasets", dataset, "quotes") + ":batch", body)
    return [Quote.from_json(row["quote"]) if row["quote"] else _read_problem(row) for row in response["outcomes"]]


def quote_together(dataset: str, asks: Sequence[Ask], spend: Exact | None = None) -> Flow[Quote]:
    """Returns what all answers together would cost now."""
    questions = [_accuracy_body(ask.sql, ask.accuracy) for ask in asks]
    body = {"questions": questions, "atomic": True, **_spend_body(spend)}
    response = yield Call("POST", api_path("datasets", dataset, "quotes") + ":batch", body)
    return Quote.from_json(response["together"])


def ask_questions(
    dataset: str, asks: Sequence[Ask], atomic: bool, key: str | None, wallet: Key | None, spend: Exact | None = None
) -> Flow[list[Result | NoisebankError]]:
    """Returns the outcomes of many questions. Every question has an idempotency key before anything is sent."""
    if spend is not None and wallet is not None:
        raise BadRequest("spend", spend, "for all questions together: a wallet signs what each spends, so say it there")
    key = SystemEntropy().token(16).hex() if key is None else key
    keys = [key if atomic else ask.key or f"{key} #{number}" for number, ask in enumerate(asks, 1)]
    questions = yield from _ask_bodies(dataset, asks, keys, wallet)
    if not atomic:
        questions = [{**question, "key": own_key} for question, own_key in zip(questions, keys, strict=True)]
    path, headers = api_path("datasets", dataset, "answers") + ":batch", {"idempotency-key": key}
    response = yield Call(
        "POST", path, {"questions": questions, "atomic": atomic, **_spend_body(spend)}, headers=headers
    )
    return [Result.from_json(row["answer"]) if row["answer"] else _read_problem(row) for row in response["outcomes"]]


def recall_answer(dataset: str, id: str) -> Flow[Result]:
    """Returns one of the caller's own published answers again, with its receipt."""
    response = yield Call("GET", api_path("datasets", dataset, "answers", id))
    return Result.from_json(response)


def get_statement(dataset: str, last: int | None) -> Flow[Statement]:
    """Returns an account's balance with its newest `last` entries, or with all."""
    path, entries = api_path("datasets", dataset, "statement"), list[StatementEntry]()
    newest: Statement | None = None
    cursor: str | None = None
    while newest is None or (cursor is not None and (last is None or len(entries) < last)):
        size = PAGE_ENTRIES if last is None else min(PAGE_ENTRIES, max(1, last - len(entries)))
        params = {"limit": str(size)} | ({} if cursor is None else {"cursor": cursor})
        response = yield Call("GET", path, params=params)
        page, cursor = Statement.from_json(response), response["next"]
        newest = page if newest is None else newest
        entries += page.entries
    return replace(newest, entries=tuple(reversed(entries[:last])))


def verify_journal(lines: list[str], head: str | None, receipts: Sequence[Receipt | dict[str, Any]]) -> Report:
    """Recomputes the books from a service's journal, without trusting the service."""
    from noisebank.verifier.verification import verify  # .1 s to import, and nothing else here needs it

    return verify(lines, head=head, receipts=receipts)


def get_page(rows: str, cursor: str | None, limit: int, *names: str) -> Flow[tuple[tuple[Facts, ...], str | None]]:
    """Returns a page of rows, newest first, and the cursor of the next page."""
    params = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
    response = yield Call("GET", api_path(*names), params=params)
    return tuple(Facts("Entry", row) for row in response[rows]), response["next"]


def sign_in(wallet: Key) -> Flow[str]:
    """Signs in with a wallet and returns the session's token."""
    challenge = yield Call("POST", api_path("sign-in", "nonce"), {"address": wallet.address})
    signature = sign_message(wallet, challenge["message"])
    body = {"message": challenge["message"], "signature": signature}
    session = yield Call("POST", api_path("sign-in"), body, repeatable=False)
    return str(session["token"])


def list_analysts() -> Flow[tuple[Facts, ...]]:
    """Returns everybody that the bank knows; for its owner."""
    response = yield Call("GET", api_path("analysts"))
    return tuple(Facts("Person", row) for row in response["analysts"])


def add_analyst(name: str, role: str, wallet: str | None, must_sign: bool) -> Flow[Facts]:
    """Adds a person."""
    body = {"name": name, "role": role, "wallet": wallet, "must_sign": must_sign}
    response = yield Call("POST", api_path("analysts"), body, repeatable=False)
    return Facts("Person", response)


def set_limit(name: str, dataset: str, epsilon: Exact) -> Flow[Facts]:
    """Sets how much a person may learn from a data set."""
    body = {"epsilon": str(parse_exact(epsilon, "epsilon"))}
    response = yield Call("PUT", api_path("analysts", name, "limits", dataset), body)
    return Facts("View", response)


def make_key(name: str, scopes: list[str] | None, label: str, days: float | None) -> Flow[Facts]:
    """Makes a key; its secret is in the result and nowhere else."""
    body = {"scopes": scopes, "label": label, "days": days}
    response = yield Call("POST", api_path("analysts", name, "keys"), body, repeatable=False)
    return Facts("Key", response)


def revoke_key(name: str, id: str) -> Flow[None]:
    """Revokes a key, at once."""
    yield Call("DELETE", api_path("analysts", name, "keys", id))


def set_disabled(name: str, disabled: bool) -> Flow[Facts]:
    """Shuts a person out, or lets them in again."""
    response = yield Call("POST", api_path("analysts", name, "disable" if disabled else "enable"))
    return Facts("Analyst", response)


def list_sessions() -> Flow[tuple[Facts, ...]]:
    """Returns the open sessions."""
    response = yield Call("GET", api_path("sessions"))
    return tuple(Facts("Session", row) for row in response["sessions"])


def end_session(id: str) -> Flow[None]:
    """Ends a session."""
    yield Call("DELETE", api_path("sessions", id))


def _accuracy_body(sql: str, options: AccuracyOptions) -> dict[str, Any]:
    """Returns a request's body. Numbers go as text: exactly what was meant, and exactly what a wallet signs."""
    body: dict[str, Any] = {"sql": sql}
    for name, value in options.items():
        if value is not None:
            body[name] = value if name in ("calibration", "groups") else _exact_text(value, name)
    return body


def _spend_body(spend: Exact | None) -> dict[str, Any]:
    """Returns what a batch says about all of its questions."""
    return {} if spend is None else {"spend": _exact_text(spend, "spend")}


def _ask_bodies(
    dataset: str, asks: Sequence[Ask], keys: Sequence[str], wallet: Key | None
) -> Flow[list[dict[str, Any]]]:
    """Returns the bodies of requests that may spend, each signed under its key if there is a wallet."""
    bodies = [_accuracy_body(ask.sql, ask.accuracy) for ask in asks]
    if wallet is not None:
        limits = yield from _signed_limits(dataset, asks)
        account = yield Call("GET", api_path("datasets", dataset))
        head = yield Call("GET", api_path("ledger", "head"))
        for body, key, limit in zip(bodies, keys, limits, strict=True):
            body["agreed"] = _sign_max_cost(account, head, body, key, limit, wallet)
    for body, ask in zip(bodies, asks, strict=True):
        if ask.best:
            body["mode"] = "best"
        if ask.max_cost is not None:
            body["max_cost"] = _exact_text(ask.max_cost, "max_cost")
    return bodies


def _signed_limits(dataset: str, asks: Sequence[Ask]) -> Flow[list[Precision]]:
    """Returns the most that a wallet signs for each question: its `max_cost`, or what a quote says now."""
    limits = [ask.max_cost for ask in asks]
    unpriced = [ask for ask in asks if ask.max_cost is None]
    if len(unpriced) == 1:
        price = yield from quote_question(dataset, unpriced[0].sql, unpriced[0].accuracy)
        limits[limits.index(None)] = price.cost.exact
    elif unpriced:
        for price_or_error in (yield from quote_questions(dataset, unpriced)):
            # A question without a price is sent all the same: the service says what is wrong with it.
            limits[limits.index(None)] = price_or_error.cost.exact if isinstance(price_or_error, Quote) else 0
    return [Precision.floor(parse_exact(limit, "max_cost")) for limit in limits if limit is not None]


def _read_problem(row: dict[str, Any]) -> NoisebankError:
    """Returns the error of one question of a batch."""
    return error_from_problem(row["problem"]["status"], row["problem"])


def _exact_text(value: Any, name: str) -> str:
    is_percent = name in ("relative", "spend", "max_cost") and isinstance(value, str) and value.strip().endswith("%")
    parse_exact(value.strip()[:-1] if is_percent else value, name)
    return value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)


def _sign_max_cost(
    account: dict[str, Any], head: dict[str, Any], body: dict[str, Any], key: str, max_cost: Precision, wallet: Key
) -> dict[str, object]:
    """Signs question, accuracy, idempotency key and maximal cost with the wallet."""
    accuracy = to_canonical_json({name: value for name, value in body.items() if name != "sql"})
    deadline = int(time.time()) + SIGNATURE_SECONDS
    spend = Spend(bytes.fromhex(account["account"]), body["sql"], accuracy, key, max_cost.units, deadline)
    return sign_spend(wallet, spend, head["chain_id"], head["contract"])
