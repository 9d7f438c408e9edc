"""Every way a request can fail, in one table: RFC 9457 problems with stable types.

`ApiError` is raised by the service itself; errors of the bank are mapped by their type. A test holds the docs to the
table, and the client reads it to raise the same errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisebank.core import errors

TYPE = "urn:noisebank:problem:"
MEDIA = "application/problem+json"


class Turned(errors.NoisebankError):
    """A request that the service refuses before the bank sees it; `name` is that of a problem. Nothing is spent."""

    kind = "Turned"

    def __init__(self, name: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.name, self.retry_after = name, retry_after


@dataclass(frozen=True, slots=True)
class Problem:
    """One row of the table: a stable name, the HTTP status, a title."""

    name: str
    status: int
    title: str
    spent: str = "nothing"
    """What the request may have spent, for the docs and the pages."""


def _table(*rows: tuple[type[errors.NoisebankError], Problem]) -> Mapping[type[errors.NoisebankError], Problem]:
    return dict(rows)


OF_THE_BANK = _table(
    (errors.BadQuery, Problem("bad-query", 422, "Not SQL, or a name that the policy does not declare")),
    (errors.UnsupportedQuery, Problem("unsupported-query", 422, "SQL with a clause that this bank does not answer")),
    (errors.BadRequest, Problem("bad-request", 422, "A parameter outside its range")),
    (errors.BadPolicy, Problem("bad-policy", 422, "A policy with mistakes")),
    (errors.BadTable, Problem("bad-table", 503, "The table cannot be read now", "what was reserved; ask again")),
    (errors.BadBank, Problem("bad-bank", 409, "The bank cannot do this as it is set up")),
    (errors.BadLedger, Problem("bad-ledger", 503, "The chain cannot be used as it is")),
    (errors.BankInUse, Problem("bank-in-use", 503, "Another process holds the bank")),
    (errors.BudgetExhausted, Problem("budget-exhausted", 409, "The answer costs more than the account has left")),
    (errors.ViewExhausted, Problem("view-exhausted", 409, "More than this analyst may learn")),
    (errors.DrawsExhausted, Problem("draws-exhausted", 409, "The account may draw no more noise")),
    (errors.PriceMoved, Problem("price-moved", 409, "The answer costs more than was agreed")),
    (errors.TableChanged, Problem("table-changed", 409, "The table is no longer the one that was opened")),
    (errors.KeyReused, Problem("key-reused", 422, "The same idempotency key with another request")),
    (errors.AnswerLost, Problem("answer-lost", 410, "Published once, lost since; never measured again")),
    (errors.LedgerRefused, Problem("ledger-refused", 409, "The contract refused")),
    (
        errors.LedgerHalted,
        Problem("ledger-halted", 503, "The chain contradicts itself; nothing is spent until looked at"),
    ),
    (errors.OutcomeUnknown, Problem("outcome-unknown", 503, "Cut off; ask again with the same key", "perhaps")),
    (errors.Tampered, Problem("tampered", 500, "Journal or vault contradict themselves", "perhaps")),
)
"""By type of error; the nearest base class counts."""

OF_THE_SERVICE = {
    problem.name: problem
    for problem in (
        Problem("not-signed-in", 401, "No valid key or session"),
        Problem("access-ended", 401, "The key or session ended while the request was worked on", "perhaps"),
        Problem("not-allowed", 403, "This key or role may not do that"),
        Problem("not-found", 404, "There is nothing here, or nothing of yours"),
        Problem("method-not-allowed", 405, "Another method is needed"),
        Problem("bad-body", 422, "The request does not have the form that the API describes"),
        Problem("key-missing", 400, "What spends needs an Idempotency-Key"),
        Problem("too-large", 413, "The body is too large"),
        Problem("wrong-media", 415, "The body must be JSON"),
        Problem("bad-signature", 401, "A wallet's signature that does not hold"),
        Problem("name-taken", 409, "Somebody has this name or wallet"),
        Problem("too-many-requests", 429, "Faster than this key may ask"),
        Problem("overloaded", 503, "More requests than this service can queue"),
        Problem("failed", 500, "A mistake of ours", "perhaps; ask again with the same key"),
    )
}


FIELDS = {
    "unsupported-query": ("clause", "advice"),
    "budget-exhausted": ("asked", "left"),
    "view-exhausted": ("limit", "used"),
    "draws-exhausted": ("most", "drawn"),
    "price-moved": ("limit",),
    "ledger-refused": ("reason",),
}
"""Further members of a problem, as text: attributes of the error, under the same names in JSON."""


UNQUOTED = {
    "failed": "something went wrong here; the operator finds it under this request's id",
    "bad-table": "the table cannot be read now; the operator finds the reason under this request's id",
}
"""Details that replace the error's own message."""


def every_problem() -> list[Problem]:
    """Return the whole table, for the docs."""
    return [*OF_THE_BANK.values(), *OF_THE_SERVICE.values()]


def problem_of(error: Exception) -> Problem:
    """Return the table's row for an error; "failed" for errors that are not ours."""
    if isinstance(error, Turned):
        return OF_THE_SERVICE[error.name]
    for kind in type(error).__mro__:
        if kind in OF_THE_BANK:
            return OF_THE_BANK[kind]
    return OF_THE_SERVICE["failed"]


def body_of(error: Exception, request_id: str) -> tuple[Problem, dict[str, Any], dict[str, str]]:
    """Return the row, the JSON body and the headers for an error.

    Messages of errors that are not ours are not quoted, nor is what is wrong with a table: the operator finds these in
    the log, under the request's id.
    """
    problem = problem_of(error)
    quoted = isinstance(error, errors.NoisebankError) and problem.name not in UNQUOTED
    body: dict[str, Any] = {
        "type": TYPE + problem.name,
        "title": problem.title,
        "status": problem.status,
        "detail": str(error) if quoted else UNQUOTED[problem.name],
        "request": request_id,
    }
    if isinstance(error, errors.BadRequest):
        body |= {"parameter": error.parameter, "allowed": error.allowed}
    else:
        body |= {
            name: str(value) for name in FIELDS.get(problem.name, ()) if (value := getattr(error, name)) is not None
        }
    headers = {"cache-control": "no-store"}
    wait = error.retry_after if isinstance(error, Turned) else 1.0 if problem.status == 503 else None
    if wait is not None:
        headers["retry-after"] = str(max(1, round(wait + 0.5)))
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="noisebank"'
    return problem, body, headers
