"""All pages: verification in green and red, wallets, phones, axe, sizes, an empty bank, problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from browser.chrome import PHONE, serious, sign_in
from browser.serving import Served, new_bank, served
from browser.serving import clinic as write_policy
from browser.test_console import ask, quoted, say_sql
from contract.node import Node, node_or_skip
from noisebank import Bank, create_bank, open_bank
from noisebank.service.roles import Role
from support.internals import AccessControl, Key, deploy_contract

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
PAGES = ("/", "/sign-in", "/d/clinic", "/d/clinic/console", "/d/clinic/statement", "/d/clinic/ledger", "/nothing")


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A bank in which something was asked, in a cube too."""
    with open_bank(new_bank(tmp_path_factory.mktemp("busy"))) as bank, served(bank) as made:
        account = bank.account("clinic")
        for number, (who, sql) in enumerate(
            [("owner", "smokers"), ("maria", "smokers"), ("noor", "SELECT COUNT(*) FROM clinic WHERE age >= 70")]
        ):
            account.ask(sql, epsilon="0.1", delta="1e-6", key=str(number), analyst=who)
        yield made


def test_verify_is_green_and_a_tampered_journal_is_red(page: Page, tmp_path: Path) -> None:
    with open_bank(new_bank(tmp_path)) as bank, served(bank) as desk:
        bank.account("clinic").ask("smokers", epsilon="0.1", delta="1e-6")
        page.goto(f"{desk.address}/d/clinic/ledger")
        head = page.locator(".digest.long").first.inner_text()
        page.get_by_label("A head that you pinned").fill("abc")
        page.get_by_role("button", name="Verify").click()
        page.locator("#error-head", has_text="64 hexadecimal digits").wait_for()
        assert page.locator("#head-given").input_value() == "abc"
        page.get_by_label("A head that you pinned").fill(head)
        page.get_by_role("button", name="Verify").click()
        page.locator("#verdict.good", has_text="the books balance").wait_for()
        assert "a pinned head" in page.locator("#verdict").inner_text()
        other = apsw.Connection(str(tmp_path / "bank" / "journal.sqlite"))
        number, line = next(other.execute("SELECT number, line FROM lines ORDER BY number DESC LIMIT 1 OFFSET 1"))
        digit = re.search(r"[0-9a-f]{64}", line)
        assert digit
        place = digit.start() + 7
        other.execute(
            "UPDATE lines SET line = ? WHERE number = ?",
            (line[:place] + ("0" if line[place] != "0" else "1") + line[place + 1 :], number),
        )
        other.close()
        page.get_by_role("button", name="Verify").click()
        page.locator("#verdict.bad", has_text="Does not verify").wait_for()
        said = page.locator("#verdict")
        assert said.get_attribute("role") == "alert" and f"block {number}" in said.inner_text()
        red, green, _ = (int(part) for part in _colours(page, "#verdict h3"))
        assert red > 120 and red > 3 * green
        assert page.evaluate("document.activeElement.closest('#verdict') !== null")


def _colours(page: Page, what: str) -> list[str]:
    found = page.evaluate("what => getComputedStyle(document.querySelector(what)).color", what)
    return re.findall(r"\d+", found)[:3]


@contextmanager
def wallet_of(page: Page, node: Node) -> Iterator[None]:
    """An EIP-1193 provider whose key is anvil's: what it signs is signed by a real node."""

    def forward(method: str, params: list[Any]) -> Any:
        return node.rpc("eth_accounts" if method == "eth_requestAccounts" else method, *params)

    page.expose_function("noisebankTestWallet", forward)
    page.add_init_script(
        "window.ethereum = { request: ({ method, params }) => window.noisebankTestWallet(method, params || []) };"
    )
    yield


def test_a_wallet_signs_in_and_agrees_to_each_answer(page: Page, tmp_path: Path) -> None:
    with node_or_skip() as node, open_bank(new_bank(tmp_path)) as bank:
        mine = str(node.rpc("eth_accounts")[0])

        def people(access: AccessControl) -> None:
            access.add_person("wanda", Role.ANALYST)

        with served(bank, prepare=people) as desk, wallet_of(page, node):
            page.goto(f"{desk.address}/sign-in?next=/d/clinic/console")
            page.get_by_role("button", name="Sign in with your wallet").click()
            page.locator("#wallet-said", has_text="nobody here has this wallet").wait_for()
            desk.access.set_wallet("wanda", mine)
            desk.access._write_row("UPDATE people SET must_sign = 1 WHERE name = ?", ("wanda",))
            wanda = desk.access.find_person("wanda")
            assert wanda and wanda.must_sign
            from support.internals import Operations

            Operations(bank).set_limit("clinic", wanda, "1")
            page.get_by_role("button", name="Sign in with your wallet").click()
            page.wait_for_url(lambda url: url.endswith("/d/clinic/console") and "sign-in" not in url)
            assert page.locator(".who .name").inner_text() == "wanda"
            say_sql(page, "SELECT COUNT(*) FROM clinic WHERE smoker", "0.1")
            ask(page)
            page.locator("#answer .value").wait_for()
            assert desk.spent > 0


def test_a_browser_without_a_wallet_says_so(page: Page, busy: Served) -> None:
    page.goto(f"{busy.address}/sign-in")
    page.get_by_role("button", name="Sign in with your wallet").click()
    assert "no wallet in this browser" in page.locator("#wallet-said").inner_text()


def test_a_ledger_on_a_chain_shows_contract_blocks_and_fees(page: Page, tmp_path: Path) -> None:
    with node_or_skip() as node:
        payer = Key(b"\x11" * 32)
        node.rpc("anvil_setBalance", payer.address, hex(10**20))
        where = deploy_contract(node.url, payer)
        create_bank(tmp_path / "bank", where=where)
        for name in ("owner", "curator"):
            node.rpc("anvil_setBalance", Key.load(tmp_path / "bank" / "keys" / f"{name}.key").address, hex(10**20))
        with Bank(tmp_path / "bank") as bank:
            bank.open_account(write_policy(tmp_path))
            bank.account("clinic").ask("smokers", epsilon="0.1", delta="1e-6")
            with served(bank, limits="1") as desk:
                page.goto(f"{desk.address}/d/clinic/ledger")
                text = page.locator("main").inner_text()
                assert where.contract in text and f"{where.chain_id}, through the node" in text
                fee = page.locator("table.entries tbody tr").first.locator("td").nth(8).inner_text()
                assert re.fullmatch(r"[0-9.e-]+ ETH \+ [0-9.e-]+ ETH", fee), fee
                entry = bank.ledger.list_reservations(bank.account("clinic").id)[0]
                assert node.url not in page.content()  # a node's address may hold a key
                receipt = node.rpc(
                    "eth_getTransactionReceipt",
                    page.locator("table.entries [title^=transaction]")
                    .first.get_attribute("title")
                    .split()[1]
                    .rstrip(","),
                )
                wei = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
                assert int(receipt["blockNumber"], 16) == entry.block and fee.startswith(f"{wei / 1e18:.4g} ETH")
                page.get_by_role("button", name="Verify").click()
                page.locator("#verdict.good").wait_for()
                assert "on chain" in page.locator("#verdict").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(chrome: Browser, busy: Served, axe: None, scheme: str) -> None:
    context = chrome.new_context(viewport={"width": 1280, "height": 860}, color_scheme=scheme)
    page = context.new_page()
    found: dict[str, list[str]] = {}
    page.goto(f"{busy.address}/d/clinic/ledger")
    page.get_by_role("button", name="Verify").click()
    page.locator("#verdict").wait_for()
    found["verdict"] = serious(page)
    sign_in(page, busy.address, busy.keys["owner"])
    for path in PAGES:
        page.goto(busy.address + path)
        if path.endswith("statement"):
            page.locator(".chart canvas").wait_for()
        found[path] = serious(page)
    page.goto(f"{busy.address}/d/clinic/console")
    say_sql(page, "SELECT ward, COUNT(*) FROM clinic GROUP BY ward", "0.1")
    ask(page)
    page.locator("#answer svg.bars").wait_for()
    found["answer"] = serious(page)
    page.locator("#epsilon").fill("nonsense")
    page.locator("#error-epsilon", has_text="number").wait_for()
    found["mistake"] = serious(page)
    context.close()
    assert not {path: each for path, each in found.items() if each}


def test_every_page_fits_a_phone_is_small_and_keeps_to_its_policy(chrome: Browser, busy: Served) -> None:
    context = chrome.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if "Security Policy" in said.text else None)
    sizes: dict[str, int] = {}
    here = ""

    def weigh(response: Any) -> None:
        if "/events" not in response.url and response.status == 200:
            sizes[here] = sizes.get(here, 0) + len(response.body())

    sign_in(page, busy.address, busy.keys["owner"])
    context.route("**/*", lambda route: route.continue_())  # nothing from the browser's own store: all of it is weighed
    page.on("requestfinished", lambda request: weigh(request.response()))
    for path in PAGES:
        here = path
        page.goto(busy.address + path)
        page.wait_for_load_state("load")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{path} is {wide} wide on a screen of {PHONE['width']}"
        small = page.evaluate(
            "[...document.querySelectorAll('button, .button, .tab, nav a, input:not([type=hidden], [type=radio])')]"
            ".filter(e => e.offsetParent && e.getBoundingClientRect().height < 24).map(e => e.outerHTML.slice(0, 80))"
        )
        assert not small, f"{path}: too small for a finger: {small}"
    assert not complaints
    assert max(sizes.values()) < 300_000, sizes
    page.goto(f"{busy.address}/d/clinic/console")
    quoted(page, "of the budget")
    ask(page)
    page.locator("#answer .value, #answer svg.bars").first.wait_for()
    context.close()


def test_an_empty_bank_explains_itself_and_problems_are_pages(page: Page, tmp_path: Path) -> None:
    create_bank(tmp_path / "bank")
    with open_bank(tmp_path / "bank") as bank, served(bank) as desk:
        page.goto(desk.address)
        assert page.get_by_role("heading", level=1).inner_text() == "This bank is empty"
        assert "noisebank open" in page.locator("main").inner_text()
        said = page.goto(f"{desk.address}/d/nobody")
        assert said and said.status == 404 and "There is nothing here" in page.locator("h1").inner_text()
        sign_in(page, desk.address, desk.keys["aude"])
        assert page.url == f"{desk.address}/"


def test_the_statement_and_the_public_page_say_what_happened(page: Page, busy: Served) -> None:
    page.goto(f"{busy.address}/d/clinic")
    text = page.locator("main").inner_text()
    assert "SELECT COUNT(*) FROM clinic WHERE smoker" in text and "times in 100" in text and "noisebank verify" in text
    assert "maria" not in text  # who asked is nobody's business here
    sign_in(page, busy.address, busy.keys["owner"])
    page.wait_for_url("**/statement")
    page.locator(".chart canvas").wait_for()
    text = page.locator("main").inner_text()
    for words in (
        "Saved so far",
        "Projected life",
        "maria",
        "noor",
        "whole table",
        "Cells of the cube over ward, age",
    ):
        assert words in text
    assert page.locator("svg.heat rect").count() == 54
    with page.expect_download() as download:
        page.get_by_role("link", name="This statement (JSON)").click()
    plain = json.loads(Path(download.value.path()).read_text())
    assert plain["spent"] and {row["name"] for row in plain["by_analyst"]} >= {"owner", "maria", "noor"}
    with page.expect_download() as download:
        page.get_by_role("link", name="All entries (CSV)").click()
    count = busy.bank.ledger.books.count_reservations(busy.bank.account("clinic").id)
    assert len(Path(download.value.path()).read_text().splitlines()) == count + 1
