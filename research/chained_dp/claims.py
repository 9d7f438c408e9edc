"""What the Chained-DP paper claims, beside what holds: a number for each, computed here."""

from __future__ import annotations

from fractions import Fraction
from math import erf, log, sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.core.units import Precision
from noisebank.federated.relay import collusion, game
from noisebank.federated.relay.remedies import ever_exposed
from noisebank.privacy.calibration import account_epsilon, gaussian_delta

DELTA = Fraction(1, 10**5)


def claims(draws: int) -> list[dict[str, Any]]:
    """One row a claim: where it stands, what it says, what holds, and a number for both."""
    betas = simulation_rng(7).uniform(0.0, 1.3, (draws, 10))
    return [
        _error_bound(), _two_costs(), _nash(), _first_cost(), _fairness(betas), _preference_or_weight(), _optimum(),
        _anarchy(betas), _truthful(), _pseudocode(), _sensitivity(), _parallel(), _classical(), _collusion(),
        _failure(), _published(), _stale(), _slice_sensitivity(), _large_sequences(),
    ]  # fmt: skip


def _claim(where: str, claimed: str, holds: str, paper: object, ours: object) -> dict[str, Any]:
    return {"where": where, "claimed": claimed, "holds": holds, "paper": paper, "ours": ours}


def _error_bound() -> dict[str, Any]:
    return _claim(
        "eq. 10", "the squared error of the mean is at most the sum of the variances",
        "it is d/K^2 times that sum on average: more as soon as d > K^2, as with d = 50 and K = 3 in Figure 7",
        {"d 2, K 1, variance 1: at most": 1.0},
        {"d 2, K 1, variance 1": 2.0, "d 50, K 3: times the sum": _four(50 / 9)},
    )  # fmt: skip


def _two_costs() -> dict[str, Any]:
    beta = 2.0
    return _claim(
        "eq. 14 and 15", "the cost is accuracy + alpha privacy (14), or beta accuracy + privacy (15)",
        "eq. 14, with alpha = beta^(3/2): it alone has the best response m beta of Lemma 1",
        {"best response at beta 2 by eq. 15": _four((1 / (2 * beta)) ** (2 / 3))},
        {"m beta": _four(game.TOP_UP * beta)},
    )  # fmt: skip


def _first_cost() -> dict[str, Any]:
    users, betas = 10, np.linspace(0.01, 3.0, 3000)
    printed = float(betas[int(np.argmin(betas**-0.5 + users * betas))])
    return _claim(
        "eq. 21", "user 1 pays beta_1/sigma_1 + K sigma_1^2 beyond the equilibrium, least at m beta_1",
        "alpha_1/sigma_1 + sigma_1^2, once: accuracy is not paid K times",
        {"beta 1, K 10: least at": _four(printed)}, {"beta 1: least at m": _four(game.TOP_UP)},
    )  # fmt: skip


def _preference_or_weight() -> dict[str, Any]:
    beta = 2.0
    return _claim(
        "eq. 22, 23, 25, 26", "the weight of privacy is beta",
        "it is alpha = beta^(3/2) (eq. 14 and Lemma 1); they agree at beta = 1 only",
        {"cost of the largest, beta 2, by eq. 25": _four(2 ** (1 / 3) * sqrt(beta) + game.TOP_UP * beta)},
        {"cost": _four(float(game.relay_costs([beta], [game.TOP_UP * beta])[0]))},
    )  # fmt: skip


def _slice_sensitivity() -> dict[str, Any]:
    users, slices = 10, 10
    return _claim(
        "Section VI-B", "a slice has sensitivity of the order sqrt(K/N) of the vector's",
        "sqrt(1/N): the number of users does not enter",
        {"K 10, N 10": _four(sqrt(users / slices))}, {"N 10": _four(sqrt(1 / slices))},
    )  # fmt: skip


def _nash() -> dict[str, Any]:
    betas = [0.5, 1.0]
    printed = game.subgame_perfect(betas)
    stays, moves = game.relay_costs(betas, printed)[0], game.relay_costs(betas, [game.TOP_UP * 0.5, 0.0])[0]
    return _claim(
        "Theorem 1",
        "(m max beta, 0, ..., 0) is a Nash equilibrium",
        "it is the outcome of subgame-perfect play; with the others fixed user 1 gains by adding less, and the "
        "equilibrium is the running maximum",
        {"user 1 pays": _four(stays), "is Nash": game.is_nash(betas, printed)},
        {
            "user 1 could pay": _four(moves),
            "running maximum is Nash": game.is_nash(betas, game.nash_equilibrium(betas)),
        },
    )


def _fairness(betas: Any) -> dict[str, Any]:
    paid = game.relay_costs(betas, game.subgame_perfect(betas))
    return _claim(
        "Theorem 3", "all users' costs are equal", "they differ: the noise is shared, the preference is not",
        1.0, {"largest/smallest cost, mean over draws": _four(float((paid.max(axis=1) / paid.min(axis=1)).mean()))},
    )  # fmt: skip


def _optimum() -> dict[str, Any]:
    betas = np.array([2.0, 6.0, 13.0])
    printed = np.array([game.TOP_UP * betas.mean() ** (2 / 3), 0.0, 0.0])
    return _claim(
        "proof of Theorem 5", "central optimum m (mean beta)^(2/3)", "m (mean beta^(3/2))^(2/3)",
        {"total cost at beta 2, 6, 13": _four(game.relay_costs(betas, printed).sum())},
        {"total cost at beta 2, 6, 13": _four(game.relay_costs(betas, game.central_optimum(betas)).sum())},
    )  # fmt: skip


def _anarchy(betas: Any) -> dict[str, Any]:
    prices = game.price_of_anarchy(betas)
    fails = float((prices >= game.printed_anarchy_bound(betas)).mean())
    close = np.linspace(0.9, 1.0, 10)
    return _claim(
        "eq. 29", "price of anarchy below max/(K min)",
        "below max/min, and at most (K^(2/3) + 2 K^(-1/3))/3; printed bound is below 1 for similar users",
        {"fails in a share of draws": _four(fails), "bound for beta .9 .. 1": _four(game.printed_anarchy_bound(close))},
        {"price for beta .9 .. 1": _four(game.price_of_anarchy(close)), "limit, K 10": _four(game.anarchy_limit(10))},
    )  # fmt: skip


def _truthful() -> dict[str, Any]:
    bids, others = np.linspace(0.05, 3.0, 600), [0.4]
    paid = [game.bid_cost(1.0, float(bid), others) for bid in bids]
    points = np.linspace(0.05, 60.0, 6000)
    printed = float(points[int(np.argmin(1.0 / np.sqrt(game.TOP_UP * points) + game.TOP_UP * points / 100))])
    return _claim(
        "Theorem 2", "f(x) = beta (m x)^(-1/2) + m x/K^2 is least at x = beta",
        "that f is least at (beta K^2)^(2/3); with alpha = beta^(3/2) and no K^2 bidding beta is best, if the "
        "mechanism fixes the noise", {"beta 1, K 10: least at": _four(printed)},
        {"beta 1: cheapest bid": _four(float(bids[int(np.argmin(paid))]))},
    )  # fmt: skip


def _pseudocode() -> dict[str, Any]:
    return _claim(
        "Mechanism 1, Protocol 2", "S <- x + noise; inx <- inx + 1; reshuffle while the first has the largest bid",
        "S must accumulate; inx must advance by l; with equal bids the loop never ends: one counts as the largest",
        {"slices of d = 10, N = 3 cover": 4 + 2}, {"cover": 10},
    )  # fmt: skip


def _sensitivity() -> dict[str, Any]:
    variance = game.TOP_UP * 1.3 * 10 / 11
    printed = sqrt(50 / variance) * sqrt(2 * log(1.25 / float(DELTA)))
    return _claim(
        "Section IV", "a vector in [-1, 1]^d has sensitivity sqrt(d)",
        "2 sqrt(d): two vectors differ by up to 2 in each coordinate; the default preferences protect nobody",
        {"epsilon at d = 50": _four(printed)}, {"epsilon at d = 50": _four(_epsilon(200 / variance))},
    )  # fmt: skip


def _parallel() -> dict[str, Any]:
    variance = game.TOP_UP * 1.3 * 10 / 11
    return _claim(
        "Theorems 6 to 8", "slices of a vector are disjoint data: the whole costs what one slice costs",
        "all slices of a vector change with its person: mu^2 adds, mu = 2 sqrt(d)/sigma whatever the slicing",
        {"epsilon of one scalar slice": _four(_epsilon(4 / variance)),
         "eq. 30 as printed": _four(2 * log(1.30 / float(DELTA)) / variance)},
        {"epsilon of the vector, d = 50, any N": _four(_epsilon(200 / variance))},
    )  # fmt: skip


def _classical() -> dict[str, Any]:
    square = Fraction((10.0 / sqrt(2 * log(1.25 / float(DELTA)))) ** 2)
    true = gaussian_delta(Precision.floor(square), Fraction(10))
    return _claim(
        "Definition 2", "sigma = (sensitivity/eps) sqrt(2 ln(1.25/delta)) for any eps",
        "not from eps of about 8 on; Figure 3 needs 8 to 76",
        {"delta claimed at eps 10": float(DELTA)}, {"delta at eps 10": float(f"{float(true):.3g}")},
    )  # fmt: skip


def _collusion() -> dict[str, Any]:
    return _claim(
        "eq. 32", "strong attackers: 1 + q^(K-1) - 2(1 - q^(K-1))/(K q)", "1 + q^(K-1) - 2(1 - q^K)/(K p)",
        {f"K 10, p {p:g}": _four(collusion.printed_strong_chance(10, p)) for p in (0.1, 0.99)},
        {f"K 10, p {p:g}": _four(collusion.strong_chance(10, p)) for p in (0.1, 0.99)},
    )  # fmt: skip


def _failure() -> dict[str, Any]:
    found = float(gaussian_delta(Precision.ceil(Fraction(1)), Fraction(1)))
    exceeds = 0.5 * (1.0 - erf(0.5 / sqrt(2.0)))
    return _claim(
        "Section VI", "(eps, delta) means eps-private with probability 1 - delta; chances of collusion go into delta",
        "it does not: at mu = 1, eps = 1 the loss exceeds eps with another chance; collusion shows the slice itself",
        {"delta": _four(found)}, {"P(loss > eps)": _four(exceeds)},
    )  # fmt: skip


def _published() -> dict[str, Any]:
    return _claim(
        "Section VI", "only the members around a user matter",
        "if the mean is published, user K-1 computes x_K; a curious server and anyone before a user suffice",
        {"strong, corrected, K 10, p .1": _four(collusion.strong_chance(10, 0.1))},
        {"chance with the sum known": _four(collusion.published_chance(10, 0.1))},
    )  # fmt: skip


def _stale() -> dict[str, Any]:
    chance, skip = collusion.strong_chance(10, 0.1), 0.3
    return _claim(
        "Section VI", "past or zero slices with probability p_p lower the chance of exposure by that share",
        "zeros do; a past slice is exposed a round later instead, and its vector is paid for twice",
        {"p_p .3": _four((1.0 - skip) * chance)},
        {f"p_p .3, {kind}": _four(ever_exposed(chance, skip, kind)) for kind in ("zeros", "past")},
    )  # fmt: skip


def _large_sequences() -> dict[str, Any]:
    ratio = [float(game.TOP_UP * 0.65 / k / (game.TOP_UP * 1.3 / (k * (k + 1)))) for k in (10, 100)]
    return _claim(
        "Section VII, Figure 7", "with many users the two methods tend to be consistent",
        "both errors vanish, their ratio grows like (K + 1)/2", {"LDP/Chained at K = 100": "about 1"},
        {"LDP/Chained at K = 10": _four(ratio[0]), "at K = 100": _four(ratio[1])},
    )  # fmt: skip


def _epsilon(square: float) -> float:
    return float(account_epsilon(Precision.ceil(Fraction(square)), DELTA))


def _four(value: Any) -> float:
    return float(f"{float(value):.4g}")
