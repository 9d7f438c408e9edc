"""What the demonstration suggests to type next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from noisebank.cli.demo_result import next_commands


def test_the_program_is_named_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "noisebank"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    for argument, path, words in (
        (str(program), str(program.parent), "noisebank"),
        (str(program), str(tmp_path), str(program)),
        ("/somewhere/__main__.py", str(program.parent), f"{sys.executable} -m noisebank"),
    ):
        monkeypatch.setattr(sys, "argv", [argument])
        monkeypatch.setenv("PATH", path)
        assert next_commands(tmp_path)[2] == f"{words} verify {tmp_path}/bank"
