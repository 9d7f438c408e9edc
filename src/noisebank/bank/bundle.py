"""Writes a bundle: everything that an auditor needs from a bank, in one zip file. `verifier.bundle` reads it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

from noisebank.account.statement import make_openings
from noisebank.bank.bank import Bank
from noisebank.verifier.bundle import HEAD_FILE, JOURNAL_FILE, OPENINGS_FOLDER


def write_bundle(path: Path, bank: Bank) -> None:
    """Writes journal, head and the openings of every account. Openings reveal questions and answers."""
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(JOURNAL_FILE, "\n".join(bank.export()) + "\n")
        bundle.writestr(HEAD_FILE, bank.head().digest.hex() + "\n")
        for account in bank.accounts():
            bundle.writestr(
                f"{OPENINGS_FOLDER}{account.id.hex()}.json", json.dumps(make_openings(account), indent=1) + "\n"
            )
