"""Finds the newest of several copies of one journal: the longest one knows the most of what was spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noisebank.bank.backup_checks import journal_lines, one_file, replayed
from noisebank.core.errors import BadBank, NoisebankError, Tampered
from noisebank.ledger.journal import FILE, read_lines
from noisebank.verifier.bundle import read_bundle
from noisebank.verifier.verification import JournalHistory


@dataclass(frozen=True, slots=True)
class Newest:
    """The journal to restore."""

    lines: Sequence[str]
    history: JournalHistory
    origin: str
    newer: bool
    """Whether it is newer than the backup's own."""
    replaced: bool
    """Whether it is that of the bank that is replaced: no other bank can have gone on from it."""
    warnings: tuple[str, ...]


def newest_journal(copied: Path, old: Path | None, given: Path | None) -> Newest:
    """Returns the longest of the backup's journal, that of the bank that is replaced, and an exported one.

    The backup's must verify. A longer one is used if it verifies, too; a damaged one is left aside, with a warning.
    `Tampered` if two of them tell different histories.
    """
    own = journal_lines(copied)
    one_file(copied)
    warnings = []
    candidates: list[tuple[str, Sequence[str], bool]] = []
    if old is not None and (old / FILE).is_file():
        try:
            candidates.append((f"the bank in {old}", journal_lines(old / FILE), True))
        except NoisebankError as error:
            warnings.append(f"The journal in {old} was left aside: {error}")
    if given is not None:
        exported = read_bundle(given).lines if given.suffix == ".zip" else read_lines(given)
        candidates.append((f"the journal {given.name}", list(exported), False))
    for origin, lines, replaced in sorted(candidates, key=lambda candidate: -len(candidate[1])):
        shared = min(len(own), len(lines))
        if list(lines[:shared]) != own[:shared]:
            if not lines or lines[0] != own[0]:
                raise BadBank(f"{origin} is of another bank than this backup")
            raise Tampered(f"{origin} and the backup tell different histories: find out which is the true one")
        if len(lines) <= len(own):
            continue
        try:
            history = replayed(lines)
        except Tampered as error:
            warnings.append(f"{origin[0].upper()}{origin[1:]} was left aside: {error}")
            continue
        described = f"{origin}, {len(lines) - len(own)} blocks newer than the backup"
        return Newest(lines, history, described, True, replaced, tuple(warnings))
    return Newest(own, replayed(own), "the backup", False, False, tuple(warnings))
