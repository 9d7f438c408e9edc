"""A folder that appears complete or not at all. The whole file takes a tenth of a second."""

from __future__ import annotations

from pathlib import Path
from stat import S_IMODE

import pytest

from noisebank.bank.backup_folder import LOCK, copy_file, move_into_place, sibling_folder, stage_folder
from noisebank.core.errors import BadBank, BankInUse


def test_what_a_killed_process_left_does_not_get_into_the_next_folder(tmp_path: Path) -> None:
    target = tmp_path / "new" / "copy"
    left = sibling_folder(target, "partial")
    (left / "keys").mkdir(parents=True)
    (left / "keys" / "old.key").write_text("old")
    (left / "manifest.json").write_text("old")
    (left / "elsewhere").symlink_to(tmp_path)
    with stage_folder(target) as staging:
        assert staging == left and [path.name for path in staging.iterdir()] == [LOCK]
        (staging / "manifest.json").write_text("new")
        move_into_place(staging, target)
    assert sorted(path.name for path in target.iterdir()) == [LOCK, "manifest.json"] and not left.exists()
    assert (target / "manifest.json").read_text() == "new" and tmp_path.exists()


def test_a_folder_is_written_by_one_process_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    with pytest.raises(ZeroDivisionError), stage_folder(target) as staging:
        (staging / "half").write_text("half")
        assert S_IMODE(staging.stat().st_mode) == 0o700 and S_IMODE((staging / LOCK).stat().st_mode) == 0o600
        with pytest.raises(BankInUse, match="another process"), stage_folder(target):
            pass
        assert (staging / "half").read_text() == "half"
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_copy_is_for_its_owner_and_never_over_another_file(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"abc" * 1000)
    source.chmod(0o644)
    copy_file(source, tmp_path / "new" / "copy")
    copied = tmp_path / "new" / "copy"
    assert copied.read_bytes() == source.read_bytes() and S_IMODE(copied.stat().st_mode) == 0o600
    assert S_IMODE(copied.parent.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        copy_file(source, copied)
    with pytest.raises(BadBank, match="cannot be copied"):
        copy_file(tmp_path / "missing", tmp_path / "other")
