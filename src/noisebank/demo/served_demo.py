"""`noisebank demo --serve`: survey, clinic and phones in a served bank, with keys for an owner and two analysts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from noisebank.bank.bank import Bank, open_bank
from noisebank.core.entropy import SystemEntropy
from noisebank.core.units import parse_exact
from noisebank.demo.clinic import ask_clinic, write_clinic
from noisebank.demo.phones import train_phone_model
from noisebank.demo.survey_demo import Demonstration
from noisebank.privacy.calibration import budget_precision
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.roles import Role
from noisebank.service.server import open_listener, serve
from noisebank.service.settings import Settings, read_settings

ANALYSTS = ("maria", "noor")


def fill_bank(bank: Bank) -> dict[str, str]:
    """Add a clinic with answers, a learning task and limits for the analysts; return the API keys by name."""
    clinic = bank.open_account(write_clinic(bank.folder.parent))
    for account in bank.accounts():
        for name in ANALYSTS:
            limit = budget_precision(parse_exact("2.5"), account.policy.delta).units
            account.ledger.set_limit(account.id, account.analyst(name), limit)
            account.vault.save_analyst(account.id, account.analyst(name), name)
    ask_clinic(clinic)
    train_phone_model(bank)
    access = AccessControl(bank.folder / ACCESS_FILE, SystemEntropy())
    try:
        for name in ANALYSTS:
            access.add_person(name, Role.ANALYST)
        return {name: access.make_key(name, label="demo")[0] for name in ("owner", *ANALYSTS)}
    finally:
        access.close()


def serve_demo(demo: Demonstration, port: str | None, announce: Callable[[Settings, dict[str, str]], None]) -> None:
    """Serve the demonstration's bank until Ctrl-C; `announce` gets the settings and the keys once it listens."""
    settings = read_settings(bank=demo.folder / "bank", port=port)
    with open_bank(settings.bank) as bank:
        keys = fill_bank(bank)
        listener = open_listener(settings)
        settings = replace(settings, port=listener.getsockname()[1])
        serve(bank, settings, listener, lambda: announce(settings, keys))
