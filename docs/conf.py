"""How `make docs` builds the site: MyST pages, a generated reference, links between both; warnings are errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.docsite.notebooks import write_notebook_pages  # noqa: E402
from tools.docsite.pages import write_root_pages  # noqa: E402
from tools.docsite.reference import write_reference  # noqa: E402

project = "noisebank"
author = copyright = "the authors of noisebank"
extensions = ["myst_parser"]
smartquotes = False  # two hyphens begin an option
myst_heading_anchors = 4
myst_links_external_new_tab = False
exclude_patterns = ["_build", "**/generated/*", "notebooks/*.ipynb"]
suppress_warnings = ["myst.header"]  # included pages begin at their own level
html_theme = "furo"
html_title = "noisebank"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"


def generate_pages(app: Sphinx) -> None:
    """Writes what is not typed by hand, before any page is read."""
    write_reference(HERE / "reference" / "generated")
    write_root_pages(ROOT, HERE / "project")
    write_notebook_pages(HERE / "notebooks" / "generated")


def link_inside(app: Sphinx, name: str, source: list[str]) -> None:
    """Lets links to CONTRIBUTING.md and the like, which lie beside docs/, lead to their pages of the site."""
    up = "../" * name.count("/")
    source[0] = re.sub(
        rf"\]\({re.escape(up)}\.\./(CONTRIBUTING|CHANGELOG|SECURITY)\.md",
        lambda match: f"]({up}project/{match[1].lower()}.md",
        source[0],
    )


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", generate_pages)
    app.connect("source-read", link_inside)
