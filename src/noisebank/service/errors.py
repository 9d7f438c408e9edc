"""Turns errors into problems (RFC 9457): `ApiError` is the service's own, errors of the bank are mapped by their type.

The table of problems is `core.problems`, which the client reads to raise the same errors.
"""

from __future__ import annotations

from typing import Any

from noisebank.core import errors
from noisebank.core.problems import BANK_PROBLEMS, ERROR_FIELDS, SERVICE_PROBLEMS, TYPE_PREFIX, Problem


class ApiError(errors.NoisebankError):
    """A request that the service refuses before the bank sees it; `name` is that of a problem. Nothing is spent."""

    kind = "Turned"

    def __init__(self, name: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.name, self.retry_after = name, retry_after


FIXED_DETAILS = {
    "failed": "something went wrong here; the operator finds it under this request's id",
    "bad-table": "the table cannot be read now; the operator finds the reason under this request's id",
}
"""Details that replace the error's own message."""


def list_problems() -> list[Problem]:
    """Return the whole table, for the docs."""
    return [*BANK_PROBLEMS.values(), *SERVICE_PROBLEMS.values()]


def find_problem(error: Exception) -> Problem:
    """Return the table's row for an error; "failed" for errors that are not ours."""
    if isinstance(error, ApiError):
        return SERVICE_PROBLEMS[error.name]
    for kind in type(error).__mro__:
        if kind in BANK_PROBLEMS:
            return BANK_PROBLEMS[kind]
    return SERVICE_PROBLEMS["failed"]


def build_problem(error: Exception, request_id: str) -> tuple[Problem, dict[str, Any], dict[str, str]]:
    """Return the row, the JSON body and the headers for an error.

    Messages of errors that are not ours are not quoted, nor is what is wrong with a table: the operator finds these in
    the log, under the request's id.
    """
    problem = find_problem(error)
    quoted = isinstance(error, errors.NoisebankError) and problem.name not in FIXED_DETAILS
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + problem.name,
        "title": problem.title,
        "status": problem.status,
        "detail": str(error) if quoted else FIXED_DETAILS[problem.name],
        "request": request_id,
    }
    if isinstance(error, errors.BadRequest):
        body |= {"parameter": error.parameter, "allowed": error.allowed}
    else:
        body |= {
            name: str(value)
            for name in ERROR_FIELDS.get(problem.name, ())
            if (value := getattr(error, name)) is not None
        }
    headers = {"cache-control": "no-store"}
    wait = error.retry_after if isinstance(error, ApiError) else 1.0 if problem.status == 503 else None
    if wait is not None:
        headers["retry-after"] = str(max(1, round(wait + 0.5)))
    if problem.status == 401:
        headers["www-authenticate"] = 'Bearer realm="noisebank"'
    return problem, body, headers
