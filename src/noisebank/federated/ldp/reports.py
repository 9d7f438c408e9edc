"""The device's side of LDP records: one record in, one report out, eps-LDP for the whole record.

k attributes are chosen without looking at their values; each gets eps/k: numbers by a quantized mechanism of this
package, categories by a frequency oracle. k minimises the summed worst-case variance over the attributes (numbers in
units of half their range, categories as shares).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np

from noisebank.core.entropy import uniform_words
from noisebank.core.errors import BadRequest
from noisebank.federated.ldp.catalogue import build_sampler
from noisebank.federated.ldp.categories import FrequencyOracle, response_variance, unary_variance
from noisebank.federated.ldp.levels import MAX_LEVELS, QuantizedMixture
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.moments import MIN_EPSILON
from noisebank.federated.ldp.parameters import MECHANISM_NAMES, check_epsilon, find_parameters, split_epsilon
from noisebank.federated.ldp.schema import MIDPOINT, Number, Schema, read_number
from noisebank.federated.ldp.vectors import choose_coordinates
from noisebank.federated.ldp.wire import bits_per_code

VERSION = 1
HEADER = struct.Struct(">BBHd4s")
DEFAULT_LEVELS = 1000
"""2,001 outputs, as in the thesis's section 3.5.3: they add A^2 / 6e6 to the variance."""


@dataclass(frozen=True, slots=True)
class ReportTerms:
    """What server and device agree on before a report: epsilon for the whole record, mechanism, levels."""

    epsilon: float
    mechanism: str = "best"
    levels: int = DEFAULT_LEVELS

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        if not isinstance(self.mechanism, str) or self.mechanism not in MECHANISM_NAMES:
            raise BadRequest("mechanism", "of the order", f"must be one of {', '.join(MECHANISM_NAMES)}")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 1 <= self.levels <= MAX_LEVELS:
            raise BadRequest("levels", "of the order", f"must be a whole number in 1 .. {MAX_LEVELS}")


@dataclass(frozen=True, slots=True)
class LdpReport:
    """All that leaves a device: pairs (attribute index, code), and the terms they were made under."""

    terms: ReportTerms
    fields: tuple[tuple[int, int], ...]

    def encode(self, schema: Schema) -> bytes:
        """Returns 16 bytes of terms, then the fields packed bit by bit."""
        plan, bits, used = plan_reports(schema, self.terms), 0, 0
        for index, code in self.fields:
            size = plan.field_bits(index)
            bits, used = (bits << plan.index_bits | index) << size | code, used + plan.index_bits + size
        terms = self.terms
        head = HEADER.pack(
            VERSION, MECHANISM_NAMES.index(terms.mechanism), terms.levels, terms.epsilon, schema.fingerprint
        )
        return head + (bits << -used % 8).to_bytes(-(-used // 8), "big")

    @staticmethod
    def decode(data: bytes, schema: Schema) -> LdpReport:
        """Returns the report in these bytes; anything that no device could have sent is refused."""
        if len(data) < HEADER.size:
            raise BadRequest("report", f"{len(data)} bytes", f"needs at least {HEADER.size}")
        version, name, levels, epsilon, fingerprint = HEADER.unpack_from(data)
        if version != VERSION or name >= len(MECHANISM_NAMES) or fingerprint != schema.fingerprint:
            raise BadRequest("report", "another version or schema", "must be made for this schema")
        terms = ReportTerms(epsilon, MECHANISM_NAMES[name], levels)
        plan, body = plan_reports(schema, terms), data[HEADER.size :]
        bits, left, fields = int.from_bytes(body, "big"), 8 * len(body), []
        for _ in range(plan.sent_count):
            left -= plan.index_bits
            index = bits >> left & ((1 << plan.index_bits) - 1) if left >= 0 else len(schema.attributes)
            left -= plan.field_bits(index) if index < len(schema.attributes) else left + 1
            if left < 0:
                raise BadRequest("report", f"{len(data)} bytes", "is cut short or names an unknown attribute")
            fields.append((index, bits >> left & ((1 << plan.field_bits(index)) - 1)))
        if left >= 8 or bits & ((1 << left) - 1):
            raise BadRequest("report", f"{len(data)} bytes", "has something after its last field")
        return plan.check_report(LdpReport(terms, tuple(fields)))


class ReportPlan:
    """How records of one schema are reported under one set of terms: k, and one mechanism per attribute."""

    def __init__(self, schema: Schema, terms: ReportTerms) -> None:
        self.schema, self.terms = schema, terms
        self.sent_count = choose_sent_count(schema, terms)
        count = len(schema.attributes)
        self.index_bits = (count - 1).bit_length()
        share = split_epsilon(terms.epsilon, self.sent_count)
        sampler = build_sampler(find_parameters(terms.mechanism, share, count / self.sent_count))
        numeric = QuantizedMixture(sampler, terms.levels) if isinstance(sampler, Mixture) else sampler
        self.reporters = [
            numeric if isinstance(attribute, Number) else FrequencyOracle(share, len(attribute.values))
            for attribute in schema.attributes
        ]

    def field_bits(self, index: int) -> int:
        """Returns the bits of an attribute's code: a row of flags for unary encoding, else a number."""
        reporter = self.reporters[index]
        if not isinstance(reporter, FrequencyOracle):
            return bits_per_code(reporter)
        return reporter.size if reporter.is_unary else (reporter.size - 1).bit_length()

    def count_codes(self, index: int) -> int:
        """Returns how many codes the attribute has."""
        reporter = self.reporters[index]
        if not isinstance(reporter, FrequencyOracle):
            return reporter.code_count
        return 1 << reporter.size if reporter.is_unary else reporter.size

    def draw_report(self, values: Sequence[object]) -> LdpReport:
        """Returns a fresh report on a record's values, in the schema's order. Never fails, whatever they are.

        Guarantees: epsilon-LDP in all of `values`: k independent reports of epsilon/k each, on attributes that are
        chosen without looking. What is no value of its attribute becomes one that is: a listed one at random for a
        category, the middle for a number. Its law is then a mixture of laws of listed values, so no ratio grows.
        """
        known = values if len(values) == len(self.reporters) else [None] * len(self.reporters)
        chosen = sorted(int(index) for index in choose_coordinates(1, len(self.reporters), self.sent_count)[0])
        return LdpReport(self.terms, tuple((index, self.draw_code(index, known[index])) for index in chosen))

    def draw_code(self, index: int, value: object) -> int:
        """Returns a fresh code for one attribute. An oracle's flags become bits, the first value's the lowest."""
        reporter = self.reporters[index]
        if not isinstance(reporter, FrequencyOracle):
            number = read_number(value)
            return int(reporter.draw_codes([MIDPOINT if number is None else number])[0])
        listed = _random_index(reporter.size)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < reporter.size:
            listed = value
        flags = reporter.draw_flags([listed])[0]
        if reporter.is_unary:
            return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
        return int(np.argmax(flags))

    def check_report(self, report: LdpReport) -> LdpReport:
        """Returns the report; BadRequest unless its attributes are k different ones and each code exists."""
        indices = [index for index, _ in report.fields]
        all_different = len(set(indices)) == len(indices) == self.sent_count
        if not all_different or any(
            not (0 <= index < len(self.reporters) and 0 <= code < self.count_codes(index))
            for index, code in report.fields
        ):
            raise BadRequest(
                "report", "its fields", f"must be {self.sent_count} different attributes with codes they have"
            )
        return report


def make_report(
    record: Mapping[str, object], schema: Schema, epsilon: float, mechanism: str = "best", levels: int = DEFAULT_LEVELS
) -> LdpReport:
    """Returns one report on one record. Numbers are clipped, what does not fit is replaced (`ReportPlan.draw_report`).

    Terms and schema are checked before the record is read; afterwards nothing can fail. A second report on the same
    record costs epsilon again: the caller keeps count (`enrolment.LocalAccount`).
    """
    plan = plan_reports(schema, ReportTerms(epsilon, mechanism, levels))
    return plan.draw_report(schema.encode_record(record))


def _random_index(size: int) -> int:
    return int(uniform_words(1)[0] % np.uint64(size))


@lru_cache(maxsize=64)
def plan_reports(schema: Schema, terms: ReportTerms) -> ReportPlan:
    """Returns the plan for these terms; cached."""
    return ReportPlan(schema, terms)


def choose_sent_count(schema: Schema, terms: ReportTerms) -> int:
    """Returns the k with the smallest sum of worst-case variances."""
    count = len(schema.attributes)
    sizes = [len(attribute.values) for attribute in schema.attributes if not isinstance(attribute, Number)]

    def total_variance(k: int) -> float:
        share, scale = split_epsilon(terms.epsilon, k), count / k
        numbers = (
            find_parameters(terms.mechanism, share, scale).moments.worst_variance(scale) if len(sizes) < count else 0.0
        )
        shares = sum(min(unary_variance(share), response_variance(share, size)) for size in sizes)
        return (count - len(sizes)) * numbers + scale * shares

    candidates = [k for k in range(1, min(count, ceil(2 * terms.epsilon) + 1) + 1) if terms.epsilon / k >= MIN_EPSILON]
    return min(candidates, key=total_variance)
