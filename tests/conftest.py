"""Shared by all tests: hypothesis profiles, a visible word about what is skipped, and no process that stays behind."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from browser.chrome import chromium
from conformance.server import binaries
from support.internals import kept_limit
from support.patience import FACTOR
from support.processes import end_leftovers, mark_processes

with kept_limit(), contextlib.suppress(ImportError):
    import eth_account  # noqa: F401  # some tests use it; first here, so that the limit stays as it is for all of them

if "PYTHONPATH" in os.environ:  # processes in other folders shall run these sources, too, not those that are installed
    paths = (str(Path(path).resolve()) for path in os.environ["PYTHONPATH"].split(os.pathsep) if path)
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)

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


@pytest.fixture(scope="session", autouse=True)
def no_process_stays() -> Iterator[None]:
    """What tests have started ends with them, also where one has failed. Each worker of xdist looks for its own.

    A fixture and not `pytest_sessionfinish`: this fails the run of a worker, too, and comes after all other fixtures.
    """
    mark_processes()
    yield
    leftovers = end_leftovers()
    assert not leftovers, "still running:\n" + "\n".join(leftovers)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make shuffled`: no test may need another one before it. All workers take the seed from the environment."""
    for item in items if FACTOR != 1 else ():
        limit = item.get_closest_marker("timeout")
        seconds = limit.args[0] if limit else float(config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(seconds * FACTOR), append=False)
    if seed := os.environ.get("NOISEBANK_SHUFFLE"):
        Random(seed).shuffle(items)
