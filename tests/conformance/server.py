"""A PostgreSQL server of the tests' own: a temporary folder, a socket that nobody else can open, gone at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from support.patience import patience


def binaries() -> Path | None:
    """The folder of `initdb` and `pg_ctl`; Debian does not put it on the path."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


LOCKED = "reader"
"""The one role that needs a password; everybody who can open the socket may be any other."""


@dataclass
class Server:
    """A running server. `where` is the connection string of its superuser."""

    binaries: Path
    folder: Path
    fsync: str = "off"
    """Tables are made anew for each test; a vault must be durable."""

    @property
    def where(self) -> str:
        return f"host={self.folder} user=postgres dbname=postgres"

    def address(self, role: str, database: str = "postgres") -> str:
        """As a policy says it."""
        return f"postgresql://{role}@/{database}?host={quote(str(self.folder), safe='')}"

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        if os.geteuid() == 0:  # the server refuses to be root
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, timeout=patience(), check=False)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        careless = "" if self.fsync == "on" else "-c fsync=off"
        options = f"-c listen_addresses='' -k {self.folder} {careless} -c max_connections=80"
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-o", options, "-l", f"{self.folder}/log", "-w", "start")

    def stop(self, how: str = "fast") -> None:
        """Connections are cut; counts of changes are kept unless it stops `immediate`ly."""
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", how, "-w", "stop")

    def cut(self) -> None:
        """Ends every connection of the bank."""
        self.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'noisebank'"
        )

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """As the superuser, counters published at once."""
        with psycopg.connect(self.where, dbname=database, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())
            connection.execute("SELECT pg_stat_force_next_flush()")


@contextmanager
def running_server(fsync: str = "off") -> Iterator[Server]:
    found = binaries()
    assert found is not None
    folder = Path(tempfile.mkdtemp(prefix="noisebank-pg-"))
    server = Server(found, folder, fsync)
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        encoding = ["-E", "UTF8", "--locale=C.UTF-8"]
        server.run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync", *encoding)
        (folder / "data" / "pg_hba.conf").write_text(f"local all {LOCKED} scram-sha-256\nlocal all all trust\n")
        try:
            server.start()
            yield server
        finally:
            if (folder / "data" / "postmaster.pid").exists():  # also when it began to start, and was too slow
                server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
