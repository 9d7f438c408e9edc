"""P1, Bayesian inference from history."""

from __future__ import annotations

from math import exp, log, pi, sqrt
from typing import Any

import numpy as np

from research.papers.errata.erratum import Erratum, Makers, describe


def _stray_half() -> Erratum:
    within, miss = 15.0, 0.2
    alpha = -log(miss) / within
    return describe(
        "Theorem 3.7, proof (eq. 40)", "P(|noise| <= epsilon) = 1 - exp(-epsilon alpha/(2 S))", "without the 1/2",
        epsilon=within, delta=miss, alpha=alpha, coverage=1 - exp(-within * alpha),
        coverage_by_eq_40=1 - exp(-within * alpha / 2),
    )  # fmt: skip


def _normalised() -> Erratum:
    grid = np.linspace(-40.0, 40.0, 8001)
    product = np.ones_like(grid)
    for place in (0.0, 1.0):
        product *= 0.5 * np.exp(-np.abs(place - grid))
    return describe(
        "Theorems 3.3 and 3.5 (eq. 37)", "the posterior is the product of f(observation - theta)/f(observation)",
        "the product must be divided by its integral: two observations 0 and 1 of Laplace noise of scale 1",
        integral_as_printed=float(product.sum() * (grid[1] - grid[0])), integral=1.0,
    )  # fmt: skip


def _regions() -> Erratum:
    total = sum(0.9 * 10.0 ** (-((j - 1) // 10)) for j in range(1, 101))
    return describe("Eq. 50", "P_j = .9 10^(-floor((j-1)/10)) are probabilities", "they add up to 10, not to 1",
                    sum_over_ten_cells=sum(0.9 for _ in range(10)), sum_over_100_cells=total)  # fmt: skip


def _interval_algorithm() -> Erratum:
    masses = {4: 0.1, 5: 0.6, 6: 0.2, 7: 0.1}
    a, b, mass = 5, 0, 0.0
    while mass < 0.8:
        if masses.get(a, 0.0) >= masses.get(a + b, 0.0):
            mass, a, b = mass + masses.get(a, 0.0), a - 1, b + 1
        else:
            mass, b = mass + masses.get(a + b, 0.0), b + 1
    return describe("Algorithm 4", "U <- b", "U <- a + b: as printed the upper end is a length",
                    posterior="4: .1, 5: .6, 6: .2, 7: .1", printed_interval=f"[{a}, {b}]",
                    interval=f"[{a + 1}, {a + b}]")  # fmt: skip


def _last_observation() -> Erratum:
    variances = (3400.0, 400.0, 2400.0)
    return describe(
        "Algorithm 3", "for i = 1; i < n", "i <= n: as printed the last observation is left out",
        precision_of_all_three=sum(1 / one for one in variances),
        precision_as_printed=sum(1 / one for one in variances[:-1]),
    )  # fmt: skip


def _cells_of_example() -> Erratum:
    x = [10, 21, 37, 20, 50, 40, 53, 0, 0]
    return describe("Theorem 3.8, example", "x_5 = 0 and x_6 = 0 by eq. 5", "eq. 5 has other counts there",
                    x_5=x[4], x_6=x[5], printed=0)  # fmt: skip


def _figure_5() -> Erratum:
    observations = np.array([73.34, 91.12, 78.46])
    right = _posterior(observations, ((40.0, 10.0), (10.0, 10.0), (20.0, 20.0, 20.0)))
    wrong = _posterior(observations, ((20.0, 10.0), (10.0, 10.0), (20.0, 20.0, 20.0)))
    return describe(
        "Figure 5", "estimate 84, 80% interval [68, 102]",
        "they come out if row 3 had sensitivity 2 instead of the 4 of eq. 12",
        mean=right[0], interval=f"[{right[1]:.1f}, {right[2]:.1f}]", mean_with_sensitivity_2=wrong[0],
        interval_with_sensitivity_2=f"[{wrong[1]:.1f}, {wrong[2]:.1f}]",
    )  # fmt: skip


def _posterior(observations: Any, scales: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """Mean and shortest 80% interval after observations whose noises are sums of Laplace noises of these scales."""
    size, step = 2**16, 0.1
    grid = (np.arange(size) - size // 2) * step
    frequencies = 2 * pi * np.fft.fftfreq(size, step)
    product = np.ones(size)
    for observation, parts in zip(observations, scales, strict=True):
        transform = np.ones(size)
        for scale in parts:
            transform = transform / (1 + (scale * frequencies) ** 2)
        density = np.maximum(np.real(np.fft.fftshift(np.fft.ifft(transform))) / step, 0.0)
        product *= np.interp(observation - grid, grid, density)
    product /= product.sum() * step
    order = np.argsort(-product)
    chosen = np.sort(grid[order[: int(np.searchsorted(np.cumsum(product[order]) * step, 0.8)) + 1]])
    return float((product * grid).sum() * step), float(chosen[0]), float(chosen[-1])


def _hardness() -> Erratum:
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    query = np.array([1.0, 1.0])
    best = float(query @ np.linalg.inv(rows.T @ rows) @ query)
    return describe(
        "Theorem 3.1", "finding all representations is NP-hard, hence the greedy Algorithm 2",
        "none has to be found: least squares gives the best linear estimate in polynomial time. Rows (1,0), "
        "(0,1), (1,1) "
        "with variance 1, query (1,1)",
        variance_of_the_first_representation=2.0, variance_by_least_squares=best,
    )  # fmt: skip


def _independence() -> Erratum:
    weights = np.array([[4.0, 2.0], [0.0, 2.0]])
    alphas, sensitivities = np.array([0.05, 0.05]), np.array([4.0, 2.0])
    spent = (alphas / sensitivities) @ weights
    return describe(
        "Section 3.3.2", "cells must be independent or negatively correlated",
        "one record is in one cell: the ratio of eq. 1 is bounded by that cell's sum whatever the other cells say",
        spent_by_cell=", ".join(f"{one:g}" for one in spent), bound=float(spent.max()),
    )  # fmt: skip


def _boolean_vector() -> Erratum:
    weights = (2, 2, 2, 1, 1, 1, 0, 0, 0)
    return describe("Definition 3.1", "a boolean vector with each q_i a real number",
                    "a vector of real numbers: the paper's own Q2 (eq. 6) has weights other than 0 and 1",
                    largest_weight_of_Q2=max(weights))  # fmt: skip


def _observations() -> Erratum:
    printed, variance = 1.1, 400.0
    return describe(
        "Eq. 22 to 30 and Figure 5",
        "observations -16.7, 1.1, -11.5 (eq. 30); 73.34, 91.12, 78.46 (Figure 5) of the same query",
        "those of eq. 30 are of a table with x_5 = x_6 = 0, as in the example of Theorem 3.8; by eq. 5 the second is "
        "off by more standard deviations than happen",
        truth_by_eq_5=50 + 40, second_observation=printed,
        standard_deviations_off=(50 + 40 - printed) / sqrt(variance),
        standard_deviations_off_if_both_are_0=printed / sqrt(variance),
    )  # fmt: skip


def _reliability() -> Erratum:
    inside, count = 0.8, 1_000
    return describe(
        "Section 5.1", "R_i converges to the confidence level as more queries are answered",
        "not if answers are inferred from each other: one query asked a thousand times has one interval, and R_i is "
        "0 or 1",
        confidence=inside, standard_deviation_of_R_i_if_asked_again=sqrt(inside * (1 - inside)),
        if_answers_were_independent=sqrt(inside * (1 - inside) / count),
    )  # fmt: skip


ERRATA: Makers = (
    _boolean_vector, _observations, _stray_half, _normalised, _regions, _interval_algorithm, _last_observation,
    _cells_of_example, _figure_5, _hardness, _independence, _reliability,
)  # fmt: skip
