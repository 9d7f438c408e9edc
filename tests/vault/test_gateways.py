"""Gateways on one PostgreSQL vault and one ledger on anvil: one budget, one sample a reservation, whoever dies."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from noisebank import Bank, Result, open_bank
from support.banks import write_people
from support.internals import ZERO_PRECISION, BankInUse, Case, KeyReused, TableChanged, VaultUnreachable, hold_queries
from support.patience import wait_until
from vault.gateways import Gateway
from vault.town import Town

SMOKERS = "SELECT COUNT(*) FROM {} WHERE smoker"
OLDER = "SELECT COUNT(*) FROM {} WHERE age > {}"


# -- two processes --------------------------------------------------------------------------------


@pytest.mark.timeout(900)
def test_two_processes_and_one_budget(town: Town) -> None:
    """Races, equal questions, kills: one pair of processes for all of it, since each takes seconds to start."""
    with town.bank() as bank:
        bank.open_account(town.policy("plenty"))
        for number in range(3):
            bank.open_account(town.policy(f"scarce{number}", epsilon="1"))
    with ExitStack() as ending:
        gateways = []
        for _ in range(2):
            gateways.append(Gateway(town.folder))
            ending.callback(gateways[-1].close)
        one, two = (gateway.ready() for gateway in gateways)
        for number in range(3):
            _race_for_the_last_unit(one, two, f"scarce{number}")
        _same_question_by_both(one, two)
        _killed_between_seal_and_publish(town, one, two)
        three = Gateway(town.folder).ready()
        ending.callback(three.close)
        _killed_between_reserve_and_seal(town, three, two)
        # A restart finishes by itself what nobody asks for again.
        four = Gateway(town.folder).ready()
        ending.callback(four.close)
        four.hear(four.tell("die", step="reserve"))
        four.tell("ask", sql=OLDER.format("plenty", 61), sigma="3", account="plenty", key="lone")
        four.died()
        five = Gateway(town.folder).ready()
        ending.callback(five.close)
        assert five.greeting["recovered"]["plenty"] == 1
        assert five.ask(OLDER.format("plenty", 61), sigma="3", account="plenty", key="lone")["case"] == "FIRST"
    _books_balance(town, "plenty", *(f"scarce{number}" for number in range(3)))


def _race_for_the_last_unit(one: Gateway, two: Gateway, name: str) -> None:
    """Eight threads in two processes ask eight questions, each of which costs more than half of the budget."""
    asked = [
        (gateway, gateway.tell("ask", sql=OLDER.format(name, age), sigma="5", account=name, key=f"{age}"))
        for age in (20, 30, 40, 50)
        for gateway, age in ((one, age), (two, age + 5))
    ]
    said = [gateway.hear(number) for gateway, number in asked]
    won = [each for each in said if "exact" in each]
    assert len(won) == 1, said
    assert {each["error"] for each in said if "error" in each} == {"BudgetExhausted"}, said


def _same_question_by_both(one: Gateway, two: Gateway) -> None:
    """At once, with one key: one charge and the same bits. With keys of their own: one charge, one REPEAT."""
    sql = SMOKERS.format("plenty")
    numbers = [(g, g.tell("ask", sql=sql, sigma="4", account="plenty", key="same")) for g in (one, two, one, two)]
    said = [gateway.hear(number) for gateway, number in numbers]
    assert len({(each["exact"], each["case"], each["id"]) for each in said}) == 1, said
    spelt = "SELECT COUNT(*) FROM plenty WHERE NOT smoker = false"
    asked = [(g, g.tell("ask", sql=text, sigma="3", account="plenty")) for g in (one, two) for text in (sql, spelt)]
    said = [gateway.hear(number) for gateway, number in asked]
    assert len({each["exact"] for each in said}) == 1, said
    assert sorted(each["case"] for each in said) == ["REFINE", "REPEAT", "REPEAT", "REPEAT"]
    blurred = [(g, g.tell("ask", sql=sql, sigma="5", account="plenty")) for g in (one, two)]
    said = [gateway.hear(number) for gateway, number in blurred]
    assert len({each["exact"] for each in said}) == 1 and {each["case"] for each in said} == {"BLUR"}, said
    assert two.ask(sql, sigma="2", account="plenty", key="same")["error"] == "KeyReused"


def _killed_between_seal_and_publish(town: Town, dying: Gateway, other: Gateway) -> None:
    dying.hear(dying.tell("die", step="seal"))
    dying.tell("ask", sql=OLDER.format("plenty", 33), sigma="4", account="plenty", key="sealed")
    dying.died()
    ((id, salt),) = town.rows("SELECT a.id, a.salt FROM answers a JOIN requests r USING (id) WHERE r.key = 'sealed'")
    again = other.ask(OLDER.format("plenty", 33), sigma="4", account="plenty", key="sealed")
    assert (again["id"], again["case"]) == (id.hex(), "FIRST")
    assert town.rows("SELECT salt FROM answers WHERE id = %s", id) == [(salt,)]  # the dead one's sample, the only one


def _killed_between_reserve_and_seal(town: Town, dying: Gateway, other: Gateway) -> None:
    dying.hear(dying.tell("die", step="reserve"))
    dying.tell("ask", sql=OLDER.format("plenty", 44), sigma="4", account="plenty", key="reserved")
    dying.died()
    ((id,),) = town.rows("SELECT id FROM requests WHERE key = 'reserved'")
    assert town.rows("SELECT 1 FROM answers WHERE id = %s", id) == []
    # Another one asks the same: what is paid for is finished first, and repeated.
    repeated = other.ask(OLDER.format("plenty", 44), sigma="4", account="plenty", key="mine")
    again = other.ask(OLDER.format("plenty", 44), sigma="4", account="plenty", key="reserved")
    assert (repeated["case"], again["case"]) == ("REPEAT", "FIRST") and repeated["exact"] == again["exact"]
    assert repeated["id"] == again["id"] == id.hex()


def _books_balance(town: Town, *names: str) -> None:
    """Of these accounts: other tests have theirs in the same bank."""
    with town.bank() as bank:
        for account in (bank.account(name) for name in names):
            reservations = bank.ledger.list_reservations(account.id)
            paid = sum((found.fresh_precision for found in reservations), ZERO_PRECISION)
            assert account.state.spent == paid <= account.state.budget
            assert all(found.is_finished for found in reservations)
            for found in reservations:
                sealed = account.vault.find_answer(found.id)
                assert (sealed is None) == (found.case is Case.REPEAT)
                assert sealed is None or sealed.digest == found.answer_digest


# -- two gateways in one process --------------------------------------------------------------------


def test_what_one_measures_in_a_cube_the_other_infers_from(town: Town, pair: tuple[Bank, Bank]) -> None:
    one, two = pair
    one.open_account(town.policy("cubed", cubes='cubes = [["smoker", "town"]]\n'))
    asked = one.account("cubed").ask("SELECT COUNT(*) FROM cubed GROUP BY smoker, town", sigma="3")
    assert asked.case is Case.FIRST
    # Never asked, known from the other's measurement; the second gateway has not even seen the account before.
    inferred = two.account("cubed").ask("SELECT COUNT(*) FROM cubed WHERE smoker AND town = 'north'", sigma="3")
    assert inferred.case is Case.INFER and inferred.cost == ZERO_PRECISION
    spent = two.account("cubed").state.spent
    better = two.account("cubed").ask("SELECT COUNT(*) FROM cubed WHERE smoker", sigma="1.7")
    assert two.account("cubed").state.spent > spent  # by itself, or for a look that it has earned
    back = one.account("cubed").ask("SELECT COUNT(*) FROM cubed WHERE smoker", sigma="1.7", key="back")
    assert back.case in (Case.REPEAT, Case.INFER) and back.exact == better.exact and back.cost == ZERO_PRECISION
    # Learned once: who learns twice believes too much, and says so by a smaller deviation.
    mine, theirs = (bank.account("cubed").cubes for bank in pair)
    for bank in pair:
        account = bank.account("cubed")
        with hold_queries(account.context, [account.parse("SELECT COUNT(*) FROM cubed WHERE smoker").query]):
            pass
    served = mine.find_cube_query(one.account("cubed").parse("SELECT COUNT(*) FROM cubed WHERE smoker").query)
    assert served is not None
    assert mine._state.count_measurements(served) == theirs._state.count_measurements(served)


@pytest.mark.parametrize(("wish", "step"), [({"sigma": "4"}, 1), ({"within": "8"}, 1), ({"within": "8"}, 2)])
def test_a_repeat_that_both_reserve_at_once_is_answered_by_both(
    town: Town, pair: tuple[Bank, Bank], wish: dict[str, str], step: int
) -> None:
    """Whoever repeats a recorded answer holds no lock over gateways. So the other one may reserve the same id between
    our search for it and our own claim: it was refused as used, and a request with a look ended at its look."""
    name = f"hurried_{'_'.join(wish)}_{step}"
    one, two = pair
    policy = write_people(town.tables / name, rows=900, epsilon="30", neighbours="add-remove")
    policy.write_text(policy.read_text().replace('name = "people"', f'name = "{name}"'))
    one.open_account(policy)
    sql = f"SELECT {'AVG(age)' if 'within' in wish else 'COUNT(*)'} FROM {name} WHERE smoker"
    first = one.account(name).ask(sql, **wish)
    slow, quick = one.account(name), two.account(name)
    real, calls = slow.ledger.reserve_many, iter(range(1, 100))
    between: list[Result] = []

    def overtaken(groups: Any) -> Any:
        if next(calls) == step:
            between.append(quick.ask(sql, **wish, key="both"))
            slow.ledger.refresh()
        return real(groups)

    with patch.object(slow.ledger, "reserve_many", overtaken):
        mine = slow.ask(sql, **wish, key="both")
    assert [each.rows for each in between] == [first.rows]
    assert mine.rows == first.rows and mine.cost == ZERO_PRECISION
    assert {part.case for part in mine.parts} == {Case.REPEAT}
    assert slow.ask(sql, **wish, key="both").rows == first.rows
    _books_balance(town, name)


def test_a_version_opened_by_one_is_noticed_by_the_other(town: Town, pair: tuple[Bank, Bank]) -> None:
    one, two = pair
    policy = town.policy("moving")
    one.open_account(policy)
    held = two.account("moving")
    held.ask(SMOKERS.format("moving"), sigma="4")
    table = policy.parent / "people.csv"
    table.write_text(table.read_text() + "33,100,true,north,1\n")
    one.open_and_inspect(policy, following="moving")
    with pytest.raises(TableChanged, match="another version"):
        held.ask(SMOKERS.format("moving"), sigma="4")
    assert two.account("moving").ask(SMOKERS.format("moving"), sigma="4").case is Case.FIRST


def test_keys_are_shared_and_the_folder_too(town: Town, pair: tuple[Bank, Bank]) -> None:
    one, two = pair
    one.open_account(town.policy("keyed"))
    one.account("keyed").ask(SMOKERS.format("keyed"), sigma="4", key="k")
    with pytest.raises(KeyReused):
        two.account("keyed").ask(SMOKERS.format("keyed"), sigma="2", key="k")
    with pytest.raises(BankInUse):
        one.rotate_curator()  # the other one would go on with the old key


def test_a_gateway_elsewhere_has_a_folder_of_its_own(town: Town, tmp_path: Path, pair: tuple[Bank, Bank]) -> None:
    one, _ = pair
    one.open_account(town.policy("far"))
    first = one.account("far").ask(SMOKERS.format("far"), sigma="4", key="k")
    shutil.copytree(town.folder, tmp_path / "bank", ignore=shutil.ignore_patterns("outbox*", "lock"))
    with open_bank(tmp_path / "bank") as there:
        assert there.account("far").ask(SMOKERS.format("far"), sigma="4", key="k").exact == first.exact
        second = there.account("far").ask(OLDER.format("far", 40), sigma="4", key="l")
    assert one.account("far").ask(OLDER.format("far", 40), sigma="4", key="l").exact == second.exact


def test_a_lost_database_shows_nothing_that_is_not_sealed(town: Town, pair: tuple[Bank, Bank]) -> None:
    one, two = pair
    one.open_account(town.policy("lost"))
    account = one.account("lost")
    draws: list[bytes] = []
    real = account.context.plain.draw_contents

    def cut_off(*parts: Any) -> Any:
        found = real(*parts)
        town.server.cut()
        draws.append(parts[0][0][0].id)
        return found

    account.context.plain.draw_contents = cut_off  # type: ignore[method-assign]
    with pytest.raises(VaultUnreachable, match="ask again with the same key"):
        account.ask(SMOKERS.format("lost"), sigma="4", key="k")
    assert town.rows("SELECT 1 FROM answers WHERE id = %s", draws[0]) == []
    reservation = account.ledger.find_reservation(account.id, draws[0])
    assert (
        reservation is not None
        and reservation.answer_digest is None
        and account.state.spent == reservation.fresh_precision
    )
    answer = two.account("lost").ask(SMOKERS.format("lost"), sigma="4", key="k")  # the other one finishes it
    account.context.plain.draw_contents = real  # type: ignore[method-assign]
    assert account.ask(SMOKERS.format("lost"), sigma="4", key="k").exact == answer.exact
    assert account.state.spent == reservation.fresh_precision
    town.server.stop()
    try:
        for bank in pair:
            with pytest.raises(VaultUnreachable):
                bank.account("lost").ask(SMOKERS.format("lost"), sigma="4", key="k")
        with pytest.raises(VaultUnreachable) as said:
            town.bank()
        assert str(town.server.folder) not in str(said.value)
    finally:
        town.server.start()
    assert two.account("lost").ask(SMOKERS.format("lost"), sigma="4", key="k").exact == answer.exact


def test_a_balance_is_seen_elsewhere_without_asking(town: Town, pair: tuple[Bank, Bank]) -> None:
    one, two = pair
    one.open_account(town.policy("watched"))
    spent = one.account("watched").ask(SMOKERS.format("watched"), sigma="4").cost

    def balances() -> dict[str, object]:  # reads memory, nothing else
        return {account.name: account.state.spent for account in two.accounts()}

    wait_until(lambda: balances().get("watched") == spent, lambda: f"{spent} in {balances()}")
