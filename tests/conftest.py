"""Shared by all tests: hypothesis profiles, and a visible word about what is skipped."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.load_profile("default")


def pytest_report_header(config: pytest.Config) -> str:
    data = os.environ.get("NOISEBANK_DATA")
    return f"real data: {data}" if data else "real data: none (NOISEBANK_DATA is not set; what needs it is skipped)"
