"""What several gateways share: a PostgreSQL server, a chain, tables, and a bank's folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from conformance.server import Server
from contract.node import Node
from noisebank import Bank, open_bank
from support.banks import write_people

DATABASE = "town"


@dataclass
class Town:
    """Everything that gateways share."""

    server: Server
    node: Node
    folder: Path
    tables: Path

    def bank(self) -> Bank:
        return open_bank(self.folder)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        with psycopg.connect(self.server.where, dbname=DATABASE, options="-c search_path=noisebank") as connection:
            return connection.execute(sql.encode(), values).fetchall()

    def policy(self, name: str, epsilon: str = "4", cubes: str = "") -> Path:
        path = write_people(self.tables / name, epsilon=epsilon, neighbours="add-remove")
        path.write_text(cubes + path.read_text().replace('name = "people"', f'name = "{name}"'))
        return path
