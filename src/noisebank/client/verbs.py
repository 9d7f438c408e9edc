"""Every verb of the SDK as a flow: which calls it makes, and what becomes of their responses. No network here.

A flow yields a `Call` and is sent the JSON of its response; what it returns is the verb's result. The sync and the
async client run the same flows.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote as quoted

from noisebank.client.results import Answer, Facts, Quote
from noisebank.client.wallets import DEADLINE, signed_message, signed_spend
from noisebank.core.digests import canonical
from noisebank.core.entropy import SystemEntropy
from noisebank.core.errors import BadRequest
from noisebank.core.units import Exact, Precision, exact
from noisebank.ledger.signing import Key
from noisebank.service.wallet import Spend

if TYPE_CHECKING:
    from noisebank.planning.pricing import Wished

Result = TypeVar("Result")
NAMES = ("epsilon", "delta", "within", "relative", "floor", "confidence", "sigma", "calibration")


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


Flow = Generator[Call, Any, Result]


def part(*names: str) -> str:
    """A path below /v1."""
    return "/v1/" + "/".join(quoted(name, safe="") for name in names)


def datasets() -> Flow[tuple[Facts, ...]]:
    """All data sets with their public facts."""
    found = yield Call("GET", part("datasets"))
    return tuple(Facts("Dataset", each) for each in found["datasets"])


def facts(what: str, *names: str, **params: str) -> Flow[Facts]:
    """Whatever is at a path."""
    found = yield Call("GET", part(*names), params=params)
    return Facts(what, found)


def only(found: tuple[Facts, ...]) -> str:
    """The name of the only data set."""
    if len(found) != 1:
        names = ", ".join(sorted(each.name for each in found))
        raise BadRequest("account", "nothing", f"say which: {names}" if names else "this bank has none yet")
    return str(found[0].name)


def check(receipt: dict[str, Any]) -> Flow[Facts]:
    """Whether a receipt is on the service's ledger; `noisebank.verify` asks nobody."""
    found = yield Call("POST", part("receipts", "check"), {"receipt": receipt})
    return Facts("Checked", found)


def quote(dataset: str, sql: str, wished: Wished) -> Flow[Quote]:
    """What an answer would cost now."""
    found = yield Call("POST", part("datasets", dataset, "quotes"), _wish(sql, wished))
    return Quote.read(found)


def ask(
    dataset: str,
    sql: str,
    at_most: Exact | None,
    key: str | None,
    best: bool,
    wallet: Key | None,
    wished: Wished,
) -> Flow[Answer]:
    """An answer. Its idempotency key is made here, once: however often it is sent, it is charged once."""
    key = SystemEntropy().token(16).hex() if key is None else key
    body = _wish(sql, wished)
    if wallet is not None:
        limit = at_most
        if limit is None:
            priced = yield from quote(dataset, sql, wished)
            limit = priced.cost.exact
        body["agreed"] = yield from _agreed(dataset, body, key, Precision.floor(exact(limit, "at_most")), wallet)
    if best:
        body["mode"] = "best"
    if at_most is not None:
        body["max_cost"] = str(exact(at_most, "at_most"))
    found = yield Call("POST", part("datasets", dataset, "answers"), body, headers={"idempotency-key": key})
    return Answer.read(found)


def recall(dataset: str, id: str) -> Flow[Answer]:
    """One's own published answer again, with its receipt."""
    found = yield Call("GET", part("datasets", dataset, "answers", id))
    return Answer.read(found)


def page(rows: str, cursor: str | None, limit: int, *names: str) -> Flow[tuple[tuple[Facts, ...], str | None]]:
    """A page of rows, newest first, and the cursor of the next one."""
    params = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
    found = yield Call("GET", part(*names), params=params)
    return tuple(Facts("Entry", each) for each in found[rows]), found["next"]


def sign_in(wallet: Key) -> Flow[str]:
    """A session's token, for whoever the wallet belongs to."""
    asked = yield Call("POST", part("sign-in", "nonce"), {"address": wallet.address})
    signature = signed_message(wallet, asked["message"])
    made = yield Call("POST", part("sign-in"), {"message": asked["message"], "signature": signature}, repeatable=False)
    return str(made["token"])


def analysts() -> Flow[tuple[Facts, ...]]:
    """Everybody that the bank knows; for its owner."""
    found = yield Call("GET", part("analysts"))
    return tuple(Facts("Person", each) for each in found["analysts"])


def add_analyst(name: str, role: str, wallet: str | None, must_sign: bool) -> Flow[Facts]:
    """Somebody new."""
    body = {"name": name, "role": role, "wallet": wallet, "must_sign": must_sign}
    found = yield Call("POST", part("analysts"), body, repeatable=False)
    return Facts("Person", found)


def set_limit(name: str, dataset: str, epsilon: Exact) -> Flow[Facts]:
    """How much somebody may learn."""
    body = {"epsilon": str(exact(epsilon, "epsilon"))}
    found = yield Call("PUT", part("analysts", name, "limits", dataset), body)
    return Facts("View", found)


def make_key(name: str, scopes: list[str] | None, label: str, days: float | None) -> Flow[Facts]:
    """A new key; its secret is in the result and nowhere else."""
    body = {"scopes": scopes, "label": label, "days": days}
    found = yield Call("POST", part("analysts", name, "keys"), body, repeatable=False)
    return Facts("Key", found)


def revoke_key(name: str, id: str) -> Flow[None]:
    """From now on this key opens nothing."""
    yield Call("DELETE", part("analysts", name, "keys", id))


def disable(name: str, disabled: bool) -> Flow[Facts]:
    """Shuts somebody out, or lets them in again."""
    found = yield Call("POST", part("analysts", name, "disable" if disabled else "enable"))
    return Facts("Analyst", found)


def sessions() -> Flow[tuple[Facts, ...]]:
    """Sessions that are open."""
    found = yield Call("GET", part("sessions"))
    return tuple(Facts("Session", each) for each in found["sessions"])


def end_session(id: str) -> Flow[None]:
    """Ends a session."""
    yield Call("DELETE", part("sessions", id))


def _wish(sql: str, wished: Wished) -> dict[str, Any]:
    """Numbers go as text: exactly what was meant, and exactly what a wallet signs."""
    unknown = set(wished) - set(NAMES)
    if unknown:
        raise BadRequest(min(unknown), "given", f"is no way to say how good an answer shall be; there are {NAMES}")
    body: dict[str, Any] = {"sql": sql}
    for name, value in wished.items():
        if value is not None:
            body[name] = value if name == "calibration" else _text(value, name)
    return body


def _text(value: Any, name: str) -> str:
    exact(value, name)
    return value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)


def _agreed(dataset: str, body: dict[str, Any], key: str, most: Precision, wallet: Key) -> Flow[dict[str, object]]:
    """The wallet's signature under this question, this accuracy, this key and this limit."""
    account = yield Call("GET", part("datasets", dataset))
    head = yield Call("GET", part("ledger", "head"))
    wish = canonical({name: value for name, value in body.items() if name != "sql"})
    spend = Spend(bytes.fromhex(account["account"]), body["sql"], wish, key, most.units, int(time.time()) + DEADLINE)
    return signed_spend(wallet, spend, head["chain_id"], head["contract"])
