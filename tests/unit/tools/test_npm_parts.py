"""`tools/npm-parts` beside what it has installed before."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.paths import ROOT

NPM = """#!/bin/sh
for tool in anvil forge; do
  mkdir -p ".npm-parts/node_modules/@foundry-rs/$tool-here/bin"
  printf '#!/bin/sh\\n' > ".npm-parts/node_modules/@foundry-rs/$tool-here/bin/$tool"
done
"""
"""Stands for npm: "installs" two tools that do nothing."""


def test_another_version_of_the_tools_leaves_mnist_alone(tmp_path: Path) -> None:
    """Before, 55 MB of images went with them, and trainings of an hour later did not find them."""
    for folder in ("tools", "path"):
        (tmp_path / folder).mkdir()
    script = shutil.copy(ROOT / "tools" / "npm-parts", tmp_path / "tools")
    npm = tmp_path / "path" / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    images = tmp_path / ".npm-parts" / "mnist" / "images"
    images.parent.mkdir(parents=True)
    images.write_text("images")
    (tmp_path / ".npm-parts" / ".versions").write_text("of last year")
    search = f"{npm.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([script], env={**os.environ, "PATH": search}, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and (tmp_path / ".npm-parts" / "bin" / "anvil").exists(), done.stdout + done.stderr
    assert "anvil" in (tmp_path / ".npm-parts" / ".versions").read_text() and images.read_text() == "images"
