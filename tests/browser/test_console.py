"""The analyst's way through the console, in a real browser, with the bank watched from inside."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.chrome import sign_in
from browser.serving import Served, new_bank, served
from noisebank import open_bank
from noisebank.service.roles import Role

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker AND days > 5"


def quoted(page: Page, text: str) -> None:
    """Waits until the price says so."""
    page.locator("#quote", has_text=text).wait_for()


def settled(page: Page) -> None:
    """Waits until the price is that of what the form says now: a stale one would rightly be refused."""
    # The page asks 250 ms after the last key. A timer of its own that is set later fires later, however busy it is.
    page.evaluate("() => new Promise(done => setTimeout(done, 400))")
    page.wait_for_function("() => !document.querySelector('.htmx-request')")


def say_sql(page: Page, sql: str, epsilon: str) -> None:
    page.get_by_role("radio", name="SQL").check()
    page.locator("#sql").fill(sql)
    page.get_by_role("radio", name="Privacy loss").check()
    page.locator("#epsilon").fill(epsilon)
    page.locator("#delta").fill("1e-6")
    settled(page)
    quoted(page, sql)


def ask(page: Page) -> None:
    """Presses the button and waits for the new key that comes with what was answered."""
    before = page.locator("#key").input_value()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_function("before => document.querySelector('#key').value !== before", arg=before)


def test_sign_in_quote_ask_repeat_refine_and_history(page: Page, clinic: Served, tmp_path: Path) -> None:
    page.goto(f"{clinic.address}/d/clinic/console")  # not signed in: sent to do so, and back
    page.get_by_label("Key", exact=True).fill("nbk_wrong")
    page.get_by_role("button", name="Sign in", exact=True).click()
    assert "misspelt, revoked or has expired" in page.locator("#error-key").inner_text()
    page.get_by_label("Key", exact=True).fill(clinic.keys["maria"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(lambda url: url.endswith("/d/clinic/console") and "sign-in" not in url)
    cookie = next(each for each in page.context.cookies() if each["name"] == "noisebank_session")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"

    say_sql(page, SMOKERS, "0.1")
    quoted(page, "The first answer to this question")
    assert clinic.spent == 0  # a price costs nothing
    ask(page)
    first = page.locator("#answer .value").inner_text()
    assert "95% confidence" in page.locator("#answer").inner_text()
    assert page.locator("#answer svg.interval").get_attribute("aria-label")
    paid = clinic.spent
    assert paid > 0

    quoted(page, "free")
    ask(page)
    assert page.locator("#answer .value").inner_text() == first
    assert "Reused the answer of" in page.locator("#answer .case").inner_text()
    assert "nothing spent" in page.locator("#answer .case").inner_text()
    assert clinic.spent == paid

    page.locator("#epsilon").fill("0.2")
    settled(page)
    quoted(page, "Only the difference is paid for")
    ask(page)
    assert "only the difference was paid for" in page.locator("#answer .case").inner_text()
    account = clinic.bank.account("clinic")
    alone = account.quote(SMOKERS.replace("> 5", "> 6"), epsilon="0.2", delta="1e-6")
    assert clinic.spent == alone.cost.units > paid  # in all, what the better answer alone would have cost

    page.locator("#history tr").nth(2).wait_for()
    assert page.locator("#history .badge").all_inner_texts()[:3] == ["improved", "reused", "new"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the receipt").click()
    receipt = Path(download.value.path()).read_text()
    with page.expect_download() as download:
        page.locator("a[href$='history.csv']").click()
    rows = list(csv.reader(io.StringIO(Path(download.value.path()).read_text())))
    assert rows[0][:4] == ["time", "id", "sql", "case"] and [row[3] for row in rows[1:]] == [
        "REFINE",
        "REPEAT",
        "FIRST",
    ]

    page.goto(f"{clinic.address}/d/clinic/ledger")
    page.get_by_label("The receipt").fill(receipt)
    page.get_by_role("button", name="Check").click()
    page.locator("#checked .good").wait_for()
    forged = json.loads(receipt)
    forged["answer"]["value"][0] += 1
    page.get_by_label("The receipt").fill(json.dumps(forged))
    page.get_by_role("button", name="Check").click()
    assert "another answer than the one published" in page.locator("#checked .bad").inner_text()


def test_within_a_percentage_for_values_from_a_floor_on(page: Page, tmp_path: Path) -> None:
    with open_bank(new_bank(tmp_path, epsilon="20")) as bank, served(bank, limits="10") as desk:
        sign_in(page, desk.address, desk.keys["maria"])
        page.goto(f"{desk.address}/d/clinic/console")
        page.get_by_role("radio", name="SQL").check()
        page.locator("#sql").fill("SELECT COUNT(*) FROM clinic WHERE days > 2")
        page.get_by_role("radio", name="Percent").check()
        page.locator("#percent").fill("20")
        page.locator("#sure").select_option("0.9")
        settled(page)
        quoted(page, "for true values of 400 or more")  # a tenth of 4,000 rows
        page.locator("#floor").fill("800")
        settled(page)
        quoted(page, "for true values of 800 or more")
        assert desk.spent == 0
        ask(page)
        said = page.locator("#answer")
        assert "Reached: within 0.2 of the true value with 0.9 confidence" in said.locator("#reached").inner_text()
        (entry,) = bank.ledger.list_reservations(bank.account("clinic").id)
        assert entry.cost.units == desk.spent
        with page.expect_download() as download:
            said.get_by_role("link", name="Download the receipt").click()
        assert json.loads(Path(download.value.path()).read_text())["id"] == entry.id.hex()

        page.locator("#sql").fill(
            "SELECT COUNT(*) FROM clinic WHERE days > 57"
        )  # a small value: same price, not reached
        settled(page)
        ask(page)
        told = said.locator("#reached").inner_text()
        assert "Not reached" in told and "with a floor of 400 it would cost" in told and "public ledger" in told
        assert desk.spent == 2 * entry.cost.units and page.locator("#floor").input_value() == "800"

        page.locator("#sql").fill("SELECT ward, COUNT(*) FROM clinic GROUP BY ward")
        page.locator("#floor").fill("500")
        settled(page)
        quoted(page, "for true values of 500 or more")  # groups, too
        ask(page)
        assert said.locator("table tbody tr").count() >= 5 and desk.spent > 2 * entry.cost.units


def test_the_same_form_sent_twice_is_charged_once(page: Page, clinic: Served) -> None:
    sign_in(page, clinic.address, clinic.keys["maria"])
    page.goto(f"{clinic.address}/d/clinic/console")
    say_sql(page, "SELECT COUNT(*) FROM clinic WHERE days > 11", "0.11")
    before = clinic.bank.ledger.books.count_reservations(clinic.bank.account("clinic").id)
    body = page.evaluate("new URLSearchParams(new FormData(document.querySelector('#ask'))).toString()")
    said = [
        page.request.post(
            f"{clinic.address}/d/clinic/console/ask", data=body,
            headers={"content-type": "application/x-www-form-urlencoded", "hx-request": "true"},
        ).text() for _ in range(2)
    ]  # fmt: skip
    values = [re.search(r'class="value">([^<]*)', text) for text in said]
    assert values[0] and values[1] and values[0].group(1) == values[1].group(1)
    assert clinic.bank.ledger.books.count_reservations(clinic.bank.account("clinic").id) == before + 1


def test_the_slider_and_the_distance_follow_each_other(page: Page, clinic: Served) -> None:
    sign_in(page, clinic.address, clinic.keys["noor"])
    page.goto(f"{clinic.address}/d/clinic/console")
    page.get_by_role("radio", name="Build one").check()
    page.locator("#error-built", has_text="the number of rows is public").wait_for()  # nothing to pay for
    page.locator("[name=where1_column]").select_option("smoker")
    page.locator("[name=where1_value]").fill("true")
    quoted(page, "WHERE smoker = TRUE")
    coarse = page.locator("#within").input_value()
    page.locator("#slide").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('#within').value !== before", arg=coarse)
    fine = page.locator("#within").input_value()
    assert float(fine) < float(coarse)
    quoted(page, f"± {float(fine):.3g}"[:5])
    page.locator("#within").fill(coarse)
    page.wait_for_function("() => document.querySelector('#slide').value === '50'")


def test_groups_as_a_chart_a_table_and_csv_and_several_results(page: Page, clinic: Served) -> None:
    sign_in(page, clinic.address, clinic.keys["noor"])
    page.goto(f"{clinic.address}/d/clinic/console")
    page.get_by_role("radio", name="Build one").check()
    page.get_by_label("for each").select_option("ward")
    settled(page)
    quoted(page, "GROUP BY ward")
    ask(page)
    assert page.locator("#answer svg.bars .error").count() == 5
    assert page.locator("#answer tbody th").all_inner_texts() == [
        "cardiology", "maternity", "oncology", "paediatrics", "surgery",
    ]  # fmt: skip
    with page.expect_download() as download:
        page.locator("#answer").get_by_role("link", name="Export as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert rows[0]["ward"] == "cardiology" and len(rows) == 5
    value, low, high = "COUNT(*)", "COUNT(*)_low", "COUNT(*)_high"
    assert all(float(row[low]) < float(row[value]) < float(row[high]) for row in rows)

    page.locator("#function").select_option("avg")  # an average for each group is made of sums and counts
    page.locator("#column").select_option("days")
    page.get_by_role("radio", name="Privacy loss").check()
    settled(page)
    quoted(page, "depends on the data")
    ask(page)
    assert page.locator("#answer svg.bars .bar").count() == 5
    with page.expect_download() as download:
        page.locator("#answer").get_by_role("link", name="Download the receipt").click()
    assert len(json.loads(Path(download.value.path()).read_text())) >= 2

    say_sql(page, "SELECT COUNT(*), AVG(days) FROM clinic WHERE days > 2", "0.1")
    ask(page)
    assert page.locator("#answer .part").count() == 2


def test_what_is_computed_ordered_and_refused(page: Page, clinic: Served) -> None:
    """The picture and the table have the same rows and numbers, in the order of the question."""
    sign_in(page, clinic.address, clinic.keys["noor"])
    page.goto(f"{clinic.address}/d/clinic/console")
    rate = "100.0 * COUNT_IF(readmitted) / NULLIF(COUNT(*), 0) AS rate"
    say_sql(page, f"SELECT ward, {rate} FROM clinic GROUP BY ward ORDER BY rate DESC", "0.4")
    ask(page)
    wards = page.locator("#answer tbody th").all_inner_texts()
    titles = page.locator("#answer svg.bars g title").all_text_contents()
    assert len(wards) == 5 and [title.partition(":")[0] for title in titles] == wards
    cells = page.locator("#answer tbody td.num").all_inner_texts()
    rates = [float(cell.replace(",", "")) for cell in cells[::3]]
    assert rates == sorted(rates, reverse=True)
    for title, rate in zip(titles, rates, strict=True):
        assert float(title.partition(": ")[2].partition(",")[0]) == pytest.approx(rate, abs=0.6)
    assert "the true order may differ" in page.locator("#answer").inner_text()

    say_sql(page, "SELECT SUM(days) / COUNT_IF(age > 109) AS far FROM clinic WHERE days > 2", "0.1")
    ask(page)
    assert "no bound" in page.locator("#answer").inner_text() and page.locator("#answer svg.interval").count() == 0
    say_sql(page, "SELECT COUNT(*) AS n FROM clinic WHERE days > 2 HAVING COUNT(*) > 1000000", "0.1")
    ask(page)
    assert "leaves no row" in page.locator("#answer").inner_text()
    page.locator("#sql").fill("SELECT ward, COUNT(DISTINCT age) FROM clinic GROUP BY ward")
    page.get_by_text("Instead, ask: SELECT ward, COUNT(*) FROM clinic GROUP BY ward").first.wait_for()


def test_an_empty_account_refuses_clearly_and_spends_nothing(page: Page, tmp_path: Path) -> None:
    with open_bank(new_bank(tmp_path, epsilon="0.3")) as bank, served(bank) as desk:
        sign_in(page, desk.address, desk.keys["owner"])
        page.goto(f"{desk.address}/d/clinic/console")
        say_sql(page, SMOKERS, "0.2")
        ask(page)
        page.locator("#answer .value").wait_for()
        spent = desk.spent
        page.locator("#sql").fill("SELECT COUNT(*) FROM clinic WHERE days > 30")
        page.locator("#epsilon").fill("1")
        settled(page)
        quoted(page, "This costs more than the account has left")
        ask(page)
        refusal = page.locator("#answer [role=alert]")
        assert "Refused: the answer costs more than the account has left" in refusal.inner_text()
        assert "Nothing was spent" in refusal.inner_text()
        page.wait_for_function("() => document.activeElement.closest('[role=alert]') !== null")
        assert desk.spent == spent
        assert page.locator("#sql").input_value() == "SELECT COUNT(*) FROM clinic WHERE days > 30"
        page.locator("#sql").fill(SMOKERS)  # what is paid for stays free
        page.locator("#epsilon").fill("0.2")
        settled(page)
        quoted(page, "free")
        ask(page)
        assert "nothing spent" in page.locator("#answer .case").inner_text()


BAD = [
    ("named", "named", None, None),
    ("sql", "sql", "SELECT name FROM clinic", ""),
    ("sql", "sql", "DROP TABLE clinic", ""),
    ("sql", "sql", "SELECT COUNT(*) FROM elsewhere", ""),
    ("privacy", "epsilon", "a lot", "number above 0"),
    ("privacy", "epsilon", "-1", "number above 0"),
    ("privacy", "epsilon", "1e9", "must lie in"),
    ("privacy", "delta", "2", "below 1"),
    ("privacy", "delta", "", "number above 0"),
    ("accuracy", "within", "zero", "number above 0"),
    ("accuracy", "within", "0", "number above 0"),
    ("built", "where1_value", "many", "a number from 0 to 60"),
    ("relative", "percent", "close", "number above 0"),
    ("relative", "percent", "100", "below 100"),
    ("relative", "percent", "0.00001", "at least one millionth"),
    ("relative", "floor", "much", "number above 0"),
    ("relative", "floor", "0", "number above 0"),
    ("relative", "floor", "1e-20", "more than any account"),
    ("spend", "share", "", "number above 0"),
    ("spend", "share", "200", "must lie in (0, 1]"),
]
BY = {"privacy": "Privacy loss", "relative": "Percent", "spend": "Budget"}


@pytest.mark.parametrize(("panel", "field", "value", "message"), BAD[1:])
def test_bad_input_gets_a_message_at_its_field_and_nothing_is_lost(
    page: Page, clinic: Served, panel: str, field: str, value: str, message: str
) -> None:
    sign_in(page, clinic.address, clinic.keys["maria"])
    page.goto(f"{clinic.address}/d/clinic/console")
    spent = clinic.spent
    page.get_by_role("radio", name="Build one" if panel == "built" else "SQL").check()
    page.get_by_role("radio", name=BY.get(panel, "Accuracy")).check()
    if panel == "relative":
        page.locator("#sql").fill("SELECT COUNT(*) FROM clinic WHERE days > 4")
    if panel == "built":
        page.locator("[name=where1_column]").select_option("days")
    box = page.locator(f"[name={field}]")
    box.fill(value)
    error = page.locator(f"#error-{field}")
    error.filter(has_text=re.compile(r"\S")).wait_for()
    assert message in error.inner_text()
    page.locator(f"[name={field}][aria-invalid=true]").wait_for()  # once the page has settled, a moment after the words
    ask(page)
    page.locator("#answer", has_text="Not asked yet").wait_for()
    assert box.input_value() == value and error.inner_text()  # still there
    assert clinic.spent == spent


def test_an_average_is_asked_for_a_share_of_the_budget_or_with_a_look(page: Page, clinic: Served) -> None:
    sign_in(page, clinic.address, clinic.keys["maria"])
    page.goto(f"{clinic.address}/d/clinic/console")
    page.get_by_role("radio", name="SQL").check()
    page.locator("#sql").fill("SELECT ward, AVG(days) AS nights FROM clinic WHERE age > 41 GROUP BY ward")
    error = page.locator("#error-within")
    error.filter(has_text="the slider cannot say").wait_for()  # how much noise it allows depends on the data
    page.locator("#within").fill("30")
    page.locator("#quote .cost", has_text="at most").wait_for()
    assert "coarse look" in page.locator("#quote").inner_text() and not page.locator("#quote .badge").count()
    page.get_by_role("radio", name="Budget").check()
    page.locator("#share").fill("0.25")
    page.locator("#quote .cost", has_text="0.25%").wait_for()
    spent = clinic.spent
    ask(page)
    page.locator("#answer svg.bars").wait_for()
    assert "0.25% of the budget" in page.locator("#answer .facts").inner_text()
    assert clinic.spent != spent


def test_without_scripts_the_same_forms_work(chrome: Browser, clinic: Served) -> None:
    context = chrome.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, clinic.address, clinic.keys["maria"])
    page.goto(f"{clinic.address}/d/clinic/console")
    page.get_by_role("radio", name="SQL").check()
    page.locator("#sql").fill("SELECT COUNT(*) FROM clinic WHERE days > 3")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.locator("#answer .value").inner_text()
    page.locator("#sql").fill("nonsense")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert page.locator("#error-sql").inner_text() and page.locator("#sql").input_value() == "nonsense"
    page.goto(f"{clinic.address}/d/clinic/ledger")
    page.get_by_role("button", name="Verify").click()
    assert "the books balance" in page.locator("#verdict").inner_text()
    context.close()


def test_by_keyboard_alone(page: Page, clinic: Served) -> None:
    def tab_to(what: str, most: int = 60) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate("what => document.activeElement.matches(what)", what):
                outline = page.evaluate(
                    "getComputedStyle(document.activeElement.closest('.tab') || document.activeElement).outlineStyle"
                )
                assert outline != "none", f"{what} has no visible focus"
                return
        raise AssertionError(f"{what} cannot be reached")

    page.goto(f"{clinic.address}/d/clinic/console")
    tab_to(".skip")
    tab_to("#key")
    page.keyboard.type(clinic.keys["noor"])
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.endswith("/d/clinic/console") and "sign-in" not in url)
    tab_to("#how-named")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    tab_to("#sql")
    page.keyboard.press("Control+A")
    page.keyboard.type("SELECT COUNT(*) FROM clinic WHERE readmitted")
    quoted(page, "WHERE readmitted")
    tab_to("#slide")
    page.keyboard.press("ArrowLeft")
    tab_to("#ask-button")
    settled(page)
    page.keyboard.press("Enter")
    page.locator("#answer .value").wait_for()
    page.wait_for_function("() => document.activeElement.id === 'answered'")
    tab_to("#answer a")  # the receipt is next


def test_the_owner_ends_sessions_and_shuts_somebody_out_by_clicking(page: Page, clinic: Served) -> None:
    name = "petra"
    clinic.access.add_person(name, Role.ANALYST)
    secret, facts = clinic.access.make_key(name)
    theirs = [clinic.access.make_session(name, 600, key=facts.id) for _ in range(2)]
    page.goto(f"{clinic.address}/sign-in")
    page.fill("#key", clinic.keys["owner"])
    page.click("button:has-text('Sign in'):not(#wallet)")
    page.click(".who .name")
    page.wait_for_url("**/sessions")
    page.click(f"button[aria-label='End the session {theirs[0][1].id} of {name}']")
    page.wait_for_selector(f"button[aria-label='End the session {theirs[0][1].id} of {name}']", state="detached")
    assert clinic.access.find_caller(theirs[0][0]) is None and clinic.access.find_caller(theirs[1][0]) is not None
    page.click(f"button[aria-label='Disable {name}']")
    page.wait_for_selector(f"button[aria-label='Enable {name}']")
    assert clinic.access.find_caller(theirs[1][0]) is None and clinic.access.find_caller(secret) is None
    page.click(f"button[aria-label='Enable {name}']")
    page.wait_for_selector(f"button[aria-label='Disable {name}']")
    assert clinic.access.find_caller(secret) is not None
