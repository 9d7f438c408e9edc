"""`noisebank serve --json` says where it listens at once: whoever has started it waits for that line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx

from support.patience import patience
from support.processes import end_process, read_announcement
from support.service import make_bank


def test_the_address_comes_through_a_pipe_while_the_server_runs(tmp_path: Path) -> None:
    """Python buffers what goes into a pipe, unless PYTHONUNBUFFERED is set: the server must not rely on that."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "noisebank", "serve", "--bank", str(make_bank(tmp_path)), "--port", "0", "--json"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        address = read_announcement(server, tmp_path / "log")["address"]
        assert server.poll() is None
        assert httpx.get(f"{address}/v1/health", timeout=patience(), trust_env=False).status_code == 200
    finally:
        end_process(server)
