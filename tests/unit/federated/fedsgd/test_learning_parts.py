"""Models, designs, tasks and the descent: each against something written down independently."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noisebank.core.errors import BadRequest
from noisebank.federated.fedsgd import MODELS, Design, GradientDescent, LearnedModel, Task, get_model
from noisebank.federated.ldp import Category, Number, Schema
from support.learning import DESIGN, PRICED, RECORD, people, task

SCORES = np.array([-3.0, -0.4, 0.3, 0.9, 2.5])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_slopes_are_the_derivative_of_the_loss(name: str, target: float) -> None:
    kind, step, targets = get_model(name), 1e-6, np.full(5, target)
    numeric = (kind.loss_values(SCORES + step, targets) - kind.loss_values(SCORES - step, targets)) / (2 * step)
    assert np.allclose(kind.loss_slopes(SCORES, targets), numeric, atol=1e-6)


def test_errors_count_wrong_sides_or_squares() -> None:
    targets = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    assert get_model("hinge").prediction_errors(SCORES, targets).tolist() == [1, 0, 0, 1, 0]
    assert np.allclose(get_model("linear").prediction_errors(SCORES, targets), (SCORES - targets) ** 2)
    assert get_model("logistic").loss_slopes(np.array([1e9, -1e9]), np.array([1.0, 1.0])).tolist() == pytest.approx(
        [0, -1]
    )
    with pytest.raises(BadRequest, match="must be one of"):
        get_model("tree")


def test_a_record_becomes_a_row_by_public_bounds_only() -> None:
    assert DESIGN.column_names == ("age", "town = n", "town = s", "1") and DESIGN.dimension == 4
    row, target = DESIGN.build_row(RECORD)
    assert row.tolist() == pytest.approx([-0.4, -1, 1, 1]) and target == 1.0
    assert DESIGN.build_row({"age": 500, "town": "e", "buys": "no"})[0].tolist() == [1, -1, -1, 1], (
        "clipped; the last value"
    )
    assert PRICED.build_row({"age": 0, "price": 2.5}) == (pytest.approx([-1, 1]), 0.5)


def test_what_a_record_lacks_counts_as_the_mean_over_the_listed_values() -> None:
    town = [2 / 3 - 1, 2 / 3 - 1]
    for value in (None, "w", 3, ["n"], "\ud800"):
        assert DESIGN.build_row({**RECORD, "town": value})[0].tolist() == pytest.approx([-0.4, *town, 1])
    for value in (None, float("nan"), "30", True):
        assert DESIGN.build_row({**RECORD, "age": value})[0].tolist() == pytest.approx([0, -1, 1, 1])
    assert DESIGN.build_row({})[0].tolist() == pytest.approx([0, *town, 1]) and DESIGN.build_row({})[1] == 0.0
    for kind in (MODELS["logistic"], MODELS["hinge"]):
        assert not kind.loss_slopes(np.array([3.0]), np.array([0.0])).any(), "without a target there is no gradient"


def test_rows_of_a_table_are_the_rows_of_its_records() -> None:
    columns = people(30)
    rows, targets = DESIGN.build_rows(columns)
    for place in range(30):
        row, target = DESIGN.build_row({name: values[place] for name, values in columns.items()})
        assert np.allclose(rows[place], row) and targets[place] == target


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"age": ["x"]}, "must be a number"), ({"age": [np.nan]}, "missing"), ({"town": ["w"]}, "must be one of"),
     ({"buys": ["maybe"]}, "must be one of"), ({"age": None}, "without age")],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused_without_their_values(wrong: dict, words: str) -> None:
    columns = {"age": [1.0], "town": ["n"], "buys": ["no"], **wrong}
    with pytest.raises(BadRequest, match=words) as caught:
        DESIGN.build_rows({name: values for name, values in columns.items() if values is not None})
    assert "maybe" not in str(caught.value)


def test_designs_need_a_target_and_something_to_predict_it_from() -> None:
    with pytest.raises(BadRequest, match="no attribute"):
        Design(DESIGN.schema, "income")
    with pytest.raises(BadRequest, match="to predict it from"):
        Design(Schema((Number("age"),)), "age")


@pytest.mark.parametrize(
    "other",
    [{"name": ""}, {"name": "a\nb"}, {"model": "linear"}, {"design": PRICED}, {"mechanism": "gauss"}, {"levels": 0},
     {"group": 21}, {"group": 0}, {"devices": 2**20 + 1}, {"epsilon": "0"}, {"epsilon": "1/3"}, {"epsilon": "nan"},
     {"rate": "0"}, {"shrink": "-1"}, {"radius": "1e10"}, {"tolerance": "x"}, {"group": True},
     {"epsilon": 1.0}, {"rate": 1}, {"model": None}],
)  # fmt: skip
def test_tasks_outside_their_ranges_are_refused(other: dict) -> None:
    with pytest.raises(BadRequest):
        task(**other)


def test_what_is_refused_is_named_but_not_at_length() -> None:
    with pytest.raises(BadRequest) as refused:
        task(name="n" * 101)
    assert refused.value.got == "'" + "n" * 39
    with pytest.raises(BadRequest) as refused:
        task(rate=[0] * 50)
    assert refused.value.got == str([0] * 50)[:40]
    assert task(name="n" * 100).name == "n" * 100


def test_a_task_survives_its_plain_form_and_its_digest_covers_everything() -> None:
    given = task()
    again = Task.from_json(json.loads(json.dumps(given.to_json())))
    assert again == given and again.digest == given.digest
    changed = [
        {"name": "b"}, {"model": "hinge"}, {"epsilon": "2"}, {"mechanism": "pm"}, {"levels": 10}, {"group": 4},
        {"devices": 21}, {"rate": "2"}, {"shrink": "0"}, {"radius": "9"}, {"tolerance": "1"},
        {"design": Design(Schema((Number("age", 0, 101), *DESIGN.schema.attributes[1:])), "buys")},
    ]  # fmt: skip
    assert len({task(**other).digest for other in changed} | {given.digest}) == len(changed) + 1
    for broken in ({}, {**given.to_json(), "more": 1}, {**given.to_json(), "attributes": [["number", "a", "0"]]},
                   {**given.to_json(), "attributes": [["text", "a", "0"]]}):  # fmt: skip
        with pytest.raises(BadRequest):
            Task.from_json(broken)


def test_every_device_is_in_one_group_at_most() -> None:
    given = task(group=6, devices=20)
    groups = [range(*given.group_range(number)) for number in range(given.group_count)]
    assert [device for group in groups for device in group] == list(range(18)), "two devices are never asked"
    with pytest.raises(BadRequest):
        given.group_range(3)
    assert "epsilon 1, delta 0" in given.guarantee


def test_the_descent_is_the_printed_one() -> None:
    """Algorithm 1 with rate/sqrt(t), a pull towards 0, a ball, and the mean over the second half; by hand."""
    descent = GradientDescent(np.zeros(2), 4, rate=0.5, shrink=0.1, radius=1.0)
    weights, kept = np.zeros(2), []
    for t, gradient in enumerate(np.array([[1.0, -2.0], [0.5, 0.5], [-4.0, 3.0], [0.0, 1.0]]), 1):
        descent.step(gradient)
        weights = weights - 0.5 / np.sqrt(t) * (gradient + 0.1 * weights)
        weights = weights * min(1.0, 1.0 / np.linalg.norm(weights))
        kept += [weights] if t > 2 else []
        assert np.allclose(descent.weights, weights)
    assert np.allclose(descent.averaged_weights, np.mean(kept, axis=0))


def test_descents_side_by_side_are_the_same_as_alone() -> None:
    gradients = np.random.default_rng(3).normal(size=(6, 2, 3))
    together = GradientDescent(np.zeros((2, 3)), 6, radius=0.7)
    alone = [GradientDescent(np.zeros(3), 6, radius=0.7) for _ in range(2)]
    for gradient in gradients:
        together.step(gradient)
        for one, part in zip(alone, gradient, strict=True):
            one.step(part)
    assert np.allclose(together.averaged_weights, np.stack([one.averaged_weights for one in alone]))


def test_without_a_tolerance_a_step_that_moves_nothing_ends_nothing() -> None:
    """Reports of a small group can cancel out: that is noise, and the other groups still count."""
    descent = GradientDescent.from_task(task())
    descent.step(np.zeros(4))
    assert not descent.has_converged


def test_the_descent_settles_and_refuses_what_is_not_finite() -> None:
    descent = GradientDescent.from_task(task(tolerance="0.5"))
    descent.step(np.full(4, 1.0))
    assert not descent.has_converged
    descent.step(np.full(4, 0.001))
    assert descent.has_converged
    for bad in (np.full(4, np.nan), np.full(4, np.inf), np.zeros(3)):
        with pytest.raises(BadRequest):
            descent.step(bad)


def test_a_finished_model_names_its_weights() -> None:
    learned = LearnedModel(task(), np.array([1.0, 0.0, 0.0, -0.5]), 4, 20)
    assert learned.to_json()["weights"] == {"age": 1.0, "town = n": 0.0, "town = s": 0.0, "1": -0.5}
    rows, targets = DESIGN.build_rows({"age": [90.0, 10.0], "town": ["n", "n"], "buys": ["yes", "yes"]})
    assert learned.mean_error(rows, targets) == 0.5


def test_categories_of_more_than_two_values_are_no_classes() -> None:
    with pytest.raises(BadRequest, match="two values"):
        task(design=Design(Schema((Number("age"), Category("town", ("a", "b", "c")))), "town"))
