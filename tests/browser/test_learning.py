"""The pages of learning in a real browser: what a crowd did, who was refused and why, what each device has spent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from browser.chrome import PHONE, serious, sign_in
from browser.learning import School, school
from browser.serving import Served
from support.internals import format_cid, load_global_model, measure_accuracy, read_examples

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[School]:
    with school(tmp_path_factory.mktemp("school")) as made:
        yield made


def test_a_task_with_its_rounds_verdicts_reputations_and_models(page: Page, taught: School) -> None:
    page.goto(taught.address)
    page.get_by_role("link", name="Learning").click()
    assert page.locator(".card h2").all_inner_texts() == ["private glyphs", "glyphs", "offers"]
    page.get_by_role("link", name="glyphs", exact=True).click()
    page.locator(".chart canvas").wait_for()  # after the models were measured, without loading the page again
    assert "Accuracy by round" in str(page.locator(".chart .uplot").get_attribute("aria-label"))
    books = taught.paper.registry.read_books(taught.paper.task)
    rows = page.locator("#rounds-card .scroll tbody tr")
    assert rows.count() == 3 and rows.first.inner_text().startswith("start")
    terms, examples = taught.paper.terms, read_examples(str(taught.paper.folder / "test.npz"), 8)
    for number, row in enumerate(rows.all()):
        model = load_global_model(books, taught.paper.store, number, terms.shape.weight_count)
        assert (
            row.locator("td, th").nth(6).inner_text() == f"{measure_accuracy(terms, model.to_floats(), examples):.3f}"
        )
    assert str(taught.paper.folder) not in page.content()
    last = books.rounds[-1].model_digest
    assert last is not None and format_cid(last) in page.locator("#stands-card").inner_text()
    assert rows.last.locator("code[title^=content]").get_attribute("title") == f"content identifier: {format_cid(last)}"

    verdicts = page.locator("#submissions tbody tr")  # of the newest round, until another is chosen
    assert verdicts.count() == 7 and page.locator("#round").inner_text().startswith("Round 2")
    assert verdicts.locator(".badge").all_inner_texts() == ["accepted"] * 5 + ["malformed", "outlier"]
    assert "not who submitted it" in verdicts.nth(5).inner_text()
    page.get_by_role("link", name="Round 1 in full").click()
    page.locator("#round", has_text="Round 1").wait_for()
    assert "nothing is stored under its identifier" in verdicts.nth(5).inner_text()
    assert "Multi-KRUM" in verdicts.nth(6).inner_text()
    page.wait_for_function("() => document.activeElement.id === 'round'")
    leader = books.rounds[0].drawings[-1].leader
    leads = page.locator("#round-card tr", has_text="leads")
    assert leads.count() == 1 and leads.locator("code").get_attribute("title") == leader

    members = page.locator("section:has(#members) tbody tr")
    reputations = {
        each.locator("code").get_attribute("title"): each.locator("td").nth(1).inner_text() for each in members.all()
    }
    assert reputations == {address: str(member.reputation) for address, member in books.members.items()}
    text = page.locator("section:has(#privacy)").inner_text()
    assert "No guarantee for an example as a whole" in text and "an image: it changes all" in text
    assert page.locator("#spending").count() == 0


def test_spending_of_each_device_of_a_sound_task_comes_from_the_ledger(page: Page, taught: School) -> None:
    page.goto(f"{taught.address}/learning/{taught.sound.task.hex()}")
    assert "Round 2: the committee is drawn" in page.locator("#stands-card").inner_text()
    assert page.locator("#stands-card").get_attribute("hx-trigger") == "every 5s"
    rows = page.locator("section:has(#spending) tbody tr")
    assert rows.count() == 7
    cells = rows.first.locator("td").all_inner_texts()
    assert cells[:2] == ["2", "1e-5"] and cells[3:5] == ["2", "8"]
    assert "epsilon 2, delta 1e-05" in page.locator("section:has(#privacy)").inner_text()
    taught.sound.judge()  # while somebody looks, the round is finished
    page.locator("#stands-card", has_text="Finished").wait_for()
    page.get_by_role("link", name="Load the page again").click()
    page.locator("#rounds-card", has_text="going on").wait_for(state="detached")


def test_devices_on_the_banks_own_ledger_and_their_model_for_its_owner(page: Page, taught: School) -> None:
    page.goto(f"{taught.address}/learning/{taught.offers}")
    text = page.locator("main").inner_text()
    assert "20 of 23 devices have taken part: finished" in text and "3 devices fill no group" in text
    assert "epsilon 1, delta 0" in text and page.locator("section:has(#spending) tbody tr").count() == 4
    assert "Shown to the bank's owner and curator" in text
    page.get_by_role("button", name="Verify").click()
    page.locator("#verdict.good", has_text="the books balance").wait_for()
    sign_in(page, taught.address, taught.desk.keys["maria"])
    page.goto(f"{taught.address}/learning/{taught.offers}")
    assert page.locator("section:has(#model) tbody tr").count() == 0
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, taught.address, taught.desk.keys["owner"])
    page.goto(f"{taught.address}/learning/{taught.offers}")
    weights = page.locator("section:has(#model) tbody td").all_inner_texts()
    assert len(weights) == 4 and all(re.fullmatch(r"[+-]\d\.\d{4}", each) for each in weights)


def test_verify_re_runs_the_rounds_and_a_changed_model_is_red(page: Page, taught: School) -> None:
    page.goto(f"{taught.address}/learning/{taught.paper.task.hex()}")
    page.get_by_role("button", name="Verify").click()
    page.locator("#verdict.good", has_text="every round comes out the same").wait_for()
    assert "2 finished rounds" in page.locator("#verdict").inner_text()
    assert page.evaluate("document.activeElement.closest('#verdict') !== null")
    first = taught.paper.registry.read_books(taught.paper.task).rounds[0].submissions[0]
    path = taught.paper.store.content_path(first.digest)
    honest = path.read_bytes()
    path.write_bytes(honest[:-4] + b"\1\0\0\0")
    try:
        page.get_by_role("button", name="Verify").click()
        page.locator("#verdict.bad", has_text="Does not verify").wait_for()
        assert page.locator("#verdict").get_attribute("role") == "alert"
        assert "recorded is" in page.locator("#report").inner_text()
    finally:
        path.write_bytes(honest)


PATHS = ("/learning", "/learning/{paper}", "/learning/{sound}", "/learning/{offers}")


def _paths(taught: School) -> list[str]:
    ids = {"paper": taught.paper.task.hex(), "sound": taught.sound.task.hex(), "offers": taught.offers}
    return [path.format(**ids) for path in PATHS]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_pages_of_learning(
    chrome: Browser, taught: School, axe: None, scheme: str
) -> None:
    context = chrome.new_context(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    for path in _paths(taught):
        page.goto(taught.address + path)
        if path.endswith(taught.paper.task.hex()) and scheme == "light":
            page.locator(".chart canvas").wait_for()
            page.get_by_role("button", name="Verify").click()
            page.locator("#verdict").wait_for()
        found[path] = serious(page)
    context.close()
    assert not {path: each for path, each in found.items() if each}


def test_pages_of_learning_fit_a_phone_and_are_small(chrome: Browser, taught: School) -> None:
    context = chrome.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    sizes: dict[str, int] = {}

    def weigh(request: Any) -> None:
        response = request.response()
        if response and response.status == 200:
            sizes[page.url] = sizes.get(page.url, 0) + len(response.body())

    context.route("**/*", lambda route: route.continue_())
    page.on("requestfinished", weigh)
    for path in _paths(taught):
        page.goto(taught.address + path)
        page.wait_for_load_state("load")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{path} is {wide} wide on a screen of {PHONE['width']}"
    assert not complaints and sizes
    assert max(sizes.values()) < 300_000, sizes
    context.close()


def test_without_scripts_a_round_can_be_chosen_and_the_task_verified(chrome: Browser, taught: School) -> None:
    context = chrome.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{taught.address}/learning/{taught.paper.task.hex()}")
    page.get_by_role("link", name="Round 1 in full").click()
    assert page.locator("#round").inner_text().startswith("Round 1")
    assert page.locator(".chart svg").get_attribute("aria-label")
    page.get_by_role("button", name="Verify").click()
    assert "every round comes out the same" in page.locator("#verdict").inner_text()
    context.close()


def test_by_keyboard_a_task_is_found_and_verified(page: Page, taught: School) -> None:
    def tab_to(what: str, most: int = 40) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("what => document.activeElement.matches(what)", what):
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", what
                return
        raise AssertionError(f"{what} cannot be reached")

    page.goto(taught.address)
    tab_to('nav a[href="/learning"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/learning")
    tab_to(f'a[href="/learning/{taught.offers}"]')
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{taught.offers}")
    tab_to("#verify-button")
    page.keyboard.press("Enter")
    page.locator("#verdict.good").wait_for()
    page.wait_for_function("() => document.activeElement.closest('#verdict') !== null")


def test_where_nothing_is_learned_the_page_explains_how(page: Page, clinic: Served) -> None:
    page.goto(f"{clinic.address}/d/clinic")
    page.get_by_role("link", name="Learning").click()
    text = page.locator("main").inner_text()
    assert "Nothing is being learned here yet" in text
    assert "noisebank learn sgd" in text and "noisebank learn host" in text and "NOISEBANK_LEARNING=chain" in text
    said = page.goto(f"{clinic.address}/learning/{'00' * 32}")
    assert said and said.status == 404 and "There is nothing here" in page.locator("h1").inner_text()


def test_a_chain_that_cannot_be_read_is_said_without_its_path(page: Page, tmp_path: Path) -> None:
    from dataclasses import replace

    from browser.serving import EASY, new_bank, served
    from noisebank import open_bank

    settings = replace(EASY, learning=str(tmp_path / "nowhere"))
    with open_bank(new_bank(tmp_path)) as bank, served(bank, settings) as desk:
        page.goto(f"{desk.address}/learning")
        text = page.locator("main").inner_text()
        assert "may be old or incomplete" in text and "nowhere holds no crowd's chain" in text
        assert str(tmp_path) not in page.content()
