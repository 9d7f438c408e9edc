"""What devices send and servers estimate, with the operating system's randomness replaced by a recorded one.

Laws, variances and drawn codes of every mechanism are compared with what they were; two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import shake_256
from unittest.mock import patch

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.ldp import MECHANISM_NAMES, make_mechanism
from noisebank.federated.ldp.categories import FrequencyOracle
from noisebank.federated.ldp.estimates import estimate_attributes
from noisebank.federated.ldp.levels import QuantizedMixture
from noisebank.federated.ldp.mixture import Mixture
from noisebank.federated.ldp.reports import LdpReport, make_report
from noisebank.federated.ldp.schema import Category, Number, Schema
from noisebank.federated.ldp.vectors import make_published_vector_mechanism, make_vector_mechanism
from noisebank.federated.ldp.wire import bits_per_code, decode_codes, encode_codes
from snapshots.comparing import compact_json, hold_text

POINTS = (-1.0, -0.731, 0.0, 0.2, 1.0)
WIDE = Schema((Number("age", 0, 120), Category("town", ("a", "b", "c")), Category("smokes", ("no", "yes")),
               Number("income", -50, 1000), Category("letter", tuple("abcdefghijk"))))  # fmt: skip
SCHEMAS = {
    "wide": WIDE,
    "one": Schema((Number("age", 0, 120),)),
    "two": Schema((Category("town", ("a", "b")), Number("age", 18, 90))),
    "letters": Schema((Category("letter", tuple("abcdefghijklmnopqrs")),)),
}
RECORD = {"age": 33, "town": "b", "smokes": "yes", "income": -20.5, "letter": "k"}

MISFITS: tuple[dict[str, object], ...] = (
    {}, {"age": None}, {"age": "x", "town": "z"}, {"age": True, "town": 1}, {**RECORD, "income": 10**9}, {"letter": 3},
)  # fmt: skip


@pytest.fixture(autouse=True)
def recorded_bytes() -> Iterator[None]:
    """The same bytes in every run, and other ones for each test."""
    count = iter(range(1 << 30))

    def draw(size: int) -> bytes:
        return shake_256(b"%d" % next(count)).digest(size)

    with patch("noisebank.core.entropy.os.urandom", draw):
        yield


def describe_mechanism(name: str, epsilon: float, scale: float) -> Iterator[str]:
    made = make_mechanism(name, epsilon, scale)
    variants = [made, *([QuantizedMixture(made, 7), QuantizedMixture(made, 1000)] if isinstance(made, Mixture) else [])]
    for each in variants:
        yield f"-- {each.name} {epsilon} {scale}: {each.code_count} codes, {bits_per_code(each)} bits"
        yield compact_json([each.worst_variance(), *(each.variance(x) for x in POINTS)])
        for x in POINTS[:3] if each.code_count < 10**6 else ():
            law = each.output_law(x)
            runs = list(law.iter_runs())
            total = law.total_weight
            yield compact_json(
                [len(runs), *([start, stop, weight / total] for start, stop, weight in [*runs[:4], *runs[-2:]])]
            )
        codes = each.draw_codes(list(POINTS) * 4)
        yield compact_json([int(code) for code in codes])
        yield compact_json([float(value) for value in each.to_values(codes)[:10]])
        sent = encode_codes(each, codes)
        assert (decode_codes(each, sent, len(codes)) == codes).all()
        yield sent.hex()


def describe_oracle(epsilon: float, size: int) -> Iterator[str]:
    oracle = FrequencyOracle(epsilon, size)
    chances = [float(chance) for chance in (oracle.p, oracle.q, oracle.likelihood_ratio())]
    yield f"-- {oracle.kind} {epsilon} {size}: {compact_json(chances)}"
    yield compact_json([oracle.variance(share) for share in (0.0, 0.25, 1.0)])
    flags = oracle.draw_flags([number % size for number in range(8)])
    yield " ".join("".join(map(str, row)) for row in flags)
    yield compact_json(oracle.to_indicators(flags).mean(axis=0).tolist())


def describe_vectors(name: str, epsilon: float, dimension: int, make: Callable[..., object]) -> Iterator[str]:
    made = make(name, epsilon, dimension)
    rows = np.linspace(-1.2, 1.2, 3 * dimension).reshape(3, dimension)
    reports = made.draw_reports(rows)  # type: ignore[attr-defined]
    yield f"-- {name} {epsilon} {dimension}: {made.sent_count} sent"  # type: ignore[attr-defined]
    yield compact_json([made.worst_variance(), made.variance(0.3), made.scale])  # type: ignore[attr-defined]
    yield compact_json([reports.indices.tolist(), reports.codes.tolist()])
    yield compact_json([made.estimate_mean(reports).tolist(), made.perturb(rows)[0].tolist()])  # type: ignore[attr-defined]


def test_mechanisms_draw_what_they_drew() -> None:
    settings = [(0.3, 1.0), (1.0, 1.0), (1.0, 4.0), (2.5, 1.0), (6.0, 1.5)]
    seen = [line for name in MECHANISM_NAMES for setting in settings for line in describe_mechanism(name, *setting)]
    seen += [line for epsilon in (0.2, 1.0, 4.0) for size in (2, 3, 11) for line in describe_oracle(epsilon, size)]
    for make in (make_vector_mechanism, make_published_vector_mechanism):
        for name, epsilon, dimension in (("best", 0.5, 4), ("best", 6.0, 5), ("laplace", 2.0, 3), ("pm", 7.6, 9)):
            seen += describe_vectors(name, epsilon, dimension, make)
    hold_text("local/mechanisms.txt", "\n".join(seen))


def test_reports_and_estimates_are_what_they_were() -> None:
    seen = []
    for name, schema in SCHEMAS.items():
        for epsilon, mechanism, levels in (
            (0.5, "best", 1000),
            (4.0, "pm", 3),
            (9.0, "laplace", 1000),
            (3.0, "duchi", 9),
        ):
            if mechanism not in MECHANISM_NAMES:
                continue
            records = [
                {
                    "age": number % 121, "town": "abc"[number % 3], "smokes": ("no", "yes")[number % 2],
                    "income": number, "letter": "abcdefghijk"[number % 11],
                }
                for number in range(130)
            ]  # fmt: skip
            reports = [make_report(record, schema, epsilon, mechanism, levels) for record in records]
            raw = [report.encode(schema) for report in reports]
            assert [LdpReport.decode(each, schema) for each in raw] == reports
            seen += [f"-- {name} {epsilon} {mechanism} {levels}", *(each.hex() for each in raw[:4])]
            for count in (40, 130):
                try:
                    estimates = estimate_attributes(raw[:count], schema, 0.9)
                except BadRequest as error:
                    seen.append(str(error))
                    continue
                for attribute, estimate in estimates.items():
                    values = estimate if isinstance(estimate, dict) else {"": estimate}
                    seen += [
                        f"{attribute} {value} "
                        + compact_json([each.value, each.stddev, *each.interval, each.report_count])
                        for value, each in values.items()
                    ]
    hold_text("local/reports.txt", "\n".join(seen))


def test_records_that_do_not_fit_are_reported_on_all_the_same() -> None:
    seen = []
    for record in MISFITS:
        report = make_report(record, WIDE, 4.0)
        assert LdpReport.decode(report.encode(WIDE), WIDE) == report
        seen.append(f"{record} {report.fields} {list(WIDE.find_misfits(record))} {WIDE.encode_record(record)}")
    hold_text("local/misfits.txt", "\n".join(seen))
