"""`noisebank demo --serve`: one thing to look at for each of the papers, in a served bank, with keys and a tour.

A survey, a clinic, meters and phones with books on the bank's own ledger; two relay rounds; a recorded crowd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from noisebank.bank.bank import Bank, open_bank
from noisebank.core.entropy import SystemEntropy
from noisebank.core.units import parse_exact
from noisebank.demo.clinic import ask_clinic, write_clinic
from noisebank.demo.crowd import CHAIN, MODELS, TEST, unpack_crowd
from noisebank.demo.meters import ask_meters, write_meters
from noisebank.demo.phones import train_phone_model
from noisebank.demo.relays import run_relay_rounds
from noisebank.demo.survey_demo import Demonstration
from noisebank.demo.tour import list_stops
from noisebank.privacy.calibration import budget_precision
from noisebank.service.auth import ACCESS_FILE, AccessControl
from noisebank.service.roles import Role
from noisebank.service.server import open_listener, serve
from noisebank.service.settings import Settings, read_settings

ANALYSTS = ("maria", "noor")
RELAYS, CROWD = "relays", "crowd"
"""Folders beside the bank."""


def fill_bank(bank: Bank) -> dict[str, str]:
    """Add everything besides the survey, and limits for the analysts; return the API keys by name."""
    folder = bank.folder.parent
    clinic, meters = bank.open_account(write_clinic(folder)), bank.open_account(write_meters(folder))
    for account in bank.accounts():
        for name in ANALYSTS:
            limit = budget_precision(parse_exact("2.5"), account.context.policy.delta).units
            account.ledger.set_limit(account.id, account.analyst(name), limit)
            account.vault.save_analyst(account.id, account.analyst(name), name)
    ask_clinic(clinic)
    ask_meters(meters)
    train_phone_model(bank)
    run_relay_rounds(folder / RELAYS)
    unpack_crowd(folder / CROWD)
    access = AccessControl(bank.folder / ACCESS_FILE, SystemEntropy())
    try:
        for name in ANALYSTS:
            access.add_person(name, Role.ANALYST)
        return {name: access.make_key(name, label="demo")[0] for name in ("owner", *ANALYSTS)}
    finally:
        access.close()


def show_seeds(settings: Settings, folder: Path) -> Settings:
    """Return the settings with which the pages find the relay rounds and the crowd below `folder`."""
    crowd = folder / CROWD
    return replace(
        settings, learning=str(crowd / CHAIN), learning_models=crowd / MODELS, learning_test=str(crowd / TEST),
        learning_reports=str(folder / RELAYS),
    )  # fmt: skip


def check_port(folder: Path, port: str | None) -> None:
    """Raise BadRequest if nothing can listen there: before a minute is spent on what is to be served."""
    open_listener(read_settings(bank=folder / "bank", port=port)).close()


def serve_demo(demo: Demonstration, port: str | None, announce: Callable[[Settings, dict[str, str]], None]) -> None:
    """Serve the demonstration's bank until Ctrl-C; `announce` gets the settings and the keys once it listens."""
    settings = show_seeds(read_settings(bank=demo.folder / "bank", port=port), demo.folder)
    with open_bank(settings.bank) as bank:
        keys = fill_bank(bank)
        listener = open_listener(settings)
        settings = replace(settings, port=listener.getsockname()[1])
        serve(bank, settings, listener, lambda: announce(settings, keys), list_stops(bank, settings))
