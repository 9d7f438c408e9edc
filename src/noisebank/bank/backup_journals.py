"""Finds the newest of several copies of one journal: the longest one knows the most of what was spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from noisebank.bank.backup_checks import merge_wal, read_journal_file, replay_journal
from noisebank.core.errors import BadBank, NoisebankError, Tampered
from noisebank.ledger.block import read_exported_lines
from noisebank.ledger.journal import JOURNAL_FILE
from noisebank.verifier.bundle import read_bundle
from noisebank.verifier.verification import JournalHistory


@dataclass(frozen=True, slots=True)
class NewestJournal:
    """The journal to restore."""

    lines: Sequence[str]
    history: JournalHistory
    origin: str
    is_newer: bool
    """Whether it is newer than the backup's own."""
    is_replaced_banks: bool
    """Whether it is that of the bank that is replaced: no other bank can have gone on from it."""
    warnings: tuple[str, ...]


def find_newest_journal(
    backup_journal: Path, replaced_bank: Path | None, exported_journal: Path | None
) -> NewestJournal:
    """Returns the longest of the backup's journal, that of the bank that is replaced, and an exported one.

    The backup's must verify. A longer one is used if it verifies, too; a damaged one is left aside, with a warning.
    `Tampered` if two of them tell different histories.
    """
    own = read_journal_file(backup_journal)
    merge_wal(backup_journal)
    warnings = []
    candidates: list[tuple[str, Sequence[str], bool]] = []
    if replaced_bank is not None and (replaced_bank / JOURNAL_FILE).is_file():
        try:
            candidates.append((f"the bank in {replaced_bank}", read_journal_file(replaced_bank / JOURNAL_FILE), True))
        except NoisebankError as error:
            warnings.append(f"The journal in {replaced_bank} was left aside: {error}")
    if exported_journal is not None:
        exported = (
            read_bundle(exported_journal).journal_lines
            if exported_journal.suffix == ".zip"
            else read_exported_lines(exported_journal)
        )
        candidates.append((f"the journal {exported_journal.name}", list(exported), False))
    for origin, lines, replaced in sorted(candidates, key=lambda candidate: -len(candidate[1])):
        shared = min(len(own), len(lines))
        if list(lines[:shared]) != own[:shared]:
            if not lines or lines[0] != own[0]:
                raise BadBank(f"{origin} is of another bank than this backup")
            raise Tampered(f"{origin} and the backup tell different histories: find out which is the true one")
        if len(lines) <= len(own):
            continue
        try:
            history = replay_journal(lines)
        except Tampered as error:
            warnings.append(f"{origin[0].upper()}{origin[1:]} was left aside: {error}")
            continue
        described = f"{origin}, {len(lines) - len(own)} blocks newer than the backup"
        return NewestJournal(lines, history, described, True, replaced, tuple(warnings))
    return NewestJournal(own, replay_journal(own), "the backup", False, False, tuple(warnings))
