"""The server's side of LDP records: from many reports to a mean or shares per attribute, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from noisebank.core.errors import BadRequest
from noisebank.core.intervals import confidence_interval
from noisebank.federated.ldp.categories import FrequencyOracle
from noisebank.federated.ldp.reports import LdpReport, ReportPlan, plan_reports
from noisebank.federated.ldp.schema import Number, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_REPORTS = 100
"""With fewer reports on an attribute the worst-case variance is used instead of their empirical one."""


@dataclass(frozen=True, slots=True)
class LdpEstimate:
    """A mean in the attribute's units, or a share; unbiased, so it may fall outside the possible range."""

    value: float
    stddev: float
    interval: tuple[float, float]
    report_count: int


def estimate_attributes(
    reports: Iterable[LdpReport | bytes], schema: Schema, confidence: float = 0.95
) -> dict[str, LdpEstimate | dict[str, LdpEstimate]]:
    """Returns for each attribute the mean (numbers), or each value's share (categories).

    The average is taken over the reports that contain the attribute. Its spread is then d/k of the noise, as in
    Algorithm 6, but the people's own spread about their mean takes the place of their mean square: never worse than
    multiplying by d/k and averaging over all. The interval counts both noise and sampling of people.
    """
    decoded = [LdpReport.decode(report, schema) if isinstance(report, bytes) else report for report in reports]
    if not decoded:
        raise BadRequest("reports", "none", "at least one is needed")
    if any(report.terms != decoded[0].terms for report in decoded):
        raise BadRequest("reports", "of several terms", "must share epsilon, mechanism and levels")
    plan = plan_reports(schema, decoded[0].terms)
    codes: list[list[int]] = [[] for _ in schema.attributes]
    for report in decoded:
        for index, code in plan.check_report(report).fields:
            codes[index].append(code)
    missing = [attribute.name for attribute, own in zip(schema.attributes, codes, strict=True) if not own]
    if missing:
        raise BadRequest("reports", len(decoded), f"none of them contains {', '.join(missing)}: more are needed")
    return {
        attribute.name: _estimate_attribute(plan, index, codes[index], confidence)
        for index, attribute in enumerate(schema.attributes)
    }


def _estimate_attribute(
    plan: ReportPlan, index: int, codes: list[int], confidence: float
) -> LdpEstimate | dict[str, LdpEstimate]:
    attribute, reporter = plan.schema.attributes[index], plan.reporters[index]
    if isinstance(attribute, Number) and not isinstance(reporter, FrequencyOracle):
        half = (attribute.high - attribute.low) / 2.0
        values, worst = reporter.to_values(np.array(codes, dtype=np.int64)), reporter.worst_variance() + 1.0
        mean, stddev = float(values.mean()), _mean_stddev(values, worst)
        centre = attribute.unscale_value(mean)
        return LdpEstimate(centre, half * stddev, confidence_interval(centre, half * stddev, confidence), len(values))
    if isinstance(attribute, Number) or not isinstance(reporter, FrequencyOracle):
        raise TypeError("a category needs an oracle")
    indicators = reporter.to_indicators(_unpack_flags(reporter, codes))
    shares = {}
    for value, column in zip(attribute.values, indicators.T, strict=True):
        share = float(column.mean())
        stddev = _mean_stddev(column, max(reporter.variance(0.0), reporter.variance(1.0)) + 0.25)
        shares[value] = LdpEstimate(share, stddev, confidence_interval(share, stddev, confidence), len(column))
    return shares


def _unpack_flags(oracle: FrequencyOracle, codes: list[int]) -> NDArray[np.uint8]:
    """Returns one row of flags per code, as `FrequencyOracle.draw_flags` made them."""
    if not oracle.is_unary:
        flags: NDArray[np.uint8] = np.eye(oracle.size, dtype=np.uint8)[np.array(codes)]
        return flags
    size = -(-oracle.size // 8)
    packed = np.frombuffer(b"".join(code.to_bytes(size, "little") for code in codes), dtype=np.uint8)
    return np.unpackbits(packed.reshape(len(codes), size), axis=1, bitorder="little")[:, : oracle.size]


def _mean_stddev(values: NDArray[np.float64], worst_variance: float) -> float:
    """Returns the standard deviation of the mean of these values."""
    spread = float(np.var(values, ddof=1)) if len(values) >= MIN_REPORTS else worst_variance
    return sqrt(spread / len(values))
