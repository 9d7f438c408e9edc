"""What looks decide stands on the public ledger: counted from ledger and vault, capped, and refused before it is too
much. The last step of a request decides nothing. Proof: docs/proofs/looks.md."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from unittest.mock import patch

import pytest

from noisebank.account import coarse_look_counter, coarse_looks, current_time
from noisebank.account.account import Account
from noisebank.account.coarse_look_counter import CoarseLookCounter
from noisebank.account.pipeline import BatchItem, answer_batch
from noisebank.bank.opening import load_accounts, open_account, open_next_version
from noisebank.core.asks import Ask
from noisebank.core.errors import KeyReused, LooksExhausted, NoisebankError
from noisebank.core.result import Result
from noisebank.core.units import Precision
from noisebank.ledger.protocol import Reservation
from noisebank.planning.coarse_looks import LOOKS_SHARE_BITS, MIN_GROWTH_BITS, grow_precision
from noisebank.policy.file import read_policy
from support.banks import memory_account, memory_rooms, write_people

AVERAGE = "SELECT AVG(age) FROM people WHERE smoker"
HOPELESS = "SELECT AVG(income) FROM people WHERE age > {}"
"""With `NOTHING_LEFT`, what is asked of a look's answers is never reached."""
NOTHING_LEFT = {"within": "1.2"}


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return memory_account(write_people(tmp_path, rows=900, epsilon="40"))


def counted_anew(account: Account) -> Precision:
    return CoarseLookCounter(account.id, account.ledger, account.vault).total


def looks_of(account: Account) -> list[Reservation]:
    """By the keys under which they were saved: another way than the counter's."""
    entries = account.ledger.list_reservations(account.id)
    saved = [(entry, account.vault.find_request(entry.id)) for entry in entries]
    return [entry for entry, request in saved if request is not None and " / look " in request.key]


def add_up(looks: list[Reservation]) -> Precision:
    finest: dict[bytes, int] = {}
    for look in looks:
        finest[look.query] = max(look.target.units, finest.get(look.query, 0))
    return Precision(sum(finest.values()))


def test_each_query_counts_once_with_its_finest_look(account: Account) -> None:
    for sql, wish, key in (
        (AVERAGE, {"within": 3}, "a"),
        (AVERAGE, {"within": 1}, "b"),  # the first look again, and then perhaps a finer one
        ("SELECT AVG(income) FROM people WHERE smoker", {"within": 30}, "c"),  # the count behind it was looked at
        ("SELECT town, COUNT(*) AS n FROM people GROUP BY town", {"relative": "5%"}, "d"),
        ("SELECT COUNT(*) FROM people WHERE smoker", {"epsilon": "0.5", "delta": "1e-6"}, "e"),
    ):
        account.ask(sql, **wish, key=key)
    looks = looks_of(account)
    assert len({look.query for look in looks}) == 4 < len(looks)
    assert account.context.looks.total == counted_anew(account) == add_up(looks)
    assert account.context.looks.limit.units == account.state.budget.units >> LOOKS_SHARE_BITS


def test_finals_are_sixteen_times_as_precise_so_the_limit_is_met_by_ends_only(account: Account) -> None:
    """Requests that reach their end spend 16 times what their looks count: they alone never meet the limit."""
    assert LOOKS_SHARE_BITS <= MIN_GROWTH_BITS
    account.ask(AVERAGE, within=3)
    account.ask("SELECT SQRT(COUNT(*)) AS s FROM people WHERE town = 'north'", within="0.3")
    assert add_up(looks_of(account)).units * 16 <= account.state.spent.units


def test_beyond_the_limit_no_look_is_begun_and_retries_go_on(account: Account) -> None:
    account.ask(AVERAGE, within=3, key="early")
    with patch.object(coarse_look_counter, "most_for_looks", lambda budget: Precision(5 * 10**16)):
        asked = 0
        with pytest.raises(LooksExhausted, match="Say epsilon") as refused:
            for asked in range(100):
                account.ask(HOPELESS.format(asked), **NOTHING_LEFT, key=f"k{asked}")
        assert refused.value.most == account.context.looks.limit and asked > 1
        assert account.context.looks.total <= account.context.looks.limit
        saved = account.vault.find_request_by_key(account.id, "owner", f"k{asked} / look 1")
        spent, entries = account.state.spent, len(account.ledger.list_reservations(account.id))
        outcome, answer = account.ask_many(
            [Ask(HOPELESS.format(99), NOTHING_LEFT), Ask("SELECT COUNT(*) FROM people WHERE smoker", {"sigma": 3})]
        )
        assert isinstance(outcome, LooksExhausted) and isinstance(answer, Result) and saved is None
        assert len(account.ledger.list_reservations(account.id)) == entries + 1 and account.state.spent > spent
        with pytest.raises(LooksExhausted):
            account.quote(HOPELESS.format(99), **NOTHING_LEFT)
        assert account.ask(AVERAGE, within=3, key="early").cost.units  # a retry takes the same steps


def test_a_look_that_slipped_past_the_first_check_is_followed_by_nothing(account: Account) -> None:
    """Several may pass at once. The ledger's order decides, and then the same retry ends again at its look."""
    with (
        patch.object(coarse_look_counter, "most_for_looks", lambda budget: Precision(8 * 10**15)),
        patch.object(CoarseLookCounter, "check_room", lambda *_: None),
    ):
        steps = []
        for town in ("north", "south"):
            result = account.ask(f"SELECT SQRT(COUNT(*)) AS s FROM people WHERE town = '{town}'", within=1, key=town)
            steps.append(len(result.parts))
        assert steps == [2, 1] and "decide no more on the public ledger" in result.notes[-1]
        assert add_up(looks_of(account)) > account.context.looks.limit >= account.context.looks.total
        again = account.ask("SELECT SQRT(COUNT(*)) AS s FROM people WHERE town = 'south'", within=1, key="south")
        assert again.rows == result.rows and len(account.ledger.list_reservations(account.id)) == 3


def test_the_counter_itself_may_not_be_left_out(account: Account) -> None:
    """The planted bug: without the question whether it may be followed, that look is followed."""
    with (
        patch.object(coarse_look_counter, "most_for_looks", lambda budget: Precision(8 * 10**15)),
        patch.object(CoarseLookCounter, "check_room", lambda *_: None),
        patch.object(CoarseLookCounter, "may_follow", lambda *_: True),
    ):
        for town in ("north", "south"):
            result = account.ask(f"SELECT SQRT(COUNT(*)) AS s FROM people WHERE town = '{town}'", within=1)
    assert len(result.parts) == 2


def test_a_second_look_without_room_is_left_out(account: Account) -> None:
    wish = {"within": "0.03", "max_cost": "12"}
    sql = "SELECT SQRT(COUNT(*)) AS s FROM people WHERE {}"
    parts = account.ask(sql.format("smoker"), **wish).parts
    assert len(parts) == 3
    most = account.context.looks.total + parts[0].target + Precision(1)
    with patch.object(coarse_look_counter, "most_for_looks", lambda budget: most):
        assert len(account.ask(sql.format("NOT smoker"), **wish).parts) == 2  # the look and the answer


def test_a_key_that_looks_like_a_looks_key_hides_no_look(account: Account) -> None:
    """An ordinary request saved first under the look's key would have left the look unmarked."""
    request = Ask("SELECT SQRT(COUNT(*)) AS s FROM people WHERE smoker", {"within": "0.3"})
    item = account._parser.parse_request(request).item
    plain = BatchItem(item.questions, key="k / look 1", plainly=True)
    answer_batch(account.context, [plain])
    assert plain.error is None and account.context.looks.total == Precision(0)
    with pytest.raises(KeyReused):
        account.ask("SELECT SQRT(COUNT(*)) AS s FROM people WHERE smoker", within="0.3", key="k")


def test_what_the_vault_has_lost_counts_and_so_do_earlier_versions(tmp_path: Path) -> None:
    path = write_people(tmp_path, rows=900, epsilon="40")
    rooms = memory_rooms()
    account = open_account(rooms, read_policy(path))[0]
    account.ask(AVERAGE, within=3)
    account.ask("SELECT COUNT(*) FROM people WHERE smoker", sigma=3)
    before = account.context.looks.total
    lines = (tmp_path / "people.csv").read_text().splitlines()
    (tmp_path / "people.csv").write_text("\n".join([*lines[:-1], "33,100,true,north,1"]) + "\n")
    second = open_next_version(rooms, account, read_policy(path))[0]
    assert second.context.looks.total == before
    second.ask(AVERAGE, within=3)
    total = second.context.looks.total
    assert total > before and load_accounts(rooms)[0].context.looks.total == total
    with patch.object(type(rooms.vault), "find_request", lambda *_: None):
        counter = CoarseLookCounter(second.id, second.ledger, second.vault)
        assert not counter.has_room({bytes(32): Precision(1)}, 2) or counter.total > total


def test_the_best_that_is_known_is_no_look(account: Account) -> None:
    """`best` would take somebody's precise answer for a look, and then the ledger would follow that answer."""
    sql = "SELECT town, COUNT(*) AS n FROM people GROUP BY town"
    account.ask(sql, sigma=2)
    parts = account.ask(sql, relative="5%", best=True).parts
    assert float(parts[0].target) < 0.01 < float(parts[1].target)


def test_nothing_follows_the_last_step(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the last answers say: the steps are the same on the ledger."""
    real = coarse_looks.answer_batch

    def answer_wrongly(context: object, items: list[object]) -> None:
        real(context, items)  # type: ignore[arg-type]
        for item in items:
            assert isinstance(item, coarse_looks.BatchItem)
            if not item.is_look:
                item.answers = [coarse_looks.shift_answer(answer, 10**6, 1.0) for answer in item.answers]

    seen = []
    for sql, wish in ((AVERAGE, {"within": 3}), ("SELECT town, COUNT(*) FROM people GROUP BY town", {"relative": 0.1})):
        for key in ("as it is", "moved"):
            monkeypatch.setattr(coarse_looks, "answer_batch", real if key == "as it is" else answer_wrongly)
            try:
                parts = account.ask(sql, **wish, key=f"{key} {sql}").parts
            except NoisebankError as error:
                raise AssertionError(key) from error
            seen.append([part.target for part in parts])
        assert seen[-1] == seen[-2], "the second takes the same looks, and so the same last step"
    assert grow_precision(Precision(1), 4) == Precision(16)


def test_a_retry_that_ended_at_a_look_is_about_the_same_moment(tmp_path: Path) -> None:
    days = [f"2026-11-{number % 28 + 1:02}" for number in range(200)]
    (tmp_path / "visits.csv").write_text("\n".join(["day,amount", *(f"{day},5" for day in days)]) + "\n")
    (tmp_path / "visits.toml").write_text(
        'name = "visits"\nsource = "visits.csv"\nneighbours = "add-remove"\nrow_cap = 1000\n'
        "[budget]\nepsilon = 8\ndelta = 1e-6\n"
        '[columns.day]\ntype = "date"\nbounds = ["2026-01-01", "2026-12-31"]\n'
        '[columns.amount]\ntype = "integer"\nbounds = [0, 100]\n'
    )
    account = memory_account(tmp_path / "visits.toml")
    sql = "SELECT AVG(amount) AS a FROM visits WHERE day < CURRENT_DATE"
    results = []
    for moment in (datetime(2026, 11, 18, 13, 5, 7), datetime(2026, 12, 24, 8, 0, 0)):
        with patch.object(current_time, "policy_now", lambda policy, moment=moment: moment):
            results.append(account.ask(sql, within="0.4", key="k"))
    assert results[0].sql == results[1].sql and results[0].rows == results[1].rows
