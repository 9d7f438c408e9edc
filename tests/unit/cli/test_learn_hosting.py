"""`noisebank learn host` and `edge` where they cannot listen."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisebank.cli.main import main


@pytest.mark.parametrize("command", ["host", "edge"])
def test_a_port_that_is_taken_is_said(command: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        folder = [str(tmp_path / "chain")] if command == "host" else []
        done = CliRunner().invoke(main, ["learn", command, *folder, "--listen", listen, "--json"])
    assert done.exit_code == 2, done.output
    message = json.loads(done.stdout)["message"]
    assert listen in message and "cannot be listened on" in message
