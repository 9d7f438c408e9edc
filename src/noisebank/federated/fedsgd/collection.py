"""The server's collection of a group: from encoded reports to their mean. Impossible reports are left out and named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.core.units import exact
from noisebank.federated.enrolment import below
from noisebank.federated.fedsgd.task import Task
from noisebank.federated.ldp.categories import Oracle
from noisebank.federated.ldp.reports import Report, Terms, planned

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Collected:
    """The mean of the valid reports, how many there are, and who was left out, with the reason."""

    mean: Floats
    counted: int
    left_out: dict[str, str] = field(default_factory=dict)


def collect_reports(task: Task, reports: Mapping[str, bytes]) -> Collected:
    """Average one report per named device. Unbiased for the mean of their clipped gradients (Algorithm 6)."""
    schema, terms = task.gradient_schema, agreed_terms(task)
    plan = planned(schema, terms)
    sums, counted, left_out = np.zeros(task.dimension), 0, {}
    for device, raw in reports.items():
        try:
            report = Report.decode(raw, schema)
            if report.terms != terms:
                raise BadRequest("report", "made under other terms", "must have the task's epsilon and mechanism")
        except BadRequest as error:
            left_out[device] = str(error)
            continue
        for index, code in report.fields:
            reporter = plan.parts[index]
            assert not isinstance(reporter, Oracle)  # a gradient has numbers only
            sums[index] += float(reporter.value([code])[0])
        counted += 1
    scale = task.dimension / plan.sent
    return Collected(scale * sums / max(1, counted), counted, left_out)


def agreed_terms(task: Task) -> Terms:
    """Returns the terms of every report of the task."""
    return Terms(below(exact(task.epsilon, "epsilon")), task.mechanism, task.levels)
