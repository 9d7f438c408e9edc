"""Identifiers, the store, models, Multi-KRUM and reputation: integers that anybody can recompute."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.core.errors import BadRequest
from noisebank.federated.blockfl.identifiers import format_cid, hash_content, parse_cid
from noisebank.federated.blockfl.krum import (
    KrumVerdict,
    SubmittedModel,
    compute_scores,
    judge_submissions,
    select_lowest,
    squared_distance,
)
from noisebank.federated.blockfl.models import (
    FIXED_POINT_SCALE,
    MAX_WEIGHT,
    BadModel,
    Model,
    average_weights,
    read_model,
    to_fixed_point,
)
from noisebank.federated.blockfl.reputation import apply_printed_rule, apply_repaired_rule, simulate_reputation
from noisebank.federated.blockfl.store import MAX_BLOCK_BYTES, FolderStore

ANNA, BEN = "0x" + "a1" * 20, "0x" + "b2" * 20
FIRST = Model("", 0, "", np.zeros(3, dtype=np.int64))


def test_identifiers_are_those_of_ipfs():
    # `ipfs block put` of these bytes, and the one that every node knows: the empty block
    assert format_cid(hash_content(b"")) == "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
    assert format_cid(hash_content(b"hello")) == "bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"


@given(st.binary(max_size=50))
def test_identifiers_can_be_read_and_nothing_else_can(content: bytes):
    text = format_cid(hash_content(content))
    assert parse_cid(text) == hash_content(content)
    for wrong in (text[:-1], text.upper(), text + "a", "Qm" + text[2:], "b" + text, text.replace("bafkrei", "bafybei")):
        with pytest.raises(BadRequest):
            parse_cid(wrong)


def test_store_gives_only_what_its_name_says(tmp_path: Path):
    store = FolderStore(tmp_path / "models")
    digest = store.put(b"weights")
    assert store.get(digest) == b"weights" and store.put(b"weights") == digest and list(store) == [digest]
    store.content_path(digest).write_bytes(b"others")
    assert store.get(digest) is None
    assert store.put(b"weights") == digest and store.get(digest) == b"weights"  # mended
    assert store.get(hash_content(b"never stored")) is None
    with pytest.raises(BadRequest, match="at most"):
        store.put(b"x" * (MAX_BLOCK_BYTES + 1))


@given(st.lists(st.integers(-MAX_WEIGHT, MAX_WEIGHT), min_size=1, max_size=20))
def test_models_have_one_spelling(weights: list[int]):
    model = Model("ab", 3, ANNA, np.array(weights, dtype=np.int64))
    content = model.to_bytes()
    found = read_model(content, "ab", 3, ANNA, len(weights))
    assert (found.weights == model.weights).all() and found.to_bytes() == content


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.replace(ANNA.encode(), BEN.encode()), "not who submitted"),
        (lambda c: c.replace(b'"round":1', b'"round":2'), "another task or round"),
        (lambda c: c.replace(b'"task":"ab"', b'"task":"ac"'), "another task or round"),
        (lambda c: c[:-1], "3 weights"),
        (lambda c: c.replace(b'"count":3', b'"count":2'), "3 weights"),
        (lambda c: c.replace(b",", b", ", 1), "is no"),
        (lambda c: b"\x80" + c, "begin with a header"),
        (lambda c: c[:-4] + (2**27).to_bytes(4, "little"), "outside"),
        (lambda c: c.replace(b'"author"', b'"auth_r"'), "other fields"),
        (lambda c: b"", "begin with a header"),
    ],
)
def test_what_is_no_model_of_this_member_is_said(change, why: str):
    content = Model("ab", 1, ANNA, np.arange(3)).to_bytes()
    with pytest.raises(BadModel, match=why):
        read_model(change(content), "ab", 1, ANNA, 3)


def test_fixed_point_never_fails_and_rounds_to_the_nearest():
    found = to_fixed_point(np.array([0.5, -0.5, np.nan, np.inf, -np.inf, 1e30, 0.4999999 / FIXED_POINT_SCALE]))
    assert found.tolist() == [
        FIXED_POINT_SCALE // 2,
        -FIXED_POINT_SCALE // 2,
        0,
        MAX_WEIGHT,
        -MAX_WEIGHT,
        MAX_WEIGHT,
        0,
    ]


@given(st.lists(st.lists(st.integers(-MAX_WEIGHT, MAX_WEIGHT), min_size=4, max_size=4), min_size=1, max_size=64))
def test_average_is_exact_to_half_a_step(rows: list[list[int]]):
    found = average_weights([np.array(row, dtype=np.int64) for row in rows]).tolist()
    for place, value in enumerate(found):
        assert abs(value - Fraction(sum(row[place] for row in rows), len(rows))) <= Fraction(1, 2)


@settings(max_examples=50)
@given(st.integers(1, 300), st.integers(0, 2**32))
def test_distances_are_exact_at_the_largest_weights(count: int, seed: int):
    source = np.random.default_rng(seed)
    one, other = (source.choice([-MAX_WEIGHT, MAX_WEIGHT, 0, 1], count) for _ in range(2))
    assert squared_distance(one, other) == sum((int(a) - int(b)) ** 2 for a, b in zip(one, other, strict=True))


def test_scores_of_the_known_example():
    found = compute_scores([to_fixed_point(np.array([x])) for x in (0, 0.1, 0.2, 0.3, 0.4, 10)], 1)
    assert [round(score / FIXED_POINT_SCALE**2, 2) for score in found] == [0.14, 0.06, 0.06, 0.06, 0.14, 282.29]
    assert select_lowest(found, 1) == [0, 1, 2, 3, 4]


def test_scores_agree_with_a_plain_computation():
    source = np.random.default_rng(3)
    updates = source.normal(size=(10, 50))
    distances = ((updates[:, None] - updates[None]) ** 2).sum(-1)
    plain = np.sort(distances + np.diag([np.inf] * 10), 1)[:, :5].sum(1)
    found = np.array(
        [score / FIXED_POINT_SCALE**2 for score in compute_scores([to_fixed_point(row) for row in updates], 3)]
    )
    assert found == pytest.approx(plain, abs=1e-3)
    assert select_lowest(compute_scores([to_fixed_point(row) for row in updates], 3), 3) == sorted(
        np.argsort(plain)[:7].tolist()
    )


def _submitted(store: FolderStore, rows: list[tuple[str, list[int]]], round: int = 1) -> list[SubmittedModel]:
    return [
        SubmittedModel(who, store.put(Model("ab", round, who, np.array(row, dtype=np.int64)).to_bytes()))
        for who, row in rows
    ]


def test_judging_names_what_is_wrong_and_counts_the_caught_among_the_malicious(tmp_path: Path):
    store = FolderStore(tmp_path)
    people = [f"0x{number:040x}" for number in range(9)]
    entries = _submitted(store, [(who, [10 + place, 20, 30]) for place, who in enumerate(people[:6])])
    entries += _submitted(store, [(people[6], [10**6, -(10**6), 10**6])])
    entries.append(SubmittedModel(people[7], entries[0].digest))  # stolen
    entries.append(SubmittedModel(people[8], hash_content(b"nowhere")))
    found = judge_submissions(entries, store, "ab", 1, FIRST, 3)
    assert [verdict.name for verdict in found.verdicts] == ["ACCEPTED"] * 6 + ["OUTLIER", "MALFORMED", "MISSING"]
    assert "not who submitted" in found.reasons[7] and format_cid(entries[8].digest) in found.reasons[8]
    assert read_model(found.encoded_model, "ab", 1, "", 3).weights.tolist() == [13, 20, 30]
    assert found.packed_verdicts == int("342111111", 16)
    assert judge_submissions(entries, store, "ab", 1, FIRST, 3) == found


def test_if_nothing_is_readable_the_model_stays(tmp_path: Path):
    entries = [SubmittedModel(ANNA, hash_content(b"a")), SubmittedModel(BEN, hash_content(b"b"))]
    found = judge_submissions(entries, FolderStore(tmp_path), "ab", 1, FIRST, 1)
    assert set(found.verdicts) == {KrumVerdict.MISSING}
    assert read_model(found.encoded_model, "ab", 1, "", 3).weights.tolist() == [0, 0, 0]


@pytest.mark.parametrize("rule", [apply_printed_rule, apply_repaired_rule])
def test_reputation_and_reward_sequences(rule):
    assert simulate_reputation(rule, []) == (list(range(5, 16)), list(range(5, 15)))
    assert simulate_reputation(rule, [1]) == ([5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    assert simulate_reputation(rule, [4]) == ([5, 6, 7, 8, 7, 8, 9, 10, 11, 12, 13], [5, 6, 7, 0, 7, 8, 9, 10, 11, 12])


def test_repairs_of_the_reputation():
    assert simulate_reputation(apply_printed_rule, range(1, 11))[0][:5] == [5, 0, 1, 2, 3]  # climbs while attacking
    assert simulate_reputation(apply_repaired_rule, range(1, 11)) == ([5] + [0] * 10, [0] * 10)
    with pytest.raises(ValueError, match="no rule"):
        apply_printed_rule(6, False, Fraction(11, 2))
    assert apply_repaired_rule(6, False, Fraction(11, 2)) == 5 and apply_repaired_rule(5, False, Fraction(11, 2)) == 0
    assert apply_printed_rule(100, True, 5) == apply_repaired_rule(100, True, 5) == 100
