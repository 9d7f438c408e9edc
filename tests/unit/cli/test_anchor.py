"""`noisebank anchor`: only a journal can be anchored."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import patch

from click.testing import CliRunner

from noisebank.cli.main import main


def test_a_ledger_on_a_chain_has_no_journal_to_anchor() -> None:
    bank = SimpleNamespace(ledger=object())
    with patch("noisebank.cli.anchor.open_recovered_bank", lambda folder: nullcontext(bank)):
        done = CliRunner().invoke(main, ["anchor", "--rpc", "http://127.0.0.1:1", "--bank", "anywhere"])
    assert done.exit_code != 0 and "there is no journal to anchor" in done.output
