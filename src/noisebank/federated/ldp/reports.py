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
from noisebank.federated.ldp.catalogue import built
from noisebank.federated.ldp.categories import Oracle, response_variance, unary_variance
from noisebank.federated.ldp.levels import MAX_LEVELS, Levels
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.moments import MIN_EPSILON
from noisebank.federated.ldp.parameters import NAMES, checked_epsilon, parameters, shared
from noisebank.federated.ldp.schema import MIDDLE, Number, Schema, read_number
from noisebank.federated.ldp.vectors import choose
from noisebank.federated.ldp.wire import width

VERSION = 1
HEADER = struct.Struct(">BBHd4s")
LEVELS = 1000
"""2,001 outputs, as in the thesis's section 3.5.3: they add A^2 / 6e6 to the variance."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What server and device agree on before a report: epsilon for the whole record, mechanism, levels."""

    epsilon: float
    mechanism: str = "best"
    levels: int = LEVELS

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        if not isinstance(self.mechanism, str) or self.mechanism not in NAMES:
            raise BadRequest("mechanism", "of the order", f"must be one of {', '.join(NAMES)}")
        if isinstance(self.levels, bool) or not isinstance(self.levels, int) or not 1 <= self.levels <= MAX_LEVELS:
            raise BadRequest("levels", "of the order", f"must be a whole number in 1 .. {MAX_LEVELS}")


@dataclass(frozen=True, slots=True)
class Report:
    """All that leaves a device: pairs (attribute index, code), and the terms they were made under."""

    terms: Terms
    fields: tuple[tuple[int, int], ...]

    def encode(self, schema: Schema) -> bytes:
        """Returns 16 bytes of terms, then the fields packed bit by bit."""
        plan, bits, used = planned(schema, self.terms), 0, 0
        for index, code in self.fields:
            size = plan.width(index)
            bits, used = (bits << plan.place_bits | index) << size | code, used + plan.place_bits + size
        terms = self.terms
        head = HEADER.pack(VERSION, NAMES.index(terms.mechanism), terms.levels, terms.epsilon, schema.fingerprint)
        return head + (bits << -used % 8).to_bytes(-(-used // 8), "big")

    @staticmethod
    def decode(data: bytes, schema: Schema) -> Report:
        """Returns the report in these bytes; anything that no device could have sent is refused."""
        if len(data) < HEADER.size:
            raise BadRequest("report", f"{len(data)} bytes", f"needs at least {HEADER.size}")
        version, name, levels, epsilon, fingerprint = HEADER.unpack_from(data)
        if version != VERSION or name >= len(NAMES) or fingerprint != schema.fingerprint:
            raise BadRequest("report", "another version or schema", "must be made for this schema")
        terms = Terms(epsilon, NAMES[name], levels)
        plan, body = planned(schema, terms), data[HEADER.size :]
        bits, left, fields = int.from_bytes(body, "big"), 8 * len(body), []
        for _ in range(plan.sent):
            left -= plan.place_bits
            index = bits >> left & ((1 << plan.place_bits) - 1) if left >= 0 else len(schema.attributes)
            left -= plan.width(index) if index < len(schema.attributes) else left + 1
            if left < 0:
                raise BadRequest("report", f"{len(data)} bytes", "is cut short or names an unknown attribute")
            fields.append((index, bits >> left & ((1 << plan.width(index)) - 1)))
        if left >= 8 or bits & ((1 << left) - 1):
            raise BadRequest("report", f"{len(data)} bytes", "has something after its last field")
        return plan.checked(Report(terms, tuple(fields)))


class Plan:
    """How records of one schema are reported under one set of terms: k, and one mechanism per attribute."""

    def __init__(self, schema: Schema, terms: Terms) -> None:
        self.schema, self.terms = schema, terms
        self.sent = best_sent(schema, terms)
        count = len(schema.attributes)
        self.place_bits = (count - 1).bit_length()
        share = shared(terms.epsilon, self.sent)
        sampler = built(parameters(terms.mechanism, share, count / self.sent))
        numeric = Levels(sampler, terms.levels) if isinstance(sampler, Mixture) else sampler
        self.parts = [
            numeric if isinstance(attribute, Number) else Oracle(share, len(attribute.values))
            for attribute in schema.attributes
        ]

    def width(self, place: int) -> int:
        """Returns the bits of an attribute's code: a row of flags for unary encoding, else a number."""
        reporter = self.parts[place]
        if not isinstance(reporter, Oracle):
            return width(reporter)
        return reporter.size if reporter.unary else (reporter.size - 1).bit_length()

    def codes(self, place: int) -> int:
        """Returns how many codes the attribute has."""
        reporter = self.parts[place]
        if not isinstance(reporter, Oracle):
            return reporter.codes
        return 1 << reporter.size if reporter.unary else reporter.size

    def report(self, values: Sequence[object]) -> Report:
        """Returns a fresh report on a record's values, in the schema's order. Never fails, whatever they are.

        Guarantees: epsilon-LDP in all of `values`: k independent reports of epsilon/k each, on attributes that are
        chosen without looking. What is no value of its attribute becomes one that is: a listed one at random for a
        category, the middle for a number. Its law is then a mixture of laws of listed values, so no ratio grows.
        """
        known = values if len(values) == len(self.parts) else [None] * len(self.parts)
        chosen = sorted(int(index) for index in choose(1, len(self.parts), self.sent)[0])
        return Report(self.terms, tuple((index, self.answer(index, known[index])) for index in chosen))

    def answer(self, place: int, value: object) -> int:
        """Returns a fresh code for one attribute. An oracle's flags become bits, the first value's the lowest."""
        reporter = self.parts[place]
        if not isinstance(reporter, Oracle):
            number = read_number(value)
            return int(reporter.draw([MIDDLE if number is None else number])[0])
        listed = _any_place(reporter.size)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < reporter.size:
            listed = value
        flags = reporter.draw([listed])[0]
        if reporter.unary:
            return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
        return int(np.argmax(flags))

    def checked(self, report: Report) -> Report:
        """Returns the report; BadRequest unless its attributes are k different ones and each code exists."""
        indices = [index for index, _ in report.fields]
        all_different = len(set(indices)) == len(indices) == self.sent
        if not all_different or any(
            not (0 <= index < len(self.parts) and 0 <= code < self.codes(index)) for index, code in report.fields
        ):
            raise BadRequest("report", "its fields", f"must be {self.sent} different attributes with codes they have")
        return report


def collect(
    record: Mapping[str, object], schema: Schema, epsilon: float, mechanism: str = "best", levels: int = LEVELS
) -> Report:
    """Returns one report on one record. Numbers are clipped, what does not fit is replaced (`ReportPlan.draw_report`).

    Terms and schema are checked before the record is read; afterwards nothing can fail. A second report on the same
    record costs epsilon again: the caller keeps count (`enrolment.LocalAccount`).
    """
    plan = planned(schema, Terms(epsilon, mechanism, levels))
    return plan.report(schema.read(record))


def _any_place(size: int) -> int:
    return int(uniform_words(1)[0] % np.uint64(size))


@lru_cache(maxsize=64)
def planned(schema: Schema, terms: Terms) -> Plan:
    """Returns the plan for these terms; cached."""
    return Plan(schema, terms)


def best_sent(schema: Schema, terms: Terms) -> int:
    """Returns the k with the smallest sum of worst-case variances."""
    count = len(schema.attributes)
    sizes = [len(attribute.values) for attribute in schema.attributes if not isinstance(attribute, Number)]

    def burden(k: int) -> float:
        share, scale = shared(terms.epsilon, k), count / k
        numbers = parameters(terms.mechanism, share, scale).moments.worst(scale) if len(sizes) < count else 0.0
        shares = sum(min(unary_variance(share), response_variance(share, size)) for size in sizes)
        return (count - len(sizes)) * numbers + scale * shares

    candidates = [k for k in range(1, min(count, ceil(2 * terms.epsilon) + 1) + 1) if terms.epsilon / k >= MIN_EPSILON]
    return min(candidates, key=burden)
