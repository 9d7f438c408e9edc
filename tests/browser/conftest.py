"""One browser for all tests of this folder; a notice where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from browser.chrome import AXE, browser, chromium
from browser.serving import Served, new_bank, served
from noisebank import open_bank
from support.patience import patience

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `browser` needs chromium: without it skipped and said so, and an error under CI=true."""
    if chromium() is not None or os.environ.get("CI") == "true":
        return
    skipped = pytest.mark.skip(reason="chromium is not here: tools/system-parts installs it for root")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(skipped)


@pytest.fixture(scope="session")
def chrome() -> Iterator[Browser]:
    """Fails loudly under CI=true if there is none."""
    assert chromium() is not None, "chromium is needed here"
    with browser() as made:
        yield made


@pytest.fixture(scope="session")
def axe() -> None:
    if not AXE.is_file():
        message = "axe-core is not here: tools/npm-parts installs it"
        assert os.environ.get("CI") != "true", message
        pytest.skip(message)


class Eyes:
    """What a page complained about."""

    def __init__(self) -> None:
        self.complaints: list[str] = []

    def watch(self, page: Page) -> None:
        def said(message: object) -> None:
            kind, text = message.type, message.text  # type: ignore[attr-defined]
            if kind == "error" and "Failed to load resource" not in text:  # a 4xx that a test wants
                self.complaints.append(text)

        page.on("console", said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@pytest.fixture
def page(chrome: Browser) -> Iterator[Page]:
    """A page with an empty profile. Whatever it complains about in its console fails the test: a script that breaks,
    a style or script that the policy refuses."""
    context, eyes = chrome.new_context(viewport={"width": 1280, "height": 860}, accept_downloads=True), Eyes()
    context.on("page", eyes.watch)
    context.set_default_timeout(1_000 * patience())
    made = context.new_page()
    yield made
    context.close()
    assert not eyes.complaints


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A served bank that the tests of a module share."""
    with open_bank(new_bank(tmp_path_factory.mktemp("clinic"))) as bank, served(bank) as made:
        yield made
