"""Rotates the curator's key of a bank, in steps that can be repeated after a crash."""

from __future__ import annotations

from pathlib import Path

from noisebank.core.entropy import Entropy
from noisebank.ledger.chain import Chain
from noisebank.ledger.embedded import EmbeddedChain
from noisebank.ledger.protocol import Role
from noisebank.ledger.signing import Key

CURRENT, NEXT, SEALER = "curator.key", "curator-next.key", "sealer.key"


def rotate_curator(keys: Path, ledger: Chain, entropy: Entropy) -> tuple[str, int]:
    """Gives every account of the present curator to a new key; returns its address and the number of accounts.

    The new key is on disk before the ledger hears of it, and takes the old one's file name last. The old
    key goes on sealing the embedded chain's blocks, in a file of its own: it can charge nothing more.
    """
    old = Key.load(keys / CURRENT)
    if not (keys / NEXT).exists():
        Key(entropy.token()).save(keys / NEXT)
    new = Key.load(keys / NEXT)
    moved = 0
    owner = ledger.address(Role.OWNER)
    for state in ledger.books.accounts():
        if state.curator == old.address and state.owner == owner:  # on a chain, strangers may name any curator
            ledger.manage("propose_curator", state.account, new.address)
            ledger.use_key(Role.CURATOR, new)
            ledger.accept(Role.CURATOR, state.account)
            ledger.use_key(Role.CURATOR, old)
            moved += 1
    if isinstance(ledger, EmbeddedChain) and not (keys / SEALER).exists():
        old.save(keys / SEALER)
    (keys / NEXT).replace(keys / CURRENT)
    ledger.use_key(Role.CURATOR, new)
    return new.address, moved
