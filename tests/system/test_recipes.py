"""Every command of the tutorial and of the recipes runs as it stands on its page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support.paths import ROOT
from tools.docsite.recipes import list_blocks, prepare_folder, run_page

DOCS = ROOT / "docs"
RECIPES = sorted(page for page in (DOCS / "how-to").glob("*.md") if page.stem not in ("index", "ask-over-http"))
"""The examples over HTTP have a test of their own: tests/client/test_api_page.py."""
NEEDS_CHAIN = frozenset({"rpc"})


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_recipe(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    runnable = [block for block in list_blocks(text) if block.language == "sh" and not NEEDS_CHAIN & set(block.words)]
    if not runnable:
        pytest.skip("nothing to run without a chain or a server")
    if any("curl" in block.text for block in runnable) and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    prepare_folder(tmp_path)
    run = run_page(text, tmp_path, skip=NEEDS_CHAIN)
    assert run.code == 0, str(run)
