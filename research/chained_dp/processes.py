"""Relays of real processes (`relay host`, `relay join`) beside the simulation: BAS, SAR and splitting at several K.

Every member is a process of its own with a key of its own. One round gives one noise vector: its mean square over d
coordinates scatters by sqrt(2/d) around the variance that the game says, and by that much less for each further round.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from math import log, sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from noisebank.core.entropy import simulation_rng
from noisebank.federated.relay import game
from noisebank.federated.relay.split import order_by_preference, split_groups

DIMENSION, TOP = 1000, 1.3
DELTA = 1e-5
SLICES, GROUPS = 10, 2
SIZES = {False: (3, 10, 20), True: (3,)}
"""Members of a relay, fully and quickly."""
LEAST_FOR_GROUPS = 4
"""A relay has two members at least."""
PATIENCE = "120"


def run_rounds(quick: bool, moved: Any = lambda done, total: None) -> list[dict[str, Any]]:
    """One round of each mode at each size."""
    plans = [(mode, members) for members in SIZES[quick] for mode in ("bas", "sar", "split")
             if mode != "split" or members >= LEAST_FOR_GROUPS]  # fmt: skip
    rows = []
    for done, (mode, members) in enumerate(plans, 1):
        rows.append(run_round(mode, members))
        moved(done, len(plans))
    return rows


def run_round(mode: str, members: int, dimension: int = DIMENSION) -> dict[str, Any]:
    """A host and its members as processes: the error of the mean, what was expected, and who learns what."""
    generator = simulation_rng(2000 + members)
    vectors = generator.uniform(-1.0, 1.0, (members, dimension))
    betas = np.round(generator.uniform(0.0, TOP, members), 6)
    with TemporaryDirectory(prefix="noisebank-relay-") as room:
        plain = _play(Path(room), mode, vectors, betas)
        mean = np.array(json.loads((Path(room) / "mean.json").read_text()))
    expected = expected_variance(mode, betas)
    return {
        "mode": mode,
        "members": members,
        "dimension": dimension,
        "mean square": float(np.square(mean - vectors.mean(axis=0)).mean()),
        "simulated": expected / members**2,
        "promised": float(plain["stddev"]) ** 2,
        "seconds": round(float(plain["seconds"]), 2),
        "honest": {row["trust"]: row["epsilon"] for row in plain["guarantees"]},
        "printed": printed_epsilon(mode, betas, dimension),
    }


def expected_variance(mode: str, betas: Any) -> float:
    """Of a coordinate of the sum, by the game: m max beta for each relay."""
    if mode != "split":
        return float(game.TOP_UP * betas.max())
    groups = split_groups(order_by_preference(betas), GROUPS)
    return float(sum(game.TOP_UP * max(betas[place] for place in group) for group in groups))


def printed_epsilon(mode: str, betas: Any, dimension: int) -> float:
    """What the paper would state: eq. 3 with sensitivity sqrt d for the whole vector, or a slice's alone for SAR."""
    length = -(-dimension // SLICES) if mode == "sar" else dimension
    return sqrt(length / (game.TOP_UP * float(betas.max()))) * sqrt(2 * log(1.25 / DELTA))


def _play(room: Path, mode: str, vectors: Any, betas: Any) -> dict[str, Any]:
    members, dimension = vectors.shape
    more = {"bas": (), "sar": ("--slices", str(SLICES)), "split": ("--groups", str(GROUPS))}[mode]
    words = ("--mode", "bas" if mode == "split" else mode, *more, "--delta", str(DELTA), "--attempts", "1",
             "--patience", PATIENCE, "--wait", PATIENCE, "--out", str(room / "mean.json"), "--json")  # fmt: skip
    started = [_start("host", "-k", str(members), "-d", str(dimension), *words)]
    try:
        host = started[0]
        assert host.stderr is not None
        listening = re.search(r"listening on (\S+) as", host.stderr.readline())
        if listening is None:
            raise RuntimeError(f"the host did not listen: {host.communicate()[1]}")
        for number in range(members):
            np.save(room / f"{number}.npy", vectors[number])
            started.append(_start("join", listening[1], "--vector", str(room / f"{number}.npy"), "--preference",
                                  f"{betas[number]:.6f}", "--unprotected", "--max-delta", "1e-4",
                                  "--json"))  # fmt: skip
        out, said = host.communicate(timeout=10 * float(PATIENCE))
        plain: dict[str, Any] = json.loads(out or "{}")
        if not plain.get("done"):
            raise RuntimeError(f"the round was not finished: {plain.get('reason', said)}")
        return plain
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def _start(*words: str) -> subprocess.Popen[str]:
    """A process of its own; what it writes is small, so that a pipe nobody reads does not fill."""
    command = [sys.executable, "-c", "from noisebank.cli.relay import relay_group; relay_group()", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
