"""Local differential privacy (LDP) for one number, a vector or a mixed record: no bank, no trust in the collector.

One number: `make_mechanism`. Vectors: `make_vector_mechanism`. Records: `make_report` on the device and
`estimate_attributes` on the server. Budgets of devices on the ledger: `noisebank.federated.enrolment`.

>>> best = make_mechanism("best", epsilon=1.0)
>>> round(best.worst_variance(), 3)
4.267
>>> reports = best.perturb([0.25] * 1000)  # one report per person; their mean estimates 0.25

>>> schema = Schema((Number("age", 0, 100), Category("sex", ("f", "m"))))
>>> report = make_report({"age": 41, "sex": "f"}, schema, epsilon=2.0)  # on the device
>>> sent = report.encode(schema)  # all that leaves it
>>> reports = [make_report({"age": 41, "sex": "f"}, schema, epsilon=2.0) for _ in range(200)]
>>> estimates = estimate_attributes(reports, schema)  # on the server
>>> sorted(estimates)  # each has .value, .stddev, .interval
['age', 'sex']
"""

from noisebank.federated.ldp.audit import AuditResult, audit_epsilon, exact_ratio, satisfies_ldp
from noisebank.federated.ldp.catalogue import make_mechanism
from noisebank.federated.ldp.categories import FrequencyOracle
from noisebank.federated.ldp.estimates import LdpEstimate, estimate_attributes
from noisebank.federated.ldp.levels import QuantizedMixture
from noisebank.federated.ldp.mechanism import Mechanism
from noisebank.federated.ldp.parameters import MECHANISM_NAMES, Parameters, find_parameters
from noisebank.federated.ldp.reports import LdpReport, ReportTerms, make_report
from noisebank.federated.ldp.schema import Category, Number, Schema
from noisebank.federated.ldp.vectors import VectorMechanism, make_published_vector_mechanism, make_vector_mechanism
from noisebank.federated.ldp.wire import decode_codes, encode_codes

__all__ = [
    "MECHANISM_NAMES",
    "AuditResult",
    "Category",
    "FrequencyOracle",
    "LdpEstimate",
    "LdpReport",
    "Mechanism",
    "Number",
    "Parameters",
    "QuantizedMixture",
    "ReportTerms",
    "Schema",
    "VectorMechanism",
    "audit_epsilon",
    "decode_codes",
    "encode_codes",
    "estimate_attributes",
    "exact_ratio",
    "find_parameters",
    "make_mechanism",
    "make_published_vector_mechanism",
    "make_report",
    "make_vector_mechanism",
    "satisfies_ldp",
]
