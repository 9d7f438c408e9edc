"""`noisebank demo --serve`: survey, clinic and phones in a served bank, with keys for an owner and two analysts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from noisebank.bank.bank import Bank, open_bank
from noisebank.core.entropy import SystemEntropy
from noisebank.core.units import exact
from noisebank.demo.clinic import ask_clinic, write_clinic
from noisebank.demo.phones import learn_something
from noisebank.demo.survey_demo import Demonstration
from noisebank.privacy.calibration import budget_precision
from noisebank.service.auth import FILE, Access
from noisebank.service.roles import Part
from noisebank.service.server import listening, serve
from noisebank.service.settings import Settings, read_settings

ANALYSTS = ("maria", "noor")


def fill(bank: Bank) -> dict[str, str]:
    """Add a clinic with answers, a learning task and limits for the analysts; return the API keys by name."""
    clinic = bank.open_account(write_clinic(bank.folder.parent))
    for account in bank.accounts():
        for name in ANALYSTS:
            limit = budget_precision(exact("2.5"), account.policy.delta).units
            account.ledger.set_limit(account.id, account.analyst(name), limit)
            account.vault.save_analyst(account.id, account.analyst(name), name)
    ask_clinic(clinic)
    learn_something(bank)
    access = Access(bank.folder / FILE, SystemEntropy())
    try:
        for name in ANALYSTS:
            access.add_person(name, Part.ANALYST)
        return {name: access.make_key(name, label="demo")[0] for name in ("owner", *ANALYSTS)}
    finally:
        access.close()


def serve_demo(shown: Demonstration, port: str | None, announce: Callable[[Settings, dict[str, str]], None]) -> None:
    """Serve the demonstration's bank until Ctrl-C; `announce` gets the settings and the keys once it listens."""
    settings = read_settings(bank=shown.folder / "bank", port=port)
    with open_bank(settings.bank) as bank:
        keys = fill(bank)
        listener = listening(settings)
        settings = replace(settings, port=listener.getsockname()[1])
        serve(bank, settings, listener, lambda: announce(settings, keys))
