"""Random histories come out as they did when they were recorded: see `path_histories` and ADR 26."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

RECORDED = [json.loads(line) for line in Path(__file__).with_name("path_histories.jsonl").read_text().splitlines()]
"""Recorded anew when looks became strategies (ADR 31), when a spend was split by the optimum for each SELECT, and when
looks for single values came (other looks, and other last bits after looks). 5 and 11 when a free answer that is given
again got the bits that it had before."""
KERNEL = {"OPENBLAS_CORETYPE": "Nehalem"}
"""OpenBLAS has other kernels for other processors. Sums differ in their last bits, so do posteriors, and with them the
directions of looks, prices in cubes and draws: of these 15, 7 differ from Haswell to SkylakeX. All have Nehalem."""
pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="recorded on x86-64")


@pytest.fixture(scope="module")
def played() -> list[dict[str, object]]:
    """The same histories played now, in a process whose kernel is that of the recording."""
    paths = os.pathsep.join(str(path) for path in (ROOT / "src", ROOT / "tests", ROOT))
    script = Path(__file__).with_name("path_histories.py")
    ran = subprocess.run(
        [sys.executable, str(script), "0", "12"],
        env={**os.environ, **KERNEL, "PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("seed", range(12))
def test_a_history_comes_out_as_it_did(played: list[dict[str, object]], seed: int) -> None:
    assert played[seed] == RECORDED[seed]


def test_histories_differ(played: list[dict[str, object]]) -> None:
    assert len({line["outcome"] for line in played}) == 12
