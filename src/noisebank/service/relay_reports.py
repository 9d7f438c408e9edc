"""Reports of relay rounds, from the folder that the settings name, for the pages about learning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisebank.core.digests import keccak
from noisebank.core.errors import BadRequest

if TYPE_CHECKING:
    from noisebank.federated.relay.report import RelayReport

MAX_REPORTS = 200
MAX_REPORT_BYTES = 2**20


class RelayReports:
    """The reports of one folder, read again whenever they are shown. Read-only; safe for many threads."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder else None

    def list_reports(self) -> list[dict[str, Any]]:
        """Return what a list shows of each report, by name."""
        return [
            {
                "id": id, "name": report.name, "mode": report.terms.mode, "done": report.done,
                "members": len(report.members), "unprotected": _count_unprotected(report),
            }
            for id, report in self._read_reports().items()
        ]  # fmt: skip

    def find_report(self, id: str) -> dict[str, Any] | None:
        """Return everything about one report; None if there is none with this id."""
        report = self._read_reports().get(id)
        if report is None:
            return None
        terms = report.terms
        return {
            "id": id, "name": report.name, "done": report.done, "reason": report.reason, "mode": terms.mode,
            "dimension": terms.dimension, "bound": float(terms.bound), "delta": float(terms.delta),
            "publish": terms.publish, "attempts": report.attempts, "stddev": report.stddev, "mean": report.mean,
            "unprotected": _count_unprotected(report), "left_out": report.left_out,
            "coalitions": [promise.coalition for promise in report.members[0].promises] if report.members else [],
            "members": [
                {
                    "address": member.address, "preference": member.preference, "noise": member.noise,
                    "position": member.position, "promises": [promise.epsilon for promise in member.promises],
                }
                for member in sorted(report.members, key=lambda member: (member.position or 0, member.address))
            ],
        }  # fmt: skip

    def _read_reports(self) -> dict[str, RelayReport]:
        """Return the reports by the digest of their bytes. What is no report is left out: others may be there."""
        from noisebank.federated.relay.report import read_round_report

        found: dict[str, RelayReport] = {}
        paths = sorted(self._folder.glob("*.json"))[:MAX_REPORTS] if self._folder is not None else []
        for path in paths:
            try:
                with path.open("rb") as file:
                    content = file.read(MAX_REPORT_BYTES)
                found[keccak(content).hex()] = read_round_report(content)
            except (OSError, BadRequest):
                continue
        return found


def _count_unprotected(report: RelayReport) -> int:
    """Return how many members some two others and the server together can compute the vector of."""
    return sum(any(promise.epsilon is None for promise in member.promises) for member in report.members)
