"""Problems of the HTTP API (RFC 9457): the table that the service answers from and the client reads.

Every way a request can fail has a stable name, a status and a title. A test holds the docs to the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noisebank.core import errors

TYPE_PREFIX = "urn:noisebank:problem:"
PROBLEM_MEDIA_TYPE = "application/problem+json"


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


BANK_PROBLEMS = _table(
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
    (errors.LooksExhausted, Problem("looks-exhausted", 409, "Looks may decide no more of the public ledger")),
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

SERVICE_PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("not-signed-in", 401, "No valid key or session"),
        Problem("access-ended", 401, "The key or session ended while the request was worked on", "perhaps"),
        Problem("not-allowed", 403, "This key or role may not do that"),
        Problem("not-found", 404, "There is nothing here, or nothing of yours"),
        Problem("method-not-allowed", 405, "Another method is needed"),
        Problem("bad-body", 422, "The request does not have the form that the API describes"),
        Problem("key-missing", 400, "What spends needs an Idempotency-Key"),
        Problem("too-large", 413, "The body is too large, or the answers to a batch are"),
        Problem("wrong-media", 415, "The body must be JSON"),
        Problem("bad-signature", 401, "A wallet's signature that does not hold"),
        Problem("name-taken", 409, "Somebody has this name or wallet"),
        Problem("too-many-requests", 429, "Faster than this key may ask"),
        Problem("overloaded", 503, "More requests than this service can queue"),
        Problem("failed", 500, "A mistake of ours", "perhaps; ask again with the same key"),
    )
}


ERROR_FIELDS = {
    "bad-query": ("nearest",),
    "unsupported-query": ("clause", "advice", "nearest"),
    "budget-exhausted": ("asked", "left"),
    "view-exhausted": ("limit", "used"),
    "draws-exhausted": ("most", "drawn"),
    "looks-exhausted": ("most",),
    "price-moved": ("limit", "cost"),
    "ledger-refused": ("reason",),
}
"""Further members of a problem, as text: attributes of the error, under the same names in JSON."""
