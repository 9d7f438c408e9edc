"""`report_problem` counts and logs an error, and returns the problem that the caller is told."""

from __future__ import annotations

from typing import Any

from noisebank.core.problems import Problem
from noisebank.service.authenticator import ServiceState
from noisebank.service.errors import build_problem


def report_problem(
    state: ServiceState, error: Exception, request_id: str
) -> tuple[Problem, dict[str, Any], dict[str, str]]:
    """Return the table's row, the JSON body and the headers for an error of a request, or of a part of it."""
    problem, body, headers = build_problem(error, request_id)
    state.metrics.problems.labels(problem.name).inc()
    if problem.name in ("tampered", "bad-bank", "failed"):
        state.log.write_failure(request_id, error)
    if problem.name == "bad-table":  # never quotes a value
        state.log.write_event("table", request=request_id, reason=str(error))
    return problem, body, headers
