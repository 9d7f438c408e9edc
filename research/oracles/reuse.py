"""P0: Table II, Figure 5, blurs, low bits and utility, by themselves."""

from __future__ import annotations

from math import sqrt

import numpy as np

from research.oracles.gaussian import classical, epsilon_of, mu_of

Values = dict[str, tuple[float, float]]
"""A number by its name: value, and its own standard error (0: exact)."""
TYPES = (1, 2, 3, 1, 2, 1, 3, 2, 2, 1, 2, 1, 3)
SIGMAS = (1, 3, 2, 2.5, 2, 0.5, 2, 2.5, 1.5, 0.25, 1, 0.75, 1.5)


def table2(quick: bool) -> Values:
    """Cumulative precision by Algorithm 1, and by least squares on all answers of a type (the same number)."""
    best: dict[int, float] = {}
    total, rows = 0.0, {}
    for number, (kind, sigma) in enumerate(zip(TYPES, SIGMAS, strict=True), 1):
        precision = 1 / sigma**2
        total += max(0.0, precision - best.get(kind, 0.0))
        best[kind] = max(precision, best.get(kind, 0.0))
        rows[f"cumulative precision after Q{number}"] = (total, 0.0)
        rows[f"the same by inference after Q{number}"] = (sum(best.values()), 0.0)
    rows["naive precision"] = (sum(1 / sigma**2 for sigma in SIGMAS), 0.0)
    rows["cases as printed"] = (float(len(TYPES)), 0.0)
    return rows


def _run(seed: int, low: float, high: float) -> tuple[float, float, list[int], np.ndarray]:
    """Squares of mu with reuse and without, cases, and the saving after each request."""
    generator = np.random.default_rng(seed)
    kinds, epsilons = generator.integers(0, 5, 150), generator.uniform(0.1, 1.1, 150)
    squares = (epsilons / np.sqrt(2 * np.log(1.25 / generator.uniform(low, high, 150)))) ** 2
    best, paid, cases = np.zeros(5), 0.0, [0, 0, 0, 0]
    course = []
    for kind, square in zip(kinds, squares, strict=True):
        if best[kind] == 0:
            cases[0] += 1
        elif square == best[kind]:
            cases[1] += 1
        elif square > best[kind]:
            cases[2] += 1
        else:
            cases[3] += 1
        paid += max(0.0, square - best[kind])
        best[kind] = max(best[kind], square)
        course.append(paid)
    return paid, float(squares.sum()), cases, 1 - np.sqrt(np.array(course) / np.cumsum(squares))


def figure5(quick: bool) -> Values:
    """150 requests, over seeds."""
    seeds, scale = 300 if quick else 3000, classical(1e-4)
    runs = [_run(seed, 1e-5, 1e-4) for seed in range(seeds)]
    bank, naive = (
        np.sqrt(np.array(squares)) * scale for squares in ([run[0] for run in runs], [run[1] for run in runs])
    )
    saving = 1 - bank / naive
    rows: Values = {}
    for name, values in (("epsilon with reuse", bank), ("epsilon naive", naive), ("saving", saving)):
        error = float(values.std()) / sqrt(seeds)
        rows[f"P0 {name}, mean"] = (float(values.mean()), error)
        for share, word in ((0.05, "5%"), (0.95, "95%")):
            rows[f"P0 {name}, {word}"] = (float(np.quantile(values, share)), 2.1 * error)
    squares = 1 - (bank / naive) ** 2
    rows["P0 saving of squares"] = (float(squares.mean()), float(squares.std()) / sqrt(seeds))
    for name, values in (("with reuse", bank), ("naive", naive)):
        exact = np.array([epsilon_of(value / scale, 1e-4) for value in values[:300]])
        rows[f"P0 exact epsilon {name}"] = (float(exact.mean()), float(exact.std()) / sqrt(len(exact)))
    for place, name in enumerate(("first answers", "repeats", "refinements", "blurs")):
        counts = np.array([run[2][place] for run in runs], dtype=float)
        rows[f"P0 {name}"] = (float(counts.mean()), float(counts.std()) / sqrt(seeds))
    means = np.mean([run[3] for run in runs], axis=0)
    rows["P0 requests at which 52% is reached"] = (float(np.argmax(means > 0.52)) + 1, 0.5)
    other = [_run(seed, 1e-7, 1e-5) for seed in range(seeds)]
    for name, ends in (("epsilon with reuse", [run[0] for run in other]), ("epsilon naive", [run[1] for run in other])):
        values = np.sqrt(np.array(ends)) * scale
        rows[f"P4 {name}"] = (float(values.mean()), float(values.std()) / sqrt(seeds))
    return rows


def queries_that_fit(quick: bool) -> Values:
    """Different queries within (8, 1e-4): squares of mu add up to what the exact conversion allows."""
    limit, rows = mu_of(8.0, 1e-4) ** 2, {}
    for name, seeds in (("classical", 200 if quick else 1000), ("analytic", 20 if quick else 60)):
        counts = []
        for seed in range(seeds):
            generator = np.random.default_rng(seed)
            epsilons, deltas = generator.uniform(0.1, 1.1, 400), generator.uniform(1e-5, 1e-4, 400)
            if name == "classical":
                squares = (epsilons / np.sqrt(2 * np.log(1.25 / deltas))) ** 2
            else:
                squares = np.array([mu_of(e, d) ** 2 for e, d in zip(epsilons[:160], deltas[:160], strict=True)])
            counts.append(int(np.searchsorted(np.cumsum(squares), limit, side="right")))
        error = float(np.std(counts)) / sqrt(seeds)
        rows[f"different queries that fit, {name}, mean"] = (float(np.mean(counts)), error)
        for share, word in ((0.05, "5%"), (0.95, "95%")):
            rows[f"different queries that fit, {name}, {word}"] = (float(np.quantile(counts, share)), 2.1 * error)
    return rows


def blurs(quick: bool) -> Values:
    """Fifty blurs of sigma 3.50 to 3.01 on a record of sigma 1: fresh noise each, or a bridge, whose best is its last;
    and fifty of sigma 3, averaged."""
    precisions = [1 / ((3.5 - 0.01 * place) ** 2 - 1) for place in range(50)]
    return {
        "noise after averaging 50 blurs, paper's rule": (sqrt(1 + 1 / sum(precisions)), 0.0),
        "noise after averaging 50 blurs, bridge": (3.5 - 0.01 * 49, 0.0),
        "noise after averaging 50 stale blurs": (sqrt(1 + 8 / 50), 0.0),
    }


def low_bits(quick: bool) -> Values:
    """How often 0 + and 1 + float noise lie on the grid of 2^-53: the difference is an attacker's advantage."""
    draws = 200_000 if quick else 1_000_000
    shares = []
    for truth, seed in ((0.0, 1), (1.0, 2)):
        values = truth + np.random.default_rng(seed).normal(size=draws) * sqrt(8)
        shares.append(float((np.mod(values * 2.0**53, 1) == 0).mean()))
    return {"advantage from low bits, float blur": (abs(shares[1] - shares[0]), sqrt(0.5 / draws))}


def utility(quick: bool) -> Values:
    """alpha = 2 sigma by the classical rule at delta 1e-5."""
    sensitivities = {"average personal income": 202.0, "average family income": 404.0, "frequency of citizens": 2e-4,
                     "frequency of white": 2e-4, "frequency of over 60": 2e-4}  # fmt: skip
    return {
        f"alpha of {name} at epsilon {epsilon}": (2 * classical(1e-5) * sensitivity / epsilon, 0.0)
        for name, sensitivity in sensitivities.items()
        for epsilon in range(1, 9)
    }
