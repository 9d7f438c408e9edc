"""Writes all generated pages into docs/reference/generated; `docs/conf.py` calls it before every build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docsite.commands import write_commands
from tools.docsite.http_api import write_http_api, write_problems
from tools.docsite.pages import write_if_changed
from tools.docsite.python_api import write_python
from tools.docsite.settings import write_errors, write_policy, write_settings

PAGES: Mapping[str, Callable[[], str]] = {
    "commands": write_commands,
    "errors": write_errors,
    "http": write_http_api,
    "policy": write_policy,
    "problems": write_problems,
    "python": write_python,
    "settings": write_settings,
}


def write_reference(folder: Path) -> None:
    """Writes every page."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, write_page in PAGES.items():
        write_if_changed(folder / f"{name}.md", write_page() + "\n")
