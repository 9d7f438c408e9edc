"""Local differential privacy (LDP) for one number, a vector or a mixed record: no bank, no trust in the collector.

One number: `make_mechanism`. Vectors: `make_vector_mechanism`. Records: `make_report` on the device and
`estimate_attributes` on the server. Budgets of devices on the ledger: `noisebank.federated.enrolment`.

>>> best = mechanism("best", epsilon=1.0)
>>> round(best.worst_variance(), 3)
4.267
>>> reports = best.perturb([0.25] * 1000)  # one report per person; their mean estimates 0.25

>>> schema = Schema((Number("age", 0, 100), Category("sex", ("f", "m"))))
>>> report = collect({"age": 41, "sex": "f"}, schema, epsilon=2.0)  # on the device
>>> sent = report.encode(schema)  # all that leaves it
>>> reports = [collect({"age": 41, "sex": "f"}, schema, epsilon=2.0) for _ in range(200)]
>>> estimates = estimate(reports, schema)  # on the server
>>> sorted(estimates)  # each has .value, .stddev, .interval
['age', 'sex']
"""

from noisebank.federated.ldp.audit import Audit, audit, exact_ratio, keeps_promise
from noisebank.federated.ldp.catalogue import mechanism
from noisebank.federated.ldp.categories import Oracle
from noisebank.federated.ldp.estimates import Estimate, estimate
from noisebank.federated.ldp.levels import Levels
from noisebank.federated.ldp.mechanism import Mechanism
from noisebank.federated.ldp.parameters import NAMES, Parameters, parameters
from noisebank.federated.ldp.reports import Report, Terms, collect
from noisebank.federated.ldp.schema import Category, Number, Schema
from noisebank.federated.ldp.vectors import VectorMechanism, published_vector_mechanism, vector_mechanism
from noisebank.federated.ldp.wire import decode, encode

__all__ = [
    "NAMES",
    "Audit",
    "Category",
    "Estimate",
    "Levels",
    "Mechanism",
    "Number",
    "Oracle",
    "Parameters",
    "Report",
    "Schema",
    "Terms",
    "VectorMechanism",
    "audit",
    "collect",
    "decode",
    "encode",
    "estimate",
    "exact_ratio",
    "keeps_promise",
    "mechanism",
    "parameters",
    "published_vector_mechanism",
    "vector_mechanism",
]
