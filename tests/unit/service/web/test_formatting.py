"""Numbers on pages: as many digits as are meaningful beside an error."""

from __future__ import annotations

import pytest

from noisebank.service.web.formatting import format_number


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.0, None, "0"), (0.0, 0.0, "0"), (0.0, 0.02, "0.000"), (-1234.5, None, "−1\u202f234.5"),
        (1.0, 1e-20, "1.000000000000"), (2.5, float("inf"), "2.5000"), (2.5, -1.0, "2.5000"), (99.0, 1.0, "99.0"),
        (99.0, 10.0, "99"), (2e15, 1.0, "2e+15"), (float("nan"), 1.0, "–"),
    ],
)  # fmt: skip
def test_numbers_have_the_digits_that_their_error_leaves(value: float, error: float | None, text: str) -> None:
    assert format_number(value, error) == text
