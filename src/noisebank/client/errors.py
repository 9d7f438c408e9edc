"""From problems on the wire back to the errors of this package."""

from __future__ import annotations

from typing import Any

from noisebank.core import errors
from noisebank.core.units import exact
from noisebank.service.errors import FIELDS, OF_THE_BANK, OF_THE_SERVICE, TYPE

ERRORS: dict[str, type[errors.NoisebankError]] = {
    **{problem.name: kind for kind, problem in OF_THE_BANK.items()},
    **dict.fromkeys(OF_THE_SERVICE, errors.TurnedAway),
    "not-signed-in": errors.NotSignedIn,
    "access-ended": errors.NotSignedIn,
    "bad-signature": errors.NotSignedIn,
    "not-allowed": errors.NotAllowed,
    "not-found": errors.NotFound,
    "too-many-requests": errors.TooBusy,
    "overloaded": errors.TooBusy,
    "failed": errors.OutcomeUnknown,
}
"""By a problem's name."""

PASSING = frozenset({"too-many-requests", "overloaded", "outcome-unknown", "bank-in-use", "bad-table"})
"""Problems that may be gone when the same request comes again."""
AMOUNTS = ("asked", "left", "limit", "used")


def name_of(body: Any) -> str:
    """A problem's name, or nothing if this is no problem of ours."""
    kind = body.get("type") if isinstance(body, dict) else None
    return kind.removeprefix(TYPE) if isinstance(kind, str) and kind.startswith(TYPE) else ""


def error_of(status: int, body: Any) -> errors.NoisebankError:
    """The error that a response stands for, with the service's words and the error's own fields."""
    name = name_of(body)
    if name not in ERRORS:
        return errors.OutcomeUnknown(
            f"the service answered with status {status} and no problem that this version knows"
        )
    detail, kind = str(body.get("detail", name)), ERRORS[name]
    if issubclass(kind, errors.TurnedAway):
        return kind(detail, name, status)
    made = kind.__new__(kind)
    Exception.__init__(made, detail)
    if isinstance(made, errors.BadRequest):
        made.parameter, made.got, made.allowed = str(body.get("parameter", "")), None, str(body.get("allowed", ""))
    if isinstance(made, errors.BadPolicy):
        made.mistakes, made.origin = (), "policy"
    if isinstance(made, errors.KeyReused):
        made.key = ""
    if isinstance(made, errors.Tampered):
        made.what, made.block = detail, None
    for field in FIELDS.get(name, ()):
        setattr(made, field, _field(field, body.get(field)))
    return made


def _field(name: str, text: Any) -> Any:
    """Amounts as exact numbers, everything else as text."""
    if text is None or name not in AMOUNTS:
        return text
    return exact(str(text), name)
