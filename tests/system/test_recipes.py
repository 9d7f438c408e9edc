"""Every command of the tutorial and of the recipes runs as it stands on its page, and every cell of the notebooks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from chain.gateway import CURATOR, fund
from contract.node import node_or_skip
from support.paths import ROOT
from tools.docsite import notebooks
from tools.docsite.notebooks import Notebook, execute_all, execute_notebook, list_outputs, read_notebook
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


def test_the_recipe_with_a_chain(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    prepare_folder(tmp_path)
    with node_or_skip() as node:
        fund(node, CURATOR)
        (tmp_path / "deployer.key").write_text("01" * 32)
        (tmp_path / "deployer.key").chmod(0o600)
        page = (DOCS / "how-to" / "ledger-on-a-chain.md").read_text()
        run = run_page(page, tmp_path, replace={"http://localhost:8545": node.url})
    assert run.code == 0, str(run)
    assert run.outputs[-1].count("verified") == 1 and "anchors on chain" in run.outputs[-1]


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
    outputs = dict(zip((block.text for block in list_blocks(text) if block.language == "sh"), run.outputs, strict=True))
    (repeated,) = (output for block, output in outputs.items() if "NOT age <= 60" in block)
    assert repeated.count("REPEAT") == 2, "asked again, in another spelling: free, as the page says"
    (refined,) = (output for block, output in outputs.items() if "--within 15" in block)
    assert "REFINE" in refined
    (forged,) = (output for block, output in outputs.items() if "forged" in block)
    assert "NOT VERIFIED" in forged
    (verified,) = (output for block, output in outputs.items() if "verify journal.jsonl" in block)
    assert verified.lstrip().startswith("verified") and "the receipt" in verified


def test_a_page_that_fails_is_noticed(tmp_path: Path) -> None:
    page = "```sh\necho begun\nnoisebank ask nonsense --bank nowhere\necho never\n```\n"
    run = run_page(page, tmp_path)
    assert run.code == 2 and run.outputs[0].startswith("begun") and "never" not in run.outputs[0]


def test_outputs_stand_below_their_commands() -> None:
    page = "```sh\nfirst\n```\n\n```text\nold\n```\n\n```sh\nsecond\n```\n\nWords.\n\n```text\nstays\n```\n"
    assert show_outputs(page, ("new\n\n", "x")) == page.replace("old", "new")


def test_the_notebooks(tmp_path: Path) -> None:
    """Every cell runs; where the stored notebook shows something, so does this run; and it comes out as they say."""
    executed = execute_all(tmp_path)
    for name, notebook in executed.items():
        shown, real = (count_outputs(book) for book in (read_notebook(name), notebook))
        assert sum(real) and shown == real, f"{name}.ipynb is stale: python -m tools.docsite.notebooks"
    owner, analyst, auditor = ("\n".join(list_outputs(executed[name])) for name in ("owner", "analyst", "auditor"))
    assert "REPEAT 0" in owner and "BudgetExhausted" in owner
    assert "REPEAT" in analyst and analyst.rstrip().endswith("True")
    study = "\n".join(list_outputs(executed["study"]))
    assert "every number is within 2500" in study and "slope" in study and "of the budget" in study
    assert "alone: True" in auditor and "with the receipt: False" in auditor and "False - block 2" in auditor


def count_outputs(notebook: Notebook) -> list[int]:
    return [len(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_a_cell_that_fails_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = {"cell_type": "code", "source": ["print('begun')\n", "1 / 0"], "outputs": []}
    monkeypatch.setattr(notebooks, "read_notebook", lambda name: {"cells": [cell]})
    with pytest.raises(subprocess.CalledProcessError):
        execute_notebook("owner", tmp_path, {})
