"""The journal: on disk once `append` returns, in order, for the owner's eyes only."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from ledger_history import history
from noisebank.core.errors import BadBank
from noisebank.ledger.block import Block, Genesis, read_exported_lines
from noisebank.ledger.journal import Journal

LINES = list(history())
GENESIS = Genesis.from_canonical_json(LINES[0])
BLOCKS = [Block.from_canonical_json(line, GENESIS.chain_id, number) for number, line in enumerate(LINES[1:])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def test_lines_come_back_in_order_and_unchanged(path: Path):
    journal = Journal(path)
    assert list(journal.read_lines()) == []
    journal.write_genesis(GENESIS)
    for block in BLOCKS:
        journal.append(block)
    assert list(journal.read_lines()) == LINES
    journal.close()
    again = Journal(path)
    assert list(again.read_lines()) == LINES
    again.close()


def test_line_is_on_disk_when_append_returns(path: Path):
    journal = Journal(path)
    journal.write_genesis(GENESIS)
    for number, block in enumerate(BLOCKS[:3]):
        journal.append(block)
        other = Journal(path)
        assert len(list(other.read_lines())) == number + 2
        other.close()
    journal.close()


def test_commits_wait_for_the_disk(path: Path):
    journal = Journal(path)
    assert journal._database.pragma("synchronous") == 2
    assert journal._database.pragma("journal_mode") == "wal"
    journal.close()


def test_append_is_on_disk_though_an_export_is_being_read(path: Path):
    journal = Journal(path)
    journal.write_genesis(GENESIS)
    journal.append(BLOCKS[0])
    export = journal.read_lines()
    assert next(export) == LINES[0]
    journal.append(BLOCKS[1])
    other = Journal(path)
    assert list(other.read_lines()) == LINES[:3]
    other.close()
    assert next(export) == LINES[1]
    journal.close()


def test_block_is_never_replaced(path: Path):
    journal = Journal(path)
    journal.write_genesis(GENESIS)
    journal.append(BLOCKS[0])
    with pytest.raises(apsw.ConstraintError):
        journal.append(BLOCKS[0])
    with pytest.raises(apsw.ConstraintError):
        journal.write_genesis(GENESIS)
    assert list(journal.read_lines()) == LINES[:2]
    journal.close()


def test_file_is_for_its_owners_eyes_only(path: Path):
    journal = Journal(path)
    journal.write_genesis(GENESIS)
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file.name
    journal.close()


def test_what_is_no_database_is_a_bad_bank(path: Path):
    path.write_text("no database at all, but long enough to have a header of its own " * 20)
    with pytest.raises(BadBank, match="cannot be opened"):
        Journal(path)


def test_exported_file_reads_back(tmp_path: Path):
    export = tmp_path / "journal.txt"
    export.write_text("\n".join(LINES) + "\n")
    assert list(read_exported_lines(export)) == LINES
    export.write_text("\n".join(LINES))
    assert list(read_exported_lines(export)) == LINES


def test_line_ends_of_other_systems_are_not_mended(tmp_path: Path):
    export = tmp_path / "journal.txt"
    export.write_bytes("\r\n".join(LINES).encode())
    assert next(iter(read_exported_lines(export))) == LINES[0] + "\r"
    export.write_text("\n".join(LINES) + "\n\n")
    assert list(read_exported_lines(export)) == [*LINES, ""]


def test_bytes_that_are_no_text_stay_visible(tmp_path: Path):
    export = tmp_path / "journal.txt"
    export.write_bytes(LINES[0].encode() + b"\xff\n")
    assert list(read_exported_lines(export)) == [LINES[0] + "\ufffd"]


def test_missing_export_is_a_bad_bank(tmp_path: Path):
    with pytest.raises(BadBank, match="cannot be read"):
        read_exported_lines(tmp_path / "none")
    with pytest.raises(BadBank, match="cannot be read"):
        read_exported_lines(tmp_path)
