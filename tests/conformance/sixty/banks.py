"""A bank over the tables of the examples whose noise is zero: what it answers must be the exact values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from conformance.banks import settings
from conformance.stores import Store
from examples.questions import ExampleQuestion
from examples.worlds import WORLDS, World
from noisebank import Account, NoisebankError, read_policy
from support.banks import memory_rooms
from support.internals import Confirmed, Entropy, SystemEntropy, open_account

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
"""When the questions are asked."""
TYPES = {
    "patients": {"patient_id": "text", "sex": "text", "birth_year": "integer", "region": "text"},
    "stays": {
        "patient_id": "text", "admitted": "date", "discharged": "date", "ward": "text", "diagnosis": "text",
        "cost": "integer", "readmitted": "boolean",
    },
    "persons": {
        "person_id": "integer", "household_id": "integer", "age": "integer", "sex": "text", "canton": "text",
        "education": "text", "status": "text", "income": "integer", "hours": "integer", "weight": "double",
    },
    "readings": {
        "meter_id": "text", "read_at": "timestamp", "kwh": "double", "voltage": "double", "firmware": "text",
    },
    "meters": {"meter_id": "text", "tariff": "text", "zip": "text", "installed": "date"},
    "regions": {"region": "text", "name": "text", "population": "integer"},
    "cantons": {"canton": "text", "language": "text", "area_km2": "integer"},
}  # fmt: skip
"""Of the columns, for engines that have types."""


class ZeroNoise(SystemEntropy):
    """Real salts and keys, and noise that is always zero."""

    def discrete_gaussian(self, scale: float) -> int:
        return 0

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return [0] * count


@dataclass
class ExampleBank:
    """One account for each table of an example, opened when it is first asked."""

    world: World
    folder: Path
    store: Store | None = None
    """Where tables are put; as CSV files if there is none."""
    entropy: Entropy = field(default_factory=ZeroNoise)
    accounts: dict[str, Account | NoisebankError] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.write_files(self.folder)

    def account_for(self, question: ExampleQuestion) -> Account:
        """Returns the account of the first table in a question that a bank holds; raises if it cannot be opened."""
        name = question.first_table(self.world.policies)
        if name not in self.accounts:
            try:
                self.accounts[name] = self._open_account(name)
            except NoisebankError as error:
                self.accounts[name] = error
        account = self.accounts[name]
        if isinstance(account, NoisebankError):
            raise account
        return account

    def _open_account(self, name: str) -> Account:
        text = (self.folder / f"{name}.toml").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^epsilon = \d+", "epsilon = 100", text)  # room for all questions, many times
        csv = self.folder / f"{name}.csv"
        source = json.dumps(str(csv)) if self.store is None else None
        where = f"source = {source}\n" if self.store is None else settings(self.store.put_csv(csv, TYPES[name]))
        path = self.folder / f"{name}.bank.toml"
        path.write_text(re.sub(r"(?m)^source = .*\n", lambda _: where, text), encoding="utf-8")
        rooms = memory_rooms(self.entropy, clock=NOW.timestamp)
        return open_account(rooms, read_policy(path), confirmed=Confirmed(policy=True))[0]


def make_bank(name: str, folder: Path, store: Store | None = None, entropy: Entropy | None = None) -> ExampleBank:
    """Returns a bank for one example; its noise is zero unless an entropy is given."""
    return ExampleBank(WORLDS[name], folder / name, store, ZeroNoise() if entropy is None else entropy)
