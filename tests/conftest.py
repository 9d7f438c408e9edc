"""Shared by all tests: hypothesis profiles, and a visible word about what is skipped."""

from __future__ import annotations

import contextlib
import os
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from browser.chrome import chromium
from conformance.server import binaries
from support.internals import kept_limit

with kept_limit(), contextlib.suppress(ImportError):
    import eth_account  # noqa: F401  # some tests use it; first here, so that the limit stays as it is for all of them

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("default")


def pytest_report_header(config: pytest.Config) -> list[str]:
    data, server = os.environ.get("NOISEBANK_DATA"), binaries()
    return [
        f"order: {os.environ.get('NOISEBANK_SHUFFLE') or 'as written'}",
        f"real data: {data or 'none (NOISEBANK_DATA is not set; what needs it is skipped)'}",
        f"chromium: {chromium() or 'none (tools/system-parts installs it for root); tests in a browser are skipped'}",
        f"PostgreSQL: {server or 'none (tools/system-parts installs it for root); what needs it is skipped'}",
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make shuffled`: no test may need another one before it. All workers take the seed from the environment."""
    if seed := os.environ.get("NOISEBANK_SHUFFLE"):
        Random(seed).shuffle(items)
