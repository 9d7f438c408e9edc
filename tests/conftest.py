"""Shared by all tests: hypothesis profiles, and a visible word about what is skipped."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from browser.chrome import chromium
from conformance.server import binaries

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("default")


def pytest_report_header(config: pytest.Config) -> list[str]:
    data, server = os.environ.get("NOISEBANK_DATA"), binaries()
    return [
        f"real data: {data or 'none (NOISEBANK_DATA is not set; what needs it is skipped)'}",
        f"chromium: {chromium() or 'none (tools/system-parts installs it for root); tests in a browser are skipped'}",
        f"PostgreSQL: {server or 'none (tools/system-parts installs it for root); what needs it is skipped'}",
    ]
