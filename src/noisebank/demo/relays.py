"""Rounds of a relay for the served demonstration: ten made-up members average four numbers, twice."""

from __future__ import annotations

import threading
from fractions import Fraction
from math import ceil
from pathlib import Path

from noisebank.core.entropy import SystemEntropy, workload_rng
from noisebank.federated.relay import Coalition, Host, RelayMember, RelayPlan, RelayTerms, Requirements, min_variance
from noisebank.federated.relay.report import make_round_report
from noisebank.ledger.signing import Key

MEMBER_COUNT, DIMENSION = 10, 4
DELTA = Fraction(1, 10**6)
MEMBER_DELTA = Fraction(1, 10**5)


def run_relay_rounds(folder: Path, seed: int = 0) -> list[Path]:
    """Run the two rounds; write their reports into `folder` and return the files.

    As in the paper: one relay, whose first member adds the noise for all. Repaired: masks, and noise for epsilon 4.
    """
    folder.mkdir(parents=True, exist_ok=True)
    least = Fraction(ceil(min_variance(Fraction(4), DELTA, DIMENSION, 1) * 10**9), 10**9)
    return [
        _run_round(
            folder / "A relay as in the paper.json", RelayTerms(DIMENSION, mode="bas", attempts=1, delta=DELTA), seed
        ),
        _run_round(
            folder / "A sum under masks.json",
            RelayTerms(DIMENSION, mode="masked", attempts=1, delta=DELTA, least=least, publish=True),
            seed + 1,
        ),
    ]


def _run_round(path: Path, terms: RelayTerms, seed: int) -> Path:
    random, entropy = workload_rng(seed), SystemEntropy()
    plans: list[RelayPlan] = []
    host = Host(
        Key(entropy.token()), terms, MEMBER_COUNT, wait_seconds=60.0, show=lambda plan, _: plans.append(plan)
    )  # fmt: skip
    # Whoever is between two colluding members has no protection in the paper's relay, and here takes part all the same.
    demand = Requirements(Coalition(1, False), unprotected=True, max_delta=MEMBER_DELTA)

    def take_part(vector: list[float], preference: float) -> None:
        RelayMember(
            Key(entropy.token()), vector, preference, host.endpoint, requirements=demand, wait_seconds=60.0
        ).run()

    threads = [
        threading.Thread(
            target=take_part,
            args=([random.uniform(-1, 1) for _ in range(DIMENSION)], round(random.uniform(0.1, 1.3), 2)),
            daemon=True,
        )
        for _ in range(MEMBER_COUNT)
    ]
    for thread in threads:
        thread.start()
    outcome = host.run()
    for thread in threads:
        thread.join(60.0)
    path.write_bytes(make_round_report(path.stem, plans, outcome).to_bytes())
    return path
