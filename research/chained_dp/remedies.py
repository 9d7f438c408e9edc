"""SAR's remedies and our repairs, measured: what each buys and what it costs."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.relay import collusion, game
from noisebank.federated.relay.grid import BID_UNITS
from noisebank.federated.relay.guarantee import compute_guarantee, list_coalitions
from noisebank.federated.relay.plan import MemberEntry, make_plan, seed_commitment
from noisebank.federated.relay.remedies import ever_exposed, may_join, past_error, reclip_slices, skip_error, slice_norm
from noisebank.federated.relay.terms import RelayTerms, min_variance

USERS, DIMENSION, DELTA = 10, 50, Fraction(1, 10**5)
COLLUDES = 0.1
"""Chance of each other member."""
DRIFTS = {"vectors stay close": (0.9, 0.0), "unrelated rounds": (0.0, 0.0), "all move by .2": (0.9, 0.2)}
"""Correlation of a user's number between two rounds, and what everybody's number moves by."""


def remedies(draws: int) -> dict[str, Any]:
    """Each with its effect."""
    return {
        "join below the threshold": joining(min(draws, 2000)),
        "zeros with probability p": {f"{skip:g}": skipping(skip, draws) for skip in (0.1, 0.3, 0.5)},
        "past slices with probability p": {f"{skip:g}": stale(skip, draws) for skip in (0.1, 0.3, 0.5)},
        "re-clip each slice": {f"N = {slices}": reclipping(slices, min(draws, 2000)) for slices in (1, 5, 10, 50)},
        "exposed slices, K 10, p .1": {f"N = {slices}": any_slice(slices, min(draws, 4000)) for slices in (1, 5, 50)},
    }  # fmt: skip


def joining(draws: int) -> dict[str, Any]:
    """Suspicions uniform on [0, .2]: those above the threshold for the members that stay send alone, with their own
    noise. Members leave one after another, the most suspicious first, until all who stay may."""
    made = simulation_rng(31)
    before, after, share, worse = [], [], [], []
    for _ in range(draws):
        betas, doubts = made.uniform(0.0, 1.3, USERS), made.uniform(0.0, 0.2, USERS)
        order = np.argsort(doubts)
        stay = USERS
        while stay > 2 and not may_join(float(doubts[order[stay - 1]]), stay, "weak"):
            stay -= 1
        inside = order[:stay]
        before.append(np.mean([collusion.weak_chance(USERS, float(p)) for p in doubts]))
        after.append(np.mean([collusion.weak_chance(stay, float(p)) for p in doubts[inside]]))
        share.append(stay / USERS)
        alone = betas.sum() - betas[inside].sum()
        worse.append((betas[inside].max() + alone) / betas.max())
    return {
        "exposure before": _four(np.mean(before)),
        "exposure of those who stay": _four(np.mean(after)),
        "share that stays": _four(np.mean(share)),
        "error, times": _four(np.mean(worse)),
    }


def skipping(skip: float, draws: int) -> dict[str, Any]:
    """Exposure of a fresh slice falls by the factor 1 - p; the error of the mean grows by far more than the noise."""
    made = simulation_rng(32)
    x = made.uniform(-1.0, 1.0, (draws, USERS))
    kept = x * (made.random((draws, USERS)) >= skip) / (1.0 - skip)
    measured = float(np.square(kept.mean(axis=1) - x.mean(axis=1)).mean())
    return {
        "exposure, strong, p_k .1": _four((1.0 - skip) * collusion.strong_chance(USERS, COLLUDES)),
        "exposure without": _four(collusion.strong_chance(USERS, COLLUDES)),
        "exposure, measured": _four(exposed_over_rounds(skip, "zeros", draws)["in any round"]),
        "added error, measured": _four(measured),
        "added error, expected": _four(skip_error(skip, 1.0 / 3.0, USERS)),
        "relay's own error": _four(game.TOP_UP * 1.3 / (USERS * (USERS + 1))),
    }


def stale(skip: float, draws: int) -> dict[str, Any]:
    """A slice of the round before in a fresh one's place. The fresh slice is exposed less often in its own round and
    makes up for it in the next; the error depends on how far vectors move; a vector may be paid for in two rounds."""
    chance = collusion.strong_chance(USERS, COLLUDES)
    seen = exposed_over_rounds(skip, "past", draws)
    moved = {name: _drift_error(skip, *drift, draws) for name, drift in DRIFTS.items()}
    return {
        "exposure in its own round, expected": _four((1.0 - skip) * chance),
        "exposure in its own round, measured": _four(seen["in its own round"]),
        "exposure in any round, expected": _four(ever_exposed(chance, skip, "past")),
        "exposure in any round, measured": _four(seen["in any round"]),
        "exposure without": _four(chance),
        "added error, measured": {name: _four(row[0]) for name, row in moved.items()},
        "added error, expected": {name: _four(row[1]) for name, row in moved.items()},
        "added error of zeros": _four(skip_error(skip, 1.0 / 3.0, USERS)),
        "precision of one vector, times, at worst": 2,
    }


def exposed_over_rounds(skip: float, instead: str, draws: int) -> dict[str, float]:
    """How often a slice lies bare between colluders: in the round that it belongs to, and in that or the next one.
    Places, colluders and coins are drawn anew each round; in the second round the slice is there only as a past one."""
    made, hits = simulation_rng(35), []
    for sent in (1.0 - skip, skip if instead == "past" else 0.0):
        place = made.integers(0, USERS, draws)
        bad = made.random((draws, USERS - 1)) < COLLUDES
        before = np.arange(USERS - 1)[None] < place[:, None]
        hits.append((bad & before).any(axis=1) & (bad & ~before).any(axis=1) & (made.random(draws) < sent))
    return {"in its own round": float(hits[0].mean()), "in any round": float((hits[0] | hits[1]).mean())}


def _drift_error(skip: float, correlation: float, common: float, draws: int) -> tuple[float, float]:
    """Measured and expected. Numbers have mean square 1/3, as uniform ones on [-1, 1] have, in both rounds."""
    made = simulation_rng(36)
    old = made.normal(0.0, sqrt(1.0 / 3.0), (draws, USERS))
    own = made.normal(0.0, sqrt((1.0 - correlation**2) / 3.0), (draws, USERS))
    new = correlation * old + own + common
    sent = np.where(made.random((draws, USERS)) < skip, old, new)
    measured = float(np.square(sent.mean(axis=1) - new.mean(axis=1)).mean())
    return measured, past_error(skip, 2.0 * (1.0 - correlation) / 3.0, USERS, common)


def reclipping(slices: int, draws: int) -> dict[str, Any]:
    """Vectors of norm 1, d = 50, each slice cut to 1/sqrt(N). What is lost, for even and for uneven vectors."""
    made = simulation_rng(33)
    terms = RelayTerms(DIMENSION, mode="sar", slices=slices)
    norm = slice_norm(1.0, slices)
    even = made.normal(size=(draws, DIMENSION))
    uneven = even * np.exp(-np.arange(DIMENSION) / 5.0)
    lost = {}
    for name, raw in (("even", even), ("uneven", uneven)):
        unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        cut = np.array([reclip_slices(row, terms.slice_ranges, norm) for row in unit])
        lost[name] = float(np.square(cut - unit).sum(axis=1).mean())
    return {
        "squared length lost, even": _four(lost["even"]),
        "squared length lost, uneven": _four(lost["uneven"]),
        "sensitivity of a slice": _four(2.0 * norm),
        "sensitivity of the whole": _four(2.0 * norm * sqrt(slices)),
    }


def any_slice(slices: int, draws: int) -> dict[str, Any]:
    """Colluders are the same for all slices: how often some slice, or every slice, lies between two of them."""
    made = simulation_rng(34)
    some = every = 0
    for _ in range(draws):
        bad = int(made.binomial(USERS - 1, 0.1))
        if bad < 2:
            continue
        places = np.argsort(
            made.random((slices, USERS)), axis=1
        )  # row: a random place for each; column 0 is the victim
        hit = (places[:, 1 : bad + 1].min(axis=1) < places[:, 0]) & (places[:, 0] < places[:, 1 : bad + 1].max(axis=1))
        some += bool(hit.any())
        every += bool(hit.all())
    return {
        "any": _four(some / draws),
        "all": _four(every / draws),
        "one slice": _four(collusion.strong_chance(USERS, COLLUDES)),
    }


def repairs(goal: int = 4) -> dict[str, Any]:
    """K = 10, d = 50, noise sized so that the server and a neighbour learn epsilon `goal` of a whole vector: what each
    coalition learns, and the error. The relay's promises end where two members talk; masked ones do not."""
    least = min_variance(Fraction(goal), DELTA, DIMENSION, 1).limit_denominator(10**6) + Fraction(1, 10**6)
    kinds = {
        "relay (BAS)": RelayTerms(DIMENSION, mode="bas", least=least, delta=DELTA, attempts=1),
        "relay, floor of a tenth": RelayTerms(
            DIMENSION, mode="bas", least=least, floor=least / 10, delta=DELTA, attempts=1
        ),
        "masked, no colluders": RelayTerms(DIMENSION, least=least, delta=DELTA, attempts=1),
        "masked, 3 colluders": RelayTerms(DIMENSION, least=least, colluders=3, delta=DELTA, attempts=1),
    }
    found: dict[str, Any] = {"goal epsilon": goal, "delta": float(DELTA)}
    for name, terms in kinds.items():
        plan = _plan(terms)
        middle = plan.chains[0].order[USERS // 2] if plan.chains else plan.members[0].address
        rows = {
            str(trust): compute_guarantee([plan], middle, trust)
            for trust in list_coalitions(RelayTerms(1, colluders=3), USERS)
        }
        found[name] = {
            "mse": _four(float(plan.variance) / USERS**2),
            "epsilon": {trust: None if row.loss is None else _four(row.epsilon) for trust, row in rows.items()},
        }
    found["everyone alone (LDP)"] = {
        "mse": _four(float(least) / USERS),
        "epsilon": dict.fromkeys(
            (str(trust) for trust in list_coalitions(RelayTerms(1, colluders=3), USERS)), float(goal)
        ),
    }
    return found


def _plan(terms: RelayTerms) -> Any:
    """A plan over ten made-up members."""
    seeds = [bytes([number]) * 32 for number in range(USERS)]
    members = [
        MemberEntry(f"0x{number:040x}", f"127.0.0.1:{7000 + number}", BID_UNITS, seed_commitment(seed), seed)
        for number, seed in enumerate(seeds)
    ]
    return make_plan(terms, "experiment", 1, members, seeds, b"")


def _four(value: Any) -> float:
    return float(f"{float(value):.4g}")
