"""The server's collection of a group: from encoded reports to their mean. Impossible reports are left out and named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.core.units import parse_exact
from noisebank.federated.enrolment import float_below
from noisebank.federated.fedsgd.task import Task
from noisebank.federated.ldp.categories import FrequencyOracle
from noisebank.federated.ldp.reports import LdpReport, ReportTerms, plan_reports

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CollectedReports:
    """The mean of the valid reports, how many there are, and who was left out, with the reason."""

    mean: Floats
    report_count: int
    left_out: dict[str, str] = field(default_factory=dict)


def collect_reports(task: Task, reports: Mapping[str, bytes]) -> CollectedReports:
    """Average one report per named device. Unbiased for the mean of their clipped gradients (Algorithm 6)."""
    schema, terms = task.gradient_schema, report_terms(task)
    plan = plan_reports(schema, terms)
    sums, counted, left_out = np.zeros(task.dimension), 0, {}
    for device, raw in reports.items():
        try:
            report = LdpReport.decode(raw, schema)
            if report.terms != terms:
                raise BadRequest("report", "made under other terms", "must have the task's epsilon and mechanism")
        except BadRequest as error:
            left_out[device] = str(error)
            continue
        for index, code in report.fields:
            reporter = plan.reporters[index]
            assert not isinstance(reporter, FrequencyOracle)  # a gradient has numbers only
            sums[index] += float(reporter.to_values([code])[0])
        counted += 1
    scale = task.dimension / plan.sent_count
    return CollectedReports(scale * sums / max(1, counted), counted, left_out)


def report_terms(task: Task) -> ReportTerms:
    """Returns the terms of every report of the task."""
    return ReportTerms(float_below(parse_exact(task.epsilon, "epsilon")), task.mechanism, task.levels)
