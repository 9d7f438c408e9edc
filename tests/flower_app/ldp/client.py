"""A phone: its record, and a bank of its own that keeps its budget."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context

from noisebank.bank.bank import create_bank, open_bank
from noisebank.federated.enrolment import enrol, list_enrolled
from noisebank.federated.fedsgd import Device, TrainingOrder
from noisebank.federated.fedsgd.flower_client import client_app


class Phone:
    def __init__(self, folder: Path, place: int) -> None:
        self.folder, self.record = folder, {"age": 20 + 20 * place, "buys": "yes" if place % 2 else "no"}

    def take_part(self, order: TrainingOrder) -> bytes:
        if not self.folder.exists():
            create_bank(self.folder)
        with open_bank(self.folder) as bank:
            account = next(iter(list_enrolled(bank.parts)), None) or enrol(bank.parts, "me", 2)
            return Device(bank.parts, account, [self.record], max_epsilon=2).take_part(order)


def phone(context: Context) -> Phone:
    return Phone(Path(str(context.node_config["folder"])), int(context.node_config["place"]))


app = client_app(phone)
