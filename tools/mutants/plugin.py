"""A pytest plugin for runs on a mutant: keeps the chosen tests, notes which one runs and which one failed first, and
shrinks nothing.

It refuses to run when the product that would be tested is not the one in this folder: a mutant that nobody loads
would survive everything.
"""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import Phase, settings

NOTES = "NOISEBANK_MUTANT_NOTES"
TARGETS = "targets.json"
"""A list of node ids and files: all others are left out, and these run in this order."""
WRONG_PRODUCT = 77


def _note(name: str, text: str) -> None:
    path = Path(os.environ[NOTES]) / name
    if name == "running" or not path.exists():
        path.write_text(text)


def pytest_configure(config: pytest.Config) -> None:
    prepare_run()


def prepare_run() -> None:
    """Ends the run if it is not about this folder; sets how tests with drawn examples behave."""
    spec = find_spec("noisebank")
    if spec is None or not Path(str(spec.origin)).resolve().is_relative_to(Path.cwd().resolve()):
        pytest.exit(f"not the product of this folder: {spec and spec.origin}", WRONG_PRODUCT)
    phases = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
    settings.register_profile("mutants", settings(phases=phases, database=None))
    settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    targets = json.loads((Path(os.environ[NOTES]) / TARGETS).read_text())
    order = {target: number for number, target in enumerate(targets)}
    files = dict.fromkeys(target.partition("::")[0] for target in targets)
    by_file = {file: number for number, file in enumerate(files)}
    last = len(targets)

    def find_place(item: pytest.Item) -> tuple[int, int]:
        file = item.nodeid.partition("::")[0]
        return by_file.get(file, last), order.get(item.nodeid, last)

    wanted = [item for item in items if item.nodeid in order or item.nodeid.partition("::")[0] in order]
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = sorted(wanted, key=find_place)


def pytest_runtest_logstart(nodeid: str) -> None:
    _note("running", nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _note("failed", report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _note("failed", report.nodeid)
