"""The documents are held to the code: commands, options, settings, errors, public names, links."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import click
import pytest

import noisebank
from noisebank.cli.main import main
from noisebank.core import errors
from research.__main__ import main as research
from support.internals import COLUMN_KEYS, TOP_KEYS, list_settings, parse_policy
from support.paths import ROOT

GUIDE = (ROOT / "docs" / "guide.md").read_text()
README = (ROOT / "README.md").read_text()


def commands(group: click.Group, prefix: str = "noisebank") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, command in group.commands.items():
        path = f"{prefix} {name}"
        found += commands(command, path) if isinstance(command, click.Group) else [(path, command)]
    return found


COMMANDS = [*commands(main), *commands(research, "python -m research")]


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_is_in_the_guide_with_an_example(path: str, command: click.Command) -> None:
    assert f"`{path}`" in GUIDE
    assert "Example:" in (command.help or "")
    for option in command.params:
        if isinstance(option, click.Option):
            assert f"`{option.opts[0]}`" in GUIDE, option.opts[0]
    assert any(option.name == "as_json" for option in command.params)


def test_every_command_that_the_guide_names_exists() -> None:
    known = {path for path, _ in COMMANDS}
    for path in re.findall(r"^\| `((?:noisebank|python -m research) [a-z0-9 ]+)` \|", GUIDE, re.MULTILINE):
        assert path in known


def test_every_setting_is_in_the_guide() -> None:
    for key in TOP_KEYS:
        assert re.search(rf"`{key}[.`]", GUIDE), key
    for key in COLUMN_KEYS:
        assert f"`columns.NAME.{key}`" in GUIDE, key


def test_every_setting_of_the_service_is_in_the_guide() -> None:
    for name, default, text in list_settings():
        shown = f"`{default}`" if default else "(empty)"
        assert f"| `{name}` | {shown} | {text} |" in GUIDE, name


def test_every_error_is_in_the_guide_and_in_the_drawn_tree() -> None:
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.NoisebankError):
            assert f"`{name}`" in GUIDE, name
            assert name in (errors.__doc__ or ""), name


def test_the_guides_policy_is_valid(tmp_path: Path) -> None:
    text = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    assert text and parse_policy(text.group(1), tmp_path).name == "survey"


def test_public_names_are_sorted_and_real() -> None:
    assert noisebank.__all__ == sorted(noisebank.__all__)
    assert all(getattr(noisebank, name) is not None for name in noisebank.__all__)
    with pytest.raises(AttributeError):
        _ = noisebank.nonsense


def test_links_between_documents_work() -> None:
    for page in [ROOT / "README.md", *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_proofs_named_in_the_code_exist() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        for path in re.findall(r"docs/proofs/\w+\.md", source.read_text()):
            assert (ROOT / path).exists(), f"{source.name}: {path}"


def test_no_tracked_file_points_outside_the_project() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    here = str(ROOT.parent) + "/"
    for name in listed:
        if Path(name).suffix in (".png", ".svg") or name in (".ci/run", "tools/lock", "tests/system/test_docs.py"):
            continue
        text = (ROOT / name).read_text(errors="replace") if (ROOT / name).is_file() else ""
        assert "shared" + "/data" not in text and here not in text, name
        assert not re.search(r"--(extra-)?index-url|--find-links|files\.python" + "hosted", text), name


def test_the_readme_names_both_commands() -> None:
    assert "make demo" in README and "make test" in README
