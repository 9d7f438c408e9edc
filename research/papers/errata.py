"""Where the papers err: each with the smallest counterexample, computed here from the printed formulas.

`numbers` hold what the print gives and what holds; nothing in them is typed. P2's are `chained_dp.claims`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import cos, erf, exp, log, pi, sqrt
from typing import Any

import numpy as np

from noisebank.core.units import Precision
from noisebank.privacy.calibration import gaussian_delta
from research.chained_dp.claims import claims

Erratum = dict[str, Any]
DRAWS = 2_000


def list_errata() -> dict[str, list[Erratum]]:
    """All of them, by paper."""
    return {
        "P0": [make() for make in P0],
        "P1": [make() for make in P1],
        "P2": [_from_claim(row) for row in claims(DRAWS)],
        "P3": [make() for make in P3],
        "P4": [make() for make in P4],
    }


def _erratum(where: str, printed: str, holds: str, /, **numbers: object) -> Erratum:
    shown = {name.replace("_", " "): _short(value) for name, value in numbers.items()}
    return {"where": where, "printed": printed, "holds": holds, "numbers": shown}


def _short(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (float, np.floating)):
        return value
    return float(f"{float(value):.4g}")


def _from_claim(row: dict[str, Any]) -> Erratum:
    numbers: dict[str, object] = {}
    for side, title in (("paper", "as printed"), ("ours", "holds")):
        parts = row[side] if isinstance(row[side], dict) else {"": row[side]}
        numbers |= {f"{title}: {name}".rstrip(": "): value for name, value in parts.items()}
    return {"where": row["where"], "printed": row["claimed"], "holds": row["holds"], "numbers": numbers}


def classical(delta: float) -> float:
    """sigma epsilon / sensitivity of the classical rule."""
    return sqrt(2.0 * log(1.25 / delta))


def exact_delta(epsilon: float, delta: float) -> float:
    """What the classical rule's noise really has for delta at this epsilon."""
    mu = epsilon / classical(delta)
    return float(gaussian_delta(Precision.floor(Fraction(mu) ** 2), Fraction(epsilon)))


# -- P0 ------------------------------------------------------------------------------------------


def _screenshot_sensitivity() -> Erratum:
    factor, printed = classical(1e-5) / 0.1, 6832
    return _erratum(
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
    return _erratum(
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
    return _erratum(
        "Algorithm 1, lines 5 and 6", "the remaining budget is lowered, and then compared with 0",
        "compare first: as printed a request that is refused has lowered the budget all the same",
        budget=1.0, asked="2, then .1", refused=f"{sum(refused)} of 2", remaining=remaining,
    )  # fmt: skip


def _classical_rule() -> Erratum:
    low, high = 1.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(middle, 1e-4) <= 1e-4 else (low, middle)
    return _erratum(
        "Lemma 1", "sigma = (sensitivity/epsilon) sqrt(2 ln(1.25/delta)) for any epsilon",
        "proven for epsilon < 1; at delta 1e-4 it fails from the epsilon below on",
        fails_from_epsilon=high, delta_claimed=1e-4, delta_at_8=exact_delta(8.0, 1e-4),
        delta_at_10=exact_delta(10.0, 1e-4),
    )  # fmt: skip


def _noise_on_chain() -> Erratum:
    truth, noise = 353.0, 9.7
    return _erratum(
        "Section IV", "the client draws the noise and passes it to the contract as a parameter",
        "parameters of transactions are public: answer less noise is the true answer",
        answer=truth + noise, parameter=noise, difference=truth,
    )  # fmt: skip


def _blurs() -> Erratum:
    best, asked = 1.0, 2.0
    variance = best**2 + (asked**2 - best**2) / 2
    return _erratum(
        "Algorithm 1, Case 2C", "each request gets fresh noise on the best recorded answer",
        "two requests at nearly one sigma, averaged, are better than either; many give the recorded answer away",
        recorded_sigma=best, asked_sigma=asked, sigma_of_the_mean_of_two=sqrt(variance),
        sigma_of_the_mean_of_fifty=sqrt(best**2 + (asked**2 - best**2) / 50),
    )  # fmt: skip


def _derivative() -> Erratum:
    wanted, old, r = 1.0, 2.0, 0.4
    slope = -2 * (r * old**2 - wanted**2) * (r - 1) / (r * r * old**2 - wanted**2) ** 2
    return _erratum(
        "Appendix A, Case 2", "the derivative is negative for r < sigma_m/sigma_j, and the optimum is "
        "(sigma_m/sigma_j)^2",
        "it is positive between the two; the optimum is right, the intervals are not",
        sigma_m=wanted, sigma_j=old, r=r, derivative=slope, optimum=(wanted / old) ** 2, printed_end=wanted / old,
    )  # fmt: skip


def _missing_root() -> Erratum:
    cost, delta = 4.0, 1e-4
    return _erratum(
        "Appendix C, proof of (5)", "Gaussian(sensitivity, epsilon_squared_cost, delta) = sigma",
        "its square root, as in Algorithm 1",
        epsilon_squared=cost, printed_sigma=classical(delta) / cost, sigma=classical(delta) / sqrt(cost),
    )  # fmt: skip


def _fifty_two_percent() -> Erratum:
    generator = np.random.default_rng(0)
    savings = []
    for _ in range(200):
        kinds, epsilons = generator.integers(0, 5, 150), generator.uniform(0.1, 1.1, 150)
        squares = (epsilons / np.array([classical(d) for d in generator.uniform(1e-5, 1e-4, 150)])) ** 2
        best = sum(squares[kinds == kind].max(initial=0.0) for kind in range(5))
        savings.append((1 - sqrt(best / squares.sum()), 1 - best / squares.sum()))
    epsilon, square = np.mean(savings, axis=0)
    return _erratum(
        "Section V-B, Figure 5", "about 52% less at 150 requests", "in no metric",
        saving_in_epsilon=float(epsilon), saving_in_squares=float(square), printed=0.52,
    )  # fmt: skip


P0: tuple[Callable[[], Erratum], ...] = (
    _screenshot_sensitivity, _screenshot_sum, _refusal_lowers, _classical_rule, _noise_on_chain, _blurs, _derivative,
    _missing_root, _fifty_two_percent,
)  # fmt: skip


# -- P1 ------------------------------------------------------------------------------------------


def _stray_half() -> Erratum:
    within, miss = 15.0, 0.2
    alpha = -log(miss) / within
    return _erratum(
        "Theorem 3.7, proof (eq. 40)", "P(|noise| <= epsilon) = 1 - exp(-epsilon alpha/(2 S))", "without the 1/2",
        epsilon=within, delta=miss, alpha=alpha, coverage=1 - exp(-within * alpha),
        coverage_by_eq_40=1 - exp(-within * alpha / 2),
    )  # fmt: skip


def _normalised() -> Erratum:
    grid = np.linspace(-40.0, 40.0, 8001)
    product = np.ones_like(grid)
    for place in (0.0, 1.0):
        product *= 0.5 * np.exp(-np.abs(place - grid))
    return _erratum(
        "Theorems 3.3 and 3.5 (eq. 37)", "the posterior is the product of f(observation - theta)/f(observation)",
        "the product must be divided by its integral: two observations 0 and 1 of Laplace noise of scale 1",
        integral_as_printed=float(product.sum() * (grid[1] - grid[0])), integral=1.0,
    )  # fmt: skip


def _regions() -> Erratum:
    total = sum(0.9 * 10.0 ** (-((j - 1) // 10)) for j in range(1, 101))
    return _erratum("Eq. 50", "P_j = .9 10^(-floor((j-1)/10)) are probabilities", "they add up to 10, not to 1",
                    sum_over_ten_cells=sum(0.9 for _ in range(10)), sum_over_100_cells=total)  # fmt: skip


def _interval_algorithm() -> Erratum:
    masses = {4: 0.1, 5: 0.6, 6: 0.2, 7: 0.1}
    a, b, mass = 5, 0, 0.0
    while mass < 0.8:
        if masses.get(a, 0.0) >= masses.get(a + b, 0.0):
            mass, a, b = mass + masses.get(a, 0.0), a - 1, b + 1
        else:
            mass, b = mass + masses.get(a + b, 0.0), b + 1
    return _erratum("Algorithm 4", "U <- b", "U <- a + b: as printed the upper end is a length",
                    posterior="4: .1, 5: .6, 6: .2, 7: .1", printed_interval=f"[{a}, {b}]",
                    interval=f"[{a + 1}, {a + b}]")  # fmt: skip


def _last_observation() -> Erratum:
    variances = (3400.0, 400.0, 2400.0)
    return _erratum(
        "Algorithm 3", "for i = 1; i < n", "i <= n: as printed the last observation is left out",
        precision_of_all_three=sum(1 / one for one in variances),
        precision_as_printed=sum(1 / one for one in variances[:-1]),
    )  # fmt: skip


def _cells_of_example() -> Erratum:
    x = [10, 21, 37, 20, 50, 40, 53, 0, 0]
    return _erratum("Theorem 3.8, example", "x_5 = 0 and x_6 = 0 by eq. 5", "eq. 5 has other counts there",
                    x_5=x[4], x_6=x[5], printed=0)  # fmt: skip


def _figure_5() -> Erratum:
    observations = np.array([73.34, 91.12, 78.46])
    right = _posterior(observations, ((40.0, 10.0), (10.0, 10.0), (20.0, 20.0, 20.0)))
    wrong = _posterior(observations, ((20.0, 10.0), (10.0, 10.0), (20.0, 20.0, 20.0)))
    return _erratum(
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
    return _erratum(
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
    return _erratum(
        "Section 3.3.2", "cells must be independent or negatively correlated",
        "one record is in one cell: the ratio of eq. 1 is bounded by that cell's sum whatever the other cells say",
        spent_by_cell=", ".join(f"{one:g}" for one in spent), bound=float(spent.max()),
    )  # fmt: skip


P1: tuple[Callable[[], Erratum], ...] = (
    _stray_half, _normalised, _regions, _interval_algorithm, _last_observation, _cells_of_example, _figure_5, _hardness,
    _independence,
)  # fmt: skip


# -- P3 ------------------------------------------------------------------------------------------


def _search(
    truth: float, accuracy: float = 0.95, default: float = 1.0, step: float = 0.0005, slack: float = 0.02
) -> float:
    """The epsilon that Algorithm 1 ends at, with the mean error 1/epsilon of Laplace noise."""
    steps = 0
    while abs(1 - 1 / ((default - steps * step) * truth) - accuracy) > slack + 1e-12:
        steps += 1
    return default - steps * step


def _published_epsilon() -> Erratum:
    found = {f"count_{count}": _search(float(count)) for count in (200, 201, 202)}
    return _erratum(
        "Algorithm 1, Definition 2", "each answer satisfies epsilon_sut-DP",
        "epsilon_sut is found by comparing with the true answer, and published: neighbouring tables publish different "
        "numbers",
        **found,
    )  # fmt: skip


def _empty_loop() -> Erratum:
    total, default = 8.0, 0.5
    return _erratum("Algorithm 1, line 1", "while i <= k and eps_t <= eps_def",
                    "eps_t >= eps_def: as printed the loop never begins", eps_t=total, eps_def=default,
                    condition_as_printed=total <= default)  # fmt: skip


def _endless_loop() -> Erratum:
    actual, required, slack, turns = 0.99, 0.95, 0.02, 0
    while abs(actual - required) > slack and turns < 1_000_000:
        turns += 1  # lines 16 to 18 change eps_sut only
    return _erratum("Algorithm 1, lines 16 to 18", "the inner loop lowers eps_sut until the accuracy fits",
                    "it never evaluates the accuracy again", turns_until_we_stopped=turns)  # fmt: skip


def _maximum() -> Erratum:
    one, other = [0, 0, 99_999], [0, 0]
    return _erratum("Algorithm 1 (sensitivity 1), Section IV", "Average, Maximum and Minimum have sensitivity 1",
                    "removing one person moves the maximum of capital gains by its range",
                    maximum=max(one), without_one_person=max(other), sensitivity=max(one) - max(other))  # fmt: skip


def _reuse_key() -> Erratum:
    ledger: dict[tuple[float, str, int], tuple[str, int]] = {}
    answers = {}
    for question, truth in (("people over 60", 2000), ("people in New York", 300)):
        key = (0.95, "Count", 1)
        answers[question] = ledger.setdefault(key, (question, truth))
    return _erratum("Algorithm 3", "reuse if accuracy, function and type match a record",
                    "two different questions can match", asked="people in New York",
                    gets_the_answer_of=answers["people in New York"][0])  # fmt: skip


def _query_types() -> Erratum:
    return _erratum("Section III-D and Section IV", "N = 0 is the whole data set (III-D); N = 0 is a portion (IV)",
                    "one contradicts the other", n_0_in_III_D="whole", n_0_in_IV="portion")  # fmt: skip


def _budget_of_table() -> Erratum:
    return _erratum("Table II, Section IV", "the total budget is 8", "its own columns for eps_def 1 spend more",
                    budget=8, BST=9 * 1.0, standard=10 * 1.0)  # fmt: skip


def _too_accurate() -> Erratum:
    actual, required, slack = 0.999, 0.95, 0.02
    return _erratum("Definition 3", "satisfactory if |A_act - A_req| <= tau",
                    "A_act >= A_req - tau: as printed a better answer does not satisfy",
                    A_act=actual, A_req=required, satisfies_as_printed=abs(actual - required) <= slack)  # fmt: skip


P3: tuple[Callable[[], Erratum], ...] = (
    _published_epsilon, _empty_loop, _endless_loop, _maximum, _reuse_key, _query_types, _budget_of_table, _too_accurate,
)  # fmt: skip


# -- P4 ------------------------------------------------------------------------------------------


def _three_outputs() -> Erratum:
    c, x = exp(1.0), -1.0
    a = _optimal_zero(1.0)
    rise, fall = (c - a) / (c + 1) - (1 - a) / 2, (1 - a) / 2 - (c - a) / (c * (c + 1))
    low, high, zero = (1 - a) / 2 + rise * x, (1 - a) / 2 + fall * x, a + (a / c - a) * x
    right = ((1 - a) / 2 + rise * 1.0, (1 - a) / 2 - fall * 1.0, a + (a / c - a) * 1.0)
    return _erratum(
        "Eq. 3.1 to 3.3 (Three-Outputs)", "probabilities of -C, C and 0 as printed", "|x| in place of x, and a "
        "minus in "
        "3.1: at epsilon 1 and x = -1 they do not add up to 1",
        sum_as_printed=low + high + zero, sum_corrected=sum(right),
    )  # fmt: skip


def _optimal_zero(epsilon: float) -> float:
    """P(0 | 0) by eq. 3.4."""
    from math import acos

    c = exp(epsilon)
    if c < 2:
        return 0.0
    if c > (3 + sqrt(65)) / 2:
        return c / (c + 2)
    d0 = c**4 + 14 * c**3 + 50 * c * c - 2 * c + 25
    d1 = -2 * c**6 - 42 * c**5 - 270 * c**4 - 404 * c**3 - 918 * c**2 + 30 * c - 250
    return -(-c * c - 4 * c - 5 + 2 * sqrt(d0) * cos(pi / 3 + acos(-d1 / (2 * d0**1.5)) / 3)) / 6


def _closed_form() -> Erratum:
    epsilon = log(2.0) / 2 + 1e-9
    c = exp(epsilon)
    q = float(np.cbrt(c**2 - c**4)) * 2 ** (2 / 3)
    root = sqrt(max(c * c + q, 0.0))
    inside = 2 * c * c - q - (4 * c - 2 * c**3) / root if root else float("nan")
    printed = -root / 2 + sqrt(max(inside, 0.0)) / 2 - c / 2
    low, high = 1e-9, c + 2
    for _ in range(200):
        t = (low + high) / 2
        low, high = (t, high) if t**4 + 2 * c * t**3 - 2 * c * t - c * c < 0 else (low, t)
    return _erratum(
        "Eq. 3.29 (PM-OPT)", "closed form for t", "right on paper; beside epsilon = ln sqrt 2 it divides by a "
        "difference "
        "that cancels", epsilon_less_ln_sqrt_2=1e-9, t_by_3_29=printed, t_by_root_finding=low,
    )  # fmt: skip


def _worst(epsilon: float, t: float) -> float:
    c = exp(epsilon)
    return (t + 1) / (c - 1) + (t + c) * ((t + 1) ** 3 + c - 1) / (3 * t * t * (c - 1) ** 2)


def _hybrid() -> Erratum:
    epsilon = 1.0
    c = exp(epsilon)
    x = np.linspace(0, 1, 2001)
    large, share = (c + 1) / (c - 1), 1 - exp(-epsilon / 2)
    h = exp(epsilon / 2)
    hm = share * (x**2 / (h - 1) + (h + 3) / (3 * (h - 1) ** 2)) + (1 - share) * (large**2 - x * x)
    a, t = _optimal_zero(epsilon), exp(epsilon / 3)
    top = c * (c + 1) / ((c - 1) * (c - a))
    three = top**2 * (1 - a) + top**2 * a * (1 - 1 / c) * x - x * x
    piece = (t + 1) / (c - 1) * x**2 + (t + c) * ((t + 1) ** 3 + c - 1) / (3 * t * t * (c - 1) ** 2)
    hmtp = min(float((beta * piece + (1 - beta) * three).max()) for beta in np.linspace(0, 1, 1001))
    return _erratum("Section 3.3.5, Figure 3.2", "HM-TP has the smallest worst-case variance", "HM beats it at "
    "epsilon 1",
                    HM=float(hm.max()), HM_TP=hmtp)  # fmt: skip


def _sampled() -> Erratum:
    d, epsilon = 16, 4.0

    def worst(k: int) -> float:
        each = epsilon / k
        return d / k * (_worst(each, exp(each / 3)) + 1) - 1

    return _erratum(
        "Eq. 3.35, Appendix A.20", "k = floor(epsilon/2.5) is optimal", "PM-SUB, d = 16, epsilon 4: k = 2 is "
        "better than "
        "the printed 1", worst_variance_k_1=worst(1), worst_variance_k_2=worst(2),
    )  # fmt: skip


def _interval_off_by_one() -> Erratum:
    m, p = 10, 0.1
    chance = (1 - p) ** m
    return _erratum(
        "Section 5.1.1, sortition", "j with hash in [F(j), F(j + 1))", "[F(j - 1), F(j)): as printed no j belongs to a "
        "hash below F(0), and everybody has one sub-user too few", m=m, p=p, share_without_a_j=chance,
    )  # fmt: skip


def _reputation_cycle() -> Erratum:
    reputation, rows = 5, [5]
    for _ in range(7):
        reputation = reputation + 1 if reputation < 5 else (0 if reputation == 5 else reputation - 1)
        rows.append(reputation)
    return _erratum(
        "Eq. 5.2", "reputations punish attackers", "whoever is below the average gains also when rejected: an "
        "attacker in "
        "every round", reputations=", ".join(map(str, rows)),
        rounds_with_a_gain=sum(b > a for a, b in pairwise(rows)),
    )  # fmt: skip


def _reputation_gap() -> Erratum:
    reputation, average = 6, Fraction(11, 2)
    covered = reputation < average or reputation == average or reputation >= average + 1
    return _erratum("Eq. 5.2", "four cases", "with an average that is no whole number a rejected member may have none",
                    reputation=reputation, average=float(average), has_a_case=covered)  # fmt: skip


def _coordinates() -> Erratum:
    features, epochs = 3920, 80
    return _erratum(
        "Section 5.1.3", "Laplace noise of scale 2 sqrt(N-1)/epsilon on each feature gives epsilon-DP",
        "for one feature of an image in one epoch; an image changes all of them, in every epoch",
        epsilon=2, epsilon_of_an_image_in_one_epoch=2 * features,
        epsilon_over_two_times_40_epochs=2 * features * epochs,
    )  # fmt: skip


def _images() -> Erratum:
    return _erratum("Section 5.3.1", "50,000 training images; ten participants with 6,000 each", "one of the two",
                    ten_times_6_000=10 * 6000, printed=50_000)  # fmt: skip


def _three_sigma() -> Erratum:
    return _erratum("Section 5.1.3", "2 sqrt(N-1)/epsilon >> 3 means epsilon << 16/3 (N = 64)", "2 sqrt(63)/3",
                    printed=16 / 3, right=2 * sqrt(63) / 3)  # fmt: skip


def _loss_probability() -> Erratum:
    mu, epsilon = 1.0, 1.0
    delta = float(gaussian_delta(Precision.ceil(Fraction(1)), Fraction(1)))
    exceeds = 0.5 * (1 + erf((mu / 2 - epsilon / mu) / sqrt(2)))
    return _erratum(
        "Section 1.2.2 (and P0, Section I)", "except with probability delta the ratio is at most e^epsilon",
        "(epsilon, delta) is less than that: at mu = 1 and epsilon = 1 the loss exceeds epsilon more often than delta",
        delta=delta, chance_of_a_larger_loss=exceeds,
    )  # fmt: skip


P4: tuple[Callable[[], Erratum], ...] = (
    _three_outputs, _closed_form, _hybrid, _sampled, _interval_off_by_one, _reputation_cycle, _reputation_gap,
    _coordinates, _images, _three_sigma, _loss_probability,
)  # fmt: skip
