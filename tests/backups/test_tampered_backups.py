"""Backups that somebody has changed, or that are none: refused, and nothing is touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from noisebank.bank import backup
from noisebank.bank.manifest import MANIFEST_FILE as MANIFEST
from support.internals import (
    JOURNAL,
    VAULT,
    BadBank,
    Key,
    RestoreOptions,
    Tampered,
    make_backup,
    read_manifest,
    restore,
)


def _rewritten(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def apply(copy: Path) -> None:
        fields = json.loads((copy / MANIFEST).read_text())
        change(fields)
        (copy / MANIFEST).write_text(json.dumps(fields))

    return apply


def _damage(name: str) -> Callable[[Path], None]:
    def apply(copy: Path) -> None:
        raw = bytearray((copy / name).read_bytes())
        raw[len(raw) // 2] ^= 1
        (copy / name).write_bytes(bytes(raw))

    return apply


def _in_vault(sql: str, resign: bool) -> Callable[[Path], None]:
    """A change of a row, with a manifest that fits it: signed by somebody else, or by the curator itself."""

    def apply(copy: Path) -> None:
        database = apsw.Connection(str(copy / VAULT))
        database.execute(sql)
        database.close()
        key = Key.load(copy.parent / "bank" / "keys" / "curator.key") if resign else Key(b"\x07" * 32)
        manifest = read_manifest(copy)
        (copy / MANIFEST).unlink()
        facts = {name: value for name, value in manifest.facts.items() if name not in ("format", "files", "signer")}
        backup.write_manifest(copy, facts, key)

    return apply


TAMPERING: dict[str, Callable[[Path], None]] = {
    "a bit of the journal": _damage(JOURNAL),
    "a bit of the vault": _damage(VAULT),
    "a bit of a key": _damage("keys/curator.key"),
    "no manifest": lambda copy: (copy / MANIFEST).unlink(),
    "half a manifest": lambda copy: (copy / MANIFEST).write_text((copy / MANIFEST).read_text()[:200]),
    "nonsense": lambda copy: (copy / MANIFEST).write_text("[1]"),
    "another time": _rewritten(lambda fields: fields.update(made=1)),
    "another format": _rewritten(lambda fields: fields.update(format="noisebank backup 9")),
    "another signer": _rewritten(lambda fields: fields.update(signer="0x" + "00" * 20)),
    "no signature": _rewritten(lambda fields: fields.pop("signature")),
    "a file left out": lambda copy: (copy / VAULT).unlink(),
    "a file left out of both": _rewritten(lambda fields: fields["files"].pop(VAULT)),
    "a file too many": lambda copy: (copy / "extra").write_text("x"),
    "a way out": _rewritten(lambda fields: fields["files"].update({"../../etc/passwd": "00"})),
    "a link": lambda copy: ((copy / VAULT).rename(copy.parent / "v"), (copy / VAULT).symlink_to(copy.parent / "v")),
    "signed by a stranger": _in_vault("DELETE FROM cubes", False),
    "an answer by the curator": _in_vault(
        "UPDATE answers SET body = replace(body, '\"value\":[', '\"value\":[1')", True
    ),
    "a salt by the curator": _in_vault("UPDATE answers SET salt = randomblob(32)", True),
    "a question by the curator": _in_vault("UPDATE requests SET body = replace(body, 'smoker', 'age > 3')", True),
    "an opening by the curator": _in_vault(
        'UPDATE openings SET body = replace(body, \'"epsilon":"8"\', \'"epsilon":"9"\')', True
    ),
    "an answer more": _in_vault(
        "INSERT INTO answers SELECT randomblob(32), account, query, body, salt FROM answers LIMIT 1", True
    ),
}


def test_tampered_backups_are_refused(folder: Path, tmp_path: Path) -> None:
    make_backup(folder, tmp_path / "sound", with_keys=True)
    for name, tamper in TAMPERING.items():
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        shutil.copytree(tmp_path / "sound", tmp_path / "copy")
        tamper(tmp_path / "copy")
        with pytest.raises((Tampered, BadBank)) as said:
            restore(tmp_path / "copy", tmp_path / "again")
            pytest.fail(f"{name} was not noticed")
        kinds = (BadBank,) if name in ("no manifest", "another format") else (Tampered,)
        assert isinstance(said.value, kinds), f"{name}: {said.value!r}"
        assert not (tmp_path / "again").exists() and not (tmp_path / "again.partial").exists(), name
    restore(tmp_path / "sound", tmp_path / "again")


def test_misuse_is_said(folder: Path, tmp_path: Path) -> None:
    for source, target, what in (
        (tmp_path / "nowhere", tmp_path / "copy", "is no bank"),
        (folder, folder, "exists already"),
    ):
        with pytest.raises(BadBank, match=what):
            make_backup(source, target)
    with pytest.raises(BadBank, match="no backup"):
        restore(folder, tmp_path / "again")
    make_backup(folder, tmp_path / "copy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(BadBank, match="no bank"):
        restore(tmp_path / "copy", tmp_path / "full", RestoreOptions(replace=True))
    (folder / VAULT).unlink()
    with pytest.raises(BadBank, match="no vault"):
        make_backup(folder, tmp_path / "another")
    assert not (tmp_path / "another.partial").exists()
