"""P4, chapter 5: three attackers among ten members, and whom Multi-KRUM accepts."""

from __future__ import annotations

from typing import Any

from research.blockfl.attacks import ATTACKERS, MEMBERS, ROUNDS, attacks
from research.papers.charts import BLUE, GREEN, ORANGE, dress, figure, headline
from research.papers.exhibit import Exhibit, Found, Moved, Number

COLOURS = {"sign-flip": BLUE, "scaled": GREEN, "identical": ORANGE}


def run(quick: bool, moved: Moved) -> Found:
    """Each attack, in three rounds or ten."""
    made = attacks(3 if quick else ROUNDS, moved)
    return {name: found.plain() for name, found in made.items()}


def here(found: Found) -> str:
    """In words."""
    parts = [
        f"{name}: {sum(row['attackers_selected_by_round'])} of {ATTACKERS * len(row['attackers_selected_by_round'])} "
        f"accepted, accuracy {row['accuracy']:.2f}"
        for name, row in found.items()
    ]
    return "; ".join(parts) + "."


def numbers(found: Found) -> list[Number]:
    """What the algorithm must do: outliers are never accepted, identical updates always."""
    rounds = len(found["identical"]["attackers_selected_by_round"])
    expected = {"sign-flip": 0, "scaled": 0, "identical": ATTACKERS * rounds}
    return [
        Number(f"{name}: attackers accepted", sum(found[name]["attackers_selected_by_round"]), count, 0)
        for name, count in expected.items()
    ]


def draw(found: Found) -> Any:
    """Attackers among the accepted, by round."""
    drawn = figure(8.0, 4.6)
    headline(drawn, "Multi-KRUM keeps outliers away, but not three identical updates",
             "Seven honest members train on digits 8 x 8; attackers see all honest models first.")  # fmt: skip
    axes = dress(drawn.subplots(), "", "global epoch", f"attackers accepted, of {ATTACKERS} among {MEMBERS} members")
    width = 0.27
    for place, (name, row) in enumerate(found.items()):
        counts = row["attackers_selected_by_round"]
        where = [number + (place - 1) * width for number in range(1, len(counts) + 1)]
        label = f"{name}: {sum(counts)} in all, accuracy {row['accuracy']:.2f}"
        axes.bar(where, counts, width, color=COLOURS[name], label=label)
    axes.set_ylim(0, 3.8)
    axes.set_yticks(range(ATTACKERS + 1))
    axes.set_xticks(range(1, len(counts) + 1))
    axes.legend(frameon=False, fontsize=9)
    return drawn


EXHIBIT = Exhibit(
    name="p4-attackers",
    paper="P4.5",
    title="Poisoning, and what Multi-KRUM keeps out",
    printed="Multi-KRUM eliminates poisoning updates: only those of honest customers are accepted (5.1.2, no figure).",
    why="Whoever is far from the others is kept out. Attackers who submit the same update are each other's nearest "
    "neighbours: their scores are lower than honest ones. That is a limit of Multi-KRUM, not of this implementation.",
    run=run,
    here=here,
    draw=draw,
    numbers=numbers,
)
