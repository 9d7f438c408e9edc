"""P4, chapter 5: figures 5.10 and 5.11, rewards and reputations, and what Multi-KRUM does to honest members."""

from __future__ import annotations

from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.blockfl.krum import compute_scores
from noisebank.federated.blockfl.models import FIXED_POINT_SCALE, to_fixed_point
from noisebank.federated.blockfl.reputation import (
    INITIAL_REPUTATION,
    apply_printed_rule,
    apply_repaired_rule,
    simulate_reputation,
)
from research.blockfl.chapter5 import NO_INCENTIVE, SEQUENCES, incentives
from research.papers.charts import BLUE, GREEN, GREY, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number

MEMBERS, BYZANTINE, ROUNDS, DIMENSION = 6, 1, 10, 50
KRUM_VALUES, KRUM_SCORES = (0.0, 0.1, 0.2, 0.3, 0.4, 10.0), (0.14, 0.06, 0.06, 0.06, 0.14, 282.29)


def run(quick: bool, moved: Moved) -> Found:
    """The sequences of the thesis, and crowds in which everybody is honest."""
    trials = 100 if quick else 1000
    ends, wiped, rejected = [], 0, 0
    for seed in range(trials):
        reputations, fallen, refused = _honest_crowd(seed)
        ends += reputations
        wiped += fallen
        rejected += refused
        moved(seed + 1, trials)
    rated = compute_scores([to_fixed_point(np.array([x])) for x in KRUM_VALUES], BYZANTINE)
    return {
        "incentives": incentives(),
        "krum": [score / FIXED_POINT_SCALE**2 for score in rated],
        "honest": {
            "trials": trials,
            "rejected in a round": rejected / (trials * ROUNDS),
            "reputation after ten rounds, mean": float(np.mean(ends)),
            "crowds in which an honest member fell to 0": wiped / trials,
        },
        "printed, always attacking": simulate_reputation(apply_printed_rule, range(1, ROUNDS + 1))[0],
    }


def _honest_crowd(seed: int) -> tuple[list[int], bool, int]:
    """Ten rounds of six honest members whose updates scatter alike; f = 1."""
    generator = simulation_rng(5000 + seed)
    reputations, fallen, refused = [INITIAL_REPUTATION] * MEMBERS, False, 0
    for _ in range(ROUNDS):
        updates = [to_fixed_point(row) for row in generator.normal(0.0, 0.1, (MEMBERS, DIMENSION))]
        scores = compute_scores(updates, BYZANTINE)
        accepted = set(sorted(range(MEMBERS), key=lambda place: scores[place])[: MEMBERS - BYZANTINE])
        refused += MEMBERS - len(accepted)
        average = sum(reputations) // MEMBERS
        reputations = [apply_repaired_rule(one, place in accepted, average) for place, one in enumerate(reputations)]
        fallen = fallen or 0 in reputations
    return reputations, fallen, refused


def here(found: Found) -> str:
    """In words."""
    honest = found["honest"]
    return (
        "Rewards and reputations are the printed sequences. But Multi-KRUM rejects "
        f"{honest['rejected in a round']:.0f} of {MEMBERS} members in every round, also where all are honest: an "
        f"honest "
        f"member fell to reputation 0 in {honest['crowds in which an honest member fell to 0']:.0%} of "
        f"{honest['trials']} honest crowds, and the mean after ten rounds is "
        f"{honest['reputation after ten rounds, mean']:.1f}, not 15. As printed, an attacker in every round gains "
        f"in most of them: {', '.join(map(str, found['printed, always attacking'][:7]))}, ..."
    )


def numbers(found: Found) -> list[Number]:
    """The sequences by eq. 5.2, and the scores of six numbers by eq. 5.1."""
    rows = [
        Number(f"Multi-KRUM, score of {value:g}", ours, expected, 0.005)
        for value, ours, expected in zip(KRUM_VALUES, found["krum"], KRUM_SCORES, strict=True)
    ]
    for name, (_, reputations, rewards) in SEQUENCES.items():
        for title in ("as printed", "repaired"):
            row = found["incentives"][f"{name}, {title}"]
            for what, expected in (("reputation", reputations), ("reward", rewards)):
                off = sum(ours != one for ours, one in zip(row[what], expected, strict=True))
                rows.append(Number(f"{name}, {title}: {what}s that differ", off, 0, 0))
    rows.append(Number("honest members rejected in a round, f = 1", found["honest"]["rejected in a round"], 1, 0))
    return rows


def draw(found: Found) -> Any:
    """Rewards, reputations, and the fate of honest members."""
    drawn = figure(10.6, 4.6)
    left, right = drawn.subplots(1, 2)
    share = found["honest"]["crowds in which an honest member fell to 0"]
    headline(
        drawn,
        f"Attacking costs reputation; so does bad luck: in {share:.0%} of honest crowds somebody falls to 0",
        f"Six members, f = 1, ten rounds. P4, figures 5.10 and 5.11. {found['honest']['trials']} honest crowds.",
    )
    styles = {"honest": (BLUE, "-", "o"), "attack in round 1": (ORANGE, "--", "s"),
              "attack in round 4": (GREEN, "-.", "^")}  # fmt: skip
    rounds = list(range(1, ROUNDS + 1))
    dress(left, "Figure 5.10: reward of a round", "global epoch", "reward")
    dress(right, "Figure 5.11: reputation after a round", "global epoch", "reputation")
    for name, (colour, line, mark) in styles.items():
        row = found["incentives"][f"{name}, as printed"]
        left.plot(rounds, row["reward"], color=colour, linestyle=line, marker=mark, markersize=5, label=name)
        right.plot([0, *rounds], row["reputation"], color=colour, linestyle=line, marker=mark, markersize=5)
    left.plot(rounds, NO_INCENTIVE, color=GREY, linestyle=":", label="no incentive")
    mean = found["honest"]["reputation after ten rounds, mean"]
    right.plot([ROUNDS], [mean], "*", color="black", markersize=12)
    right.annotate("mean of honest members,\none rejected each round", (ROUNDS, mean), (5.2, 1.2), fontsize=8.5,
                   arrowprops={"arrowstyle": "->", "color": GREY})  # fmt: skip
    left.legend(frameon=False, fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p4-incentives",
    paper="P4.5",
    title="Figures 5.10 and 5.11: rewards and reputations",
    printed="An honest member's reward rises with its reputation; who attacks in round 1 starts again at 0, who "
    "attacks "
    "in round 4 loses one step. Without incentives the reward is 5 in every round.",
    why="As printed, for the members of the figures. The thesis leaves out that Multi-KRUM always rejects f updates, "
    "whether or not anybody cheats, and that eq. 5.2 lets everybody below the average gain, also whoever was rejected.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
