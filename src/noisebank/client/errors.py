"""Turns the service's problems (RFC 9457) back into the errors of this package."""

from __future__ import annotations

from typing import Any

from noisebank.core import errors
from noisebank.core.problems import BANK_PROBLEMS, ERROR_FIELDS, SERVICE_PROBLEMS, TYPE_PREFIX
from noisebank.core.units import parse_exact

ERRORS: dict[str, type[errors.NoisebankError]] = {
    **{problem.name: kind for kind, problem in BANK_PROBLEMS.items()},
    **dict.fromkeys(SERVICE_PROBLEMS, errors.TurnedAway),
    "not-signed-in": errors.NotSignedIn,
    "access-ended": errors.NotSignedIn,
    "bad-signature": errors.NotSignedIn,
    "not-allowed": errors.NotAllowed,
    "not-found": errors.NotFound,
    "too-many-requests": errors.TooBusy,
    "overloaded": errors.TooBusy,
    "failed": errors.OutcomeUnknown,
}
"""Error classes by the problem's name."""

TRANSIENT = frozenset({"too-many-requests", "overloaded", "outcome-unknown", "bank-in-use", "bad-table"})
"""Problems that may be gone when the same request is sent again."""
AMOUNTS = ("asked", "left", "limit", "used", "cost")


def problem_name(body: Any) -> str:
    """Returns a problem's name, or an empty text if this is no problem of the service."""
    kind = body.get("type") if isinstance(body, dict) else None
    return kind.removeprefix(TYPE_PREFIX) if isinstance(kind, str) and kind.startswith(TYPE_PREFIX) else ""


def error_from_problem(status: int, body: Any) -> errors.NoisebankError:
    """Returns the error that a response stands for, with the service's message and the error's own fields."""
    name = problem_name(body)
    if name not in ERRORS:
        return errors.OutcomeUnknown(
            f"the service answered with status {status} and no problem that this version knows"
        )
    detail, kind = str(body.get("detail", name)), ERRORS[name]
    if issubclass(kind, errors.TurnedAway):
        return kind(detail, name, status)
    error = kind.__new__(kind)
    Exception.__init__(error, detail)
    if isinstance(error, errors.BadRequest):
        error.parameter, error.got, error.allowed = str(body.get("parameter", "")), None, str(body.get("allowed", ""))
    if isinstance(error, errors.BadPolicy):
        error.mistakes, error.origin = (), "policy"
    if isinstance(error, errors.KeyReused):
        error.key = ""
    if isinstance(error, errors.Tampered):
        error.what, error.block = detail, None
    for field in ERROR_FIELDS.get(name, ()):
        setattr(error, field, _parse_field(field, body.get(field)))
    return error


def _parse_field(name: str, text: Any) -> Any:
    """Returns amounts as exact numbers, everything else as it came."""
    if text is None or name not in AMOUNTS:
        return text
    return parse_exact(str(text), name)
