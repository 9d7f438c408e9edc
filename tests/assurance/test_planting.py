"""Planted bugs: one that replaces nothing, or that nobody calls, is an error and not a result."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assurance.planting import NotPlanted, plant_bug, plant_class, replaces, watch_bug
from noisebank import Precision
from support.internals import SystemEntropy

ASSURANCE = Path(__file__).parent


class Fixed(SystemEntropy):
    """Draws the same number always."""

    @replaces
    def discrete_gaussian(self, scale: float) -> int:
        return self._number()

    def _number(self) -> int:
        return 7


class Renamed(SystemEntropy):
    """A bug in a method that the product no longer has."""

    @replaces
    def discrete_gauss(self, scale: float) -> int:
        return 7


class Unmarked(SystemEntropy):
    def discrete_gaussian(self, scale: float) -> int:
        return 7


class Bystander:
    """Stands in for any entropy, without being one."""

    @replaces
    def discrete_gaussian(self, scale: float) -> int:
        return 7

    @replaces
    def token(self, size: int = 32) -> bytes:
        return b""


def test_a_function_is_planted_and_taken_away() -> None:
    real = Precision.floor
    with plant_bug(Precision, "floor", lambda *_: "bug"):
        assert Precision.floor(1) == "bug"
    assert Precision.floor == real


def test_a_bug_under_a_name_that_does_not_exist() -> None:
    with (
        pytest.raises(NotPlanted, match=r"noisebank.account.plain has no drow"),
        plant_bug("noisebank.account.plain", "drow", len),
    ):
        pass
    with pytest.raises(ModuleNotFoundError), plant_bug("noisebank.stepping", "draw", len):
        pass
    with pytest.raises(NotPlanted, match="replaces discrete_gauss"), watch_bug(Renamed):
        pass
    with pytest.raises(NotPlanted, match="replaces discrete_gauss"), plant_class(SystemEntropy(), Renamed):
        pass
    with (
        pytest.raises(NotPlanted, match="replaces discrete_gaussian, and"),
        plant_bug(SimpleNamespace(entropy=Precision(1)), "entropy", Bystander()),
    ):
        pass


def test_a_bug_that_nobody_calls() -> None:
    with pytest.raises(NotPlanted, match=r"nobody called .* noisebank.account.plain.draw_value"):  # noqa: SIM117
        with plant_bug("noisebank.account.plain", "draw_value", lambda *_: None):
            pass
    with pytest.raises(NotPlanted, match="nobody called discrete_gaussian of Fixed"), watch_bug(Fixed):
        pass
    holder = SimpleNamespace(entropy=SystemEntropy())
    with (
        pytest.raises(NotPlanted, match="nobody called discrete_gaussian, token"),
        plant_bug(holder, "entropy", Bystander()),
    ):
        pass
    with plant_bug("noisebank.account.plain", "draw_value", lambda *_: None, must_run=False):
        pass


@pytest.mark.parametrize("bug", [Unmarked(), 7, None], ids=["unmarked", "number", "none"])
def test_a_bug_of_which_nobody_could_say_whether_it_ran(bug: object) -> None:
    with pytest.raises(NotPlanted, match="marks no method"):  # noqa: SIM117
        with plant_bug(SimpleNamespace(entropy=SystemEntropy()), "entropy", bug):
            pass


def test_bugs_in_classes_and_objects() -> None:
    entropy: Any = SystemEntropy()
    with plant_class(entropy, Fixed):
        assert entropy.discrete_gaussian(1.0) == 7
    assert type(entropy) is SystemEntropy
    holder = SimpleNamespace(entropy=entropy)
    with plant_bug(holder, "entropy", Bystander()):
        assert holder.entropy.token() == b""
    assert holder.entropy is entropy


def test_an_error_under_a_planted_bug_stays_that_error() -> None:
    with pytest.raises(ZeroDivisionError), plant_bug("noisebank.account.plain", "draw_value", lambda *_: None):
        raise ZeroDivisionError


ROWS = (
    "overspend", "cube_crashes", "strace_kills", "power_loss", "kill9", "second_sample", "mu_audit", "sampler_fit",
    "low_bits", "sensitivity_audit", "blur_attack", "bad_values", "tampering", "ask_once",
    "additivity", "hostile_host", "hostile_server", "stopping_rules",
)  # fmt: skip
"""Not `crashes`, `data_independence` and `public_ledger`, which put watchers, tapes and crashes in their places
besides, nor `memory_soak` and `revoked_person`, which replace constants: only the outcome says whether those took
effect."""


@pytest.mark.parametrize("row", ROWS)
def test_no_row_plants_a_bug_by_itself(row: str) -> None:
    text = (ASSURANCE / f"{row}.py").read_text()
    assert not re.search(r"unittest\.mock|\bsetattr\(|__class__ = |[mM]onkey[pP]atch", text)
