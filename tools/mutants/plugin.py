"""A pytest plugin for runs on a mutant: notes which test runs and which one failed first, and shrinks nothing.

It refuses to run when the product that would be tested is not the one in this folder: a mutant that nobody loads
would survive everything.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import Phase, settings

NOTES = "NOISEBANK_MUTANT_NOTES"
WRONG_PRODUCT = 77


def _note(name: str, text: str) -> None:
    path = Path(os.environ[NOTES]) / name
    if name == "running" or not path.exists():
        path.write_text(text)


def pytest_configure(config: pytest.Config) -> None:
    spec = find_spec("noisebank")
    if spec is None or not Path(str(spec.origin)).resolve().is_relative_to(Path.cwd().resolve()):
        pytest.exit(f"not the product of this folder: {spec and spec.origin}", WRONG_PRODUCT)
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("mutants", settings(phases=phases, database=None))
    settings.load_profile("mutants")


def pytest_runtest_logstart(nodeid: str) -> None:
    _note("running", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _note("failed", report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note("failed", report.nodeid)
