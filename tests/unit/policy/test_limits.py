"""Limits that people set: the smallest counts, and what cannot be read is refused rather than left out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisebank.bank.opening import open_account
from noisebank.core.errors import BadRequest, Misuse
from noisebank.policy.file import read_policy
from noisebank.policy.limits import apply_limits, read_limits
from noisebank.policy.model import Neighbours, Policy
from noisebank.privacy.calibration import budget_precision
from support.banks import memory_rooms, write_people


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return read_policy(write_people(tmp_path, epsilon="4"))


def limits(tmp_path: Path, text: str) -> tuple[Fraction, ...]:
    path = tmp_path / "limits.csv"
    path.write_bytes(text.encode())
    return read_limits(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.5\n", ["0.5"]),
        ("0.5\n2\n\n1e-2\n", ["0.5", "2", "0.01"]),
        ("ann, 0.5\nbob,3\n", ["0.5", "3"]),
        ("# a note, 7\nann,0.5\n  # 9\n", ["0.5"]),
        ("a, b, c, 0.25", ["0.25"]),
        ("0.5\r\n0.1\r\n", ["0.5", "0.1"]),
        ("  1/3  ", ["1/3"]),
        ("ann,0.10", ["0.1"]),
    ],
)
def test_one_epsilon_a_line(tmp_path: Path, text: str, found: list[str]) -> None:
    assert limits(tmp_path, text) == tuple(Fraction(number) for number in found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# nothing\n",
        "x",
        "ann,bob",
        "0.5\nmuch\n",
        "nan",
        "inf",
        "-1",
        "0",
        "0.5\n0\n",
        "name,epsilon\nann,1",
        "1e999",
        "0.5 0.1",
        "0.5;0.1",
        "True",
        "0x1",
        "1_0" * 3000,
    ],
)
def test_what_is_no_limit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadRequest):
        limits(tmp_path, text)


@pytest.mark.parametrize("text", ["ann,\nbob,1\n", "ann, 0.2,\nbob,1\n", "bob,1\n,\n", "bob,1\nann, \t\n"])
def test_a_line_without_a_number_at_its_end_is_refused(tmp_path: Path, text: str) -> None:
    """Left out, it would let others' larger limits win over somebody who set a smaller one."""
    with pytest.raises(BadRequest, match="line"):
        limits(tmp_path, text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(BadRequest, match="cannot be read"):
            read_limits(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_limits(tmp_path / "binary")


def test_errors_name_the_line_and_nobody(tmp_path: Path) -> None:
    with pytest.raises(BadRequest) as caught:
        limits(tmp_path, "ann,1\nsecret name,some value\n")
    assert "line 2" in str(caught.value) and "secret" not in str(caught.value) and "some value" not in str(caught.value)


@settings(max_examples=50)
@given(st.lists(st.fractions(Fraction(1, 1000), 50), min_size=1, max_size=8), st.fractions(Fraction(1, 100), 20))
def test_the_smallest_counts_and_never_raises(given_: list[Fraction], epsilon: Fraction) -> None:
    rest = (Path("/t"), Neighbours.ADD_REMOVE, 1, MappingProxyType({}))
    policy = Policy("t", *rest, epsilon, Fraction(1, 10**6))
    found = apply_limits(policy, tuple(given_))
    assert found.epsilon == min([epsilon, *given_])
    assert replace(found, epsilon=epsilon) == policy  # nothing else changes


def test_an_account_opens_with_the_smallest_limit(policy: Policy) -> None:
    account, _ = open_account(memory_rooms(), apply_limits(policy, (Fraction(3), Fraction(1, 2), Fraction(50))))
    assert account.state.budget == budget_precision(Fraction(1, 2), policy.delta)
    assert account.context.policy.epsilon == Fraction(1, 2)
    generous, _ = open_account(memory_rooms(), apply_limits(policy, (Fraction(50),)))
    assert generous.state.budget == budget_precision(Fraction(4), policy.delta)


def test_a_limit_that_no_account_can_keep_is_refused(policy: Policy) -> None:
    with pytest.raises(Misuse):
        open_account(memory_rooms(), apply_limits(policy, (Fraction(1, 10**9),)))
