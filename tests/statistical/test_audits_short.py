"""Every privacy row of the assurance table, a small share of it: the real bank passes, planted bugs are caught.

`make assurance` runs the same functions at their full counts. False alarms: at most 1e-7 a row.
"""

from __future__ import annotations

import numpy as np
import pytest

from assurance.additivity import additivity
from assurance.bad_values import bad_values
from assurance.blur_attack import blur_attack, combinations, promised_covariance
from assurance.data_independence import data_independence
from assurance.hostile_server import hostile_server
from assurance.look_ledger import look_ledger
from assurance.low_bits import low_bits
from assurance.mu_audit import mu_audit, mu_lower_bound
from assurance.public_ledger import public_ledger
from assurance.report import Row
from assurance.sampler_fit import sampler_fit
from assurance.sensitivity_audit import sensitivity_audit
from assurance.stopping_rules import stopping_rules


@pytest.mark.parametrize(
    ("row", "share"),
    [
        (mu_audit, 0.004),
        (sampler_fit, 0.01),
        (low_bits, 0.005),
        (blur_attack, 0.01),
        (data_independence, 0.01),
        (public_ledger, 0.01),
        (look_ledger, 0.01),
        (sensitivity_audit, 0.01),
        (bad_values, 0.1),
        (stopping_rules, 0.01),
        (hostile_server, 0.001),
        (additivity, 0.001),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_row(row: Row, share: float) -> None:
    finding = row(share)
    assert finding.planted, "a row without a planted bug proves little"
    assert finding.passed, finding


# -- the judges themselves, on made-up numbers -----------------------------------------------------


@pytest.mark.parametrize(
    ("mu", "low", "high"),
    [(1.0, 0.90, 1.0), (1 / 0.9, 1.02, 1.12), (2.0, 1.88, 2.0), (0.0, -0.2, 0.0)],
    ids=["right", "10% too little noise", "doubled sensitivity", "nothing at all"],
)
def test_the_mu_bound_is_tight_and_sound(mu: float, low: float, high: float) -> None:
    rng = np.random.default_rng(1)
    bound = mu_lower_bound(rng.normal(size=100_000), rng.normal(size=100_000) + mu)
    assert low < bound <= high


def test_the_mu_bound_of_noiseless_outputs_is_finite_and_large() -> None:
    assert 5 < mu_lower_bound(np.zeros(10_000), np.ones(10_000)) < 10


def test_what_the_blur_attack_expects() -> None:
    """sd 3.01 on the bridge whatever the weights, 1.09 by the paper's rule: MATHS of the attack."""
    weights, bridge = combinations(), promised_covariance()[1:, 1:]
    paper = np.ones((50, 50)) + np.diag(np.diag(bridge) - 1)
    spread = lambda w, c: float(np.sqrt(w @ c @ w))  # noqa: E731
    assert spread(weights["best under the bridge"], bridge) == pytest.approx(3.01, abs=1e-9)
    assert all(spread(w, bridge) > 3.0099 for w in weights.values())
    assert spread(weights["best under the paper's rule"], paper) == pytest.approx(1.091, abs=1e-3)
    assert spread(weights["plain average"], paper) == pytest.approx(1.092, abs=2e-3)
