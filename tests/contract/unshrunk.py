"""A pytest plugin for `contract.mutants`: whether a mutant is found matters, not the smallest way to find it."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings

from contract.real import ARTEFACT


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get(ARTEFACT):
        phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
        settings.register_profile("mutants", settings(phases=phases, database=None))
        settings.load_profile("mutants")
