"""Rotates the curator's key of a bank, in steps that can be repeated after a crash."""

from __future__ import annotations

from pathlib import Path

from noisebank.core.entropy import Entropy
from noisebank.ledger.chain import Ledger
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.ledger.protocol import Role
from noisebank.ledger.signing import Key

CURATOR_FILE, NEXT_CURATOR_FILE, SEALER_FILE = "curator.key", "curator-next.key", "sealer.key"


def rotate_curator(keys_folder: Path, ledger: Ledger, entropy: Entropy) -> tuple[str, int]:
    """Gives every account of the present curator to a new key; returns its address and the number of accounts.

    The new key is on disk before the ledger hears of it, and takes the old one's file name last. The old
    key goes on sealing the embedded chain's blocks, in a file of its own: it can charge nothing more.
    """
    old = Key.load(keys_folder / CURATOR_FILE)
    if not (keys_folder / NEXT_CURATOR_FILE).exists():
        Key(entropy.token()).save(keys_folder / NEXT_CURATOR_FILE)
    new = Key.load(keys_folder / NEXT_CURATOR_FILE)
    moved = 0
    owner = ledger.key_address(Role.OWNER)
    for state in ledger.books.list_accounts():
        if state.curator == old.address and state.owner == owner:  # on a chain, strangers may name any curator
            ledger.call_as_owner("propose_curator", state.account, new.address)
            ledger.use_key(Role.CURATOR, new)
            ledger.accept_role(Role.CURATOR, state.account)
            ledger.use_key(Role.CURATOR, old)
            moved += 1
    if isinstance(ledger, EmbeddedLedger) and not (keys_folder / SEALER_FILE).exists():
        old.save(keys_folder / SEALER_FILE)
    (keys_folder / NEXT_CURATOR_FILE).replace(keys_folder / CURATOR_FILE)
    ledger.use_key(Role.CURATOR, new)
    return new.address, moved
