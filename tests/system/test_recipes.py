"""Every command of the tutorial and of the recipes runs as it stands on its page."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from support.paths import ROOT
from tools.docsite.recipes import list_blocks, prepare_folder, run_page, show_outputs

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


def test_the_tutorial(tmp_path: Path) -> None:
    """From the table to the verdict; the policy on the page is the one that recipes begin with."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    text = (DOCS / "tutorial" / "index.md").read_text()
    (policy,) = (block.text for block in list_blocks(text) if block.words == ("hospital.toml",))
    assert policy == (DOCS / "tutorial" / "hospital.toml").read_text()
    prepare_folder(tmp_path, with_bank=False)
    run = run_page(text, tmp_path)
    assert run.code == 0, str(run)
    assert show_outputs(text, run.outputs) != text
    shown, real = (list_labels(page) for page in (text, show_outputs(text, run.outputs)))
    assert shown == real, "the page shows another output: python -m tools.docsite.recipes docs/tutorial/index.md"


def list_labels(page: str) -> list[str]:
    """The first word of every line that a page shows as output: values differ from run to run, labels do not."""
    lines = [line for block in list_blocks(page) if block.language == "text" for line in block.text.splitlines()]
    return [match[0] for line in lines if (match := re.match(r"[A-Za-z_]+", line))]


def test_a_page_that_fails_is_noticed(tmp_path: Path) -> None:
    page = "```sh\necho begun\nnoisebank ask nonsense --bank nowhere\necho never\n```\n"
    run = run_page(page, tmp_path)
    assert run.code == 2 and run.outputs[0].startswith("begun") and "never" not in run.outputs[0]


def test_outputs_stand_below_their_commands() -> None:
    page = "```sh\nfirst\n```\n\n```text\nold\n```\n\n```sh\nsecond\n```\n\nWords.\n\n```text\nstays\n```\n"
    assert show_outputs(page, ("new\n\n", "x")) == page.replace("old", "new")
