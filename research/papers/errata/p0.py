"""P0, noise reuse on a blockchain."""

from __future__ import annotations

from math import sqrt

import numpy as np

from research.papers.errata.erratum import (
    Erratum,
    Makers,
    classical,
    describe,
    exact_delta,
    failing_epsilon,
    saving_by_reuse,
)


def _screenshot_sensitivity() -> Erratum:
    factor, printed = classical(1e-5) / 0.1, 6832
    return describe(
        "Figures 3 and 4 (screenshots)",
        "average income at epsilon .1, delta 1e-5: sigma 6832; Section V: sensitivity 202",
        "6832 is the classical sigma of sensitivity 141 = (700000 + 5000)/5000, the range of the data "
        "themselves: noise "
        "scaled to the data is not private",
        printed_sigma=printed, sigma_of_141=float(np.ceil(factor * 141)), sigma_of_202=factor * 202,
        sensitivity_in_the_screenshot=printed / factor,
    )  # fmt: skip


def _screenshot_sum() -> Erratum:
    squares = 64 - 2 * 0.1**2
    return describe(
        "Figures 3 and 4 (screenshots)",
        "budget 8, two answers of epsilon .1: remaining 7.8",
        "Algorithm 1 subtracts squares; the screenshot's program is another one",
        screenshot=7.8, algorithm_1=float(f"{sqrt(squares):.7g}"),
    )  # fmt: skip


def _refusal_lowers() -> Erratum:
    remaining, refused = 1.0, []
    for cost in (2.0, 0.1):
        remaining -= cost  # line 5
        refused.append(remaining < 0)  # line 6
    return describe(
        "Algorithm 1, lines 5 and 6", "the remaining budget is lowered, and then compared with 0",
        "compare first: as printed a request that is refused has lowered the budget all the same",
        budget=1.0, asked="2, then .1", refused=f"{sum(refused)} of 2", remaining=remaining,
    )  # fmt: skip


def _classical_rule() -> Erratum:
    return describe(
        "Lemma 1", "sigma = (sensitivity/epsilon) sqrt(2 ln(1.25/delta)) for any epsilon",
        "proven for epsilon < 1; at delta 1e-4 it fails from the epsilon below on",
        fails_from_epsilon=failing_epsilon(1e-4), delta_claimed=1e-4, delta_at_8=exact_delta(8.0, 1e-4),
        delta_at_10=exact_delta(10.0, 1e-4),
    )  # fmt: skip


def _noise_on_chain() -> Erratum:
    truth, noise = 353.0, 9.7
    return describe(
        "Section IV", "the client draws the noise and passes it to the contract as a parameter",
        "parameters of transactions are public: answer less noise is the true answer",
        answer=truth + noise, parameter=noise, difference=truth,
    )  # fmt: skip


def _blurs() -> Erratum:
    best, asked = 1.0, 2.0
    variance = best**2 + (asked**2 - best**2) / 2
    return describe(
        "Algorithm 1, Case 2C", "each request gets fresh noise on the best recorded answer",
        "two requests at nearly one sigma, averaged, are better than either; many give the recorded answer away",
        recorded_sigma=best, asked_sigma=asked, sigma_of_the_mean_of_two=sqrt(variance),
        sigma_of_the_mean_of_fifty=sqrt(best**2 + (asked**2 - best**2) / 50),
    )  # fmt: skip


def _derivative() -> Erratum:
    wanted, old, r = 1.0, 2.0, 0.4
    slope = -2 * (r * old**2 - wanted**2) * (r - 1) / (r * r * old**2 - wanted**2) ** 2
    return describe(
        "Appendix A, Case 2", "the derivative is negative for r < sigma_m/sigma_j, and the optimum is "
        "(sigma_m/sigma_j)^2",
        "it is positive between the two; the optimum is right, the intervals are not",
        sigma_m=wanted, sigma_j=old, r=r, derivative=slope, optimum=(wanted / old) ** 2, printed_end=wanted / old,
    )  # fmt: skip


def _missing_root() -> Erratum:
    cost, delta = 4.0, 1e-4
    return describe(
        "Appendix C, proof of (5)", "Gaussian(sensitivity, epsilon_squared_cost, delta) = sigma",
        "its square root, as in Algorithm 1",
        epsilon_squared=cost, printed_sigma=classical(delta) / cost, sigma=classical(delta) / sqrt(cost),
    )  # fmt: skip


def _fifty_two_percent() -> Erratum:
    epsilon, square = saving_by_reuse(1e-5, 1e-4)
    return describe(
        "Section V-B, Figure 5", "about 52% less at 150 requests", "in no metric",
        saving_in_epsilon=epsilon, saving_in_squares=square, printed=0.52,
    )  # fmt: skip


TABLE_II = ((1, 1.0), (2, 3.0), (3, 2.0), (1, 2.5), (2, 2.0), (1, 0.5), (3, 2.0), (2, 2.5), (2, 1.5), (1, 0.25),
            (2, 1.0), (1, 0.75), (3, 1.5))  # fmt: skip
"""Type and noise of the thirteen queries."""


def _forgotten_query() -> Erratum:
    recorded: dict[int, set[float]] = {}
    blurred = []
    for number, (kind, sigma) in enumerate(TABLE_II, 1):
        before = recorded.setdefault(kind, set())
        if before and sigma not in before and sigma > min(before):
            blurred.append(number)
        before.add(sigma)
    return describe("Theorem 3, example of Table II", "N_2C = {8, 12}", "query 4 is in case 2C, too, as Table II says",
                    printed="8, 12", by_algorithm_1=", ".join(map(str, blurred)))  # fmt: skip


def _altered_record() -> Erratum:
    """Nothing of a table is altered by a mechanism: it names a record with probability delta."""
    people, delta = 5_000, 1e-4
    return describe(
        "Section VII-A", "delta is the small probability that a record gets altered in the database",
        "no record is altered. A mechanism that prints each record with probability delta is (0, delta)-private; "
        "delta should be far below one over the number of people, which 1e-4 and 5,000 hardly are",
        delta=delta, people=people, records_altered=0, records_printed_on_average=people * delta,
    )  # fmt: skip


ERRATA: Makers = (
    _screenshot_sensitivity, _screenshot_sum, _refusal_lowers, _classical_rule, _noise_on_chain, _blurs, _derivative,
    _missing_root, _forgotten_query, _fifty_two_percent, _altered_record,
)  # fmt: skip
