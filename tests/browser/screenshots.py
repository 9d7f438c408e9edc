"""Pictures of every page, wide and narrow, for the docs:  python -m browser.screenshots [FOLDER]

Makes the served demonstration in a folder of its own, looks at each page, writes small PNGs.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from browser.chrome import DESKTOP, PHONE, browser, sign_in
from browser.learning import school
from browser.serving import served
from noisebank import create_bank, open_bank
from support.internals import TaskRules
from support.paths import ROOT

TARGET = ROOT / "docs" / "images"
OVER_60 = "SELECT COUNT(*) FROM clinic WHERE ward = 'oncology' AND age >= 60"


@contextmanager
def demo(folder: Path) -> Iterator[dict[str, object]]:
    """`noisebank demo --serve` as a process of its own."""
    command = [sys.executable, "-m", "noisebank", "demo", "--serve", "--port", "0", "--folder", str(folder), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith('"\n}'):
            line = process.stdout.readline()
            assert line, text
            text += line
        yield json.loads(text)
    finally:
        process.terminate()
        process.wait(30)


def save(page: Page, name: str, whole: bool) -> None:
    """Few colours make a small file; text stays sharp."""
    raw = page.screenshot(full_page=whole, animations="disabled")
    picture = Image.open(io.BytesIO(raw)).convert("RGB")
    if picture.height > 2_400:
        picture = picture.crop((0, 0, picture.width, 2_400))
    picture.quantize(64, dither=Image.Dither.NONE).save(TARGET / f"{name}.png", optimize=True)


def save_part(part: Locator, name: str) -> None:
    """One piece of a page."""
    picture = Image.open(io.BytesIO(part.screenshot(animations="disabled"))).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(TARGET / f"{name}.png", optimize=True)


def shoot(chrome: Browser, shown: dict[str, object], size: dict[str, int], label: str, dark: bool = False) -> None:
    """Every page at one width."""
    address, keys = str(shown["address"]), shown["keys"]
    assert isinstance(keys, dict)
    wide = label == "wide"
    context = chrome.new_context(viewport=size, color_scheme="dark" if dark else "light")  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{address}/")
    save(page, f"web-start-{label}", wide)
    page.goto(f"{address}/d/clinic")
    save(page, f"web-public-{label}", True)
    page.goto(f"{address}/d/nothing-here")
    save(page, f"web-missing-{label}", False)
    page.goto(f"{address}/sign-in")
    save(page, f"web-sign-in-{label}", False)
    page.goto(f"{address}/d/clinic/ledger")
    page.get_by_role("button", name="Verify").click()
    page.get_by_text("Verified: the books balance").wait_for()
    save(page, f"web-ledger-{label}", True)
    sign_in(page, address, keys["maria"])
    page.goto(f"{address}/d/clinic/console")
    page.get_by_role("radio", name="SQL").check()
    page.locator("#sql").fill(OVER_60)
    page.get_by_text("Left afterwards").wait_for()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Ask").click()
    page.locator("#answer .value").wait_for()
    page.wait_for_timeout(600)
    page.evaluate("window.scrollTo(0, 0)")
    save(page, f"web-console-{label}", True)
    page.locator("#sql").fill("SELECT COUNT(*) FROM clinic WHERE days > 3")
    page.get_by_role("radio", name="Percent").check()
    page.get_by_text("for true values of").wait_for()
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Ask").click()
    page.locator("#reached").wait_for()
    page.wait_for_timeout(600)
    page.evaluate("window.scrollTo(0, 0)")
    save(page, f"web-percent-{label}", True)
    page.get_by_role("radio", name="Accuracy").check()
    page.get_by_role("radio", name="Build one").check()
    page.get_by_label("for each").select_option("ward")
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Ask").click()
    page.locator("#answer svg.bars").wait_for()
    page.wait_for_timeout(400)
    save_part(page.locator("#answer"), f"web-groups-{label}")
    context.clear_cookies()
    sign_in(page, address, keys["owner"])
    page.goto(f"{address}/d/clinic/statement")
    page.locator(".chart canvas").wait_for()
    save(page, f"web-statement-{label}", True)
    page.goto(f"{address}/d/survey/statement")
    page.locator(".chart canvas").wait_for()
    page.wait_for_timeout(300)
    save(page, f"web-survey-{label}", False)
    context.close()


def shoot_empty(chrome: Browser, room: Path) -> None:
    """The first page of a bank in which nothing is."""
    create_bank(room / "empty" / "bank")
    with open_bank(room / "empty" / "bank") as bank, served(bank) as desk:
        for size, label in ((DESKTOP, "wide"), (PHONE, "phone")):
            page = chrome.new_page(viewport=size)  # type: ignore[arg-type]
            page.goto(desk.address)
            save(page, f"web-first-run-{label}", True)
            page.goto(f"{desk.address}/learning")
            save(page, f"web-first-learning-{label}", True)
            page.close()


def shoot_learning(chrome: Browser, room: Path) -> None:
    """What a crowd of ten learned from made-up images, two of them cheating; a sound task; devices on a ledger."""
    given: dict[str, Any] = {
        "rules": TaskRules(round_count=5, byzantine=3, expected_seats=20, patience_seconds=600), "count": 10,
        "conducts": {(2, 8): "missing", (3, 8): "stolen", **{(round, 9): "flipped" for round in range(1, 6)}},
    }  # fmt: skip
    with school(room / "school", **given) as made:
        looks = [
            ("learning", ""),
            ("task", made.paper.task.hex()),
            ("sound", made.sound.task.hex()),
            ("sgd", made.offers),
        ]
        for size, label, dark in ((DESKTOP, "wide", False), (PHONE, "phone", False), (DESKTOP, "dark", True)):
            context = chrome.new_context(viewport=size, color_scheme="dark" if dark else "light")  # type: ignore[arg-type]
            page = context.new_page()
            for name, id in looks:
                page.goto(f"{made.address}/learning{'/' + id if id else ''}")
                if name == "task":
                    page.locator(".chart canvas").wait_for()
                    page.get_by_role("button", name="Verify").click()
                    page.locator("#verdict").wait_for()
                    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
                if name == "sound":  # its models are made up: training them needs torch. What is charged is real
                    save_part(page.locator("section:has(#spending)"), f"web-{name}-{label}")
                else:
                    save(page, f"web-{name}-{label}", True)
            context.close()


def main() -> None:
    """All of them."""
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as room, browser() as chrome:
        (Path(room) / "school").mkdir()
        shoot_learning(chrome, Path(room))
        shoot_empty(chrome, Path(room))
        with demo(Path(room) / "demo") as shown:
            shoot(chrome, shown, DESKTOP, "wide")
            shoot(chrome, shown, PHONE, "phone")
            shoot(chrome, shown, DESKTOP, "dark", dark=True)
            for name in (
                "start",
                "public",
                "missing",
                "sign-in",
                "ledger",
                "groups",
                "percent",
                "survey",
            ):  # two dark ones tell enough
                (TARGET / f"web-{name}-dark.png").unlink()


if __name__ == "__main__":
    main()
