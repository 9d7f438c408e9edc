"""Debian's chromium, driven by Playwright: one browser for all tests, an empty profile for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from support.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
AXE = ROOT / ".npm-parts" / "node_modules" / "axe-core" / "axe.min.js"
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


def chromium() -> str | None:
    """Where it is: named by NOISEBANK_CHROMIUM, or on the path."""
    return os.environ.get("NOISEBANK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def browser() -> Iterator[Browser]:
    """Started once; it takes a second."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), headless=True, args=FLAGS)
        try:
            yield made
        finally:
            made.close()


def sign_in(page: Page, address: str, key: str) -> None:
    """By key, through the form."""
    page.goto(f"{address}/sign-in")
    page.get_by_label("Key", exact=True).fill(key)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(lambda url: "/sign-in" not in url)


def serious(page: Page) -> list[str]:
    """What axe finds that keeps somebody out: violations of serious or critical impact."""
    page.evaluate(AXE.read_text())  # not as a script tag: the pages' own policy would refuse it, rightly
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
