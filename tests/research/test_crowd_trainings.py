"""Recorded trainings of chapter 5: resumable, each once, and verdicts that can also be no."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from noisebank.core.entropy import simulation_rng
from noisebank.federated.blockfl.device import Examples
from noisebank.federated.blockfl.network import SMALL_SHAPE
from research.blockfl import training
from research.blockfl.claims import judge, judge_all, list_claims
from research.blockfl.experiments import (
    DIGITS,
    MNIST,
    MNIST_WHOLE,
    RESULTS,
    SCALES,
    SEEDS,
    Job,
    Record,
    Scale,
    list_lacking,
    plan,
    read_records,
)
from research.blockfl.figures import Trainings, average
from research.blockfl.training import LeanLearner, Setting, Trained, train
from research.papers import p4_crowd
from research.papers.p4_crowd import FINDINGS, draw
from support.paths import ROOT

TINY = Setting("bounded", 2.0, batch=8, local_epochs=2, members=3, images=16)


def examples(seed: int) -> Examples:
    source = simulation_rng(seed)
    return Examples(source.random((60, 8, 8)).astype(np.float32), source.integers(0, 10, 60))


def record(seed: int, clean: Sequence[float], **changed: object) -> Record:
    setting = replace(DIGITS.base, global_epochs=len(clean), **changed)  # type: ignore[arg-type]
    return Record("digits", Trained(setting, seed, tuple(clean), tuple(clean), 1.0, 4), "abc", "now")


@pytest.mark.parametrize("norm", ["bounded", "batch"])
def test_an_interrupted_training_comes_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, norm: str
) -> None:  # fmt: skip
    data, setting = (examples(1), examples(2)), replace(TINY, norm=norm)
    whole = train(SMALL_SHAPE, data, setting, 7)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    honest, calls = LeanLearner.train_member, 0

    def interrupted(learner: LeanLearner, own: object, stream: int) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise KeyboardInterrupt
        honest(learner, own, stream)  # type: ignore[arg-type]

    monkeypatch.setattr(LeanLearner, "train_member", interrupted)
    for _ in range(20):
        try:
            again = train(SMALL_SHAPE, data, setting, 7, tmp_path / "half.npz")
            break
        except KeyboardInterrupt:
            continue
    assert (again.clean, again.noisy) == (whole.clean, whole.noisy) and calls > 6
    assert not (tmp_path / "half.npz").exists()


def test_a_longer_training_answers_for_a_shorter_one(tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    made = [record(0, [0.5, 0.6]), record(0, [0.5, 0.6, 0.7]), record(1, [0.4, 0.5])]
    path.write_text("".join(one.line() + "\n" for one in made))
    found = read_records(path)
    assert sorted(len(one.trained.clean) for one in found) == [2, 3] and made[1] in found
    jobs = [Job("digits", replace(DIGITS.base, global_epochs=count), seed) for seed in (0, 1) for count in (2, 3)]
    assert list_lacking(jobs, found) == [jobs[3]]


def test_the_plan_has_each_training_once_and_five_seeds_of_what_decides() -> None:
    jobs = plan()
    assert len({job.key() for job in jobs}) == len(jobs)
    seeds = [job.seed for job in jobs if job.scale == "digits"]
    assert set(seeds) == set(range(5)) and len(set(map(seeds.count, set(seeds)))) == 1
    assert {job.scale for job in jobs} == {
        "digits", "digits-printed", "digits-adam", "mnist", "mnist-printed", "mnist-whole"
    }  # fmt: skip


def test_the_first_trainings_of_mnist_decide_claims_with_all_seeds() -> None:
    jobs = [job for job in plan() if job.scale == "mnist"]

    def list_decided(count: int) -> set[str]:
        records = [
            Record("mnist", Trained(job.setting, job.seed, (0.5,) * epochs, (0.5,) * epochs, 1.0, 4), "abc", "now")
            for job in jobs[:count] for epochs in [job.setting.global_epochs]
        ]  # fmt: skip
        verdicts = {claim: judge(claim, Trainings(MNIST, records), "clean") for claim in list_claims()}
        return {
            claim.figure for claim, found in verdicts.items()
            if found and all(difference.seeds == SEEDS for _, difference in found.differences)
        }  # fmt: skip

    assert list_decided(10) == {"5.6", "5.7"}
    assert list_decided(40) == {"5.3", "5.4", "5.6", "5.7"}


@pytest.mark.parametrize("scale", SCALES.values(), ids=list(SCALES))
def test_every_planned_training_is_a_point_of_a_figure_or_decides_a_claim(scale: Scale) -> None:
    """Figures 5.4 and 5.5 looked on MNIST for local epochs that nobody trains."""
    jobs = [job for job in plan() if job.scale == scale.name]
    records = [
        Record(scale.name, Trained(job.setting, job.seed, (0.5,) * epochs, (0.5,) * epochs, 1.0, 4), "abc", "now")
        for job in jobs for epochs in [job.setting.global_epochs]
    ]  # fmt: skip
    points = Trainings(scale, records).figures()
    batches = {"ours, batch 32", "ours, batch 64", "ours, batch 128", "batch norm, batch 32"}
    if scale is not MNIST_WHOLE:
        assert batches <= set(points["5.4"]) and batches <= set(points["5.5"])
    assert {"ours, no noise", "ours, epsilon 2", "batch norm, epsilon 2"} <= set(points["5.3"])


def test_verdicts_follow_the_numbers_and_not_the_wish() -> None:
    claim = next(one for one in list_claims() if one.printed == "Two global epochs are better than one.")
    spread = (0.0, 0.01, -0.01, 0.02, -0.02)

    def verdict(gain: float, seeds: int = 5, noise: float = 1.0) -> str:
        records = [
            record(seed, [0.5, 0.5 + gain + noise * spread[seed]], epsilon=2.0) for seed in range(seeds)
        ]  # fmt: skip
        found = judge(claim, Trainings(DIGITS, records), "clean")
        return found.word if found else "nothing"

    assert verdict(0.1) == "holds" and verdict(-0.1) == "fails" and verdict(0.0) == "undecided"
    assert verdict(0.01, noise=5.0) == "undecided" and verdict(0.1, seeds=1) == "1 of 5 seeds"
    assert verdict(0.1, seeds=4) == "4 of 5 seeds" and verdict(0.1, seeds=0) == "nothing"


def test_a_chart_counts_all_verdicts_and_its_panels_have_room() -> None:
    """ "Holds in 0 of 4 cases" did not say that two are undecided; six scales side by side cannot be read."""

    def scale(*words: str) -> dict[str, object]:
        row = {"clean": {"mean": 0.5, "error": 0.1, "seeds": 5}, "noisy": {"mean": 0.4, "error": 0.1, "seeds": 5}}
        verdicts = dict(zip(("clean", "noisy"), ({"verdict": word} for word in words), strict=True))
        printed = "With noise, accuracy falls as the batch grows (first global epoch)."
        return {"title": "t", "points": {"ours, batch 32": row}, "claims": [{"printed": printed, **verdicts}]}

    scales = {"a": scale("fails", "undecided"), "b": scale("undecided", "holds"), "c": scale("fails", "fails")}
    assert FINDINGS["5.4"](scales).endswith(": holds in 1, fails in 3, undecided in 2 of 6 cases")
    assert FINDINGS["5.4"]({"a": scale("holds", "holds")}).endswith(": holds in 2 of 2 cases")
    drawn = draw("5.4", {"scales": scales | {"d": scale("fails", "fails"), "e": scale("fails", "fails")}})
    assert len(drawn.axes) == 5 and drawn.get_figwidth() < 14 and drawn.get_figheight() > 8


def test_a_scale_is_drawn_from_its_first_point_with_all_seeds_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A panel with one training says nothing."""
    made = [record(seed, [0.5, 0.6], epsilon=2.0) for seed in range(SEEDS)]
    adam = replace(SCALES["digits-adam"].base, epsilon=2.0, global_epochs=2)
    made += [Record("digits-adam", Trained(adam, 0, (0.5, 0.6), (0.5, 0.6), 1.0, 4), "abc", "now")]
    monkeypatch.setattr(p4_crowd, "read_records", lambda path: made)
    assert list(p4_crowd.run("5.7", True, lambda done, total: None)["scales"]) == ["digits"]
    monkeypatch.setattr(p4_crowd, "read_records", lambda path: made[1:])
    assert p4_crowd.run("5.7", True, lambda done, total: None)["scales"] == {}


def test_single_trainings_that_fall_are_counted_beside_the_means() -> None:
    """Means over seeds rose while a single training lost .17: a reader of one curve sees the thesis' claim."""
    made = [
        record(0, [0.5, 0.6, 0.7, 0.8], epsilon=2.0), record(1, [0.9, 0.95, 0.94, 0.79], epsilon=2.0),
        record(2, [0.9, 0.7], epsilon=2.0), record(3, [0.9, 0.1, 0.1], epsilon=2.0, norm="batch"),
        record(4, [0.9, 0.8, 0.1], epsilon=0.5),
    ]  # fmt: skip
    found = Trainings(DIGITS, made).list_falls()
    assert (found["to the second"], found["of two"], found["after the second"], found["of more"]) == (1, 3, 1, 2)
    assert [one.split(": ")[1] for one in found["which"]] == ["0.900, 0.950, 0.940, 0.790", "0.900, 0.700"]


def test_errors_are_those_of_student() -> None:
    mean = average([1.0, 2.0, 3.0, 4.0, 5.0])
    assert mean and mean.value == 3 and mean.error == pytest.approx(2.776 * np.std([1, 2, 3, 4, 5], ddof=1) / 5**0.5)
    assert average([]) is None


def test_what_is_recorded_is_readable_and_of_known_settings() -> None:
    records = read_records(ROOT / RESULTS)
    known = {job.key() for job in plan()}
    assert records and all(one.key in known and len(one.commit) >= 12 for one in records)
    assert not [one for one in records if "changes" in one.commit]
    assert judge_all(Trainings(DIGITS, records))


@pytest.mark.parametrize(
    ("scale", "figure", "sentence", "verdicts"),
    [
        ("digits", "5.3", "Its normalisation", ("holds", "holds")),
        ("digits-printed", "5.3", "Its normalisation", ("undecided", "holds")),
        ("digits", "5.3", "More epsilon", ("undecided", "holds")),
        ("digits-printed", "5.3", "More epsilon", ("undecided", "undecided")),
        ("digits", "5.7", "At least 90%", ("holds", "undecided")),
        ("digits-printed", "5.7", "At least 90%", ("undecided", "fails")),
        ("digits", "5.8", "Fewer local", ("holds", "holds")),
        ("digits-printed", "5.8", "Fewer local", ("undecided", "undecided")),
        ("digits", "5.6", "Two global epochs are better than three", ("fails", "fails")),
        ("digits-printed", "5.6", "Two global epochs are better than three", ("fails", "fails")),
        ("digits", "5.7", "Read otherwise", ("holds", "holds")),
        ("digits", "5.4", "With noise", ("fails", "fails")),
        ("digits-printed", "5.4", "With noise", ("undecided", "undecided")),
        ("digits", "5.4", "The same with as many steps", ("fails", "fails")),
        ("digits-printed", "5.4", "The same with as many steps", ("undecided", "undecided")),
        ("digits", "5.5", "Without noise, batch norm", ("fails", "fails")),
        ("digits-printed", "5.5", "Without noise, batch norm", ("fails", "fails")),
    ],
)
def test_the_words_on_the_page_rest_on_these_verdicts(
    scale: str, figure: str, sentence: str, verdicts: tuple[str, str]
) -> None:
    """Whoever trains more and sees this fail: read the list at the top of docs/results/crowd.md again."""
    found = json.loads((ROOT / "docs" / "results" / "crowd.json").read_text())
    (row,) = [
        row for row in found[f"p4-figure{figure.replace('.', '-')}"]["scales"][scale]["claims"]
        if row["printed"].startswith(sentence)
    ]  # fmt: skip
    assert (row["clean"]["verdict"], row["noisy"]["verdict"]) == verdicts


def test_no_mean_is_clearly_lower_after_more_than_two_global_epochs() -> None:
    """In every setting with all its seeds, as the page says; a single training may be."""
    groups: dict[tuple[str, Setting], list[Trained]] = {}
    for one in read_records(ROOT / RESULTS):
        setting = replace(one.trained.setting, global_epochs=0)
        groups.setdefault((one.scale, setting), []).append(one.trained)
    compared = 0
    for group in groups.values():
        for kind, later in product(("clean", "noisy"), (2, 3)):
            lost = [getattr(one, kind)[1] - getattr(one, kind)[later] for one in group if len(one.clean) > later]
            if len(lost) == SEEDS:
                mean = average(lost)
                assert mean and mean.error is not None and mean.value - mean.error <= 0, group[0].setting
                compared += 1
    assert compared > 40
