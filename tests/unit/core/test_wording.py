"""Numbers in people's words: shares never read as all or nothing, the float epsilon agrees with the proven one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.core.units import Precision
from noisebank.core.wording import budget_share, describe_charge, format_percent, gaussian_epsilon
from noisebank.privacy.calibration import account_epsilon


@given(st.floats(1e-12, 1, exclude_min=True, exclude_max=True))
def test_a_part_never_reads_as_all_or_nothing(share: float) -> None:
    assert format_percent(share) not in ("0%", "100%")


@pytest.mark.parametrize("units", [10**9, 10**12, 6 * 10**15, 10**17, 10**18, 5 * 10**19])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01"])
def test_the_epsilon_shown_is_the_proven_one_to_three_digits(units: int, delta: str) -> None:
    proven = float(account_epsilon(Precision(units), Fraction(delta)))  # with margins of 2^-22
    assert gaussian_epsilon(Precision(units), float(delta)) == pytest.approx(proven, rel=1e-3, abs=1e-6)


def test_the_share_of_the_budget_comes_first() -> None:
    text = describe_charge(Precision(6 * 10**15), Precision(91 * 10**16), Precision(10**18), 1e-6)
    assert text.startswith("0.6% of the budget; 91% left") and "epsilon" in text
    assert budget_share(Precision(0), Precision(0)) == 1.0
