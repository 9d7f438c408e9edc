"""A bank's folder: its keys, its lock, its ledger and its vault. `create_bank` makes one.

No table is needed for that: devices that only report about themselves have such a folder, too. Accounts with tables are
the matter of `bank.bank`.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from noisebank.core.durability import fsync_path
from noisebank.core.entropy import Entropy, SystemEntropy
from noisebank.core.errors import BadBank, BankInUse, Tampered
from noisebank.ledger.chain import Ledger
from noisebank.ledger.chain_config import ChainConfig, read_chain_config, write_chain_config
from noisebank.ledger.embedded import EmbeddedLedger, create_chain
from noisebank.ledger.journal import JOURNAL_FILE as JOURNAL
from noisebank.ledger.journal import Journal
from noisebank.ledger.protocol import Role
from noisebank.ledger.rpc import ChainLedger
from noisebank.ledger.signing import Key
from noisebank.vault.location import VAULT_FILE as VAULT
from noisebank.vault.location import create_vault, is_on_postgres, open_vault
from noisebank.vault.postgres_vault import PostgresVault
from noisebank.vault.vault import Vault

__all__ = [
    "ACCESS",
    "JOURNAL",
    "KEYS",
    "LEDGER",
    "LOCK",
    "OUTBOX",
    "VAULT",
    "BankParts",
    "FolderLock",
    "check_history",
    "create_bank",
    "is_shared",
    "load_sealing_key",
    "lock_bank",
    "lock_folder",
    "open_parts",
]
LOCK, KEYS, LEDGER, OUTBOX = "lock", "keys", "ledger.json", "outbox.sqlite"
ACCESS = "access.sqlite"
"""Who may use the HTTP service: `service.access` writes it, backups copy it."""
MAX_ATTEMPTS = 4
"""To find on a chain what the vault has sealed; then its absence is a contradiction."""


@dataclass(frozen=True, slots=True)
class BankParts:
    """The parts of a bank that its accounts share."""

    ledger: Ledger
    vault: Vault
    entropy: Entropy


class FolderLock:
    """The lock of an open bank's folder. A shared bank admits other processes that share its ledger and vault."""

    def __init__(self, folder: Path) -> None:
        self._path, self._is_shared = folder / LOCK, is_shared(folder)
        self._handle = _lock_file(self._path, self._is_shared)

    @contextmanager
    def exclude_others(self) -> Iterator[None]:
        """Admits no other process meanwhile; `BankInUse` if there is one."""
        usual = fcntl.LOCK_SH if self._is_shared else fcntl.LOCK_EX
        try:
            _flock(self._handle, self._path, fcntl.LOCK_EX)
            yield
        finally:
            _flock(self._handle, self._path, usual)  # a refused flock drops the lock held before: take it again

    def release(self) -> None:
        """Releases the lock."""
        os.close(self._handle)


def is_shared(folder: Path) -> bool:
    """Whether several processes may open the bank at a time: its ledger is on a chain, its vault on PostgreSQL."""
    return is_on_postgres(folder) and (folder / LEDGER).is_file()


@contextmanager
def lock_folder(folder: Path) -> Iterator[FolderLock]:
    """Locks a bank's folder; `BadBank` if it is none, `BankInUse` if another process holds it."""
    if not (folder / JOURNAL).is_file() and not (folder / LEDGER).is_file():
        raise BadBank(f"{folder} is no bank; make one with `noisebank init {folder}`")
    lock = FolderLock(folder)
    try:
        yield lock
    finally:
        lock.release()


@contextmanager
def open_parts(folder: Path, owner_key: Path | None = None, entropy: Entropy | None = None) -> Iterator[BankParts]:
    """Opens ledger and vault of a locked folder, and none of its tables. Refuses a journal older than the vault."""
    with closing(_open_ledger(folder, _load_keys(folder, owner_key))) as ledger, closing(open_vault(folder)) as vault:
        if isinstance(vault, PostgresVault):
            vault.bind_ledger(f"{ledger.chain_id} {ledger.contract}")
        check_history(ledger, vault)
        yield BankParts(ledger, vault, entropy or SystemEntropy())


def check_history(ledger: Ledger, vault: Vault) -> None:
    """Refuses a journal that is older than the vault: going on from it would spend the budget twice.

    What is sealed was final on the ledger before, so the ledger is read after the vault. Waits for a node that lags.
    """
    sealed = vault.sealed_ids()
    for attempt in range(MAX_ATTEMPTS if ledger.is_shared else 1):
        time.sleep(attempt)
        ledger.refresh()
        sealed = tuple(ids for ids in sealed if ledger.find_reservation(*ids) is None)
        if not sealed:
            return
    raise Tampered(
        f"the journal is older than the vault: it does not know the sealed answer {sealed[0][1].hex()[:12]}. "
        "Put the newest journal back; going on from this one would spend the same budget twice"
    )


def create_bank(
    folder: Path | str,
    owner_key: Path | None = None,
    entropy: Entropy | None = None,
    where: ChainConfig | None = None,
    vault: str | None = None,
) -> Path:
    """Creates a bank: two keys, an empty vault, and a journal that begins with the contract. Returns its folder.

    The owner's key goes to `owner_key`, or into the bank, from where it can be moved away. With
    `where` the ledger is a contract on that chain, and keys may come from the environment. `vault` is
    the address of a PostgreSQL database, which may hold the vault of other gateways already.
    """
    folder = Path(folder)
    entropy = entropy or SystemEntropy()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadBank(f"{folder} exists and is not an empty folder")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / KEYS).mkdir(mode=0o700)
    curator = _create_key(Role.CURATOR, folder / KEYS / f"{Role.CURATOR.value}.key", entropy)
    owner = owner_key or folder / KEYS / f"{Role.OWNER.value}.key"
    _create_key(Role.OWNER, owner, entropy)
    create_vault(folder, vault, entropy.token().hex())
    if where is not None:
        write_chain_config(folder / LEDGER, where)
    else:
        journal = Journal(folder / JOURNAL)
        create_chain(journal, curator, entropy)
        EmbeddedLedger(journal, {Role.CURATOR: curator}).close()
    for changed in (owner.parent, folder / KEYS, folder):
        if changed.is_dir():
            fsync_path(changed)
    return folder


def lock_bank(folder: Path) -> int:
    """Locks a bank against every other process without opening it; returns a file descriptor to close.
    `BankInUse` if another process holds it."""
    return _lock_file(folder / LOCK, shared=False)


def load_sealing_key(folder: Path) -> Key:
    """Returns the key that signs for the bank itself: the sealer's if there is one, else the curator's."""
    keys = _load_keys(folder, None)
    return keys.get(Role.SEALER) or keys[Role.CURATOR]


def _open_ledger(folder: Path, keys: dict[Role, Key]) -> Ledger:
    if (folder / LEDGER).is_file():
        return ChainLedger(read_chain_config(folder / LEDGER), keys, folder / OUTBOX)
    journal = Journal(folder / JOURNAL)
    try:
        return EmbeddedLedger(journal, keys)
    except BaseException:
        journal.close()
        raise


def _key_variable(role: Role) -> str:
    return f"NOISEBANK_{role.value.upper()}_KEY"


def _create_key(role: Role, path: Path, entropy: Entropy) -> Key:
    """Returns the key from the environment, which is not written anywhere, or a new one saved to a file."""
    from_environment = Key.from_environment(_key_variable(role))
    if from_environment is not None:
        return from_environment
    key = Key(entropy.token())
    key.save(path)
    return key


def _load_keys(folder: Path, owner_key: Path | None) -> dict[Role, Key]:
    keys = {}
    for role in Role:
        path = owner_key if role is Role.OWNER and owner_key else folder / KEYS / f"{role.value}.key"
        from_environment = Key.from_environment(_key_variable(role))
        if from_environment is not None:
            keys[role] = from_environment
        elif role is Role.CURATOR or path.exists() or path == owner_key:
            keys[role] = Key.load(path)
    return keys


def _lock_file(path: Path, shared: bool) -> int:
    """Takes the lock of a bank's folder; returns its file descriptor. `shared` admits other processes that share the
    vault and the ledger."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadBank(f"{path} cannot be opened: {error.strerror}") from None
    try:
        _flock(handle, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
    except BankInUse:
        os.close(handle)
        raise
    return handle


def _flock(handle: int, path: Path, operation: int) -> None:
    try:
        fcntl.flock(handle, operation | fcntl.LOCK_NB)
    except OSError:
        raise BankInUse(f"another process uses the bank {path.parent}; wait for it, or talk to it") from None
