"""Forms and sessions without a browser: tokens, other sites, keys that open less, hidden questions, sums."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import httpx
import pytest

from browser.serving import EASY, Served, clinic, new_bank, served
from contract.node import node_or_skip
from noisebank import Bank, Precision, create_bank, open_bank
from support.internals import (
    MAX_POINTS,
    AccessControl,
    AccountSpending,
    EmbeddedLedger,
    QueryForm,
    Scope,
    SpendingCurve,
    budget_guess_rate,
    build_sql,
    deploy_anchors,
    make_statement,
    new_form,
    parse_form,
    parse_policy,
    send_anchor,
)
from support.internals import Node as RpcNode
from support.patience import patience

ASK = "/d/clinic/console/ask"


class Visitor:
    """Somebody with cookies and forms, and the bank that they visit."""

    def __init__(self, client: httpx.Client, bank: Bank, access: AccessControl) -> None:
        self.client, self.bank, self.access = client, bank, access

    def token(self, path: str = "/sign-in") -> str:
        found = re.search(r'name="token" value="([0-9a-f]+)"', self.client.get(path).text)
        assert found
        return found.group(1)

    def sign_in(self, key: str) -> int:
        said = self.client.post("/sign-in", data={"token": self.token(), "key": key}, follow_redirects=False)
        return said.status_code

    @property
    def spent(self) -> int:
        return self.bank.account("clinic").state.spent.units


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with open_bank(new_bank(tmp_path_factory.mktemp("forms"))) as bank, served(bank) as made:
        yield made


@pytest.fixture
def visitor(desk: Served) -> Iterator[Visitor]:
    with httpx.Client(base_url=desk.address, follow_redirects=True, trust_env=False, timeout=patience()) as client:
        yield Visitor(client, desk.bank, desk.access)


def test_a_form_that_is_not_ours_does_nothing(visitor: Visitor) -> None:
    secret, _ = visitor.access.make_key("maria")
    assert visitor.sign_in(secret) == 303
    form = {
        "how": "sql",
        "sql": "SELECT COUNT(*) FROM clinic WHERE smoker",
        "by": "privacy",
        "epsilon": "0.1",
        "delta": "1e-6",
    }
    form |= {"key": "a key", "token": visitor.token("/d/clinic/console")}
    before = visitor.spent
    for wrong in ({"token": ""}, {"token": "0" * 40}, {"token": form["token"][:-1]}):
        assert visitor.client.post(ASK, data=form | wrong).status_code == 403
    cross = visitor.client.post(ASK, data=form, headers={"sec-fetch-site": "cross-site"})
    assert cross.status_code == 403 and "another site" in cross.text
    for path in ("/sign-out", "/sign-in", "/d/clinic/ledger/receipt", "/d/clinic/console/quote"):
        assert visitor.client.post(path, data={}).status_code == 403
    assert visitor.spent == before
    assert visitor.client.post(ASK, data=form, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert visitor.spent > before


def test_a_session_opens_no_more_than_its_key_and_ends_with_it(visitor: Visitor) -> None:
    secret, facts = visitor.access.make_key("owner", [Scope.STATEMENT])
    assert visitor.sign_in(secret) == 303
    assert visitor.client.get("/d/clinic/statement").status_code == 200
    assert visitor.client.get("/d/clinic/console").status_code == 403
    assert visitor.client.get("/v1/analysts").status_code == 403
    visitor.access.revoke_key("owner", facts.id)
    gone = visitor.client.get("/d/clinic/statement", follow_redirects=False)
    assert gone.status_code == 303 and gone.headers["location"].startswith("/sign-in?next=")


def test_sign_out_ends_the_session_in_the_bank_too(visitor: Visitor) -> None:
    secret, _ = visitor.access.make_key("maria")
    visitor.sign_in(secret)
    cookie = visitor.client.cookies["noisebank_session"]
    assert visitor.access.find_caller(cookie) is not None
    visitor.client.post("/sign-out", data={"token": visitor.token("/d/clinic/console")})
    assert visitor.access.find_caller(cookie) is None


@pytest.mark.parametrize("where", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_sign_in_sends_nobody_elsewhere(visitor: Visitor, where: str) -> None:
    secret, _ = visitor.access.make_key("maria")
    form = {"token": visitor.token(), "key": secret, "next": where}
    said = visitor.client.post("/sign-in", data=form, follow_redirects=False)
    assert said.status_code == 303 and said.headers["location"] == "/d/clinic/console"


def test_pages_of_others_are_not_shown(visitor: Visitor) -> None:
    secret, _ = visitor.access.make_key("maria")
    visitor.sign_in(secret)
    assert visitor.client.get("/d/clinic/statement").status_code == 403
    assert visitor.client.get("/d/clinic/statement/openings.json").status_code == 403
    entry = visitor.bank.account("clinic").ask("readmitted", epsilon="0.1", delta="1e-6", key="the owner's")
    assert visitor.client.get(f"/d/clinic/console/answers/{entry.receipt.id.hex()}").status_code == 404


def test_what_was_typed_never_becomes_markup(visitor: Visitor) -> None:
    secret, _ = visitor.access.make_key("maria")
    visitor.sign_in(secret)
    nasty = "</textarea><script>alert(1)</script>'\"&"
    form = {"token": visitor.token("/d/clinic/console"), "how": "sql", "sql": nasty, "by": "accuracy", "key": "k1"}
    said = visitor.client.post(ASK, data=form | {"within": nasty, "slide": nasty, "confidence": nasty})
    assert said.status_code == 422 and "<script>alert" not in said.text and "&lt;script&gt;" in said.text
    for policy in ("unsafe-inline", "unsafe-eval"):
        assert policy not in said.headers["content-security-policy"]
    assert not re.search(r'<script(?![^>]* src="/static/)|\son\w+=| style="|javascript:', said.text)


def test_hidden_questions_stay_hidden_and_change_no_other_digest(tmp_path: Path) -> None:
    text = clinic(tmp_path).read_text()
    plain, hidden = parse_policy(text, tmp_path), parse_policy("hide_questions = true\n" + text, tmp_path)
    said = parse_policy("hide_questions = false\n" + text, tmp_path)
    assert plain.digest == said.digest != hidden.digest and "hide_questions" not in plain.to_json()
    (tmp_path / "hidden").mkdir()
    create_bank(tmp_path / "bank")
    with open_bank(tmp_path / "bank") as bank:
        bank.open_account(clinic(tmp_path / "hidden", more="hide_questions = true\n"))
        bank.account("clinic").ask("SELECT COUNT(*) FROM clinic WHERE days > 41", epsilon="0.1", delta="1e-6")
        with served(bank) as desk:
            page = httpx.get(f"{desk.address}/d/clinic", trust_env=False, timeout=patience()).text
            assert "days &gt; 41" not in page and "does not publish their text" in page
    with open_bank(tmp_path / "bank") as again:
        assert again.account("clinic").policy().hide_questions


def test_sums_are_those_of_the_statement(visitor: Visitor) -> None:
    account = visitor.bank.account("clinic")
    for number, epsilon in enumerate(("0.05", "0.1", "0.07", "0.05")):
        account.ask("SELECT SUM(days) FROM clinic", epsilon=epsilon, delta="1e-6", key=f"sums {number}")
        spending, whole = AccountSpending(account).update(), make_statement(account)
        assert (
            spending.all.requests == sum(not entry.look for entry in whole.entries)
            and spending.all.naive_units == whole.naive.units
        )
        assert spending.all.units == sum(entry.cost.units for entry in whole.entries) == whole.spent.units
        assert (
            sum(row.units for row in spending.by_query.values())
            == spending.whole_table.units + spending.part_of_table.units
        )
        assert {name: count for name, count in spending.case_counts.items() if count} == {
            case.name: count for case, count in whole.cases.items() if count
        }
        assert spending.curve_points()[-1][2] == pytest.approx(float(whole.spent))
        sums = spending.savings
        assert (sums.saved, sums.looks, sums.returned) == (whole.saved, whole.looks, whole.returned)


def test_a_long_curve_is_thinned_out_evenly() -> None:
    curve = SpendingCurve()
    for place in range(10_000):
        curve.add_point(place, (place, place, place / 1000, place / 1000, 0.0))
    assert MAX_POINTS / 2 <= len(curve.points) <= MAX_POINTS
    steps = {b[0] - a[0] for a, b in zip(curve.points, curve.points[1:], strict=False)}
    assert steps == {curve.every}


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 2.0, 4.0])
def test_how_often_a_guess_is_right_is_never_said_too_small(mu: float) -> None:
    """The best test between two Gaussians at distance mu is right in Phi(mu/2) of all cases; a coin in a half."""
    said = budget_guess_rate(Precision(round(mu * mu * 1e18)))
    truth = NormalDist().cdf(mu / 2)
    assert truth <= said <= min(1.0, truth + 0.1)  # a limit, and not a useless one
    assert budget_guess_rate(Precision(0)) == 0.5 and said <= budget_guess_rate(Precision(round(1.21 * mu * mu * 1e18)))


def test_anchors_are_shown_where_the_operator_names_a_node(tmp_path: Path) -> None:
    with node_or_skip() as node, open_bank(new_bank(tmp_path)) as bank:
        chain = bank.ledger
        assert isinstance(chain, EmbeddedLedger)
        node.rpc("anvil_setBalance", chain.sealing_key.address, hex(10**20))
        asked = RpcNode(node.url)
        send_anchor(
            asked, chain.sealing_key, deploy_anchors(asked, chain.sealing_key), chain.genesis.digest, chain.head()
        )
        with served(bank, replace(EASY, anchors=node.url)) as desk:
            page = httpx.get(f"{desk.address}/d/clinic/ledger", trust_env=False, timeout=patience()).text
        assert "agrees with this ledger" in page and node.url not in page


@pytest.mark.parametrize(
    ("fields", "sql"),
    [
        ({"function": "avg", "column": "days"}, "SELECT AVG(days) FROM clinic"),
        (
            {"where1_column": "ward", "where1_sign": "<>", "where1_value": "surgery", "group": "age"},
            "SELECT age, COUNT(*) FROM clinic WHERE ward <> 'surgery' GROUP BY age",
        ),
        (
            {"where1_column": "age", "where1_sign": ">=", "where1_value": "60", "where2_column": "smoker",
             "where2_sign": "=", "where2_value": "true"},
            "SELECT COUNT(*) FROM clinic WHERE age >= 60 AND smoker = TRUE",
        ),
    ],
)  # fmt: skip
def test_the_form_builds_sql_that_the_bank_answers(visitor: Visitor, fields: dict[str, str], sql: str) -> None:
    account = visitor.bank.account("clinic")
    draft = QueryForm(new_form(account).fields | {"how": "built"} | fields)
    assert build_sql(draft, account) == sql and not draft.mistakes
    assert account.quote(sql, epsilon="0.1", delta="1e-6").target


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"function": "avg", "column": "ward"}, "column"),
        ({"function": "avg", "column": ""}, "column"),
        ({"function": "drop"}, "function"),
        ({"group": "days"}, "group"),
        ({"where1_column": "ward", "where1_sign": "=", "where1_value": "x' OR 1=1 --"}, "where1_value"),
        ({"where1_column": "ward", "where1_sign": "<", "where1_value": "surgery"}, "where1_value"),
        ({"where2_column": "age", "where2_sign": "=", "where2_value": "old"}, "where2_value"),
        ({"where3_column": "nobody", "where3_sign": "=", "where3_value": "1"}, "where3_value"),
        ({"how": "named", "named": "nothing"}, "named"),
        ({"confidence": "2"}, "confidence"),
        ({"slide": "left", "moved": "slide", "how": "sql", "sql": "SELECT COUNT(*) FROM clinic WHERE smoker"}, "slide"),
    ],
)
def test_what_the_form_cannot_mean_is_said_at_its_field(visitor: Visitor, fields: dict[str, str], field: str) -> None:
    account = visitor.bank.account("clinic")
    draft = QueryForm(new_form(account).fields | {"how": "built"} | fields)
    assert parse_form(draft, account) is None and field in draft.mistakes
