"""Answers from cubes through the real bank: charged by cells, inferred from each other, rebuilt after a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from noisebank.account.account import Account
from noisebank.account.advice import explain_cube, suggest_cubes
from noisebank.account.recovery import recover_account
from noisebank.account.statement import make_openings
from noisebank.bank.bank import create_bank, open_bank
from noisebank.bank.opening import load_accounts, open_account, open_next_version
from noisebank.core.entropy import SystemEntropy, workload_rng
from noisebank.core.errors import OutcomeUnknown, TableChanged, Tampered, ViewExhausted
from noisebank.core.records import Case
from noisebank.core.units import ZERO_PRECISION
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.policy.file import read_policy
from noisebank.policy.model import Policy
from noisebank.verifier.openings import check_openings
from noisebank.verifier.verification import verify
from support.banks import memory_account, memory_rooms, write_people

POLICY = """\
name = "people"
source = "people.csv"
neighbours = "{neighbours}"
{rows}
cubes = [["age"], ["town", "smoker"]]
# looks: {looks}
[budget]
epsilon = 2
delta = 1e-6
[columns.age]
type = "integer"
bounds = [0, 64]
bins = [{bins}]
[columns.town]
type = "text"
keys = ["east", "north", "south"]
[columns.smoker]
type = "boolean"
[columns.income]
type = "integer"
bounds = [0, 100]
"""


def write(folder: Path, neighbours: str = "add-remove", looks: bool = False, rows: int = 300) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pick = workload_rng(3)
    lines = ["age,town,smoker,income"]
    for _ in range(rows):
        town = pick.choice(["east", "north", "south", "mars"])
        lines.append(f"{pick.randrange(64)},{town},{pick.choice(['true', 'false'])},{pick.randrange(100)}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    size = f"rows = {rows}" if neighbours == "replace-one" else "row_cap = 1000"
    bins = ", ".join(str(edge) for edge in range(1, 65))
    path = folder / "people.toml"
    path.write_text(POLICY.format(neighbours=neighbours, rows=size, looks=looks, bins=bins))
    return path


def read_rules(path: Path) -> Policy:
    """The policy in a file. Without looks, unless it says otherwise: only accounts of an earlier release can be so."""
    rules = read_policy(path)
    return rules if "# looks: True" in path.read_text() else replace(rules, first_look=Fraction(0))


def account_of(folder: Path, **kinds: Any) -> Account:
    return open_account(memory_rooms(), read_rules(write(folder, **kinds)))[0]


def ages(low: int, high: int) -> str:
    return f"SELECT COUNT(*) FROM people WHERE age BETWEEN {low} AND {high}"


def true(account: Account, sql: str) -> int:
    return account.engine.statistic(account.parse(sql).query)


def test_disjoint_questions_cost_as_much_as_one(tmp_path: Path):
    account = account_of(tmp_path)
    first = account.ask(ages(0, 9), within=30)
    assert first.case is Case.FIRST and first.cost > ZERO_PRECISION
    others = [account.ask(ages(low, low + 9), within=30) for low in (10, 20, 30)]
    assert [other.cost for other in others] == [ZERO_PRECISION] * 3  # paid by other people, by no more than that
    assert [other.case for other in others] == [Case.FIRST] * 3  # but measured
    assert account.state.spent == first.cost and account.state.measurements == 4


def test_what_follows_is_free_and_adds_up(tmp_path: Path):
    account = account_of(tmp_path)
    low, high = account.ask(ages(0, 9), within=30), account.ask(ages(10, 19), within=30)
    both = account.ask(ages(0, 19), within=60)
    assert both.case is Case.INFER and both.cost == ZERO_PRECISION
    assert both.value == pytest.approx(low.value + high.value, abs=1e-4)
    assert both.stddev == pytest.approx((low.stddev**2 + high.stddev**2) ** 0.5, rel=1e-6)
    assert account.state.measurements == 2


def test_the_missing_piece_is_all_that_is_paid(tmp_path: Path):
    account = account_of(tmp_path)
    account.ask(ages(0, 9), within=30)
    account.ask(ages(10, 19), within=30)
    spent = account.state.spent
    better = account.ask(ages(0, 19), within=30)  # half of it is known
    alone = account_of(tmp_path / "alone").ask(ages(0, 19), within=30)
    assert ZERO_PRECISION < better.cost < alone.cost and account.state.spent == spent + better.cost
    assert better.stddev <= alone.stddev * 1.000001


def test_the_same_question_again_is_free(tmp_path: Path):
    account = account_of(tmp_path)
    one, again = (account.ask(ages(3, 30), within=20) for _ in range(2))
    assert again.case is Case.REPEAT and again.value == one.value and again.cost == ZERO_PRECISION
    account.ask(ages(0, 40), within=15)  # more is known now, and the same question has the same answer
    assert account.ask(ages(3, 30), within=20).exact == one.exact
    assert account.ask(ages(3, 30), within=20, key="k").value == account.ask(ages(3, 30), within=20, key="k").value


def test_negated_and_weighted_questions_are_the_same_knowledge(tmp_path: Path):
    account = account_of(tmp_path)
    account.ask(ages(0, 31), within=20)
    account.ask(ages(32, 64), within=20)
    sql = "SELECT 2 * COUNT_IF(age < 32) - 3 * COUNT_IF(age >= 32) + 7 FROM people"
    answer = account.ask(sql, within=200)
    assert answer.case is Case.INFER
    assert answer.value == pytest.approx(
        2 * account.ask(ages(0, 31), within=20).value - 3 * account.ask(ages(32, 64), within=20).value + 7, abs=1e-3
    )


def test_sums_and_counts_of_one_cell_add_up(tmp_path: Path):
    account = account_of(tmp_path)
    count = account.ask(ages(0, 9), within=30)
    total = account.ask("SELECT SUM(income) FROM people WHERE age < 10", within=3_000)
    assert total.cost > ZERO_PRECISION and account.state.spent == count.cost + total.cost
    elsewhere = account.ask("SELECT SUM(income) FROM people WHERE age >= 10", within=3_000)
    assert elsewhere.cost == ZERO_PRECISION


def test_cubes_add_up_and_other_questions_are_plain(tmp_path: Path):
    account = account_of(tmp_path)
    costs = [
        account.ask(sql, within=30).cost
        for sql in (ages(0, 9), "SELECT COUNT(*) FROM people WHERE town = 'north'",
                    "SELECT COUNT(*) FROM people WHERE age < 10 AND town = 'north'")
    ]  # fmt: skip
    assert all(costs) and account.state.spent == sum(costs, ZERO_PRECISION)
    cubes = [reservation.cube for reservation in account.ledger.list_reservations(account.id)]
    assert sorted(cubes) == [0, 1, 2]


def test_a_group_by_is_one_measurement_and_answers_its_parts(tmp_path: Path):
    account = account_of(tmp_path)
    groups = account.ask("SELECT town, COUNT(*) FROM people GROUP BY town", within=30)
    assert [group.keys for group in groups.rows] == [("east",), ("north",), ("south",)]
    north = account.ask("SELECT COUNT(*) FROM people WHERE town = 'north'", within=30)
    assert north.case is Case.INFER and north.value == pytest.approx(groups.rows[1].value, abs=1e-4)
    pair = account.ask("SELECT COUNT(*) FROM people WHERE town IN ('north', 'east')", within=60)
    assert pair.case is Case.INFER
    assert pair.value == pytest.approx(groups.rows[0].value + groups.rows[1].value, abs=1e-3)
    single = account_of(tmp_path / "other").ask("SELECT COUNT(*) FROM people WHERE town = 'north'", within=30)
    assert groups.cost == single.cost  # all groups for the price of one


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_the_first_question_costs_what_it_costs_plainly(tmp_path: Path, neighbours: str):
    for name, sql in (
        ("one", ages(0, 9)),
        ("signed", "SELECT COUNT_IF(age < 9) - COUNT_IF(age > 20) FROM people"),
        ("grouped", "SELECT age, COUNT(*) FROM people GROUP BY age"),
        ("sum", "SELECT SUM(income) FROM people WHERE smoker"),
    ):
        account = account_of(tmp_path / name, neighbours=neighbours)
        answer = account.ask(sql, epsilon=1, delta="1e-6")
        (reservation,) = account.ledger.list_reservations(account.id)
        target = answer.parts[0].target  # of groups: by a root that is rounded up
        assert reservation.cube and target.units * (1 - 1e-9) <= answer.cost.units <= target.units


class Scaled(SystemEntropy):
    """The real sampler at `factor` times the scale that it is asked for."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def discrete_gaussian(self, scale: float) -> int:
        return super().discrete_gaussian(self.factor * scale)

    def discrete_gaussians(self, scale: float, count: int) -> list[int]:
        return super().discrete_gaussians(self.factor * scale, count)


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (1.3, False), (0.7, False)])
def test_noise_is_as_large_as_was_paid_for(tmp_path: Path, factor: float, accepted: bool):
    """Errors of answers, measured and inferred, over accounts, against their stated standard deviations; and that
    noise of 1.3 or 0.7 times its size would be seen in each of them."""
    path = write(tmp_path)
    path.write_text(path.read_text().replace('[["age"], ["town", "smoker"]]', '[["age", "smoker"]]'))
    rules = read_rules(path)
    scores: dict[str, list[float]] = {"measured": [], "inferred": []}
    for _ in range(10):
        account, _ = open_account(memory_rooms(Scaled(factor)), rules)
        for name, by, within in (("measured", "age, smoker", 20), ("inferred", "age", 40)):
            sql = f"SELECT {by}, COUNT(*) FROM people GROUP BY {by}"
            found = account.ask(sql, within=within)
            assert (found.case is Case.INFER) == (name == "inferred")
            exact = account.engine.statistics(account.parse(sql).query)
            pairs = zip(found.rows, exact, strict=True)
            scores[name] += [(row.value - count) / row.stddev for row, count in pairs]
    for name, found in scores.items():
        assert len(found) >= 650
        square = sum(score * score for score in found) / len(found)
        # Chi-square with 650 degrees has a relative standard deviation of 0.055: each end is 4.4 or more away.
        assert (0.75 < square < 1.28) == accepted, (name, square)


def test_a_first_look_is_bought_when_it_pays(tmp_path: Path):
    account = account_of(tmp_path, looks=True)
    pick = workload_rng(5)
    free = 0
    for _ in range(60):
        low, high = sorted(pick.sample(range(65), 2))
        free += account.ask(ages(low, high), within=60).case is Case.INFER
    statement = make_openings(account)
    looks = [entry for entry in statement["records"].values() if "look" in entry]
    assert len(looks) == 1 and free > 15
    assert check_openings(statement, account.ledger.books).opened_count == len(statement["records"])
    none = account_of(tmp_path / "none")
    pick = workload_rng(5)
    for _ in range(60):
        low, high = sorted(pick.sample(range(65), 2))
        none.ask(ages(low, high), within=60)
    assert none.state.measurements > account.state.measurements


def expecting(folder: Path, **kinds: Any) -> Path:
    path = write(folder, looks=True, **kinds)
    path.write_text(path.read_text().replace("[budget]", 'expect = ["marginals"]\n[budget]', 1))
    return path


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_an_expected_look_is_bought_with_the_first_question(tmp_path: Path, neighbours: str):
    account, _ = open_account(memory_rooms(), read_rules(expecting(tmp_path, neighbours=neighbours)))
    assert account.quote(ages(10, 40), within=100).first_look > ZERO_PRECISION
    answer = account.ask(ages(10, 40), within=100)
    look, question = account.ledger.list_reservations(account.id)
    assert look.fresh_precision and look.cost == account.state.spent and question.case is Case.INFER
    assert answer.case is Case.INFER and answer.cost == ZERO_PRECISION and answer.parts[0].inferred.first_look
    for low, high in ((1, 63), (3, 3), (20, 50)):
        again = account.ask(ages(low, high), within=100)
        assert again.cost == ZERO_PRECISION and abs(again.value - true(account, ages(low, high))) < 6 * again.stddev
    assert check_openings(make_openings(account), account.ledger.books).opened_count == 5
    finer = account.ask(ages(10, 40), within=50)  # four times the precision, and only the difference is paid
    looks = [entry for entry in account.ledger.list_reservations(account.id) if entry.category & 8]
    assert len(looks) == 2 and finer.cost == ZERO_PRECISION
    assert float(account.state.spent) == pytest.approx(4 * float(look.cost), rel=1e-4)
    assert check_openings(make_openings(account), account.ledger.books).opened_count == 7


def test_single_values_earn_a_look_that_is_recomputed(tmp_path: Path):
    """Its rows are in the saved request: a restart knows them, and the verifier recounts what they charge."""
    folder, policy = create_bank(tmp_path / "bank"), write(tmp_path, looks=True)
    where = ["smoker", "NOT smoker", *(f"town = '{town}'" for town in ("east", "north", "south"))]
    questions = [f"SELECT COUNT(*) FROM people WHERE {condition}" for condition in where]
    questions += [f"{questions[0]} AND {town}" for town in where[2:]]
    with open_bank(folder) as bank:
        account = bank.open_account(policy)
        for target in (40, 20):
            for question in questions:
                account.ask(question, within=target)
        looks = [entry["look"] for entry in make_openings(account)["records"].values() if "look" in entry]
        assert any("coefficients" in look["rows"] for look in looks)
    with open_bank(folder) as bank:
        account = bank.account("people")
        spent = account.state.spent
        for question in questions:
            answer = account.ask(question, within=20)
            assert answer.cost == ZERO_PRECISION and abs(answer.value - true(account, question)) < 6 * answer.stddev
        assert account.state.spent == spent
        statement = make_openings(account)
        assert check_openings(statement, account.ledger.books).opened_count == len(statement["records"])


@pytest.mark.parametrize("step", ["save_request", "reserve", "seal_many", "publish_many"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_around_a_look_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool):
    """Cut off before or after each durable step of the look: asked again, it is drawn and charged once."""
    rooms = memory_rooms()
    account, _ = open_account(rooms, read_rules(expecting(tmp_path)))
    part = rooms.ledger if step in ("reserve", "publish_many") else rooms.vault
    real = getattr(part, step)

    def cut(*given: Any) -> Any:
        if after:
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(part, step, cut)
        with pytest.raises(KeyboardInterrupt):
            account.ask(ages(10, 40), within=100, key="mine")
    (account,) = load_accounts(rooms)
    recover_account(account)
    answer = account.ask(ages(10, 40), within=100, key="mine")
    looks = [entry for entry in account.ledger.list_reservations(account.id) if entry.category & 8]
    assert len(looks) == 1 and answer.case is Case.INFER and account.state.spent == looks[0].cost
    sealed = rooms.vault.find_answer(looks[0].id)
    assert sealed is not None and sealed.digest == looks[0].answer_digest
    (again,) = load_accounts(rooms)
    assert recover_account(again).finished == 0
    assert again.ask(ages(0, 9), within=100).cost == ZERO_PRECISION


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_look_that_the_vault_has_lost_is_not_built_on(tmp_path: Path, neighbours: str):
    rooms = memory_rooms()
    account, _ = open_account(rooms, read_rules(expecting(tmp_path, neighbours=neighbours)))
    account.ask(ages(10, 40), within=100)
    look = account.ledger.list_reservations(account.id)[0]
    spent = account.state.spent
    rooms.vault._database.execute("DELETE FROM answers WHERE id = ?", (look.id,))
    (account,) = load_accounts(rooms)
    assert recover_account(account).lost == 1
    answer = account.ask(ages(0, 9), within=30)
    assert answer.case is Case.FIRST and not answer.parts[0].inferred.first_look
    assert account.state.spent == spent + answer.cost and answer.cost <= answer.parts[0].target


def test_looks_can_be_bought_in_every_version(tmp_path: Path):
    rooms = memory_rooms()
    rules = read_rules(expecting(tmp_path))
    account, _ = open_account(rooms, rules)
    account.ask(ages(10, 40), within=100)
    spent = account.state.spent
    (tmp_path / "people.csv").write_text((tmp_path / "people.csv").read_text() + "1,east,true,3\n")
    account, _ = open_next_version(rooms, account, rules)
    assert account.ask(ages(10, 40), within=100).case is Case.INFER
    assert account.state.spent == spent + spent


def test_a_restart_knows_what_was_known(tmp_path: Path):
    policy = write(tmp_path, looks=True)
    folder = create_bank(tmp_path / "bank")
    pick = workload_rng(5)
    asked = [tuple(sorted(pick.sample(range(65), 2))) for _ in range(30)]
    with open_bank(folder) as bank:
        account = bank.open_account(policy)
        for low, high in asked:
            account.ask(ages(low, high), within=60)
        before = [account.ask(ages(low, high), within=60) for low, high in asked]
    with open_bank(folder) as bank:
        account = bank.account()
        spent = account.state.spent
        after = [account.ask(ages(low, high), within=60) for low, high in asked]
        assert {answer.case for answer in after} <= {Case.INFER, Case.REPEAT} and account.state.spent == spent
        assert [answer.value for answer in after] == pytest.approx([answer.value for answer in before], abs=1e-4)
        assert verify(list(bank.export())).passed


def test_a_reservation_without_an_answer_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rooms = memory_rooms()
    account, _ = open_account(rooms, read_rules(write(tmp_path)))
    with monkeypatch.context() as patched:
        patched.setattr(rooms.vault, "seal_many", lambda sealed: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            account.ask(ages(0, 9), within=30, key="mine")
    spent = account.state.spent
    assert spent > ZERO_PRECISION
    (again,) = load_accounts(rooms)
    assert recover_account(again).finished == 1
    answer = again.ask(ages(0, 9), within=30, key="mine")
    assert answer.case is Case.FIRST and again.state.spent == spent
    assert again.ask(ages(0, 9), within=30).case is Case.REPEAT


def test_an_analyst_whose_view_is_too_small_for_the_cube_is_asked_plainly(tmp_path: Path):
    account = account_of(tmp_path)
    for low in (0, 20, 40):
        account.ask(ages(low, low + 30 if low < 40 else 64), within=12)
    small = account.quote(ages(1, 2), within=100).target
    account.vault.save_analyst(account.id, account.analyst("ann"), "ann")
    account.ledger.set_limit(account.id, account.analyst("ann"), 2 * small.units)
    answer = account.ask(ages(1, 2), within=100, analyst="ann")
    assert account.ledger.list_reservations(account.id)[-1].cube == 0 and answer.cost == small
    assert account.view("ann").used == small


def test_views_see_the_cubes_largest_cell(tmp_path: Path):
    account = account_of(tmp_path)
    account.vault.save_analyst(account.id, account.analyst("ann"), "ann")
    account.ledger.set_limit(account.id, account.analyst("ann"), account.state.budget.units - 1)
    account.ask(ages(0, 9), within=30)
    spent = account.state.spent
    coarse = account.ask(ages(0, 9), within=60, analyst="ann")  # by the cube her view would be charged all of it
    assert coarse.case is Case.FIRST and account.view("ann").used == coarse.cost < spent
    fine = account.ask(ages(0, 9), within=30, analyst="ann")
    assert account.view("ann").used == coarse.cost + fine.cost == spent


def test_an_analyst_without_a_limit_of_her_own_takes_the_cube(tmp_path: Path):
    account = account_of(tmp_path)
    account.ledger.set_limit(account.id, account.analyst("ann"), account.state.budget.units)
    spent = account.ask(ages(0, 9), within=30).cost
    coarse = account.ask(ages(0, 9), within=60, analyst="ann")  # her view cannot rise above what the account spends
    assert coarse.case is Case.INFER and coarse.cost == ZERO_PRECISION and account.view("ann").used == spent


def test_a_limited_analyst_pays_no_look_and_the_quote_says_why(tmp_path: Path):
    path = write(tmp_path)
    path.write_text('expect = ["ranges"]\n' + path.read_text())
    account = open_account(memory_rooms(), read_policy(path))[0]
    account.ledger.set_limit(account.id, account.analyst("ann"), account.state.budget.units // 10)
    plain = account.quote(ages(0, 9), within=30, analyst="ann")
    assert not plain.first_look and account.quote(ages(0, 9), within=30).first_look
    answer = account.ask(ages(0, 9), within=30, analyst="ann")
    assert account.state.spent == account.view("ann").used == answer.cost == plain.cost
    account.ask(ages(5, 30), within=30)  # the owner's: a look
    why = account.quote(ages(1, 2), within=100, analyst="ann").why
    assert why.startswith("plain reuse: it costs ") and why.endswith(" to what this analyst has learned")
    assert account.quote(ages(1, 2), within=100).why.startswith("the cube over age: free there")


def test_what_is_free_plainly_buys_no_look(tmp_path: Path):
    path = write(tmp_path)
    path.write_text('expect = ["ranges"]\n' + path.read_text())
    account = open_account(memory_rooms(), read_policy(path))[0]
    account.ledger.set_limit(account.id, account.analyst("ann"), account.state.budget.units // 10)
    account.ask(ages(0, 30), within=10)  # a look; what the cube knows is too much for her view
    first = account.ask(ages(40, 50), within=100, analyst="ann")
    spent = account.state.spent
    assert account.ledger.list_reservations(account.id)[-1].cube == 0 and first.cost
    again = account.ask(ages(40, 50), within=100, analyst="ann")
    assert again.case is Case.REPEAT and again.value == first.value and account.state.spent == spent


def test_a_look_that_is_not_bought_leaves_the_cheaper_way(tmp_path: Path):
    path = write(tmp_path)
    path.write_text('expect = ["ranges"]\n' + path.read_text())
    account = open_account(memory_rooms(), read_policy(path))[0]
    quoted = account.quote(ages(0, 9), within=30)
    answer = account.ask(ages(0, 9), within=30, max_cost=quoted.target.exact)  # no look with a highest price
    assert answer.cost == quoted.target and account.state.measurements == 1


def test_opened_records_are_recomputed_and_wrong_cells_are_caught(tmp_path: Path):
    account = account_of(tmp_path)
    account.ask(ages(0, 9), within=30, key="a")
    account.ask(ages(10, 40), within=30)
    account.ask("SELECT town, COUNT(*) FROM people GROUP BY town", within=30)
    account.ask(ages(0, 40), within=90)
    shown = make_openings(account)
    assert check_openings(shown, account.ledger.books).opened_count == 4
    assert isinstance(account.ledger, EmbeddedLedger) and verify(list(account.ledger.export_journal())).passed
    # charged for cells 0 to 9, shown as a question about others, with a salt to match
    first = account.ledger.list_reservations(account.id)[0].id.hex()
    lied = {**shown, "records": {first: {**shown["records"][first], "sql": ages(0, 63)}}}
    with pytest.raises(Tampered):
        check_openings(lied, account.ledger.books)


def test_quotes_say_what_a_cube_costs(tmp_path: Path):
    account = account_of(tmp_path)
    quote = account.quote(ages(0, 9), within=30)
    assert quote.cube == ("age",) and quote.case is Case.FIRST
    assert account.ask(ages(0, 9), within=30).cost == quote.cost
    assert account.quote(ages(10, 19), within=30).cost == ZERO_PRECISION  # other people
    assert account.quote(ages(0, 9), within=30).case is Case.REPEAT
    assert account.quote("SELECT COUNT(*) FROM people WHERE income > 3", within=30).cube == ()


DERIVED = ("MEDIAN(age)", "QUANTILE(age, 0.9)", "MIN(age)", "MAX(age)", "MODE(town)", "AVG(income)", "AVG(smoker)")


@pytest.mark.parametrize("sql", DERIVED)
def test_what_is_derived_comes_from_the_posterior(tmp_path: Path, sql: str):
    account = account_of(tmp_path)
    quote = account.quote(f"SELECT {sql} FROM people", epsilon=1, delta="1e-6")
    answer = account.ask(f"SELECT {sql} FROM people", epsilon=1, delta="1e-6")
    assert {reservation.cube for reservation in account.ledger.list_reservations(account.id)} <= {1, 2}
    assert all(part.inferred is not None for part in answer.parts) and quote.cost == answer.cost
    again = account.ask(f"SELECT {sql} FROM people", epsilon=1, delta="1e-6")
    assert again.cost == ZERO_PRECISION and again.value == pytest.approx(answer.value)
    assert check_openings(make_openings(account), account.ledger.books).opened_count == 2 * len(answer.parts)
    assert isinstance(account.ledger, EmbeddedLedger) and verify(list(account.ledger.export_journal())).passed


def column(folder: Path, name: str) -> list[int]:
    head, *lines = (folder / "people.csv").read_text().split()
    place = head.split(",").index(name)
    return sorted(int(line.split(",")[place]) for line in lines)


def test_quantiles_are_known_from_ranges_and_free(tmp_path: Path):
    """What ranges and a first look say about the bins is enough; nothing is measured for the median itself."""
    account, _ = open_account(memory_rooms(), read_rules(expecting(tmp_path)))
    for low in (0, 16, 32, 48):
        account.ask(ages(low, low + 15), within=15)
    median = account.ask("SELECT MEDIAN(age) FROM people", sigma=9, confidence="0.999")
    (part,) = median.parts
    assert median.cost == ZERO_PRECISION and part.case is Case.INFER and part.inferred.first_look
    variances, running = (
        [float(Fraction(each)) for each in part.receipt.answer[name]] for name in ("variances", "running")
    )
    assert len(running) == 65 and running[-1] < 16 * max(variances)  # a tree: not sqrt 65 times
    low, high = median.interval()
    ages_ = column(tmp_path, "age")
    assert low <= ages_[149] <= ages_[150] <= high


def test_variances_take_sums_and_counts_from_the_cube(tmp_path: Path):
    account = account_of(tmp_path)
    answer = account.ask("SELECT STDDEV(income) FROM people WHERE age < 30", epsilon=1, delta="1e-6")
    assert [part.inferred is None for part in answer.parts] == [True, False, False]
    assert [reservation.cube for reservation in account.ledger.list_reservations(account.id)] == [0, 2, 2]


def test_a_restart_shows_the_same_interval(tmp_path: Path):
    folder = create_bank(tmp_path / "bank")
    with open_bank(folder) as bank:
        account = bank.open_account(write(tmp_path))
        before = account.ask("SELECT MEDIAN(age) FROM people", epsilon=1, delta="1e-6", key="m")
    with open_bank(folder) as bank:
        after = bank.account().ask("SELECT MEDIAN(age) FROM people", epsilon=1, delta="1e-6", key="m")
    assert after.interval() == before.interval() and after.receipt.answer["running"] == before.receipt.answer["running"]
    assert after.receipt.to_canonical_json() == before.receipt.to_canonical_json()


def test_a_group_that_reads_too_many_runs_gets_runs_that_cover_them(tmp_path: Path):
    """The contract takes 16 runs of cells per transaction: what does not fit is charged by fewer, wider runs."""
    account = account_of(tmp_path)
    odd = " OR ".join(f"age = {number}" for number in range(1, 24, 2))
    quote = account.quote(f"SELECT AVG(income) FROM people WHERE {odd}", epsilon=1, delta="1e-6")
    answer = account.ask(f"SELECT AVG(income) FROM people WHERE {odd}", epsilon=1, delta="1e-6")
    assert [part.inferred is None for part in answer.parts] == [False, False]
    assert answer.cost == quote.cost and [part.cube for part in quote.parts] == [("age",), ("age",)]
    runs = [len(entry.runs) for entry in account.ledger.list_reservations(account.id)]
    assert sum(runs) == 16 and all(run < 12 for run in runs)
    check_openings(make_openings(account), account.ledger.books)
    again = account.ask(f"SELECT AVG(income) FROM people WHERE {odd}", epsilon=1, delta="1e-6")
    assert again.cost == ZERO_PRECISION and again.value == answer.value


def test_a_relative_request_is_plain(tmp_path: Path):
    account = account_of(tmp_path)
    quoted = account.quote(ages(0, 64), relative=Fraction(1, 2), floor=100)
    answer = account.ask(ages(0, 64), relative=Fraction(1, 2), floor=100)
    assert quoted.cube == () and answer.cost == quoted.cost and answer.parts[0].inferred is None
    assert {reservation.cube for reservation in account.ledger.list_reservations(account.id)} == {0}


def test_explain_says_where_and_suggests(tmp_path: Path):
    account = account_of(tmp_path)

    def said(condition: str, what: str = "COUNT(*)") -> str:
        return explain_cube(account.context, account.parse(f"SELECT {what} FROM people WHERE {condition}").query)

    assert "the cube over age (65 cells)" in said("age < 10")
    assert "cubes = [['age', 'town']]" in said("age < 10 AND town = 'north'")
    assert "income has no keys or bins" in said("income > 7")
    assert "one column" in said("age < 10", "SUM(income * income)")
    assert suggest_cubes(account.context) == []
    for _ in range(2):
        account.ask("SELECT COUNT(*) FROM people WHERE age < 10 AND town = 'north'", within=30)
    account.ask("SELECT COUNT(*) FROM people WHERE age < 10 AND smoker", within=30)
    account.ask("SELECT COUNT(*) FROM people WHERE income < 10", within=30)
    assert [(names, count) for names, _, count in suggest_cubes(account.context)] == [
        (("age", "town"), 2),
        (("age", "smoker"), 1),
    ]


def test_answers_say_what_they_come_from(tmp_path: Path):
    account = account_of(tmp_path)
    account.ask(ages(0, 9), within=30)
    account.ask(ages(10, 19), within=30)
    answer = account.ask(ages(0, 19), within=60)
    assert answer.parts[0].inferred is not None
    assert (answer.parts[0].inferred.cube, answer.parts[0].inferred.measurements) == (("age",), 2)
    assert answer.parts[0].inferred.alone == account_of(tmp_path / "x").ask(ages(0, 19), within=60).cost > answer.cost
    assert account.ask("SELECT COUNT(*) FROM people WHERE income < 10", within=30).parts[0].inferred is None


def test_a_view_that_has_seen_the_cube_goes_on_from_there(tmp_path: Path):
    account = account_of(tmp_path)
    account.vault.save_analyst(account.id, account.analyst("ann"), "ann")
    first = account.ask(ages(0, 9), within=30)
    account.ledger.set_limit(account.id, account.analyst("ann"), first.cost.units * 3 // 2)
    assert account.ask(ages(0, 9), within=30, analyst="ann").case is Case.REPEAT
    inferred, again = (account.ask(ages(0, 9), within=60, analyst="ann") for _ in range(2))
    assert (inferred.case, again.case, again.rows) == (Case.INFER, Case.REPEAT, inferred.rows)
    assert account.view("ann").used == first.cost


def test_many_threads_ask_one_cube(tmp_path: Path):
    account = account_of(tmp_path)
    with ThreadPoolExecutor(8) as askers:
        answers = list(askers.map(lambda n: account.ask(ages(n % 8, 40 + n % 5), within=60), range(40)))
    paid = [answer for answer in answers if answer.cost]
    assert account.state.spent == sum((answer.cost for answer in paid), ZERO_PRECISION)
    assert account.state.measurements < 40 and isinstance(account.ledger, EmbeddedLedger)
    assert verify(list(account.ledger.export_journal())).passed


@pytest.mark.parametrize("where", ["seal", "identity"])
def test_what_was_drawn_and_not_sealed_is_never_inferred_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
):
    """Interrupted in the same process: the reservation will draw again, so the first draw must leave no trace."""
    account = account_of(tmp_path)
    account.ask(ages(20, 29), within=30)
    with monkeypatch.context() as patched:
        if where == "seal":
            patched.setattr(account.vault, "seal_many", lambda sealed: (_ for _ in ()).throw(KeyboardInterrupt))
        else:  # the table changes under the measurement
            seen = iter(["", "", "changed"])
            real = account.context.check_identity
            patched.setattr(
                account.context, "check_identity", lambda: _raise(TableChanged("x")) if next(seen) else real()
            )
        with pytest.raises((KeyboardInterrupt, TableChanged)):
            account.ask(ages(0, 9), within=30, key="mine")
    assert (
        account.cubes._state.count_measurements(account.cubes.find_cube_query(account.parse(ages(0, 9)).query))[0] == 1
    )
    assert account.quote(ages(0, 9), within=30).case is not Case.INFER
    spent = account.state.spent
    answer = account.ask(ages(0, 9), within=30, key="mine")
    assert account.state.spent == spent and account.ask(ages(0, 9), within=30).value == answer.value


def test_what_is_sealed_is_published_before_anything_builds_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    account = account_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(account.ledger, "publish_many", lambda *seals: _raise(OutcomeUnknown("cut off")))
        with pytest.raises(OutcomeUnknown):
            account.ask(ages(0, 9), within=30)
        with pytest.raises(OutcomeUnknown):
            account.ask(ages(0, 9), within=60)
    assert account.ask(ages(0, 9), within=60).case is Case.INFER
    assert all(
        reservation.answer_digest
        for reservation in account.ledger.list_reservations(account.id)
        if reservation.fresh_precision
    )


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_refusal_of_several_questions_has_bought_no_look(neighbours: str, tmp_path: Path) -> None:
    """A fuzz found looks that were bought for a group whose other questions were refused: "nothing was spent"."""
    path = write_people(tmp_path, rows=300, epsilon="40", neighbours=neighbours)
    path.write_text('cubes = [["smoker", "town"]]\nexpect = ["marginals"]\n' + path.read_text())
    refused = 0
    for limit in (2, 5, 10, 20, 40):
        account = memory_account(path)
        account.ledger.set_limit(account.id, account.analyst("ann"), limit * 10**15)
        for sql in (
            "SELECT smoker, SUM(age), COUNT(*), SUM(income), VARIANCE(children) FROM people GROUP BY smoker",
            "SELECT town, SUM(age), CORR(age, income), SUM(children) FROM people GROUP BY town",
        ):
            for share in ("0.01%", "0.05%", "0.1%"):
                before = account.ledger.books.count_reservations(account.id), account.state.spent
                with suppress(ViewExhausted):
                    account.ask(sql, spend=share, analyst="ann")
                    continue
                refused += 1
                assert (account.ledger.books.count_reservations(account.id), account.state.spent) == before
    assert refused > 10
