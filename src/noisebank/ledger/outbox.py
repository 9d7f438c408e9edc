"""The outbox: claims that this gateway has sent to a chain, kept because a reorganisation can drop them.

A claim is written before it is sent, and marked final before anything is measured for it. So the
outbox and the chain together never miss a spend whose answer somebody has seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noisebank.core.digests import canonical
from noisebank.core.durability import open_database, reading
from noisebank.core.records import CellRun
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Claim

SCHEMA = """
CREATE TABLE IF NOT EXISTS claims (
    id BLOB PRIMARY KEY, place INTEGER NOT NULL, claims TEXT NOT NULL, final INTEGER NOT NULL DEFAULT 0) STRICT;
"""


class Outbox:
    """Durable on return of every method that writes."""

    def __init__(self, path: Path | str) -> None:
        self._database = open_database(path, SCHEMA)
        self._access = threading.Lock()

    def save(self, groups: Iterable[Sequence[Claim]]) -> None:
        """Saves groups before they are sent. A group that is saved already stays as it is."""
        with self._access, self._database:
            for group in groups:
                text = canonical([_plain(claim) for claim in group])
                for index, claim in enumerate(group):
                    self._database.execute(
                        "INSERT INTO claims (id, place, claims) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                        (claim.id, index, text),
                    )

    def mark_final(self, ids: Iterable[bytes]) -> None:
        """From here on these are spent, whatever the chain says later."""
        with self._access, self._database:
            self._database.executemany("UPDATE claims SET final = 1 WHERE id = ?", [(id,) for id in ids])

    def forget(self, ids: Iterable[bytes]) -> None:
        """Deletes claims that the chain has refused for good: nothing was spent on them."""
        with self._access, self._database:
            self._database.executemany("DELETE FROM claims WHERE id = ? AND final = 0", [(id,) for id in ids])

    def final(self) -> list[tuple[Claim, ...]]:
        """Returns all groups that were final once, in the order in which they were saved."""
        with self._access, reading(self._database):
            rows = self._database.execute("SELECT claims FROM claims WHERE final = 1 AND place = 0 ORDER BY rowid")
            return [tuple(_claim(fields) for fields in json.loads(text)) for (text,) in rows]

    def close(self) -> None:
        """Closes the file. Nothing is lost."""
        self._database.close()


def _plain(claim: Claim) -> list[Any]:
    runs = [[run.start, run.stop, run.weight] for run in claim.runs]
    digests = [part.hex() for part in (claim.account, claim.id, claim.query, claim.analyst)]
    return [*digests, claim.about, claim.wanted.units, claim.limit.units, claim.cube, runs]


def _claim(fields: list[Any]) -> Claim:
    account, id, query, analyst, category, target, max_cost, cube, runs = fields
    return Claim(
        bytes.fromhex(account), bytes.fromhex(id), bytes.fromhex(query), bytes.fromhex(analyst), category,
        Precision(target), Precision(max_cost), cube, tuple(CellRun(*run) for run in runs),
    )  # fmt: skip
