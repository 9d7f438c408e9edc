"""The manifest of a backup: digests of all its files, signed by the key that seals the bank's books."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from noisebank.bank.backup_folder import LOCK
from noisebank.core.digests import tagged
from noisebank.core.durability import write_once
from noisebank.core.errors import BadBank, Tampered
from noisebank.ledger.signing import Key, recover

FILE = "manifest.json"
FORMAT = "noisebank backup 1"
MOST_BYTES = 2**20
"""Size of a manifest: a backup is not trusted before it is checked."""
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest: `facts` are its fields, `signer` is the address that has signed them."""

    facts: Facts
    signer: str

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 digests of the files, by name."""
        return dict(self.facts["files"])

    @property
    def ledger(self) -> Facts:
        """Where the books are, and their newest block when the copy was made."""
        return dict(self.facts["ledger"])

    @property
    def on_chain(self) -> bool:
        """Whether the ledger is on a chain that others run: then it is not in the backup."""
        return bool(self.ledger["kind"] == "chain")


def write_manifest(folder: Path, facts: Facts, key: Key) -> Manifest:
    """Digests all files in the folder, and signs the result. Written last: a folder without a manifest is no backup."""
    files = {name: digest(folder / name) for name in _names(folder)}
    whole = {"format": FORMAT, **facts, "files": files, "signer": key.address}
    signature = key.sign(tagged("backup 1", whole)).hex()
    write_once(folder / FILE, json.dumps({**whole, "signature": signature}, indent=1, sort_keys=True) + "\n")
    return Manifest(whole, key.address)


def read_manifest(folder: Path) -> Manifest:
    """Reads a manifest and checks its signature; `Tampered` if it is wrong. The caller decides whether to trust the
    signer."""
    try:
        raw = (folder / FILE).read_bytes()[: MOST_BYTES + 1]
        if len(raw) > MOST_BYTES:
            raise ValueError("too large")
        facts = json.loads(raw)
        if facts["format"] != FORMAT:
            raise BadBank(f"{folder} is a backup of another version: {str(facts['format'])[:40]}")
    except FileNotFoundError:
        raise BadBank(f"{folder} is no backup, or one that was interrupted: it has no {FILE}") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise Tampered(f"the manifest of {folder} cannot be read") from None
    try:
        signature = bytes.fromhex(facts.pop("signature"))
        if recover(tagged("backup 1", facts), signature) != facts["signer"]:
            raise ValueError("signed by somebody else")
        manifest = Manifest(facts, str(facts["signer"]))
        if manifest.ledger["kind"] not in ("journal", "chain") or not manifest.files:
            raise ValueError("of another kind")
    except (KeyError, TypeError, ValueError, AttributeError, Tampered):
        raise Tampered("the manifest of this backup was changed: its signature does not fit") from None
    return manifest


def check_names(folder: Path, manifest: Manifest) -> None:
    """Checks that the folder has the manifest's files and no others; `Tampered` if not."""
    if any(path.is_symlink() for path in folder.rglob("*")):
        raise Tampered("the backup has a link in it")
    for name in sorted(set(_names(folder)) ^ manifest.files.keys()):
        raise Tampered(f"the backup {'lacks' if name in manifest.files else 'has a file that is not its own:'} {name}")


def _names(folder: Path) -> list[str]:
    """Returns all files of a backup but its manifest, and but the lock that a process killed at the end leaves."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted({str(path.relative_to(folder)) for path in paths} - {FILE, LOCK})


def check_bytes(folder: Path, manifest: Manifest) -> None:
    """Checks that every file has the manifest's digest; `Tampered` if not."""
    for name, known in manifest.files.items():
        if digest(folder / name) != known:
            raise Tampered(f"the file {name} of this backup was changed")


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    hasher = sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(2**20):
                hasher.update(part)
    except OSError as error:
        raise BadBank(f"{path} cannot be read: {error.strerror}") from None
    return hasher.hexdigest()
