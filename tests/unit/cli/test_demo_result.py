"""What the demonstration suggests to type next."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisebank.cli.demo_result import next_commands
from noisebank.cli.main import main


def test_a_port_that_is_taken_is_said_before_anything_is_made(tmp_path: Path) -> None:
    """Before, a survey was made and 150 questions asked first: the better part of a minute."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        options = ["--serve", "--port", port, "--folder", str(tmp_path / "demo"), "--json"]
        done = CliRunner().invoke(main, ["demo", *options])
    assert done.exit_code == 2, done.output
    message = json.loads(done.stdout)["message"]
    assert port in message and "cannot be listened on" in message
    assert not list(tmp_path.iterdir())


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
