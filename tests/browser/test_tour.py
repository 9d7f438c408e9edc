"""The served demonstration: from the tour on its first page to each seed, by clicks, and what is to be seen there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser.chrome import DESKTOP, PHONE, serious, sign_in
from browser.serving import EASY, serve_app
from noisebank import open_bank
from support.internals import fill_bank, list_stops, run_demonstration, show_seeds

pytestmark = pytest.mark.browser


@dataclass
class Shown:
    """The demonstration's address and keys."""

    address: str
    keys: dict[str, str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """As `noisebank demo --serve` makes it, with ten requests instead of 150."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noisebank.demo.survey_demo.REQUEST_COUNT", 10)
        folder = run_demonstration(tmp_path_factory.mktemp("demo") / "demo").folder
    settings = show_seeds(replace(EASY, bank=folder / "bank"), folder)
    with open_bank(folder / "bank") as bank:
        keys = fill_bank(bank)
        with serve_app(bank, settings, list_stops(bank, settings)) as address:
            yield Shown(address, keys)


def visit(page: Page, demo: Shown, link: str) -> str:
    """Clicks a link of the tour on the first page; what the page behind it says."""
    page.goto(demo.address)
    page.locator(".tour").get_by_role("link", name=link, exact=True).click()
    page.wait_for_url(lambda url: url.rstrip("/") != demo.address)
    return page.locator("main").inner_text()


def test_each_paper_has_a_stop_with_a_sentence_and_its_page(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    stops = page.locator(".tour > li")
    assert stops.count() == 6
    papers = stops.locator("code").all_inner_texts()
    assert papers == [f"docs/papers/{name}.md" for name in ("p0", "p1", "p2", "p3", "p4", "p4")]
    assert all(stop.locator("p").first.inner_text().endswith(".") for stop in stops.all())
    assert page.locator(".tour a").count() == 10


def test_the_three_tables_say_what_was_asked(page: Page, demo: Shown) -> None:
    assert "10 answers were given" in visit(page, demo, "survey")
    assert "smoker" in visit(page, demo, "clinic")
    assert "kwh_a_day" in visit(page, demo, "meters")


def test_a_relay_round_says_who_is_protected_from_whom(page: Page, demo: Shown) -> None:
    text = visit(page, demo, "A relay as in the paper")
    assert re.search(r"\b[5-9] of 10 members have no protection", text)
    rows = page.locator("#members tbody tr")
    assert rows.count() == 10
    assert rows.first.locator("td").nth(2).inner_text() != "none"  # the first of the relay adds the noise for all
    assert rows.nth(4).locator("td").nth(2).inner_text() == "none"
    assert "no protection" in rows.nth(4).inner_text() and "known to the host alone" in text
    text = visit(page, demo, "A sum under masks")
    assert "Every member is protected" in text and "no protection" not in page.locator("#members").inner_text()
    server = page.locator("#members thead th").all_inner_texts().index("the server alone")
    epsilons = [row.locator("th, td").nth(server).inner_text() for row in page.locator("#members tbody tr").all()]
    assert len(epsilons) == 10 and set(epsilons) == {"ε 4"}


def test_the_recorded_crowd_verifies_and_warns_of_its_judge(page: Page, demo: Shown) -> None:
    text = visit(page, demo, "handwritten digits")
    assert "4 of 4" in text and "Multi-KRUM refuses 2 of 7 submissions, 29%, in every round" in text
    page.get_by_role("button", name="Verify").click()
    page.locator("#verdict.good", has_text="every round comes out the same").wait_for()
    accuracies = page.locator("#rounds-card tbody tr td").all_inner_texts()
    assert max(float(found) for found in accuracies if re.fullmatch(r"0\.\d{3}", found)) > 0.75


def test_phones_report_once_and_accuracy_is_asked_for_in_the_console(page: Page, demo: Shown) -> None:
    assert "2,000 of 2,000 devices" in visit(page, demo, "phone batteries").replace("\u202f", ",")
    sign_in(page, demo.address, demo.keys["maria"])
    text = visit(page, demo, "ask within a distance, as maria or noor")
    assert "Left" in text or "left" in text
    page.get_by_role("button", name="Ask").wait_for()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, demo.address, demo.keys["owner"])
    page.goto(f"{demo.address}/d/clinic/statement")
    assert "clinic" in page.locator("main").inner_text()


def test_first_page_and_relay_are_whole_on_a_phone_and_for_everybody(
    chrome: Browser, demo: Shown, axe: None
) -> None:  # fmt: skip
    for size in (PHONE, DESKTOP):
        context = chrome.new_context(viewport=size)  # type: ignore[arg-type]
        page = context.new_page()
        for link in ("", "A relay as in the paper"):
            page.goto(demo.address)
            if link:
                page.locator(".tour").get_by_role("link", name=link).click()
                page.locator("#members").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert not serious(page)
        context.close()


def test_links_lead_to_the_documentation_where_it_has_an_address(
    page: Page, demo: Shown, tmp_path: Path
) -> None:  # fmt: skip
    from browser.serving import new_bank

    settings = replace(EASY, docs="http://127.0.0.1:9/docs/")
    with open_bank(new_bank(tmp_path)) as bank:
        from support.internals import TourStop

        stops = [TourStop("One", "A sentence.", (("/d/clinic", "clinic"),), "p1")]
        with serve_app(bank, settings, stops) as address:
            page.goto(address)
            assert page.locator(".tour").get_by_role("link", name="P1").get_attribute("href") == (
                "http://127.0.0.1:9/docs/papers/p1.html"
            )
