"""The documents are held to the code: commands, options, settings, errors, public names, links."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path

import click
import pytest

import noisebank
from noisebank.core import errors
from support.internals import COLUMN_KEYS, TOP_KEYS, Client, RemoteAccount, list_problems, list_settings, parse_policy
from support.paths import ROOT
from tools.docsite.commands import PROGRAMS, list_commands, split_help
from tools.docsite.reference import PAGES as REFERENCE

README = (ROOT / "README.md").read_text()
PAGES = [page for page in ROOT.glob("docs/**/*.md") if not {"generated", "project", "_build"} & set(page.parts)]
MAX_CELL = 400
COMMANDS = [pair for program, group in PROGRAMS for pair in list_commands(group, program)]


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Every generated page of the reference, as `make docs` writes it."""
    return {name: write_page() for name, write_page in REFERENCE.items()}


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_explains_itself(path: str, command: click.Command) -> None:
    """The reference is made of this: a text, an example that is the command's own, a meaning for every option."""
    text, examples = split_help(command.help or "")
    assert text and examples and all(path in example for example in examples)
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert any(option.name == "as_json" for option in command.params)


def test_every_command_and_option_is_in_the_reference(reference: dict[str, str]) -> None:
    for path, command in COMMANDS:
        section = reference["commands"].split(f"## {path}\n")[1].split("\n## ")[0]
        for option in command.params:
            if isinstance(option, click.Option):
                assert f"`{option.opts[0]}`" in section, (path, option.opts[0])


def test_every_setting_and_error_is_in_the_reference(reference: dict[str, str]) -> None:
    for key in TOP_KEYS:
        assert f"| `{key}` |" in reference["policy"], key
    for key in COLUMN_KEYS:
        assert f"| `columns.NAME.{key}` |" in reference["policy"], key
    for name, _, text in list_settings():
        assert f"| `{name}` |" in reference["settings"] and text.replace("|", "\\|") in reference["settings"], name
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.NoisebankError):
            assert f"| `{name}` |" in reference["errors"], name
            assert name in (errors.__doc__ or ""), name


def test_every_route_problem_and_verb_is_in_the_reference(reference: dict[str, str]) -> None:
    for row in list_problems():
        assert f"| `{row.name}` | {row.status} | {row.title} |" in reference["problems"]
    routes = re.findall(r"^### ([A-Z]+ /v1\S*)$", reference["http"], re.MULTILINE)
    assert len(routes) == len(set(routes)) and {"GET /v1/health", "POST /v1/datasets/{dataset}/answers"} <= set(routes)
    for name in noisebank.__all__:
        assert f"## noisebank.{name}\n" in reference["python"], name
    for kind in (Client, RemoteAccount):
        for name in vars(kind):
            if not name.startswith("_"):
                assert f"### {kind.__name__}.{name}\n" in reference["python"], name
    assert "0x" not in reference["python"]  # no default that is an object of this process


def test_every_generated_page_is_included() -> None:
    for name in REFERENCE:
        assert any(f"{{include}} generated/{name}.md" in page.read_text() for page in PAGES), name


def test_every_page_is_in_the_site() -> None:
    """Every page is named by the index of its part: readers who browse find it."""
    for page in PAGES:
        index = page.parent / "index.md"
        assert index.exists(), page
        listed = index.read_text()
        entry = re.search(rf"^(?:.* <)?{page.stem}>?$", listed, re.MULTILINE)
        assert page == index or ":glob:" in listed or entry, page


def test_no_cell_is_an_essay() -> None:
    texts = {str(page): page.read_text() for page in PAGES}
    texts |= {name: write_page() for name, write_page in REFERENCE.items()}
    for name, text in texts.items():
        for line in text.splitlines():
            if line.startswith("|"):
                assert max(map(len, re.split(r"(?<!\\)\|", line))) < MAX_CELL, f"{name}: {line[:80]}"


def test_the_policy_of_the_reference_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "policy.md").read_text()
    text = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert text and parse_policy(text.group(1), tmp_path).name == "survey"


def test_public_names_are_sorted_and_real() -> None:
    assert noisebank.__all__ == sorted(noisebank.__all__)
    assert all(getattr(noisebank, name) is not None for name in noisebank.__all__)
    with pytest.raises(AttributeError):
        _ = noisebank.nonsense


def test_links_between_documents_work() -> None:
    """For readers of the repository; `make docs` also checks the parts of pages that links name."""
    for page in [*ROOT.glob("*.md"), *PAGES]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target and "docs/project" not in str((page.parent / target).resolve()):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_documents_named_in_the_code_exist() -> None:
    for source in [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "research").rglob("*.py")]:
        if source.parent.name == "tools":  # tests of tools write documents of their own
            continue
        for path in re.findall(r"\bdocs/[\w/-]+\.md", source.read_text()):
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
