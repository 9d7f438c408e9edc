"""A PostgreSQL server of the tests' own: a temporary folder, a free port, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg


def binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; Debian does not put it on the path."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@dataclass
class Server:
    """A running server. `where` is the connection string of its superuser."""

    binaries: Path
    folder: Path
    port: int

    @property
    def where(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def as_role(self, role: str, password: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={role} password={password} dbname=postgres"

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        if os.geteuid() == 0:  # the server refuses to be root
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=120, check=False)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off -c max_connections=40"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-o", options, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "-w", "stop")

    def execute(self, *statements: str) -> None:
        """As the superuser, counters published at once."""
        with psycopg.connect(self.where, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
            connection.execute("SELECT pg_stat_force_next_flush()")


@contextmanager
def running_server() -> Iterator[Server]:
    found = binaries()
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="noisebank-pg-"))
    server = Server(found, folder, _free_port())
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        encoding = ["-E", "UTF8", "--locale=C.UTF-8"]
        server.run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync", *encoding)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
