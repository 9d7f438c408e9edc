"""Budgets of pure epsilon: charged before the noise, once a round, refused when used up, verified like all others."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from noisebank.bank.folder import BankParts
from noisebank.bank.opening import load_accounts, open_account
from noisebank.cli.main import main
from noisebank.core.errors import AnswerLost, BadRequest, BudgetExhausted, LedgerRefused
from noisebank.core.units import Precision
from noisebank.federated.enrolment import LocalAccount, RoundOrder, enrol, float_below, list_enrolled, local_account
from noisebank.federated.ldp import Category, LdpReport, Number, Schema, estimate_attributes
from noisebank.federated.schema_file import read_schema
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.ledger.protocol import Unit
from noisebank.policy.file import read_policy
from noisebank.verifier.verification import verify
from support.banks import memory_rooms, write_people

SCHEMA = Schema((Number("age", 0, 100), Category("sex", ("f", "m"))))
RECORD = {"age": 41, "sex": "f"}


@pytest.fixture
def rooms() -> BankParts:
    return memory_rooms()


@pytest.fixture
def device(rooms: BankParts) -> LocalAccount:
    return enrol(rooms, "phone", 2)


def test_a_round_is_charged_once_and_gives_the_same_report(device: LocalAccount) -> None:
    first = device.make_report("monday", RECORD, SCHEMA, 1)
    assert device.make_report("monday", RECORD, SCHEMA, 1) == first
    assert device.make_report("monday", {"age": 99, "sex": "m"}, SCHEMA, 1) == first, (
        "no second sample, whatever is asked"
    )
    assert device.state.spent == Precision(10**18) and device.state.unit is Unit.EPSILON
    assert LdpReport.decode(first, SCHEMA).terms.epsilon == 1.0


def test_a_used_up_budget_refuses_and_nothing_is_drawn(device: LocalAccount) -> None:
    device.make_report("monday", RECORD, SCHEMA, "1.5")
    with pytest.raises(BudgetExhausted, match=r"25% is left \(0.6 and 0.5 epsilon\)") as refused:
        device.make_report("tuesday", RECORD, SCHEMA, "0.6")
    assert "precision" not in str(refused.value), "an account of pure epsilon has none"
    device.make_report("tuesday", RECORD, SCHEMA, "0.5")
    assert not device.state.remaining_budget
    with pytest.raises(BudgetExhausted):
        device.charge_round("wednesday", "1e-18")


def test_a_round_has_one_epsilon(device: LocalAccount) -> None:
    device.charge_round("monday", 1)
    for other in (2, "0.5"):
        with pytest.raises(BadRequest, match="one epsilon"):
            device.charge_round("monday", other)
    assert device.state.spent == Precision(10**18)


def test_charges_round_up_and_budgets_down(rooms: BankParts) -> None:
    third = enrol(rooms, "third", Fraction(1, 3))
    assert third.state.budget.units == 333_333_333_333_333_333
    with pytest.raises(BudgetExhausted):
        third.charge_round("all of it", Fraction(1, 3))
    for value in (Fraction(1, 3), Fraction(1, 10), Fraction(2, 3), Fraction(1)):
        assert Fraction(float_below(value)) <= value


@pytest.mark.parametrize("epsilon", [0, -1, "nan", "1e999", "x"])
def test_bad_epsilons(rooms: BankParts, device: LocalAccount, epsilon: object) -> None:
    with pytest.raises(BadRequest):
        device.make_report("monday", RECORD, SCHEMA, epsilon)  # type: ignore[arg-type]
    with pytest.raises(BadRequest):
        enrol(rooms, "other", epsilon)  # type: ignore[arg-type]
    assert not device.state.spent


@pytest.mark.parametrize(
    ("epsilon", "mechanism", "levels"),
    [(1, "no", 10), (1, None, 10), (1, "laplace", 1 << 16), (1, "best", 0), (21, "best", 10), (10**400, "best", 10)],
)
def test_an_order_that_cannot_be_answered_is_refused_unread_and_uncharged(
    device: LocalAccount, epsilon: int, mechanism: str, levels: int
) -> None:
    with pytest.raises(BadRequest):
        device.make_report("monday", Unreadable(), SCHEMA, epsilon, mechanism, levels)
    assert not device.state.spent


class Unreadable(dict[str, object]):
    """A record that says when it is read."""

    def get(self, *arguments: object) -> object:
        raise AssertionError("read")


@pytest.mark.parametrize("record", [{"age": 41}, {"age": float("nan"), "sex": "f"}, {"age": 1, "sex": "x"}, {},
                                    Unreadable()])  # fmt: skip
def test_every_record_is_charged_and_reported(device: LocalAccount, record: dict[str, object]) -> None:
    report = device.make_report("monday", record, SCHEMA, 1)
    assert LdpReport.decode(report, SCHEMA) and device.state.spent == Precision(10**18)
    assert device.make_report("monday", record, SCHEMA, 1) == report


def test_the_record_is_read_after_the_charge_and_never_again(device: LocalAccount) -> None:
    seen: list[Precision] = []

    def read() -> list[object]:
        seen.append(device.state.spent)
        return [0.5, 1]

    order = RoundOrder("monday", SCHEMA, Fraction(1))
    assert device.answer_order(order, read) == device.answer_order(order, read) and seen == [Precision(10**18)]
    with pytest.raises(BadRequest, match="another order"):
        device.answer_order(RoundOrder("monday", SCHEMA, Fraction(1), "laplace"), read)
    for record in ([], [None, None], ["x", "y"], [float("nan"), 99], [10**400, -1], [float("inf"), True]):
        for attempt in range(8):  # which attributes are reported is drawn
            order = RoundOrder(f"{ascii(record)[:50]} {attempt}", SCHEMA, Fraction("0.01"))
            assert device.answer_order(order, lambda record=record: record)


def test_names_rounds_and_doubles(rooms: BankParts, device: LocalAccount) -> None:
    with pytest.raises(BadRequest, match="enrolled already"):
        enrol(rooms, "phone", 1)
    for bad in ("", "a\nb", "x" * 201):
        with pytest.raises(BadRequest):
            device.charge_round(bad, 1)
        with pytest.raises(BadRequest):
            enrol(rooms, bad, 1)
    with pytest.raises(BadRequest, match="not enrolled"):
        local_account(rooms, "tablet")
    assert local_account(rooms, "phone").id == device.id


def test_units_never_mix_and_both_are_verified(rooms: BankParts, device: LocalAccount, tmp_path: Path) -> None:
    bank = open_account(rooms, read_policy(write_people(tmp_path)))[0]
    bank.ask("SELECT COUNT(*) FROM people WHERE age > 30", epsilon=1, delta="1e-6")
    device.make_report("monday", RECORD, SCHEMA, 1)
    assert [account.name for account in load_accounts(rooms)] == ["people"]
    assert [account.name for account in list_enrolled(rooms)] == ["phone"]
    assert isinstance(rooms.ledger, EmbeddedLedger)
    report = verify(list(rooms.ledger.export_journal()))
    assert report.passed
    assert {(found.unit, found.spent) for found in report.accounts} == {
        ("epsilon", 10**18),
        ("precision", bank.state.spent.units),
    }


def test_after_a_crash_a_charged_round_is_reported_and_a_sealed_one_keeps_its_bits(
    rooms: BankParts, device: LocalAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.charge_round("monday", 1)  # charged, then the process died
    again = local_account(rooms, "phone")
    first = again.make_report("monday", RECORD, SCHEMA, 1)
    assert again.state.spent == Precision(10**18)
    monkeypatch.setattr(
        rooms.ledger, "publish_many", lambda *arguments: (_ for _ in ()).throw(LedgerRefused("cut off"))
    )
    with pytest.raises(LedgerRefused):
        again.make_report("tuesday", RECORD, SCHEMA, "0.5")
    monkeypatch.undo()
    sealed = [rooms.vault.find_answer(found.id) for found in rooms.ledger.list_reservations(device.id)]
    assert again.make_report("tuesday", RECORD, SCHEMA, "0.5").hex() == sealed[1].body["report"]  # type: ignore[union-attr]
    assert again.make_report("monday", RECORD, SCHEMA, 1) == first


def test_a_lost_report_is_never_drawn_again(rooms: BankParts, device: LocalAccount) -> None:
    device.make_report("monday", RECORD, SCHEMA, 1)
    rooms.vault._database.execute("DELETE FROM answers")
    with pytest.raises(AnswerLost):
        device.make_report("monday", RECORD, SCHEMA, 1)


def test_schema_files(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text('[attributes.age]\nlow = 0\nhigh = 100\n[attributes.sex]\nvalues = ["f", "m"]\n')
    assert read_schema(path).fingerprint == SCHEMA.fingerprint
    for bad in ("", "x", "[attributes.a]\nlow = 1\n", "[attributes.a]\nvalues = [1, 2]\n", "a = 1\n",
                "[attributes.a]\nlow = true\nhigh = 2\n", "[attributes]\na = 1\n", "a = " + "[" * 9999,
                f"[attributes.a]\nlow = 0\nhigh = 1{'0' * 400}\n", "[attributes.a]\nlow = nan\nhigh = 1\n",
                "[attributes.a]\nlow = -inf\nhigh = 1\n", "[attributes.a]\nlow = 0\nhigh = 1e-320\n"):  # fmt: skip
        path.write_text(bad)
        with pytest.raises(BadRequest):
            read_schema(path)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text('[attributes.age]\nlow = 0\nhigh = 100\n[attributes.sex]\nvalues = ["f", "m"]\n')
    Path("record.json").write_text(json.dumps(RECORD))

    def run(*arguments: str, code: int = 0) -> dict[str, object]:
        done = CliRunner().invoke(main, [*arguments, "--json"])
        assert done.exit_code == code, done.output
        return dict(json.loads(done.stdout))

    run("init", "bank")
    run("local", "enrol", "phone", "--epsilon", "30")
    reports = []
    for number in range(25):
        made = run(
            "local", "report", "phone", "record.json", "--schema", "schema.toml", "--round", str(number), "-e", "1"
        )
        reports.append(str(made["report"]))
    Path("reports.txt").write_text("\n".join(reports))
    found = run("local", "estimate", "reports.txt", "--schema", "schema.toml")
    assert set(found) == {"age", "sex = f", "sex = m"}
    assert run("local", "status")["enrolled"] == [{"name": "phone", "epsilon": "30", "spent": "25", "rounds": 25}]
    refused = run(
        "local", "report", "phone", "record.json", "--schema", "schema.toml", "--round", "x", "-e", "6", code=1
    )
    assert refused["error"] == "BudgetExhausted"
    assert run("verify", "bank")["passed"]
    words = ["local", "report", "phone", "record.json", "--schema", "schema.toml", "--round", "24", "-e", "1"]
    printed = CliRunner().invoke(main, words)
    assert printed.stdout == f"{reports[24]}\n"  # what `local estimate` reads; the same round, the same report
    assert "spent epsilon 25 of 30; 5 is left" in printed.stderr
    direct = estimate_attributes([bytes.fromhex(report) for report in reports], SCHEMA)
    assert found["age"]["value"] == pytest.approx(direct["age"].value)  # type: ignore[index,union-attr]
