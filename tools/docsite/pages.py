"""Pages of the site that are made from files beside docs/: contributing, changes, security."""

from __future__ import annotations

import re
from pathlib import Path

ROOT_PAGES = ("CONTRIBUTING", "CHANGELOG", "SECURITY")


def write_root_pages(root: Path, folder: Path) -> None:
    """Writes each file into `folder`, its links turned so that they still lead where they did."""
    folder.mkdir(exist_ok=True)
    for name in ROOT_PAGES:
        text = (root / f"{name}.md").read_text()
        write_if_changed(folder / f"{name.lower()}.md", turn_links(text))


def turn_links(text: str) -> str:
    """Returns the text with links as they are one folder below docs/."""
    text = re.sub(r"\]\(docs/", "](../", text)
    return re.sub(rf"\]\(({'|'.join(ROOT_PAGES)})\.md", lambda match: f"]({match[1].lower()}.md", text)


def write_if_changed(path: Path, text: str) -> None:
    """Writes a page unless it is there already: Sphinx reads only what changed."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
