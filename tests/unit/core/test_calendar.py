"""Days, clocks and the offsets of zones, against Python's own."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisebank.core.calendar import format_clock, from_date, parse_clock, to_date, zone_offsets
from noisebank.core.errors import BadQuery


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))
def test_dates_and_texts_are_the_same_days(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    days = parse_clock(moment.isoformat(sep=" "))
    assert days is not None and days * 86_400 == (moment - datetime(1970, 1, 1)) // timedelta(seconds=1)
    assert to_date(days) == moment.date() and from_date(moment.date()) == days // 1
    assert parse_clock(format_clock(days, with_time=True)) == days


@pytest.mark.parametrize("text", ["2026-2-3", "2026-02-30", "26-01-01", "2026-01-01 25:00", "2026-01-01Z", "now", ""])
def test_other_texts_are_no_dates(text: str) -> None:
    assert parse_clock(text) is None


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/New_York", "Africa/El_Aaiun", "Australia/Lord_Howe"])
def test_offsets_are_those_of_the_zone(zone: str) -> None:
    first, last = from_date(date(2015, 1, 1)), from_date(date(2026, 12, 31))
    offsets = zone_offsets(zone, first, last)
    for second in [
        *range(first * 86_400, last * 86_400, 7 * 3600 + 11),
        *(at + by for at, _ in offsets for by in (-1, 0)),
    ]:
        expected = datetime.fromtimestamp(second, UTC).astimezone(ZoneInfo(zone)).utcoffset()
        found = next((ahead for start, ahead in reversed(offsets) if second >= start), offsets[0][1])
        assert expected is not None and found == expected.total_seconds(), second


def test_days_beyond_the_calendar_are_refused() -> None:
    with pytest.raises(BadQuery, match="beyond the years"):
        to_date(10**9)
