"""One participation each, decided by the contract before anything is drawn; devices and their own budgets."""

from __future__ import annotations

from collections.abc import Iterable
from unittest.mock import patch

import numpy as np
import pytest

from noisebank.bank.folder import BankParts
from noisebank.bank.opening import load_accounts
from noisebank.core.errors import AlreadyTookPart, AnswerLost, BadRequest, BudgetExhausted, TableChanged, Tampered
from noisebank.federated.enrolment import enrol
from noisebank.federated.fedsgd import (
    Device,
    LearningAccount,
    TrainingOrder,
    collect_reports,
    find_task,
    learn_model,
    list_tasks,
    open_or_resume_task,
    open_task,
    rebuild_model,
)
from noisebank.federated.ldp import LdpReport
from noisebank.ledger.embedded import EmbeddedLedger
from noisebank.ledger.protocol import Seal, Unit
from noisebank.verifier.verification import verify
from support.banks import memory_rooms
from support.learning import DESIGN, PRICED, RECORD, table, task


@pytest.fixture
def rooms() -> BankParts:
    return memory_rooms()


def verified(rooms: BankParts) -> bool:
    chain = rooms.ledger
    assert isinstance(chain, EmbeddedLedger)
    return verify(chain.export_journal()).passed


def test_a_task_is_charged_by_groups_and_a_device_only_once(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    assert account.state.unit is Unit.EPSILON and account.state.cubes == (32,)
    account.charge_devices(0, 5)
    account.charge_devices(5, 10)
    assert account.state.spent == account.state.budget == task().device_charge, "the largest cell, not the sum"
    for start, stop in ((4, 6), (9, 12), (0, 20), (0, 4)):
        with pytest.raises(AlreadyTookPart, match="took part in offers already"):
            account.charge_devices(start, stop)
    assert account.charged_ranges() == ((0, 5), (5, 10))
    assert account.charge_devices(0, 5) == account.charge_devices(0, 5), "the same group again is the same reservation"
    for start, stop in ((-1, 3), (3, 3), (18, 21)):
        with pytest.raises(BadRequest):
            account.charge_devices(start, stop)
    assert verified(rooms)


def test_the_model_so_far_is_that_of_the_sealed_reports_bit_for_bit(rooms: BankParts) -> None:
    account = open_task(rooms, task(devices=23))
    learned = learn_model(account.task, *table(23), account)
    again = rebuild_model(account)
    assert (again.weights == learned.weights).all() and (again.group_count, again.device_count) == (4, 20)
    reports = list(account.published_means())
    cut = rebuild_model(open_task(rooms, task(name="another")))
    assert cut.group_count == 0 and not cut.weights.any() and len(reports) == 4
    assert account.charged_ranges() == ((0, 5), (5, 10), (10, 15), (15, 20)), "looking charges nobody"


def test_a_raised_budget_gives_nobody_a_second_participation(rooms: BankParts) -> None:
    account = open_task(rooms, task(), raise_delay=0)
    account.charge_devices(0, 5)
    rooms.ledger.propose_raise(account.id, 2 * task().device_charge.units)
    rooms.ledger.finish_raise(account.id)
    with pytest.raises(AlreadyTookPart):
        account.charge_devices(3, 8)
    account.charge_devices(5, 10)


def test_a_lowered_budget_is_said_to_be_just_that(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    rooms.ledger.lower_budget(account.id, task().device_charge.units - 1)
    with pytest.raises(BudgetExhausted):
        account.charge_devices(0, 5)


def test_charged_before_drawn_and_drawn_once(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    drawn = []

    def draw() -> np.ndarray:
        assert account.charged_ranges() == ((0, 5),), "the ledger has the charge before anything is drawn"
        drawn.append(1)
        return np.array([0.1, -0.2, 0.3, 1e-300])

    first = account.group_mean(0, 5, draw)
    assert np.array_equal(account.group_mean(0, 5, draw), first) and len(drawn) == 1
    assert verified(rooms)


def test_a_draw_that_fails_stays_paid_and_is_finished_later(rooms: BankParts) -> None:
    account = open_task(rooms, task())

    def fails() -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        account.group_mean(0, 5, fails)
    assert account.charged_ranges() == ((0, 5),) and account.state.spent == task().device_charge
    assert account.group_mean(0, 5, lambda: np.ones(4)).tolist() == [1.0] * 4


def test_a_lost_or_exchanged_mean_is_never_drawn_again(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    account.group_mean(0, 5, lambda: np.ones(4))
    with patch.object(type(rooms.vault), "find_answer", return_value=None), pytest.raises(AnswerLost):
        account.group_mean(0, 5, lambda: np.zeros(4))
    other = account.charge_devices(5, 10)
    rooms.ledger.publish(account.id, Seal(other.id, b"\x07" * 32))
    rooms.vault.seal_many([account._make_answer(account.charge_devices(5, 10), np.ones(4))])
    with pytest.raises(Tampered):
        account.group_mean(5, 10, lambda: np.zeros(4))


def test_tasks_are_found_again_and_keep_their_terms(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    assert [found.task for found in list_tasks(rooms)] == [task()] and load_accounts(rooms) == []
    assert find_task(rooms, "offers").id == open_or_resume_task(rooms, task()).id == account.id
    assert np.array_equal(find_task(rooms, "offers").device_order(), account.device_order())
    assert sorted(account.device_order()) == list(range(20))
    with pytest.raises(BadRequest, match="other terms"):
        open_or_resume_task(rooms, task(epsilon="2"))
    with pytest.raises(BadRequest, match="already"):
        open_task(rooms, task())
    with pytest.raises(BadRequest, match="not open"):
        find_task(rooms, "nothing")


def test_a_crash_before_the_cube_is_made_good(rooms: BankParts) -> None:
    with patch.object(type(rooms.ledger), "add_cube", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        open_task(rooms, task())
    assert open_or_resume_task(rooms, task()).state.cubes == (32,)


def test_a_whole_task_goes_on_where_it_was_cut_off_with_the_same_bits(rooms: BankParts) -> None:
    rows, targets = table(20)
    account = open_task(rooms, task())
    seen: list[int] = []

    def cut(done: int, total: int) -> None:
        seen.append(done)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_model(task(), rows, targets, account, cut)
    whole = learn_model(task(), rows, targets, open_or_resume_task(rooms, task()))
    again = learn_model(task(), rows, targets, open_or_resume_task(rooms, task()))
    assert np.array_equal(whole.weights, again.weights) and whole.device_count == 20 and whole.group_count == 4
    assert account.charged_ranges() == ((0, 5), (5, 10), (10, 15), (15, 20))
    assert verified(rooms)
    with pytest.raises(BadRequest, match="another task"):
        learn_model(task(name="b"), rows, targets, account)
    with pytest.raises(BadRequest, match="20 rows"):
        learn_model(task(), rows[:10], targets[:10])
    for wrong in (np.nan, np.inf, -1.1):
        with pytest.raises(BadRequest, match="must lie in"):
            learn_model(task(), np.where(rows == rows[3, 0], wrong, rows), targets)


def test_a_task_goes_on_with_the_table_that_it_began_with_and_no_other(rooms: BankParts) -> None:
    rows, targets = table(20)
    account = open_task(rooms, task())

    def cut(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn_model(task(), rows, targets, account, cut, b"file")
    changed = rows.copy()
    changed[7, 0] = 0.125
    others = ((rows[::-1], targets[::-1], b"file"), (changed, targets, b"file"), (rows, -targets, b"file"),
              (rows, targets, b"another"), (rows, targets, b""))  # fmt: skip
    for other_rows, other_targets, source in others:
        with pytest.raises(TableChanged, match="report twice"):
            learn_model(task(), other_rows, other_targets, open_or_resume_task(rooms, task()), source_digest=source)
    with (
        patch.object(LearningAccount, "device_order", lambda self: np.arange(20)),  # another numpy, another permutation
        pytest.raises(TableChanged),
    ):
        learn_model(task(), rows, targets, open_or_resume_task(rooms, task()), source_digest=b"file")
    assert account.charged_ranges() == ((0, 5),)
    assert (
        learn_model(task(), rows, targets, open_or_resume_task(rooms, task()), source_digest=b"file").device_count == 20
    )


def test_a_task_whose_table_nobody_knows_does_not_go_on(rooms: BankParts) -> None:
    account = open_task(rooms, task())
    account.charge_devices(0, 5)  # as a version that kept no fingerprint has left it
    with pytest.raises(TableChanged, match="began before"):
        learn_model(task(), *table(20), account)


def test_a_settled_descent_asks_nobody_else(rooms: BankParts) -> None:
    account = open_task(rooms, task(tolerance="100"))
    assert learn_model(account.task, *table(20), account).device_count == 5 and account.charged_ranges() == ((0, 5),)


# -- devices with budgets of their own -------------------------------------------------------------


def device(
    rooms: BankParts, name: str = "phone", budget: int = 3, records: Iterable[dict] = (RECORD,), most: int = 2
) -> Device:
    return Device(rooms, enrol(rooms, name, budget), list(records), most)


def order(group: int = 0, weights: float = 0.0, **other: object) -> TrainingOrder:
    return TrainingOrder(task(**other), group, np.full(4, weights))


def test_a_device_answers_one_order_of_a_task_and_always_with_the_same_bits(rooms: BankParts) -> None:
    phone = device(rooms)
    report = phone.take_part(order())
    assert phone.take_part(order()) == report
    for other in (order(group=1), order(weights=1e-12)):
        with pytest.raises(AlreadyTookPart, match="nothing more is sent"):
            phone.take_part(other)
    assert float(phone.account.state.spent) == 1.0, "two of epsilon 3 are left, and still nothing more is sent"
    assert len(phone.take_part(order(name="another task"))) == len(report)
    assert float(phone.account.state.spent) == 2.0
    assert verified(rooms)


def test_a_device_is_charged_before_its_report_is_drawn(rooms: BankParts) -> None:
    phone = device(rooms)
    with (
        patch("noisebank.federated.enrolment.draw_report", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        phone.take_part(order())
    assert float(phone.account.state.spent) == 1.0
    phone.take_part(order())
    assert float(phone.account.state.spent) == 1.0


def test_a_device_gives_no_more_than_its_owner_or_its_budget_allows(rooms: BankParts) -> None:
    with pytest.raises(BadRequest, match="at most 2"):
        device(rooms).take_part(order(epsilon="2.5"))
    poor = device(rooms, "poor", budget=1)
    with pytest.raises(BudgetExhausted):
        poor.take_part(order(epsilon="1.5"))
    poor.take_part(order())
    stranger = device(rooms, "stranger")
    stranger.agreed = PRICED.schema
    with pytest.raises(BadRequest, match="agreed to"):
        stranger.take_part(order())
    assert not stranger.account.state.spent
    with pytest.raises(BadRequest, match="at least one"):
        device(rooms, "empty", records=())


@pytest.mark.parametrize(
    ("weights", "words"),
    [(np.zeros(3), "finite numbers"), (np.zeros((4, 1)), "finite numbers"), (np.full(4, np.nan), "finite numbers"),
     (np.array([0, 0, 0, np.inf]), "finite numbers"), (np.full(4, 1.7e308), "norm"), (np.full(4, 5.1), "norm"),
     (np.array([0, 0, 0, 10.001]), "norm"), (np.zeros(4, dtype=int), "floats"), (np.zeros(4, dtype=complex), "floats"),
     (np.zeros(4, dtype=object), "floats"), (np.full(4, "1"), "floats"), ([0.0] * 4, "floats"), (None, "floats")],
)  # fmt: skip
def test_no_order_has_weights_that_could_overflow(weights: object, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        TrainingOrder(task(), 0, weights)  # type: ignore[arg-type]


def test_an_order_has_one_spelling_and_is_nobodys_to_change() -> None:
    weights = np.array([-0.0, 5.0, 5.0, 5.0])
    made = TrainingOrder(task(), 0, weights)
    assert made.digest == TrainingOrder(task(), 0, np.array([0.0, 5, 5, 5], dtype=">f4")).digest
    weights[0] = np.nan
    assert made.weights.tolist() == [0, 5, 5, 5] and not made.weights.flags.writeable
    at_the_edge = np.full(4, 5.0) * (1 + 1e-12)  # as floats leave it when a server pulls weights back
    assert TrainingOrder(task(), 0, at_the_edge).digest != made.digest
    for group in (-1, 4, True, 1.0, "0", None):
        with pytest.raises(BadRequest):
            TrainingOrder(task(), group, np.zeros(4))  # type: ignore[arg-type]


def test_a_device_answers_whatever_its_record_is(rooms: BankParts) -> None:
    odd = ({"age": 30}, {**RECORD, "town": "hidden"}, {**RECORD, "age": float("nan")}, {}, {**RECORD, "age": 10**400})
    for place, record in enumerate((RECORD, *odd)):
        phone = device(rooms, f"odd{place}", records=[record])
        assert LdpReport.decode(phone.take_part(order()), order().task.gradient_schema)
        assert float(phone.account.state.spent) == 1.0


def test_a_gradient_of_the_owners_own_that_fails_is_reported_as_zeros(rooms: BankParts) -> None:
    class Own(Device):
        def gradient(self, order: TrainingOrder) -> np.ndarray:
            raise ValueError("the patient's age is 30")

    phone = Own(rooms, enrol(rooms, "own", 3), [RECORD], 2)
    assert phone.take_part(order()) == phone.take_part(order()) and float(phone.account.state.spent) == 1.0


def test_a_devices_gradient_is_the_mean_over_its_records_clipped(rooms: BankParts) -> None:
    records = [RECORD, {"age": 100, "town": "n", "buys": "no"}]
    found = device(rooms, records=records).gradient(order(weights=1.0, model="hinge"))
    rows = [(np.array([-0.4, -1, 1, 1]), 1), (np.array([1, 1, -1, 1]), -1)]
    expected = np.mean([-target * (target * row.sum() < 1) * row for row, target in rows], axis=0)
    assert np.allclose(found, expected)
    far = TrainingOrder(task(design=DESIGN, model="hinge", radius="1e9"), 0, np.full(4, -4e8))
    assert np.abs(device(rooms, "b").gradient(far)).max() <= 1.0


def test_reports_of_a_group_are_averaged_and_strange_ones_named(rooms: BankParts) -> None:
    given = task(mechanism="three-outputs", epsilon="2")
    orders = TrainingOrder(given, 0, np.zeros(4))
    reports = {str(i): device(rooms, f"d{i}").take_part(orders) for i in range(4)}
    found = collect_reports(given, reports)
    expected = np.zeros(4)
    for raw in reports.values():
        report = LdpReport.decode(raw, given.gradient_schema)
        assert report.terms.epsilon == 2.0 and len(report.fields) == 1
    assert found.report_count == 4 and not found.left_out and found.mean.shape == expected.shape
    dearer = device(rooms, "dear").take_part(
        TrainingOrder(task(mechanism="three-outputs", epsilon="1.5"), 0, np.zeros(4))
    )
    mixed = collect_reports(given, {**reports, "dear": dearer, "short": reports["0"][:-1], "noise": b"hello"})
    assert np.array_equal(mixed.mean, found.mean) and mixed.report_count == 4
    assert set(mixed.left_out) == {"dear", "short", "noise"} and "other terms" in mixed.left_out["dear"]
    assert collect_reports(given, {}).report_count == 0
