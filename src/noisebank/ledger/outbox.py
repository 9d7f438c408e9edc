"""What this gateway has asked a chain for: kept here, because a chain can forget.

A claim is written before it is sent, and marked final before anything is measured for it. So the
union of what is known here and on the chain never misses a spend that somebody has seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from noisebank.core.digests import canonical
from noisebank.core.durability import open_database, reading
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Claim, Run

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
        """Keeps groups before they are sent. One that is kept already stays as it is."""
        with self._access, self._database:
            for group in groups:
                text = canonical([_plain(claim) for claim in group])
                for place, claim in enumerate(group):
                    self._database.execute(
                        "INSERT INTO claims (id, place, claims) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                        (claim.id, place, text),
                    )

    def mark_final(self, ids: Iterable[bytes]) -> None:
        """From here on these are spent, whatever the chain says later."""
        with self._access, self._database:
            self._database.executemany("UPDATE claims SET final = 1 WHERE id = ?", [(id,) for id in ids])

    def forget(self, ids: Iterable[bytes]) -> None:
        """The chain has refused these for good: nothing was spent."""
        with self._access, self._database:
            self._database.executemany("DELETE FROM claims WHERE id = ? AND final = 0", [(id,) for id in ids])

    def final(self) -> list[tuple[Claim, ...]]:
        """All groups that were final once, in the order in which they were saved."""
        with self._access, reading(self._database):
            rows = self._database.execute("SELECT claims FROM claims WHERE final = 1 AND place = 0 ORDER BY rowid")
            return [tuple(_claim(fields) for fields in json.loads(text)) for (text,) in rows]

    def close(self) -> None:
        """Nothing is lost."""
        self._database.close()


def _plain(claim: Claim) -> list[Any]:
    runs = [[run.start, run.stop, run.weight] for run in claim.runs]
    digests = [part.hex() for part in (claim.account, claim.id, claim.query, claim.analyst)]
    return [*digests, claim.about, claim.wanted.units, claim.limit.units, claim.cube, runs]


def _claim(fields: list[Any]) -> Claim:
    account, id, query, analyst, about, wanted, limit, cube, runs = fields
    return Claim(
        bytes.fromhex(account), bytes.fromhex(id), bytes.fromhex(query), bytes.fromhex(analyst), about,
        Precision(wanted), Precision(limit), cube, tuple(Run(*run) for run in runs),
    )  # fmt: skip
